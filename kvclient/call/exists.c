/* SPDX-License-Identifier: Apache-2.0 */
/* exists.c -- EXISTS: which of many keys exist, in one round trip.
 *
 * Up to 1,024 keys are packed into open records by server and shard. A record fits a frame and lies in a piece of the
 * receive buffer, since the caller's stack is a coroutine's. It is submitted when full or at the end, so all requests
 * are under way before the first answer is awaited, if room suffices.
 *
 * A chain of its keys merges a record's bitmap; packed keys are never read back, since peers can write there. A key
 * reported deleted may be at another server: the client looks at it alone.
 *
 * Requests carry digests (XXH3-64 with the server's seed), which give the shard. A wrong hit (one in 2^64) costs a
 * miss; forged ones gain nothing over a PUT. */
#include "kvclient/call/exists.h"

#include <stdlib.h>

#include "kvclient/call/keyed.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/requests.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/route/hot.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/route.h"
#include "kvclient/route/second.h"
#include "kvclient/seal/names.h"
#include "kvclient/transfer/call.h"

enum {
	WINDOW = KC_EXISTS_WINDOW,
	RECORDS_MAX = 128, /* open or out, per lookup */
	SLOTS = 256,       /* of the table of open records, a power of two */
	FIXED = 8,         /* bytes of an EXISTS before its digests */
	NONE = 0xFFFF,     /* no key */
	/* Keys of a record. One of a further session needs a SESSION before it in its frame. */
	KEYS_MAX = WIRE_EXISTS_MAX,
	KEYS_MAX_SESSION = KEYS_MAX - WIRE_SESSION_BYTES / 8
};

_Static_assert(KEYS_MAX * sizeof(uint64_t) + FIXED + WIRE_FRAME_HEADER + WIRE_PROVE_BYTES + WIRE_RECORD_HEADER <=
		       KV_MSG_MAX,
	       "a record fits a frame by itself, also behind a proof");
_Static_assert(WINDOW < NONE && WINDOW <= UINT16_MAX, "an index of a key fits its chain");
_Static_assert(RECORDS_MAX < UINT8_MAX && SLOTS >= 2 * RECORDS_MAX, "a record's index fits a slot, and slots are left");

struct record {
	uint16_t node, first, last, count;
	uint32_t shard;
	bool open; /* takes more keys; not submitted */
};

struct spot {
	struct kc_node *node;
	uint64_t digest;
	unsigned shard;
};

struct lookup {
	struct kvc_client *c;
	const struct kvc_call *call;
	const struct kvc_key *key;    /* the keys, or ... */
	const struct kvc_item *items; /* ... the items with these keys, ... */
	const unsigned *item;         /* ... of these indices */
	unsigned n;
	unsigned keys_max; /* of a record */
	uint64_t deadline_ns;
	bool down_is_miss;
	struct kc_wait wait;
	struct kc_window out; /* their requests; an open one's is not submitted yet */
	unsigned open;        /* records that take more keys */
	struct record *last;
	bool twice;
	const uint8_t *before; /* keys found so far; NULL: first step. The others are asked for ... */
	unsigned step;         /* ... at the servers of this step of their routes (route_step) */
	uint8_t found[WINDOW / 8];
	uint8_t tier[WINDOW / 8];    /* of these, those on a tier alone */
	uint8_t deleted[WINDOW / 8]; /* reported by a server; another's value may be older or younger */
	/* Index + 1 of a record, perhaps closed; 0 ends a search. Cleared when no record is open, and each record has
	 * one slot, so the table never fills. */
	uint8_t slot[SLOTS];
	uint16_t next[WINDOW]; /* in its record */
	struct kc_req *req[RECORDS_MAX];
	struct record record[RECORDS_MAX];
};

static struct kvc_key key_at(const struct lookup *l, unsigned i)
{
	return l->key ? l->key[i] : l->items[l->item[i]].key;
}

static uint64_t key_digest(const struct lookup *l, unsigned i, const struct kc_attachment *s)
{
	struct kvc_key key = key_at(l, i);
	return kv_hash_key(key.data, key.len, s->shard_seed);
}

static bool is_miss(const struct lookup *l, const struct kc_node *n, int rc)
{
	return (l->down_is_miss && kc_node_down(n, rc)) || rc == -KV_ELEFT;
}

/* Whether other servers replaced the node after rc. */
static bool moved(const struct lookup *l, struct kc_node *n, unsigned key, int rc)
{
	return route_moved(&n, key_at(l, key), rc, l->deadline_ns);
}

static struct kc_node *asked_for(struct lookup *l, unsigned i)
{
	const struct kc_place *p = l->c->placement;
	if (KV_LIKELY(!l->before)) /* with one server, skip the key */
		return p->n == 1 ? &l->c->node[p->node ? p->node[0] : 0] : route_first(l->c, key_at(l, i));
	if (l->before[i / 8] >> (i % 8) & 1)
		return NULL;
	return route_step(l->c, key_at(l, i), l->twice && route_twice(l->c, l->call->flags, key_at(l, i)), l->step);
}

/* ---- records ---- */

static uint8_t *slot_of(struct lookup *l, const struct spot *at)
{
	unsigned node = at->node->index;
	uint32_t i = (node * 0x9E3779B1u + at->shard) % SLOTS;
	uint8_t *unused = NULL;
	for (; l->slot[i]; i = (i + 1) % SLOTS) {
		const struct record *rec = &l->record[l->slot[i] - 1];
		if (rec->open && rec->node == node && rec->shard == at->shard)
			return &l->slot[i];
		if (!rec->open && !unused)
			unused = &l->slot[i];
	}
	return unused ? unused : &l->slot[i];
}

static struct kc_req *req_of(const struct lookup *l, const struct record *rec)
{
	return l->req[rec - l->record];
}

static void record_send(struct lookup *l, struct record *rec)
{
	const struct kc_node *n = &l->c->node[rec->node];
	struct kc_req *r = req_of(l, rec);
	rec->open = false;
	l->open--;
	r->wire.type = WIRE_EXISTS;
	r->wire.exists.count = rec->count;
	r->wire.exists.digests = kc_buffer_at(&l->c->buffer, &r->mem.piece);
	r->deadline_ns = l->deadline_ns;
	kc_req_submit(kc_link_pick(n->attachment, rec->shard), r, &l->wait);
}

/* A lookup never parks with an open record: its attachment stays the node's. */
static void records_send(struct lookup *l)
{
	for (unsigned i = 0; l->open > 0; i++) {
		struct record *rec = &l->record[(l->out.head + i) % RECORDS_MAX];
		if (rec->open)
			record_send(l, rec);
	}
	memset(l->slot, 0, sizeof(l->slot));
}

static void found(struct lookup *l, unsigned i, bool on_tier)
{
	l->found[i / 8] |= (uint8_t)(1u << (i % 8));
	l->tier[i / 8] |= (uint8_t)(on_tier << (i % 8));
}

static void record_merge(struct lookup *l, const struct record *rec, const struct kc_req *r)
{
	const uint8_t *bitmap = r->reply.exists.bitmap, *deleted = r->reply.exists.deleted;
	const uint8_t *tier = r->reply.exists.tier;
	unsigned bit = 0;
	for (unsigned i = rec->first; i != NONE; i = l->next[i], bit++) {
		if (bitmap[bit / 8] >> (bit % 8) & 1)
			found(l, i, tier[bit / 8] >> (bit % 8) & 1);
		else if (KV_UNLIKELY(deleted[bit / 8] >> (bit % 8) & 1))
			l->deleted[i / 8] |= (uint8_t)(1u << (i % 8));
	}
}

static int oldest_finish_await(struct lookup *l)
{
	const struct record *rec = &l->record[l->out.head];
	struct kc_req *r;
	int rc = kc_window_next_await(l->c, &l->out, l->deadline_ns, &r);
	if (rc == 0)
		record_merge(l, rec, r);
	else if (moved(l, &l->c->node[rec->node], rec->first, rc))
		rc = -KV_ERESET; /* make the lookup again */
	else if (is_miss(l, &l->c->node[rec->node], rc))
		rc = 0;
	kc_req_release(l->c, r);
	return rc;
}

/* 0; -KV_EBUSY: no room while others are out; or a code. */
static int record_open_await(struct lookup *l, unsigned key, const struct spot *spot, uint8_t *slot)
{
	struct kc_node *n = spot->node;
	struct kc_need need = {.piece_bytes = KC_PIECE_MIN,
			       .node = n,
			       .session = l->call->session,
			       .background = l->call->flags & KVC_BACKGROUND};
	unsigned at = kc_window_place(&l->out);
	struct kc_attachment *s;
	struct kc_req *r;
	int rc = -KV_EBUSY;
	if (!kc_window_full(&l->out))
		rc = kc_call_room_await(n, &need, l->deadline_ns, l->out.count == 0, &s, &r);
	if (rc < 0)
		return rc;
	if (spot->shard >= s->shards || spot->digest != key_digest(l, key, s)) {
		kc_req_release(l->c, r);
		return -KV_ERESET; /* its attachment is gone */
	}
	l->record[at] = (struct record){
		.node = (uint16_t)n->index, .shard = spot->shard, .first = NONE, .last = NONE, .open = true};
	kc_window_add(&l->out, r);
	l->open++;
	*slot = (uint8_t)(at + 1);
	return 0;
}

/* Append a key to a record with room. A flush may end requests and their attachment, so only while nothing is open. */
static void record_add(struct lookup *l, struct record *rec, unsigned i, uint64_t digest)
{
	wire_exists_put(kc_buffer_at(&l->c->buffer, &req_of(l, rec)->mem.piece), rec->count, digest);
	l->last = rec;
	l->next[i] = NONE;
	if (rec->count++ == 0)
		rec->first = (uint16_t)i;
	else
		l->next[rec->last] = (uint16_t)i;
	rec->last = (uint16_t)i;
	if (KV_LIKELY(rec->count < l->keys_max))
		return;
	record_send(l, rec);
	if (l->open == 0)
		kc_link_flush(l->c);
}

/* ---- keys ---- */

/* On failure out->node is the failed node. 1: ask no server. */
static int key_place_await(struct lookup *l, unsigned i, struct spot *out)
{
	struct kc_node *n = asked_for(l, i);
	struct kc_attachment *s;
	int rc;
	if (!n)
		return 1;
	if (l->c->placement->n > 1)
		route_count(n, key_at(l, i));
	s = n->attachment;
	if (KV_UNLIKELY(n->state != KC_NODE_UP || l->c->closing)) {
		records_send(l);
		do
			rc = kc_node_ready_await(n, l->deadline_ns, &s);
		while (KV_UNLIKELY(rc < 0) && route_moved(&n, key_at(l, i), rc, l->deadline_ns));
		out->node = n;
		if (rc < 0)
			return rc;
	}
	out->node = n;
	out->digest = key_digest(l, i, s);
	out->shard = kc_digest_shard(out->digest, s->shards);
	return 0;
}

static int key_pack_await(struct lookup *l, unsigned i, const struct spot *at)
{
	struct record *rec = l->last;
	if (KV_LIKELY(rec && rec->open && rec->node == at->node->index && rec->shard == at->shard)) {
		record_add(l, rec, i, at->digest);
		return 0;
	}
	for (;;) {
		uint8_t *slot = slot_of(l, at);
		int rc;
		rec = *slot ? &l->record[*slot - 1] : NULL;
		if (rec && rec->open) {
			record_add(l, rec, i, at->digest);
			return 0;
		}
		rc = record_open_await(l, i, at, slot);
		if (rc == -KV_EBUSY && l->out.count > 0) {
			records_send(l);
			rc = oldest_finish_await(l);
		}
		if (rc < 0)
			return rc;
	}
}

/* Fast path: add keys from i on while there is one server and the key's record is open. Returns the first other key. */
static unsigned keys_add(struct lookup *l, unsigned i)
{
	struct record *rec = l->last;
	struct spot at = {.node = rec ? &l->c->node[rec->node] : NULL};
	const struct kc_attachment *s = rec ? at.node->attachment : NULL;
	if (!rec || l->before || l->c->placement->n != 1)
		return i;
	for (; i < l->n && rec->open; i++) {
		at.digest = key_digest(l, i, s);
		at.shard = kc_digest_shard(at.digest, s->shards);
		if (at.shard != rec->shard) {
			const uint8_t *slot = slot_of(l, &at);
			if (!*slot || !l->record[*slot - 1].open)
				return i;
			rec = &l->record[*slot - 1];
		}
		record_add(l, rec, i, at.digest);
	}
	return i;
}

static int key_ask_await(struct lookup *l, unsigned i)
{
	struct spot at;
	int rc = key_place_await(l, i, &at);
	if (rc > 0)
		return 0;
	if (rc == 0) {
		rc = key_pack_await(l, i, &at);
		if (rc < 0 && moved(l, at.node, i, rc))
			return -KV_ERESET; /* its server went down after the key was placed */
	}
	return rc < 0 && is_miss(l, at.node, rc) ? 0 : rc;
}

/* ---- a lookup ---- */

static int lookup_once_await(struct lookup *l)
{
	int rc = 0, late;
	memset(l->found, 0, sizeof(l->found));
	memset(l->slot, 0, sizeof(l->slot));
	l->out = (struct kc_window){.req = l->req, .size = RECORDS_MAX};
	l->open = 0;
	l->last = NULL;
	for (unsigned i = 0; i < l->n && rc == 0;) {
		rc = key_ask_await(l, i++);
		if (rc == 0)
			i = keys_add(l, i);
	}
	records_send(l); /* after a failure also: open records are awaited like the others */
	while (l->out.count > 0) {
		late = oldest_finish_await(l);
		rc = rc < 0 ? rc : late;
	}
	return rc;
}

static int lookup_tries_await(struct lookup *l)
{
	unsigned tries = 0;
	int rc;
	do
		rc = lookup_once_await(l);
	while (rc < 0 && kc_call_again_await(l->c, rc, l->deadline_ns, &tries));
	return (int)kc_call_code(l->c, rc);
}

/* Keys deleted at one server and found at another: ask whether that value was put since. */
static void lookup_younger_await(struct lookup *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		uint8_t bit = (uint8_t)(1u << i % 8);
		if (KV_UNLIKELY(l->deleted[i / 8] & l->found[i / 8] & bit) &&
		    kc_there_await(l->c, key_at(l, i), l->call->flags, l->deadline_ns, l->wait.trace) < 0)
			l->found[i / 8] &= (uint8_t)~bit;
	}
}

static int lookup_await(struct lookup *l)
{
	uint8_t before[sizeof(l->found)];
	unsigned steps;
	int rc;
	memset(l->deleted, 0, sizeof(l->deleted));
	memset(l->tier, 0, sizeof(l->tier));
	rc = lookup_tries_await(l);
	steps = route_steps(l->c);
	for (l->step = l->twice ? 0 : 1; rc == 0 && l->step <= steps; l->step++) {
		memcpy(before, l->found, sizeof(before));
		l->before = before;
		if (lookup_tries_await(l) < 0)
			memset(l->found, 0, sizeof(l->found));
		l->before = NULL;
		for (unsigned i = 0; i < sizeof(before); i++)
			l->found[i] |= before[i];
	}
	if (rc == 0)
		lookup_younger_await(l);
	return rc;
}

/* No initialiser: it would clear the tables even for one key. */
static void lookup_init(struct lookup *l, struct kvc_client *c, const struct kvc_call *call, uint64_t deadline_ns,
			struct kc_trace *t)
{
	l->c = c;
	l->call = call;
	l->key = NULL;
	l->items = NULL;
	l->item = NULL;
	l->before = NULL;
	l->twice = route_two_copies(c, call->flags) || route_hot_any(c);
	l->keys_max = call->session ? KEYS_MAX_SESSION : KEYS_MAX;
	l->deadline_ns = deadline_ns;
	l->down_is_miss = (c->pool->options.flags | call->flags) & KVC_DOWN_IS_MISS;
	l->wait = (struct kc_wait){.co = co_self(), .trace = t};
}

static bool found_at(const struct lookup *l, unsigned i)
{
	return l->found[i / 8] >> (i % 8) & 1;
}

/* enum kvc_found */
static uint8_t where(const struct lookup *l, unsigned i)
{
	return found_at(l, i) ? (uint8_t)(KVC_FOUND_MEMORY + (l->tier[i / 8] >> (i % 8) & 1)) : KVC_FOUND_NOT;
}

static unsigned prefix_of(const struct lookup *l)
{
	unsigned n = 0;
	while (n + 8 <= l->n && l->found[n / 8] == 0xFF)
		n += 8;
	while (n < l->n && found_at(l, n))
		n++;
	return n;
}

static int exists_await(struct kvc_client *c, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
			unsigned *out_prefix, const struct kvc_call *call, struct kc_trace *t)
{
	struct lookup l;
	bool broken = false;
	unsigned prefix = 0;
	lookup_init(&l, c, call, kc_call_deadline(c, call, 0), t);
	for (unsigned at = 0; at < n && (out_found || !broken); at += l.n) {
		int rc;
		l.key = keys + at;
		l.n = KV_MIN(n - at, (unsigned)WINDOW);
		rc = lookup_await(&l);
		if (rc < 0)
			return rc;
		for (unsigned i = 0; out_found && i < l.n; i++)
			out_found[at + i] = where(&l, i);
		if (!broken)
			prefix += prefix_of(&l);
		broken = prefix < at + l.n;
	}
	if (out_prefix)
		*out_prefix = prefix;
	return 0;
}

int kc_exists_items_await(struct kvc_client *c, struct kvc_item *items, const unsigned *index, unsigned n,
			  const struct kvc_call *call, uint64_t deadline_ns, struct kc_trace *t)
{
	struct lookup l;
	int rc;
	lookup_init(&l, c, call, deadline_ns, t);
	l.items = items;
	l.item = index;
	l.n = n;
	rc = lookup_await(&l);
	for (unsigned i = 0; i < n && rc == 0; i++)
		items[index[i]].result = where(&l, i);
	return rc;
}

int kvc_exists_await(struct kvc_client *client, const struct kvc_key *keys, unsigned n, uint8_t *out_found,
		     unsigned *out_prefix, const struct kvc_call *call)
{
	struct kvc_key *names = NULL;
	struct kvc_call own;
	struct kc_trace t;
	int rc = kc_call_begin(client, &t, KVC_OP_EXISTS, call);
	if (rc < 0)
		return rc;
	rc = kc_call_check(call, &own);
	if (!keys && n > 0)
		rc = -KV_EINVAL;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = kc_key_valid(keys[i]) ? 0 : -KV_EINVAL;
	if (rc == 0 && kc_names(client))
		rc = kc_names_await(client, keys, sizeof(*keys), n, &names);
	if (rc == 0)
		rc = exists_await(client, names ? names : keys, n, out_found, out_prefix, &own, &t);
	if (KV_UNLIKELY(names != NULL))
		free(names);
	kc_add(&client->count.exists, 1);
	return (int)kc_call_end(client, &t, rc);
}
