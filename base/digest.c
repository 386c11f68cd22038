/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c -- SHA-256 by OpenSSL. */
#include "base/digest.h"

#include <errno.h>
#include <openssl/evp.h>

int kv_digest(const void *data, size_t len, uint8_t out[KV_DIGEST])
{
	unsigned n = 0;
	/* SHA-256 fails only for lack of memory. */
	return EVP_Digest(data, len, out, &n, EVP_sha256(), NULL) == 1 && n == KV_DIGEST ? 0 : -ENOMEM;
}
