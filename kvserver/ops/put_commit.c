/* SPDX-License-Identifier: Apache-2.0 */
/* put_commit.c -- the end of a PUT: its value becomes visible, exists already, or is refused; and the reply.
 *
 * The first commit of a key wins. For an existing value no bytes are kept: OK for the same length and checksum, else
 * EXISTS_OTHER.
 *
 * A copy of another server's value has the birth time of its value. It is refused if the key was deleted since, never
 * lengthens the life of an existing value, and of two values with different bytes the younger one stays. If
 * the tier alone has the key, the copy comes again (BUSY) when its value is in memory. */
#include "kvserver/ops/put_commit.h"

#include "kvserver/ops/tier.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"

/* ---- replies ---- */

static void cleared_fill(struct shard *s, const struct session *o, struct wire_reply *r)
{
	const struct space *sp = o->space;
	shard_count(s, WIRE_STAT_PUTS_CLEARED);
	r->status = WIRE_DELETED;
	r->put.stage = sp->generation;
	r->put.generation = sp->cleared_ns ? loop_turn_now(s->loop) - sp->cleared_ns : 0;
}

bool put_space(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	const struct space *sp = l->session->space;
	if (KV_UNLIKELY(q->put.space > sp->generation)) {
		/* The clear that its client has heard of is still on its way here. */
		if (!session_allows(l->session, WIRE_CLEAR) || !session_may_raise(l->session, q->put.space))
			return true;
		store_space_advance(&l->attachment->shard->store, l->session->space, q->put.space, now_ns);
	}
	return q->put.space == sp->generation || q->flags & WIRE_PUT_COPY;
}

void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation)
{
	struct wire_reply r = {.type = WIRE_PUT,
			       .status = status,
			       .id = q->id,
			       .put = {.stage = q->put.stage, .generation = generation}};
	if (KV_UNLIKELY(status == PUT_CLEARED))
		cleared_fill(l->attachment->shard, l->session, &r);
	reply_put(l, &r, NULL);
}

void put_answer(struct link *l, const struct wire_request *q, struct request *r, int32_t status, uint64_t generation)
{
	if (!r) {
		put_reply(l, q, status, generation);
		return;
	}
	r->reply.put.generation = generation;
	if (KV_UNLIKELY(status == PUT_CLEARED))
		cleared_fill(r->attachment->shard, r->session, &r->reply);
	request_end(r, status == PUT_CLEARED ? WIRE_DELETED : status);
}

/* Log a value without room, at most one a second with the number of others: its client gets only a code. */
static void refused_log(struct shard *s, uint64_t total, int error)
{
	const struct store *st = &s->store;
	char size[32], limit[32], pinned[32], staged[32], leased[32], max[32], more[64] = "", holder[128];
	uint64_t suppressed;
	if (!kv_rate_take(&s->work->refused_lines, loop_turn_now(s->loop), SHARD_REFUSED_LINES, &suppressed))
		return;
	if (suppressed)
		snprintf(more, sizeof(more), " (%llu more %s refused, not shown)", (unsigned long long)suppressed,
			 suppressed == 1 ? "was" : "were");
	kv_size_format(total, size, sizeof(size));
	kv_size_format(st->arena.limit, limit, sizeof(limit));
	if (error == -KV_ETOOBIG)
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("put_refused", KV_NUMBER("shard", s->opt.index), KV_NUMBER("bytes", total),
				  KV_FIELD("reason", "size"), KV_NUMBER("more", suppressed)),
			 "shard %u: a value of %llu bytes is refused: the limit is %s (--value-max), and it must fit "
			 "the %s of one worker thread (--memory-mb divided by --worker-threads)%s",
			 s->opt.index, (unsigned long long)total, kv_size_format(s->opt.value_max, max, sizeof(max)),
			 limit, more);
	else if (st->blocks.used >= st->blocks_max + st->rooms.used && arena_free_bytes(&st->arena) >= total)
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("put_refused", KV_NUMBER("shard", s->opt.index), KV_NUMBER("bytes", total),
				  KV_FIELD("reason", "values"), KV_NUMBER("more", suppressed)),
			 "shard %u: no room for a value of %s: the limit of %u values is reached, and none can be "
			 "evicted: they are pinned, being read or being written; unpin, or raise --max-values%s",
			 s->opt.index, size, st->blocks_max, more);
	else
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("put_refused", KV_NUMBER("shard", s->opt.index), KV_NUMBER("bytes", total),
				  KV_FIELD("reason", "memory"), KV_NUMBER("more", suppressed)),
			 "shard %u: no room for a value of %s: of %s, %s are pinned, "
			 "%s being written and %s leased%s, and they fragment the rest; "
			 "unpin, release views, or give the server more memory (--memory-mb) or fewer "
			 "--worker-threads%s",
			 s->opt.index, size, limit, kv_size_format(st->pinned_bytes, pinned, sizeof(pinned)),
			 kv_size_format(st->staged_bytes, staged, sizeof(staged)),
			 kv_size_format(s->leased_bytes, leased, sizeof(leased)),
			 leases_most(s, holder, sizeof(holder)), more);
}

int32_t put_error(struct shard *s, uint64_t total, int error)
{
	if (error == -KV_ENOMEM)
		shard_count(s, WIRE_STAT_NOMEM);
	if (error == -KV_ENOMEM || error == -KV_ETOOBIG)
		refused_log(s, total, error);
	return wire_error_status(error);
}

/* ---- the value ---- */

/* A copy's time to live counts from its birth: it does not outlive its original. */
static uint64_t expires_at(const struct shard *s, uint32_t ttl_s, uint64_t born_ns, uint64_t now_ns)
{
	uint64_t ttl_ns = ttl_s ? ttl_s * 1000000000ull : shard_ttl_ns(s);
	return ttl_ns ? kv_deadline(born_ns && ttl_s ? born_ns : now_ns, ttl_ns) : KV_NEVER;
}

uint64_t put_born(const struct shard *s, const struct wire_request *q)
{
	uint64_t born_ns = KV_MAX(shard_clock_local(s, q->put.born_ns), (uint64_t)1);
	/* A client's estimate of our clock may be ahead. A DELETE would miss a value born after it. */
	return q->flags & WIRE_PUT_COPY ? KV_MIN(born_ns, loop_turn_now(s->loop)) : 0;
}

static int32_t copy_refused(struct shard *s, int error)
{
	shard_count(s, WIRE_STAT_COPIES_REFUSED);
	return wire_error_status(error);
}

int32_t put_allowed(struct shard *s, const struct wire_request *q, uint64_t now_ns)
{
	uint64_t born_ns = put_born(s, q), expires_ns = KV_NEVER;
	int rc = 0;
	if (born_ns)
		rc = store_copy_allowed(&s->store, s->store.space, store_hash(&s->store, q->key.data, q->key.len),
					born_ns, now_ns, &expires_ns);
	if (rc)
		return copy_refused(s, rc);
	if (KV_UNLIKELY(s->work->tier != NULL) && born_ns &&
	    tier_brings(s, q->key.data, q->key.len, q->flags & WIRE_PUT_SPARE, now_ns))
		return q->flags & WIRE_PUT_SPARE ? copy_refused(s, -KV_ENOMEM) : WIRE_BUSY;
	return WIRE_OK;
}

/* The tier alone has a value of the block's key. */
static bool tier_first(struct shard *s, const struct block *b, uint64_t now_ns)
{
	struct space *entered = s->store.space;
	bool brings;
	if (index_peek(&s->store.index, b->item.hash))
		return false;
	store_enter(&s->store, s->store.spaces.at[b->space]);
	brings = tier_brings(s, b->item.key, b->item.key_len, false, now_ns);
	store_enter(&s->store, entered);
	return brings;
}

/* The birth of a value that a client has put: after a standstill, its beginning (shard/doubt.h). */
static uint64_t plain_born(const struct shard *s, uint64_t now_ns)
{
	return KV_UNLIKELY(s->doubt.late_ns) ? s->doubt.late_ns : now_ns;
}

/* The same value exists. */
static void duplicate(struct shard *s, struct block *holder, uint32_t ttl_s, uint64_t born_ns)
{
	uint64_t now_ns = loop_turn_now(s->loop), expires_ns = expires_at(s, ttl_s, born_ns, now_ns);
	shard_count(s, WIRE_STAT_PUT_DUPLICATES);
	store_use(&s->store, holder);
	block_born_at(holder, KV_MAX(born_ns ? born_ns : plain_born(s, now_ns), block_born_ns(holder)));
	if (born_ns)
		return;
	store_put_here(&s->store, holder);
	if (expires_ns > holder->expire.when_ns)
		store_expire_at(&s->store, holder, expires_ns);
}

static int32_t compare(struct shard *s, struct block *holder, uint64_t total, uint64_t checksum, uint32_t ttl_s,
		       uint64_t born_ns, uint64_t *out_generation)
{
	if (holder->len == total && holder->checksum == checksum) {
		duplicate(s, holder, ttl_s, born_ns);
		*out_generation = holder->generation;
		return WIRE_OK;
	}
	shard_count(s, WIRE_STAT_PUT_CONFLICTS);
	if (born_ns == 0)
		return WIRE_EXISTS_OTHER;
	return born_ns > block_born_ns(holder) ? PUT_YOUNGER : copy_refused(s, -KV_EDELETED);
}

int32_t put_compare(struct shard *s, struct block *holder, const struct wire_request *q, uint64_t *out_generation)
{
	if (q->flags & WIRE_PUT_SUM_LAST && holder->len == q->put.total)
		return PUT_UNKNOWN;
	return compare(s, holder, q->put.total, q->put.checksum, q->put.ttl_s, put_born(s, q), out_generation);
}

/* Make a client's value visible. After a standstill it is not stored if its key was deleted since: the client may retry
 * when the standstill is judged. */
static int plain_commit(struct shard *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t now_ns,
			struct block **out_holder)
{
	uint64_t born_ns = plain_born(s, now_ns), life_ns = expires_ns;
	int rc;
	if (KV_UNLIKELY(s->doubt.late_ns) &&
	    store_copy_allowed(&s->store, s->store.spaces.at[b->space], b->item.hash, born_ns, now_ns, &life_ns))
		return -KV_EBUSY;
	rc = store_commit_born(&s->store, b, checksum, expires_ns, born_ns, now_ns, out_holder);
	if (rc == 0)
		store_put_here(&s->store, b);
	return rc;
}

static int copy_commit(struct shard *s, struct block *b, uint64_t checksum, uint64_t expires_ns, uint64_t born_ns,
		       uint64_t now_ns, struct block **out_holder)
{
	int rc =
		store_copy_allowed(&s->store, s->store.spaces.at[b->space], b->item.hash, born_ns, now_ns, &expires_ns);
	if (rc)
		return rc;
	if (KV_UNLIKELY(s->work->tier != NULL) && tier_first(s, b, now_ns))
		return -KV_EBUSY;
	rc = store_commit_born(&s->store, b, checksum, expires_ns, born_ns, now_ns, out_holder);
	if (rc != -KV_EEXIST || block_born_ns(*out_holder) >= born_ns ||
	    ((*out_holder)->len == b->len && (*out_holder)->checksum == checksum))
		return rc;
	shard_count(s, WIRE_STAT_COPIES_REPLACED);
	store_delete_block(&s->store, *out_holder, now_ns);
	return store_commit_born(&s->store, b, checksum, expires_ns, born_ns, now_ns, out_holder);
}

int32_t put_commit(struct shard *s, struct block *b, uint64_t digest, uint64_t checksum, uint32_t ttl_s,
		   uint64_t born_ns, uint64_t *out_generation)
{
	uint64_t now_ns = loop_turn_now(s->loop), expires_ns = expires_at(s, ttl_s, born_ns, now_ns);
	struct block *holder;
	int rc;
	if (digest != checksum) {
		shard_count(s, WIRE_STAT_CORRUPT);
		return WIRE_CORRUPT;
	}
	rc = born_ns ? copy_commit(s, b, checksum, expires_ns, born_ns, now_ns, &holder)
		     : plain_commit(s, b, checksum, expires_ns, now_ns, &holder);
	if (rc == -KV_EEXIST)
		return compare(s, holder, b->len, checksum, ttl_s, born_ns, out_generation);
	if (rc == -KV_EDELETED || rc == -KV_ECANCELED)
		return copy_refused(s, rc);
	if (rc == -KV_ESTALE)
		return PUT_CLEARED;
	if (rc)
		return put_error(s, b->len, rc);
	s->counts.of[WIRE_STAT_BYTES_WRITTEN] += b->len;
	tier_put_done(s, b);
	*out_generation = b->generation;
	return WIRE_OK;
}
