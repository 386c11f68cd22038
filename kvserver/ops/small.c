/* SPDX-License-Identifier: Apache-2.0 */
/* small.c -- requests answered immediately: EXISTS, DELETE, TOUCH, PIN, STAT, TOMBS, CLEAR, SPACES, TENANTS, PING.
 *
 * Pins protect from eviction, not from DELETE. A DELETE is remembered (store/tombs.h), even of an unknown key, since a
 * copy of the value may be on its way; so is a TOUCH that shortens a life, or asks for it (WIRE_TOUCH_MARK). Requests
 * for such a key learn that it was deleted. */
#include "kvserver/ops/private.h"

#include "kvserver/ops/tier.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/stat.h"

/* Of the memory, a session may pin 1/4, and all together KEPT_PINS, if stages and leases leave it. */
enum { PIN_SESSION_SHARE = 4 };

enum { TOMBS_LOOKS = 4096 }; /* places of the ring read for one TOMBS */

static void status_reply(struct link *l, const struct wire_request *q, int32_t status)
{
	struct wire_reply r = {.type = q->type, .status = status, .id = q->id};
	reply_put(l, &r, NULL);
}

static uint64_t clock_of(const struct link *l, uint64_t ns)
{
	return shard_clock(l->attachment->shard->opt.shard_seed, ns);
}

static int32_t missing(const struct link *l, const struct wire_request *q, uint64_t now_ns, uint64_t *out_age_ns)
{
	const struct store *s = &l->attachment->shard->store;
	uint64_t at_ns;
	if (!store_key_deleted(s, store_hash(s, q->key.data, q->key.len), now_ns, &at_ns))
		return WIRE_NOTFOUND;
	*out_age_ns = now_ns - KV_MIN(now_ns, at_ns);
	return WIRE_DELETED;
}

static struct block *block_find(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	return store_find(&l->attachment->shard->store, q->key.data, q->key.len, now_ns);
}

void exists_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	uint8_t bitmap[WIRE_EXISTS_BITMAP] = {0}, deleted[WIRE_EXISTS_BITMAP] = {0}, tier[WIRE_EXISTS_BITMAP] = {0};
	struct wire_reply r = {
		.type = WIRE_EXISTS,
		.id = q->id,
		.exists = {.count = q->exists.count, .bitmap = bitmap, .deleted = deleted, .tier = tier}};
	uint32_t n = q->exists.count;
	store_digests_find(&s->store, q->exists.digests, n, now_ns, bitmap);
	if (store_digests_deleted(&s->store, q->exists.digests, n, now_ns, bitmap, deleted))
		r.flags |= WIRE_EXISTS_DELETED;
	if (KV_UNLIKELY(s->work->tier != NULL) && tier_exists(s, q->exists.digests, n, now_ns, bitmap, tier)) {
		r.flags |= WIRE_EXISTS_TIER;
		for (uint32_t i = 0; i < (n + 7) / 8; i++)
			bitmap[i] |= tier[i];
	}
	while (r.exists.prefix + 8 <= n && bitmap[r.exists.prefix / 8] == 0xFF)
		r.exists.prefix += 8;
	while (r.exists.prefix < n && bitmap[r.exists.prefix / 8] >> r.exists.prefix % 8 & 1)
		r.exists.prefix++;
	shard_count(s, WIRE_STAT_EXISTS);
	s->counts.tally.asked += n;
	s->counts.tally.present += r.exists.prefix;
	reply_put(l, &r, NULL);
}

static bool delete_this(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct block *b = block_find(l, q, now_ns);
	if (!b || b->generation != q->drop.which)
		return false;
	store_delete_block(&l->attachment->shard->store, b, now_ns);
	return true;
}

/* (By the present time: a copy's value may be born since the turn began.) */
void delete_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	uint64_t time_ns = loop_now(s->loop), at_ns = time_ns;
	struct wire_reply r = {.type = q->type, .flags = q->flags, .id = q->id};
	bool was, later;
	r.drop.clock_ns = clock_of(l, time_ns);
	if (q->flags & WIRE_DELETE_AT)
		at_ns = KV_MIN(shard_clock_local(s, q->drop.which), time_ns);
	if (q->flags & WIRE_DELETE_THIS)
		was = delete_this(l, q, now_ns);
	else
		was = store_delete(&s->store, q->key.data, q->key.len, at_ns, now_ns);
	r.status = was ? WIRE_OK : WIRE_NOTFOUND;
	later = KV_UNLIKELY(s->work->tier != NULL) && !store_peek(&s->store, q->key.data, q->key.len) &&
		delete_tier(l, q, &r, &was, now_ns);
	s->counts.of[WIRE_STAT_DELETES] += was;
	if (!later)
		reply_put(l, &r, NULL);
}

static uint64_t touch_expires(const struct shard *s, const struct wire_request *q, uint64_t now_ns)
{
	uint64_t ttl_ns = q->touch.ttl_s ? q->touch.ttl_s * 1000000000ull : shard_ttl_ns(s);
	return ttl_ns ? kv_deadline(now_ns, ttl_ns) : KV_NEVER;
}

void touch_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct wire_reply r = {.type = q->type, .flags = q->flags, .id = q->id};
	struct block *there = block_find(l, q, now_ns), *b = there;
	uint64_t at_ns = loop_now(s->loop);
	if (q->flags & WIRE_TOUCH_AT)
		at_ns = KV_MIN(shard_clock_local(s, q->touch.young_ns), at_ns);
	if (b && ((q->flags & WIRE_TOUCH_YOUNG && now_ns - block_born_ns(b) >= q->touch.young_ns) ||
		  (q->flags & WIRE_TOUCH_AT && block_born_ns(b) > at_ns)))
		b = NULL;
	r.status = b ? WIRE_OK : missing(l, q, now_ns, &r.touch.age_ns);
	if (!(q->flags & WIRE_TOUCH_LOOK) &&
	    (b || (q->flags & (WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG)) == WIRE_TOUCH_MARK)) {
		store_touch(&s->store, q->key.data, q->key.len, b, touch_expires(s, q, now_ns), at_ns,
			    loop_now(s->loop));
	}
	if (b && !(q->flags & WIRE_TOUCH_LOOK)) {
		shard_count(s, WIRE_STAT_TOUCHES);
		store_use(&s->store, b);
	}
	if (b) {
		r.touch.left_ms = b->expire.when_ns == KV_NEVER
					  ? UINT64_MAX
					  : (b->expire.when_ns - KV_MIN(b->expire.when_ns, now_ns)) / 1000000;
		r.touch.age_ns = now_ns - KV_MIN(now_ns, block_born_ns(b));
		r.touch.checksum = b->checksum;
	}
	r.touch.clock_ns = clock_of(l, loop_now(s->loop));
	/* (The tier has no other value than memory.) */
	if (KV_UNLIKELY(s->work->tier != NULL) && (b || !there) &&
	    touch_tier(l, q, &r, b != NULL, touch_expires(s, q, now_ns), now_ns))
		return;
	reply_put(l, &r, NULL);
}

void pin_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct block *b = block_find(l, q, now_ns);
	uint64_t limit = s->store.arena.limit, age_ns;
	int rc = 0;
	if (!b) {
		/* (A pin of a value in doubt is released as well: it would keep memory for nobody.) */
		if ((q->flags & WIRE_PIN_RELEASE) && (b = store_peek(&s->store, q->key.data, q->key.len)))
			pins_remove(&s->store, &l->session->pins, b);
		status_reply(l, q, missing(l, q, now_ns, &age_ns));
		return;
	}
	if (q->flags & WIRE_PIN_RELEASE) {
		pins_remove(&s->store, &l->session->pins, b);
	} else {
		shard_count(s, WIRE_STAT_PINS);
		rc = pins_add(&s->store, &l->session->pins, b, limit / PIN_SESSION_SHARE,
			      KV_MIN(kept_part(KEPT_PINS, limit), s->store.pinned_bytes + shard_keep_left(s)));
	}
	status_reply(l, q, rc ? wire_error_status(rc) : WIRE_OK);
}

void stat_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	uint8_t pairs[STAT_BYTES];
	struct wire_reply r = {.type = WIRE_STAT, .id = q->id};
	(void)now_ns;
	r.stat.count = shard_stat_pairs(l->attachment->shard, pairs, sizeof(pairs));
	r.stat.pairs = pairs;
	reply_put(l, &r, NULL);
}

/* For how long this server knows of all deletions: its own, and it saw all the members that may know of others. */
static uint32_t known_ms(const struct shard *s, uint64_t now_ns, uint8_t *flags)
{
	const struct doubt_orders *d = s->opt.doubt;
	uint64_t away_ns = d ? atomic_load(&d->away_ns) : 0;
	int64_t since_ns = s->store.tombs.since_ns, now = (int64_t)now_ns;
	if (d)
		since_ns = KV_MAX(since_ns, (int64_t)atomic_load(&d->lost_ns));
	if (!shard_tier_remembers(s) || away_ns == KV_NEVER)
		away_ns = now_ns;
	if ((int64_t)away_ns > since_ns) {
		since_ns = (int64_t)away_ns;
		*flags |= WIRE_TOMBS_LATER;
	}
	return (uint32_t)KV_MIN(KV_MAX(now - since_ns, (int64_t)0) / 1000000, (int64_t)UINT32_MAX);
}

/* (Includes touched keys: the asking server does not know the end of their life.) */
void tombs_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	const struct tombs *t = &l->attachment->shard->store.tombs;
	uint8_t packed[WIRE_TOMBS_MAX * 16];
	uint32_t budget = TOMBS_LOOKS;
	uint64_t at = q->tombs.from;
	struct wire_reply r = {.type = WIRE_TOMBS, .id = q->id, .tombs = {.tombs = packed}};
	const struct tomb *d;
	while (r.tombs.count < WIRE_TOMBS_MAX && (d = tombs_next(t, &at, &budget)) != NULL)
		wire_tomb_put(packed, r.tombs.count++, d->id, now_ns - KV_MIN(now_ns, d->time_ns), d->expires_ns != 0);
	r.tombs.next = at < t->put ? at : 0;
	r.tombs.known_ms = known_ms(l->attachment->shard, now_ns, &r.flags);
	reply_put(l, &r, NULL);
}

void clear_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct space *sp = l->session->space;
	struct wire_reply r = {.type = WIRE_CLEAR, .flags = q->flags, .id = q->id};
	if (!session_may_raise(l->session, q->clear.generation)) {
		r.status = WIRE_INVALID;
		reply_put(l, &r, NULL);
		return;
	}
	if (q->flags & WIRE_CLEAR_RAISE)
		store_space_advance(&s->store, sp, q->clear.generation, now_ns);
	else
		store_space_clear(&s->store, sp, q->clear.generation, now_ns);
	shard_count(s, WIRE_STAT_CLEARS);
	r.clear.generation = sp->generation;
	if (!clear_tier(l, q, &r, now_ns))
		reply_put(l, &r, NULL);
}

static bool space_shown(const struct session *o, const struct space *sp)
{
	return o->sees_all || sp == o->space;
}

void spaces_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	const struct spaces *t = &l->attachment->shard->store.spaces;
	uint8_t packed[WIRE_SPACES_MAX * WIRE_SPACE_BYTES];
	struct wire_reply r = {.type = WIRE_SPACES, .id = q->id, .rows = {.floor = t->floor, .at = packed}};
	uint64_t at = q->tombs.from;
	(void)now_ns;
	for (; at < t->count && r.rows.count < WIRE_SPACES_MAX; at++) {
		const struct space *sp = t->at[at];
		struct wire_row w = {.number = {[WIRE_SPACE_GENERATION] = sp->generation,
						[WIRE_SPACE_BLOCKS] = sp->blocks,
						[WIRE_SPACE_USED] = sp->bytes,
						[WIRE_SPACE_TIER_USED] = sp->tier_bytes,
						[WIRE_SPACE_GETS] = sp->gets,
						[WIRE_SPACE_HITS] = sp->hits}};
		memcpy(w.name, sp->name, sizeof(w.name));
		if (space_shown(l->session, sp))
			wire_row_put(packed, r.rows.count++, r.type, &w);
	}
	r.rows.next = at < t->count ? at : 0;
	reply_put(l, &r, NULL);
}

/* A session learns of its own tenant, or of all: those of the present table, and former ones that still have values. */
void tenants_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	const struct tenancy *y = &l->attachment->shard->store.tenancy;
	const struct session *o = l->session;
	uint8_t packed[WIRE_TENANTS_MAX * WIRE_TENANT_BYTES];
	struct wire_reply r = {.type = WIRE_TENANTS, .id = q->id, .rows = {.at = packed}};
	uint64_t at = KV_MAX(q->tombs.from, 1ull); /* at[0] is of no tenant */
	(void)now_ns;
	for (; at < y->count && r.rows.count < WIRE_TENANTS_MAX; at++) {
		const struct tenant *t = y->at[at];
		struct wire_row w = {.flags = t->listed ? WIRE_ROW_LISTED : 0,
				     .number = {[WIRE_TENANT_USED] = t->bytes,
						[WIRE_TENANT_SHARE] = t->limit.share,
						[WIRE_TENANT_CAP] = t->limit.cap,
						[WIRE_TENANT_TIER_USED] = t->tier_bytes,
						[WIRE_TENANT_TIER_CAP] = t->limit.tier,
						[WIRE_TENANT_PINNED] = t->kept[KEPT_PINS],
						[WIRE_TENANT_PINS_CAP] = t->limit.pins,
						[WIRE_TENANT_ACTIVE] = t->active,
						[WIRE_TENANT_REQUESTS_MAX] = t->limit.requests,
						[WIRE_TENANT_READ] = t->read_bytes,
						[WIRE_TENANT_READ_RATE] = t->limit.read_rate,
						[WIRE_TENANT_SESSIONS] = t->users,
						[WIRE_TENANT_SPACES] = t->spaces,
						[WIRE_TENANT_EVICTED] = t->evicted,
						[WIRE_TENANT_DENIED] = t->denied}};
		memcpy(w.name, t->name, sizeof(w.name));
		if (o->sees_all || t == o->tenant)
			wire_row_put(packed, r.rows.count++, r.type, &w);
	}
	r.rows.next = at < y->count ? at : 0;
	reply_put(l, &r, NULL);
}

void ping_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct wire_reply r = {.type = WIRE_PING,
			       .id = q->id,
			       .ping = {.cookie = q->ping.cookie,
					.turns = loop_turns(l->attachment->shard->loop),
					.nonce = l->proven ? 0 : l->nonce}};
	(void)now_ns;
	reply_put(l, &r, NULL);
}
