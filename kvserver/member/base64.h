/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h -- base64 as etcd's JSON has it (RFC 4648, section 4, padded). */
#ifndef KVRAIL_KVSERVER_MEMBER_BASE64_H
#define KVRAIL_KVSERVER_MEMBER_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* base64_write -- text of len bytes, with a final 0. False: no room in cap. */
bool base64_write(const void *data, size_t len, char *out, size_t cap);
/* base64_read -- the bytes, and a final 0. False: it is no base64, or there is no room in cap. */
bool base64_read(const char *text, char *out, size_t cap, size_t *out_len);

#endif
