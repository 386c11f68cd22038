/* SPDX-License-Identifier: Apache-2.0 */
/* file.h -- values from and to files. */
#ifndef KVRAIL_KVCLI_FILE_H
#define KVRAIL_KVCLI_FILE_H

#include "base/base.h"

/* file_read -- all of a file ("-": standard input), at most KV_VALUE_MAX bytes. *out is the caller's to free.
 * Errors: -errno, -KV_ETOOBIG, -KV_ENOMEM, with a sentence. */
int file_read(const char *path, void **out, uint64_t *out_len, struct kv_error *err);

/* file_write -- write a value to path so that it appears whole or not at all (a path that is no regular file is written
 * directly; NULL: standard output). 0 or -errno with a sentence. */
int file_write(const char *path, const void *data, uint64_t len, struct kv_error *err);

#endif
