/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.c -- seal and open pieces of values (docs/internals/decisions/020-sealed-values.md).
 *
 * A piece's salt is a MAC of its place, its predecessor's tag and its bytes. Its key is derived from the salt, so a
 * nonce never has two messages, and the same value under the same name is stored as the same bytes. Place: namespace,
 * generation, key, length of the value, number of the piece.
 *
 * Plaintext is never in memory that a server can reach: it passes through `scratch`. Ciphertext is decrypted from
 * memory that no server can change: crypt_open copies it. */
#include "kvclient/seal/sealed.h"

#include <stdlib.h>

#include "loop/loop.h"

#define SEAL_MAGIC  0x3153564Bu /* "KVS1" */
#define LABEL_HASH  "kvrail seal hash"
#define LABEL_SALT  "kvrail seal salt"
#define LABEL_PIECE "kvrail seal piece"
#define LABEL_NAME  "kvrail seal name"

enum {
	AT_ID = 4,
	AT_GENERATION = 8,
	AT_SALT = 16,
	AT_PREV = 32,
	SALT_BYTES = 16,
	PLACE_FIXED = KC_SEAL_HEAD + 8 + 8 + 1 + 1,
	PLACE_MAX = PLACE_FIXED + KV_SPACE_MAX + KV_KEY_MAX,
	STEP_PIECES = 4 /* at a time: about 0.1 ms */
};

_Static_assert(AT_SALT + SALT_BYTES == AT_PREV && AT_PREV + CRYPT_TAG == KC_SEAL_HEAD, "the head has no gaps");

/* The contexts of a key. */
struct sealer_key {
	uint32_t id;
	struct crypt_mac *mac;
};

struct kc_sealer {
	const struct kc_seal_keys *keys;
	struct sealer_key key[KC_SEAL_KEYS_MAX];
	struct crypt_mac *names; /* NULL: names are not sealed */
	struct crypt_cipher *cipher;
	size_t space_len;
	uint8_t scratch[KC_SEAL_PIECE]; /* plaintext of a piece */
};

/* A head, and behind it all that a piece is bound to. */
struct place {
	uint8_t bytes[PLACE_MAX];
	size_t len;
};

static int derive(struct crypt_mac *mac, const char *label, const struct crypt_bytes *a, const struct crypt_bytes *b,
		  uint8_t out[CRYPT_KEY])
{
	const struct crypt_bytes part[] = {{label, strlen(label)}, *a, *b, {"\1", 1}};
	return crypt_mac(mac, part, KV_COUNT(part), out);
}

static int keys_open(struct kc_sealer *s)
{
	const struct kc_seal_keys *k = s->keys;
	const struct crypt_bytes none = {"", 0};
	uint8_t hash[CRYPT_KEY];
	int rc = 0;
	for (unsigned i = 0; i < k->count && rc == 0; i++) {
		s->key[i].id = k->key[i].id;
		rc = crypt_mac_create(k->key[i].secret, CRYPT_KEY, &s->key[i].mac);
	}
	if (rc == 0 && k->named)
		rc = crypt_mac_create(k->names.secret, CRYPT_KEY, &s->names);
	if (rc == 0)
		rc = derive(s->key[0].mac, LABEL_HASH, &none, &none, hash);
	if (rc == 0)
		rc = crypt_hash_key(s->cipher, hash);
	crypt_wipe(hash, sizeof(hash));
	return rc;
}

int kc_sealer_create(const struct kc_seal_keys *keys, struct kc_sealer **out)
{
	struct kc_sealer *s = aligned_alloc(KV_CACHELINE, kv_align_up(sizeof(*s), KV_CACHELINE));
	int rc;
	if (!s)
		return -KV_ENOMEM;
	memset(s, 0, sizeof(*s));
	s->keys = keys;
	s->space_len = strlen(keys->space);
	rc = crypt_cipher_create(&s->cipher);
	if (rc == 0)
		rc = keys_open(s);
	if (rc < 0)
		kc_sealer_destroy(&s);
	else
		*out = s;
	return rc;
}

void kc_sealer_destroy(struct kc_sealer **sealer)
{
	struct kc_sealer *s = *sealer;
	if (!s)
		return;
	for (unsigned i = 0; i < KC_SEAL_KEYS_MAX; i++)
		crypt_mac_destroy(&s->key[i].mac);
	crypt_mac_destroy(&s->names);
	crypt_cipher_destroy(&s->cipher);
	crypt_wipe(s->scratch, sizeof(s->scratch));
	free(s);
	*sealer = NULL;
}

/* ---- a piece ---- */

static uint64_t piece_len(const struct kc_seal_value *v)
{
	return KV_MIN(v->len - v->piece * KC_SEAL_PIECE, (uint64_t)KC_SEAL_PIECE);
}

static void place_make(const struct kc_sealer *s, const struct kc_seal_value *v, const uint8_t head[KC_SEAL_HEAD],
		       struct place *out)
{
	uint8_t *p = out->bytes + KC_SEAL_HEAD;
	memcpy(out->bytes, head, KC_SEAL_HEAD);
	kv_put64(p, v->len);
	kv_put64(p + 8, v->piece);
	p[16] = (uint8_t)s->space_len;
	p[17] = (uint8_t)v->key.len;
	memcpy(p + 18, s->keys->space, s->space_len);
	memcpy(p + 18 + s->space_len, v->key.data, v->key.len);
	out->len = PLACE_FIXED + s->space_len + v->key.len;
}

static int piece_key(const struct kc_sealer *s, struct crypt_mac *mac, const uint8_t *head, uint8_t out[CRYPT_KEY])
{
	const struct crypt_bytes salt = {head + AT_GENERATION, 8 + SALT_BYTES}, space = {s->keys->space, s->space_len};
	return derive(mac, LABEL_PIECE, &salt, &space, out);
}

/* Copy the piece to scratch, and hash it there: in steps, but each would search for its place in spans. */
static int piece_read(struct kc_sealer *s, const struct kc_target *from, uint64_t len, uint8_t hash[CRYPT_TAG])
{
	uint64_t most = from->span ? len : CRYPT_STEP;
	struct kc_target step = *from;
	int rc = crypt_hash_begin(s->cipher);
	for (uint64_t at = 0; rc == 0 && at < len; at += most) {
		uint64_t n = KV_MIN(len - at, most);
		step.skip = from->skip + at;
		kc_target_read(&step, s->scratch + at, n);
		rc = crypt_hash_add(s->cipher, s->scratch + at, n);
	}
	return rc ? rc : crypt_hash_end(s->cipher, hash);
}

static int piece_salt(struct kc_sealer *s, struct place *p, const struct kc_target *from, uint64_t len)
{
	const struct crypt_bytes place = {p->bytes, p->len};
	uint8_t hash[CRYPT_TAG], salt[CRYPT_KEY] = {0};
	const struct crypt_bytes hashed = {hash, sizeof(hash)};
	int rc = piece_read(s, from, len, hash);
	if (rc == 0)
		rc = derive(s->key[0].mac, LABEL_SALT, &place, &hashed, salt);
	memcpy(p->bytes + AT_SALT, salt, SALT_BYTES);
	return rc;
}

int kc_seal_piece(struct kc_sealer *s, struct kc_seal_value *v, const struct kc_target *from, uint8_t *out)
{
	uint8_t head[KC_SEAL_HEAD] = {0}, key[CRYPT_KEY], nonce[CRYPT_NONCE] = {0};
	uint64_t n = piece_len(v);
	struct place p;
	int rc;
	KV_ASSERT_HOT(v->piece * KC_SEAL_PIECE < v->len);
	kv_put32(head, SEAL_MAGIC);
	kv_put32(head + AT_ID, s->key[0].id);
	kv_put64(head + AT_GENERATION, v->generation);
	memcpy(head + AT_PREV, v->prev, CRYPT_TAG);
	place_make(s, v, head, &p);
	kv_put64(nonce, v->piece);
	rc = piece_salt(s, &p, from, n);
	if (rc == 0)
		rc = piece_key(s, s->key[0].mac, p.bytes, key);
	memcpy(out, p.bytes, KC_SEAL_HEAD);
	if (rc == 0)
		rc = crypt_seal(s->cipher, &(struct crypt_use){key, nonce, {p.bytes, p.len}}, s->scratch, n,
				out + KC_SEAL_HEAD);
	crypt_wipe(key, sizeof(key));
	if (rc < 0)
		return rc;
	memcpy(v->prev, out + KC_SEAL_HEAD + n, CRYPT_TAG);
	v->piece++;
	return 0;
}

static struct crypt_mac *mac_of(const struct kc_sealer *s, uint32_t id)
{
	for (unsigned i = 0; i < s->keys->count; i++)
		if (s->key[i].id == id)
			return s->key[i].mac;
	return NULL;
}

int kc_open_piece(struct kc_sealer *s, struct kc_seal_value *v, const uint8_t *from, const struct kc_target *to,
		  uint64_t drop, uint64_t len)
{
	uint8_t head[KC_SEAL_HEAD], key[CRYPT_KEY], nonce[CRYPT_NONCE] = {0}, *at = s->scratch;
	uint64_t n = piece_len(v);
	size_t known = v->piece == 0 ? CRYPT_TAG : v->known;
	struct crypt_mac *mac;
	struct place p;
	int rc;
	KV_ASSERT_HOT(v->piece * KC_SEAL_PIECE < v->len && drop + len <= n);
	memcpy(head, from, KC_SEAL_HEAD);
	mac = mac_of(s, kv_get32(head + AT_ID));
	if (kv_get32(head) != SEAL_MAGIC || !mac || kv_get64(head + AT_GENERATION) < v->generation ||
	    memcmp(head + AT_PREV, v->prev, known) != 0)
		return -KV_ECORRUPT;
	place_make(s, v, head, &p);
	kv_put64(nonce, v->piece);
	rc = piece_key(s, mac, head, key);
	if (rc < 0)
		return rc;
	if (kc_target_flat(to) && len == n)
		at = to->at + to->skip;
	rc = crypt_open(s->cipher, &(struct crypt_use){key, nonce, {p.bytes, p.len}}, from + KC_SEAL_HEAD, n, at,
			v->prev);
	crypt_wipe(key, sizeof(key));
	if (rc < 0)
		return rc;
	if (at == s->scratch && len > 0)
		kc_target_write(to, s->scratch + drop, len);
	v->known = CRYPT_TAG;
	v->piece++;
	return 0;
}

/* ---- a value ---- */

int64_t kc_seal_await(struct kc_sealer *s, struct kc_seal_value *v, const struct kc_target *from, uint64_t room,
		      uint8_t *out, struct kv_hasher *h)
{
	struct kc_target at = *from;
	uint64_t done = 0;
	while (v->piece * KC_SEAL_PIECE < v->len && piece_len(v) + KC_SEAL_EXTRA <= room - done) {
		uint64_t n = piece_len(v) + KC_SEAL_EXTRA;
		int rc;
		if (done > 0 && v->piece % STEP_PIECES == 0)
			co_yield_await();
		at.skip = from->skip + v->piece * KC_SEAL_PIECE;
		rc = kc_seal_piece(s, v, &at, out + done);
		if (rc < 0)
			return rc;
		kv_hasher_update(h, out + done, n);
		done += n;
	}
	return (int64_t)done;
}

/* ---- names ---- */

bool kc_seal_names(const struct kc_sealer *s)
{
	return s->names != NULL;
}

int kc_seal_name(struct kc_sealer *s, struct kvc_key key, uint8_t out[KC_SEAL_NAME])
{
	const struct crypt_bytes space = {s->keys->space, s->space_len + 1}, name = {key.data, key.len};
	return derive(s->names, LABEL_NAME, &space, &name, out);
}
