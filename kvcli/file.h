/* SPDX-License-Identifier: Apache-2.0 */
/* file.h -- values from and to files. */
#ifndef KVRAIL_KVCLI_FILE_H
#define KVRAIL_KVCLI_FILE_H

#include <jansson.h>

#include "base/base.h"

/* file_read -- read all of a file ("-": standard input), from 1 to KV_VALUE_MAX bytes. The caller frees *out.
 * Errors: -errno, -KV_EINVAL (it is empty), -KV_ETOOBIG, -KV_ENOMEM, with a sentence. */
int file_read(const char *path, void **out, uint64_t *out_len, struct kv_error *err);

/* file_write -- write a value to path. A regular file appears whole or not at all; another kind of file, or standard
 * output (path NULL), is written directly. 0 or -errno with a sentence. */
int file_write(const char *path, const void *data, uint64_t len, struct kv_error *err);

/* file_json -- print the document of a command to standard output; takes its reference. NULL: no memory. Returns 0 or
 * -KV_ENOMEM with a sentence. */
int file_json(json_t *document, const char *command, struct kv_error *err);

#endif
