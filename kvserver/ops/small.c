/* SPDX-License-Identifier: Apache-2.0 */
/* small.c -- the requests that are answered on the spot: EXISTS, DELETE, TOUCH, PIN, STAT, PING.
 *
 * None of them moves bytes, and only PIN keeps something. DELETE takes a pinned block, too: pins keep blocks from
 * eviction, not from DELETE. A client that is reading the block goes on reading the old bytes. EXISTS is no hit: asking
 * for a prefix must not keep it alive. */
#include "kvserver/ops/small.h"

#include "kvserver/shard/reply.h"
#include "kvserver/shard/stat.h"

enum {
	PIN_SESSION_SHARE = 4,
	PIN_ALL_SHARE = 2
}; /* of the memory that may be pinned: 1/4 by one session, 1/2 by all, if stages and leases leave it */

static void status_reply(struct link *l, const struct wire_request *q, int32_t status)
{
	struct wire_reply r = {.type = q->type, .status = status, .id = q->id};

	reply_put(l, &r, NULL);
}

static struct block *block_find(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	return store_find(&l->session->shard->store, q->key.data, q->key.len, now_ns);
}

void exists_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	uint8_t bitmap[WIRE_EXISTS_BITMAP] = {0};
	struct wire_reply r = {
		.type = WIRE_EXISTS, .id = q->id, .exists = {.count = q->exists.count, .bitmap = bitmap}};
	uint32_t n = q->exists.count;

	store_digests_find(&s->store, q->exists.digests, n, now_ns, bitmap);
	while (r.exists.prefix + 8 <= n && bitmap[r.exists.prefix / 8] == 0xFF)
		r.exists.prefix += 8;
	while (r.exists.prefix < n && bitmap[r.exists.prefix / 8] >> r.exists.prefix % 8 & 1)
		r.exists.prefix++;
	shard_count(s, WIRE_STAT_EXISTS);
	s->tally.asked += n;
	s->tally.present += r.exists.prefix;
	reply_put(l, &r, NULL);
}

void delete_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct block *b = block_find(l, q, now_ns);

	if (b) {
		shard_count(s, WIRE_STAT_DELETES);
		store_drop(&s->store, b);
	}
	status_reply(l, q, b ? WIRE_OK : WIRE_NOTFOUND);
}

void touch_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct wire_reply r = {.type = q->type, .flags = q->flags, .status = WIRE_NOTFOUND, .id = q->id};
	struct block *b = block_find(l, q, now_ns);

	if (b && !(q->flags & WIRE_TOUCH_LOOK)) {
		uint64_t ttl_ns = q->touch.ttl_s ? q->touch.ttl_s * 1000000000ull : shard_ttl_ns(s);
		shard_count(s, WIRE_STAT_TOUCHES);
		store_use(&s->store, b);
		store_expire_at(&s->store, b, ttl_ns ? kv_deadline(now_ns, ttl_ns) : KV_NEVER);
	}
	if (b) {
		r.status = WIRE_OK;
		r.touch.left_ms = b->expire.when_ns == KV_NEVER
					  ? UINT64_MAX
					  : (b->expire.when_ns - KV_MIN(b->expire.when_ns, now_ns)) / 1000000;
	}
	reply_put(l, &r, NULL);
}

void pin_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct block *b = block_find(l, q, now_ns);
	uint64_t limit = s->store.arena.limit;
	int rc = 0;

	if (!b) {
		status_reply(l, q, WIRE_NOTFOUND);
		return;
	}
	if (q->flags & WIRE_PIN_RELEASE) {
		pins_remove(&s->store, &l->owner->pins, b);
	} else {
		shard_count(s, WIRE_STAT_PINS);
		rc = pins_add(&s->store, &l->owner->pins, b, limit / PIN_SESSION_SHARE,
			      KV_MIN(limit / PIN_ALL_SHARE, s->store.pinned_bytes + shard_keep_left(s)));
	}
	status_reply(l, q, rc ? wire_error_status(rc) : WIRE_OK);
}

void stat_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	uint8_t pairs[STAT_BYTES];
	struct wire_reply r = {.type = WIRE_STAT, .id = q->id};

	(void)now_ns;
	r.stat.count = shard_stat_pairs(l->session->shard, pairs, sizeof(pairs));
	r.stat.pairs = pairs;
	reply_put(l, &r, NULL);
}

void ping_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct wire_reply r = {.type = WIRE_PING,
			       .id = q->id,
			       .ping = {.cookie = q->ping.cookie,
					.turns = loop_turns(l->session->shard->loop),
					.nonce = l->proven ? 0 : l->nonce}};

	(void)now_ns;
	reply_put(l, &r, NULL);
}
