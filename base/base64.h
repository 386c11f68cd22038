/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h -- base64 as in etcd's JSON (RFC 4648, section 4, padded). */
#ifndef KVRAIL_BASE_BASE64_H
#define KVRAIL_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* base64_write -- the text of len bytes, with a final 0. False: no room in cap. */
bool base64_write(const void *data, size_t len, char *out, size_t cap);
/* base64_read -- the bytes, with a final 0. False: invalid text, or no room in cap. */
bool base64_read(const char *text, char *out, size_t cap, size_t *out_len);

#endif
