/* SPDX-License-Identifier: Apache-2.0 */
/* hmac.h -- HMAC-SHA256. Private to bootstrap/. */
#ifndef KVRAIL_BOOTSTRAP_HMAC_H
#define KVRAIL_BOOTSTRAP_HMAC_H

#include <stddef.h>
#include <stdint.h>

enum { HMAC_LEN = 32 };

/* hmac_sha256 -- the HMAC of data under key. 0 or -KV_ENOMEM. Thread: any. */
int hmac_sha256(const void *key, size_t key_len, const void *data, size_t len, uint8_t out[HMAC_LEN]);

#endif
