/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.h -- values that a client encrypts: their stored format, and the sealer that makes and reads it. Private to
 * kvclient/. On the client's loop; only *_await parks.
 *
 * A value is cut into pieces. Each is stored as a head, its ciphertext, and a tag (docs/reference/sealed.md). */
#ifndef KVRAIL_KVCLIENT_SEAL_SEALED_H
#define KVRAIL_KVCLIENT_SEAL_SEALED_H

#include "kvclient/core/target.h"
#include "kvclient/seal/keys.h"

enum {
	KC_SEAL_PIECE = 64 << 10, /* bytes of value in a piece; the last one may have fewer */
	KC_SEAL_HEAD = 48,
	KC_SEAL_EXTRA = KC_SEAL_HEAD + CRYPT_TAG,
	KC_SEAL_STORED = KC_SEAL_PIECE + KC_SEAL_EXTRA
};

/* kc_sealed_len -- the stored bytes of a value of len bytes, at least 1. */
static inline uint64_t kc_sealed_len(uint64_t len)
{
	return len + (len + KC_SEAL_PIECE - 1) / KC_SEAL_PIECE * KC_SEAL_EXTRA;
}

/* kc_sealed_plain -- the value's bytes of so many stored ones; 0: no sealed value has this length. */
static inline uint64_t kc_sealed_plain(uint64_t stored)
{
	uint64_t last = stored % KC_SEAL_STORED, pieces = stored / KC_SEAL_STORED;
	if (last == 0)
		return pieces * KC_SEAL_PIECE;
	return last > KC_SEAL_EXTRA ? pieces * KC_SEAL_PIECE + last - KC_SEAL_EXTRA : 0;
}

struct kc_sealer;

/* A value that is sealed or opened, and how far. */
struct kc_seal_value {
	struct kvc_key key; /* as stored */
	uint64_t len;       /* of the value */
	/* Sealing: the namespace's generation. Opening: the least one that is allowed. */
	uint64_t generation;
	uint64_t piece;          /* the next one */
	uint8_t prev[CRYPT_TAG]; /* the last one's tag; zero: none */
	unsigned known;          /* opening: so many of the first bytes of prev are known */
};

/* kc_sealer_create -- for one loop; keys stay the caller's, and live longer. 0 or -KV_ENOMEM. kc_sealer_destroy --
 * wipe and free it; accepts NULL. */
int kc_sealer_create(const struct kc_seal_keys *keys, struct kc_sealer **out);
void kc_sealer_destroy(struct kc_sealer **sealer);

/* kc_seal_piece -- seal the next piece of *v; its bytes are at `from`, whose `skip` is the caller's. out: room for its
 * stored bytes, which may be read by anyone at any time. 0 or -KV_ENOMEM. */
int kc_seal_piece(struct kc_sealer *s, struct kc_seal_value *v, const struct kc_target *from, uint8_t *out);

/* kc_open_piece -- open the next piece of *v, and write `len` of its bytes, from `drop` on, to `to`. from: its stored
 * bytes, as many as v->len says, which may change at any time. 0; -KV_ECORRUPT: another key, name, namespace, length or
 * place, an earlier generation, or changed bytes; or -KV_ENOMEM. Then `to` has undefined bytes. */
int kc_open_piece(struct kc_sealer *s, struct kc_seal_value *v, const uint8_t *from, const struct kc_target *to,
		  uint64_t drop, uint64_t len);

/* kc_seal_await -- seal as many of the next pieces of *v as fit `room` bytes at `out`, in steps. from: the whole value.
 * h: sums the stored bytes. Their number, or -KV_ENOMEM. */
int64_t kc_seal_await(struct kc_sealer *s, struct kc_seal_value *v, const struct kc_target *from, uint64_t room,
		      uint8_t *out, struct kv_hasher *h);

/* KC_SEAL_NAME -- the bytes of a sealed name. kc_seal_names -- whether names are sealed. kc_seal_name -- the name under
 * which a key is stored. 0 or -KV_ENOMEM. */
enum { KC_SEAL_NAME = CRYPT_KEY };
bool kc_seal_names(const struct kc_sealer *s);
int kc_seal_name(struct kc_sealer *s, struct kvc_key key, uint8_t out[KC_SEAL_NAME]);

#endif
