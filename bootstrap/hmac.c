/* SPDX-License-Identifier: Apache-2.0 */
/* hmac.c -- HMAC-SHA256 by OpenSSL, apart so that proof.c and frame_keys.c need no cryptographic library. */
#include "bootstrap/hmac.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/base.h"

int hmac_sha256(const void *key, size_t key_len, const void *data, size_t len, uint8_t out[HMAC_LEN])
{
	unsigned n = 0;
	const uint8_t *mac = HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n);
	ERR_clear_error();
	return mac && n == HMAC_LEN ? 0 : -KV_ENOMEM;
}
