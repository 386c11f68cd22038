/* SPDX-License-Identifier: Apache-2.0 */
/* second_put.c -- the second copy of a PUT (KVC_TWO_COPIES).
 *
 * After the PUT at the first server the value is copied to a piece of the receive buffer, the call returns, and a
 * coroutine puts the piece at the second server. So a slow second server never delays the call nor touches its memory.
 *
 * At most COPIES are under way, COPIES_AT to one server, in a quarter of the receive buffer, an eighth for one server.
 * Others are dropped: first copies need the room.
 *
 * A copy is as old as its call (kc_put_copy): the server refuses it after a later DELETE, and keeps the younger of
 * different values. */
#include "kvclient/copies/copies.h"

#include <stdlib.h>

#include "kvclient/copies/private.h"
#include "kvclient/core/cleared.h"
#include "kvclient/core/waits.h"
#include "kvclient/route/second.h"
#include "kvclient/seal/sealed.h"
#include "kvclient/transfer/put.h"

enum { PART_ALL = 4, PART_AT = 8 }; /* of the receive buffer, for pieces of copies */

static struct kvc_key key_of(const struct second *s)
{
	return (struct kvc_key){s->key, s->key_len};
}

static bool same(const struct second *s, struct kvc_key key)
{
	return s->key_len == key.len && memcmp(s->key, key.data, key.len) == 0;
}

/* ---- room ---- */

static struct second *slot_free(struct kvc_client *c)
{
	struct kc_seconds *q = c->seconds;
	if (!q) {
		q = c->seconds = calloc(1, sizeof(*q));
		if (!q)
			return NULL;
		co_queue_init(&q->over);
	}
	for (unsigned i = 0; i < COPIES; i++)
		if (!q->slot[i].key_len)
			return &q->slot[i];
	return NULL;
}

static void taken_at(const struct kvc_client *c, unsigned node, unsigned *out_count, uint64_t *out_bytes)
{
	*out_count = 0;
	*out_bytes = 0;
	for (unsigned i = 0; i < COPIES; i++) {
		const struct second *s = &c->seconds->slot[i];
		*out_count += s->key_len && s->node == node;
		*out_bytes += s->key_len && s->node == node ? s->piece.len_bytes : 0;
	}
}

static bool behind(const struct kvc_client *c, const struct kc_node *n, uint64_t len)
{
	uint64_t bytes = kc_buffer_rounded(len), at;
	unsigned count;
	taken_at(c, n->index, &count, &at);
	return count >= COPIES_AT || at + bytes > c->buffer.len_bytes / PART_AT ||
	       c->seconds->bytes + bytes > c->buffer.len_bytes / PART_ALL;
}

static void slot_give(struct kvc_client *c, struct second *s)
{
	c->seconds->bytes -= s->piece.len_bytes;
	kc_room_give(c, &s->piece);
	*s = (struct second){0};
	co_queue_wake_all(&c->seconds->over);
}

/* ---- one copy ---- */

static uint64_t second_generation(const struct kvc_client *c, unsigned node, uint64_t born_ns)
{
	return kc_cleared_put(c->pool, node, born_ns);
}

static int copy_await(struct second *s)
{
	struct kvc_client *c = s->client;
	struct kvc_call call = {.size = sizeof(call), .ttl_s = s->ttl_s, .flags = KVC_BACKGROUND};
	struct kc_target from = {.at = kc_buffer_at(&c->buffer, &s->piece)};
	struct kc_trace t;
	struct kvc_put p;
	int rc;
	kc_trace_own(&t, KVC_OP_PUT, NULL, true);
	rc = kc_put_init(&p, c, key_of(s), &from, s->len, &call, kc_call_deadline(c, &call, s->len));
	if (rc == 0) {
		kc_put_copy(&p, &c->node[s->node], s->born_ns, s->incarnation);
		p.checksum = s->checksum;
		p.summed = true;
		p.own_wait.trace = &t;
		rc = kc_put_all_await(&p);
		kc_put_fini(&p);
	}
	return rc;
}

static void copy_main(void *second)
{
	struct second *s = second;
	struct kvc_client *c = s->client;
	/* A sealed copy names its generation, so it is useless after a clear. */
	bool cleared = c->sealer && s->generation != second_generation(c, s->node, s->born_ns);
	int rc = s->forgotten || cleared ? -KV_ECANCELED : copy_await(s);
	kc_add(rc < 0 ? &c->count.copies_dropped : &c->count.copies, 1);
	if (rc == 0)
		kc_add(&c->count.copy_bytes, s->len);
	slot_give(c, s);
	kc_client_ended(c);
}

/* False: no room now. */
static bool copy_begin_await(struct kvc_client *c, struct kc_node *n, const struct kc_second_value *v)
{
	struct second *s = slot_free(c);
	struct kc_piece piece;
	uint64_t len = c->sealer ? kc_sealed_len(v->len) : v->len;
	struct kc_seal_value sealed = {
		.key = v->key, .len = v->len, .generation = second_generation(c, n->index, v->born_ns)};
	struct kv_hasher h;
	int64_t rc = 0;
	if (!s || behind(c, n, len) || kc_call_piece_await(c, len, 0, false, &piece) < 0)
		return false;
	*s = (struct second){.client = c,
			     .node = (uint16_t)n->index,
			     .key_len = (uint8_t)v->key.len,
			     .ttl_s = v->ttl_s,
			     .checksum = v->checksum,
			     .born_ns = v->born_ns,
			     .incarnation = n->incarnation,
			     .generation = sealed.generation,
			     .len = len,
			     .piece = piece};
	memcpy(s->key, v->key.data, v->key.len);
	c->seconds->bytes += piece.len_bytes;
	if (c->sealer) {
		kv_hasher_init(&h);
		rc = kc_seal_await(c->sealer, &sealed, v->from, len, kc_buffer_at(&c->buffer, &piece), &h);
		s->checksum = kv_hasher_digest(&h);
	} else {
		kc_gather_await(kc_buffer_at(&c->buffer, &piece), v->from, len);
	}
	kc_client_began(c);
	if (rc >= 0 && !c->closing && co_spawn(c->loop, copy_main, s, "kvc second") == 0)
		return true;
	slot_give(c, s);
	kc_client_ended(c);
	return false;
}

void kc_second_put_await(struct kvc_client *c, const struct kc_second_value *v)
{
	struct kc_node *n = route_second(c, v->key);
	if (!n || c->closing)
		return; /* no second server */
	if (n->state != KC_NODE_UP || !copy_begin_await(c, n, v))
		kc_add(&c->count.copies_dropped, 1);
}

static bool busy(const struct kvc_client *c)
{
	return KV_UNLIKELY(c->seconds != NULL) && c->seconds->bytes > 0;
}

static struct second *copy_of(struct kvc_client *c, struct kvc_key key)
{
	for (unsigned i = 0; i < COPIES; i++)
		if (same(&c->seconds->slot[i], key))
			return &c->seconds->slot[i];
	return NULL;
}

void kc_second_landed_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	while (busy(c) && copy_of(c, key))
		if (kc_wait_queue_await(c, &c->seconds->over, deadline_ns) < 0)
			return;
}

bool kc_second_forget(struct kvc_client *c, struct kvc_key key)
{
	struct second *s = busy(c) ? copy_of(c, key) : NULL;
	if (s)
		s->forgotten = true;
	return s;
}

void kc_second_forget_await(struct kvc_client *c, struct kvc_key key, uint64_t deadline_ns)
{
	while (kc_second_forget(c, key))
		if (kc_wait_queue_await(c, &c->seconds->over, deadline_ns) < 0)
			return;
}

void kc_second_fini(struct kvc_client *c)
{
	free(c->seconds);
	c->seconds = NULL;
}
