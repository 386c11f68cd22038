/* SPDX-License-Identifier: Apache-2.0 */
/* mac.c -- AES-128-GMAC (NIST SP 800-38D) by OpenSSL: GCM that authenticates and does not encrypt
 * (docs/internals/decisions/007-frames-have-a-mac.md).
 *
 * AES is EVP's, GHASH from <openssl/modes.h>, since EVP alone takes 100 ns more per message. Both contexts are made
 * once per key. A tag takes neither memory nor lock. */
#include "base/mac.h"

#include <openssl/evp.h>
#include <openssl/modes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

struct kv_mac {
	EVP_CIPHER_CTX *aes;
	GCM128_CONTEXT *gcm;
	bool failed; /* AES failed: no tag is valid any more */
};

/* An AES block, for GHASH's key and a nonce's mask. */
static void block_encrypt(const uint8_t in[16], uint8_t out[16], const void *arg)
{
	struct kv_mac *m = (struct kv_mac *)arg; /* from kv_mac_create */
	int n;
	if (EVP_EncryptUpdate(m->aes, out, &n, in, 16) != 1)
		m->failed = true;
}

int kv_mac_create(const uint8_t key[KV_MAC_KEY], struct kv_mac **out)
{
	struct kv_mac *m = calloc(1, sizeof(*m));
	if (!m)
		return -KV_ENOMEM;
	m->aes = EVP_CIPHER_CTX_new();
	if (m->aes && EVP_CipherInit_ex(m->aes, EVP_aes_128_ecb(), NULL, key, NULL, 1)) {
		EVP_CIPHER_CTX_set_padding(m->aes, 0);
		m->gcm = CRYPTO_gcm128_new(m, block_encrypt);
	}
	if (!m->gcm || m->failed) {
		kv_mac_destroy(&m);
		return -KV_ENOMEM;
	}
	*out = m;
	return 0;
}

void kv_mac_destroy(struct kv_mac **mac)
{
	struct kv_mac *m = *mac;
	if (!m)
		return;
	CRYPTO_gcm128_release(m->gcm);
	EVP_CIPHER_CTX_free(m->aes);
	free(m);
	*mac = NULL;
}

int kv_mac_tag(struct kv_mac *mac, const uint8_t nonce[KV_MAC_NONCE], const void *data, size_t len,
	       uint8_t out[KV_MAC_TAG])
{
	CRYPTO_gcm128_setiv(mac->gcm, nonce, KV_MAC_NONCE);
	if (CRYPTO_gcm128_aad(mac->gcm, data, len) != 0 || mac->failed)
		return -KV_EINTERNAL;
	CRYPTO_gcm128_tag(mac->gcm, out, KV_MAC_TAG);
	return 0;
}
