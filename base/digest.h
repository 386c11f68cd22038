/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h -- a collision-resistant digest. */
#ifndef KVRAIL_BASE_DIGEST_H
#define KVRAIL_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { KV_DIGEST = 32 }; /* bytes */

/* kv_digest -- SHA-256. 0 or -ENOMEM. Thread: any. */
int kv_digest(const void *data, size_t len, uint8_t out[KV_DIGEST]);

#endif
