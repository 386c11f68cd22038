/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.h -- making a file of secret keys. */
#ifndef KVRAIL_BASE_KEY_FILE_H
#define KVRAIL_BASE_KEY_FILE_H

#include "base/error.h"

/* kv_key_file_make -- write a new key of 32 random bytes as a line "PREFIXXXXXXXXX:HEX", with 8 hexadecimal digits
 * behind the prefix of at most KV_KEY_PREFIX_MAX characters, to path, readable by its owner alone. second: the name of
 * another key, for a second line; or NULL. The file must not exist: a key in use is never replaced. On failure there is
 * no file. Blocks on the disk. Returns 0, or -EEXIST, -errno with *err. */
enum { KV_KEY_PREFIX_MAX = 119 };
int kv_key_file_make(const char *path, const char *prefix, const char *second, struct kv_error *err);

#endif
