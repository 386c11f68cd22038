/* SPDX-License-Identifier: Apache-2.0 */
/* crypt.c -- the cryptography of sealed values, by OpenSSL's EVP. All objects are made when a pool opens, so that no
 * operation allocates. A cipher fails only for lack of memory. */
#include "kvclient/seal/crypt.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/base.h"

struct crypt_mac {
	EVP_MAC_CTX *ctx;
};

struct crypt_cipher {
	EVP_CIPHER_CTX *seal, *open, *hash;
	uint8_t step[CRYPT_STEP]; /* of ciphertext that others could change where it is */
};

static const uint8_t no_nonce[CRYPT_NONCE];

int crypt_mac_create(const uint8_t *key, size_t len, struct crypt_mac **out)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
				     OSSL_PARAM_construct_end()};
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	struct crypt_mac *m = calloc(1, sizeof(*m));
	if (m && hmac)
		m->ctx = EVP_MAC_CTX_new(hmac);
	EVP_MAC_free(hmac);
	if (!m || !m->ctx || EVP_MAC_init(m->ctx, key, len, params) != 1) {
		ERR_clear_error();
		crypt_mac_destroy(&m);
		return -KV_ENOMEM;
	}
	*out = m;
	return 0;
}

void crypt_mac_destroy(struct crypt_mac **mac)
{
	if (!*mac)
		return;
	EVP_MAC_CTX_free((*mac)->ctx);
	free(*mac);
	*mac = NULL;
}

int crypt_mac(struct crypt_mac *mac, const struct crypt_bytes *part, unsigned parts, uint8_t out[CRYPT_KEY])
{
	size_t n = 0;
	int ok = EVP_MAC_init(mac->ctx, NULL, 0, NULL);
	for (unsigned i = 0; i < parts; i++)
		ok &= EVP_MAC_update(mac->ctx, part[i].data, part[i].len);
	ok &= EVP_MAC_final(mac->ctx, out, &n, CRYPT_KEY);
	return ok == 1 && n == CRYPT_KEY ? 0 : -KV_ENOMEM;
}

int crypt_cipher_create(struct crypt_cipher **out)
{
	struct crypt_cipher *c = calloc(1, sizeof(*c));
	int ok;
	if (!c)
		return -KV_ENOMEM;
	c->seal = EVP_CIPHER_CTX_new();
	c->open = EVP_CIPHER_CTX_new();
	c->hash = EVP_CIPHER_CTX_new();
	ok = c->seal && c->open && c->hash;
	ok = ok && EVP_EncryptInit_ex(c->seal, EVP_aes_256_gcm(), NULL, NULL, NULL) == 1;
	ok = ok && EVP_DecryptInit_ex(c->open, EVP_aes_256_gcm(), NULL, NULL, NULL) == 1;
	ok = ok && EVP_EncryptInit_ex(c->hash, EVP_aes_256_gcm(), NULL, NULL, NULL) == 1;
	if (!ok) {
		ERR_clear_error();
		crypt_cipher_destroy(&c);
		return -KV_ENOMEM;
	}
	*out = c;
	return 0;
}

void crypt_cipher_destroy(struct crypt_cipher **cipher)
{
	struct crypt_cipher *c = *cipher;
	if (!c)
		return;
	EVP_CIPHER_CTX_free(c->seal);
	EVP_CIPHER_CTX_free(c->open);
	EVP_CIPHER_CTX_free(c->hash);
	free(c);
	*cipher = NULL;
}

int crypt_hash_key(struct crypt_cipher *c, const uint8_t key[CRYPT_KEY])
{
	return EVP_EncryptInit_ex(c->hash, NULL, NULL, key, no_nonce) == 1 ? 0 : -KV_ENOMEM;
}

int crypt_hash_begin(struct crypt_cipher *c)
{
	return EVP_EncryptInit_ex(c->hash, NULL, NULL, NULL, no_nonce) == 1 ? 0 : -KV_ENOMEM;
}

int crypt_hash_add(struct crypt_cipher *c, const void *data, size_t len)
{
	int n;
	return EVP_EncryptUpdate(c->hash, NULL, &n, data, (int)len) == 1 ? 0 : -KV_ENOMEM;
}

int crypt_hash_end(struct crypt_cipher *c, uint8_t out[CRYPT_TAG])
{
	uint8_t none[CRYPT_TAG];
	int n, ok = EVP_EncryptFinal_ex(c->hash, none, &n);
	ok &= EVP_CIPHER_CTX_ctrl(c->hash, EVP_CTRL_GCM_GET_TAG, CRYPT_TAG, out);
	return ok == 1 ? 0 : -KV_ENOMEM;
}

int crypt_seal(struct crypt_cipher *c, const struct crypt_use *use, const uint8_t *from, size_t len, uint8_t *to)
{
	int n, ok = EVP_EncryptInit_ex(c->seal, NULL, NULL, use->key, use->nonce);
	ok &= EVP_EncryptUpdate(c->seal, NULL, &n, use->aad.data, (int)use->aad.len);
	ok &= EVP_EncryptUpdate(c->seal, to, &n, from, (int)len);
	ok &= EVP_EncryptFinal_ex(c->seal, to + len, &n);
	ok &= EVP_CIPHER_CTX_ctrl(c->seal, EVP_CTRL_GCM_GET_TAG, CRYPT_TAG, to + len);
	return ok == 1 ? 0 : -KV_ENOMEM;
}

int crypt_open(struct crypt_cipher *c, const struct crypt_use *use, const uint8_t *from, size_t len, uint8_t *to,
	       uint8_t tag[CRYPT_TAG])
{
	uint8_t none[CRYPT_TAG];
	int n, ok = EVP_DecryptInit_ex(c->open, NULL, NULL, use->key, use->nonce);
	ok &= EVP_DecryptUpdate(c->open, NULL, &n, use->aad.data, (int)use->aad.len);
	for (size_t at = 0; at < len; at += CRYPT_STEP) {
		size_t step = KV_MIN(len - at, (size_t)CRYPT_STEP);
		memcpy(c->step, from + at, step);
		ok &= EVP_DecryptUpdate(c->open, to + at, &n, c->step, (int)step);
	}
	memcpy(tag, from + len, CRYPT_TAG);
	ok &= EVP_CIPHER_CTX_ctrl(c->open, EVP_CTRL_GCM_SET_TAG, CRYPT_TAG, tag);
	if (ok != 1)
		return -KV_ENOMEM;
	return EVP_DecryptFinal_ex(c->open, none, &n) == 1 ? 0 : -KV_ECORRUPT;
}

void crypt_wipe(void *p, size_t n)
{
	OPENSSL_cleanse(p, n);
}
