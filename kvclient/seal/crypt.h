/* SPDX-License-Identifier: Apache-2.0 */
/* crypt.h -- AES-256-GCM, HMAC-SHA256 and a keyed hash, as sealed values use them. Private to kvclient/. Nothing here
 * parks. Thread: one at a time for each object. */
#ifndef KVRAIL_KVCLIENT_SEAL_CRYPT_H
#define KVRAIL_KVCLIENT_SEAL_CRYPT_H

#include <stddef.h>
#include <stdint.h>

enum { CRYPT_KEY = 32, CRYPT_NONCE = 12, CRYPT_TAG = 16 };

struct crypt_bytes {
	const void *data;
	size_t len;
};

struct crypt_mac;    /* HMAC-SHA256 under one key */
struct crypt_cipher; /* AES-256-GCM; each call has its key */

/* crypt_mac_create -- 0 or -KV_ENOMEM. crypt_mac_destroy -- wipes it; accepts NULL. crypt_mac -- HMAC-SHA256 of the
 * parts, one behind the other. 0 or -KV_ENOMEM. */
int crypt_mac_create(const uint8_t *key, size_t len, struct crypt_mac **out);
void crypt_mac_destroy(struct crypt_mac **mac);
int crypt_mac(struct crypt_mac *mac, const struct crypt_bytes *part, unsigned parts, uint8_t out[CRYPT_KEY]);

/* crypt_cipher_create -- 0 or -KV_ENOMEM. crypt_cipher_destroy -- wipes it; accepts NULL. */
int crypt_cipher_create(struct crypt_cipher **out);
void crypt_cipher_destroy(struct crypt_cipher **cipher);

/* CRYPT_STEP -- bytes that are copied, and then hashed or decrypted while they are in the fastest cache: a multiple of
 * the 96 bytes that OpenSSL takes at a time. */
enum { CRYPT_STEP = 84 * 96 };

/* crypt_hash_key -- set the key of the hash: a universal hash, AES-256-GMAC with a zero nonce. It must never leave the
 * process, except through a MAC. crypt_hash_begin -- the hash of nothing. crypt_hash_add -- of len more bytes; len: a
 * multiple of 16, but for the last ones. crypt_hash_end -- write it. 0 or -KV_ENOMEM. */
int crypt_hash_key(struct crypt_cipher *c, const uint8_t key[CRYPT_KEY]);
int crypt_hash_begin(struct crypt_cipher *c);
int crypt_hash_add(struct crypt_cipher *c, const void *data, size_t len);
int crypt_hash_end(struct crypt_cipher *c, uint8_t out[CRYPT_TAG]);

/* One use of a key and nonce. */
struct crypt_use {
	const uint8_t *key;   /* CRYPT_KEY bytes */
	const uint8_t *nonce; /* CRYPT_NONCE bytes */
	struct crypt_bytes aad;
};

/* crypt_seal -- encrypt len bytes to `to`; the tag follows them. `from` must not change during the call. 0 or
 * -KV_ENOMEM. crypt_open -- decrypt len bytes, which their tag follows, to `to`, and write the tag. `from` may change
 * at any time: each byte is read once. 0, -KV_ECORRUPT (the tag is wrong; `to` has undefined bytes) or -KV_ENOMEM. */
int crypt_seal(struct crypt_cipher *c, const struct crypt_use *use, const uint8_t *from, size_t len, uint8_t *to);
int crypt_open(struct crypt_cipher *c, const struct crypt_use *use, const uint8_t *from, size_t len, uint8_t *to,
	       uint8_t tag[CRYPT_TAG]);

/* crypt_wipe -- a wipe that the compiler keeps. */
void crypt_wipe(void *p, size_t n);

#endif
