/* SPDX-License-Identifier: Apache-2.0 */
/* put.c -- PUT: ranges into a private stage, a check of the whole, and a commit that the first one wins.
 *
 * Answers. A range is answered when its bytes are there (and nothing of it is in flight, so that the client's source is
 * free); the last one when the value is whole, checked and committed. A value already there is answered without moving
 * a byte: OK for the same length and checksum, else EXISTS_OTHER. A range whose stage is gone gets what ended it, or
 * STALE if it is not known any more: the client begins again. A small value in one message has no stage: copy, check,
 * commit. */
#include "kvserver/ops/put.h"

#include <errno.h>

#include "kvserver/ops/stage.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"

static void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation)
{
	struct wire_reply r = {.type = WIRE_PUT,
			       .status = status,
			       .id = q->id,
			       .put = {.stage = q->put.stage, .generation = generation}};

	reply_put(l, &r, NULL);
}

/* A value that there is no place for is logged, one a second, and how many were not: its client learns a code only. */
static void refused_log(struct shard *s, uint64_t total, int error)
{
	const struct store *st = &s->store;
	char size[32], limit[32], pinned[32], staged[32], leased[32], max[32], more[64] = "";
	uint64_t suppressed;

	if (!kv_rate_take(&s->work->refused_lines, loop_turn_now(s->loop), SHARD_REFUSED_LINES, &suppressed))
		return;
	if (suppressed)
		snprintf(more, sizeof(more), " (%llu more were refused, not shown)", (unsigned long long)suppressed);
	kv_size_format(total, size, sizeof(size));
	kv_size_format(st->arena.limit, limit, sizeof(limit));
	if (error == -KV_ETOOBIG)
		kv_warn(s->opt.log,
			"shard %u: a value of %llu bytes is refused: one may have %s (--value-max), and must fit the "
			"%s of one worker thread "
			"(--memory-mb divided by --worker-threads)%s",
			s->opt.index, (unsigned long long)total, kv_size_format(s->opt.value_max, max, sizeof(max)),
			limit, more);
	else if (st->blocks.used >= st->blocks_max + st->rooms.used && arena_free_bytes(&st->arena) >= total)
		kv_warn(s->opt.log,
			"shard %u: no room for a value of %s: %u values are there, as many as there may be, and none "
			"may go: they are pinned, being read or being "
			"written; unpin, or raise --max-values%s",
			s->opt.index, size, st->blocks_max, more);
	else
		kv_warn(s->opt.log,
			"shard %u: no room for a value of %s: of %s are %s pinned, %s being written and %s leased, and "
			"what is in use lies "
			"between; unpin, or give the server more memory (--memory-mb) or fewer --worker-threads%s",
			s->opt.index, size, limit, kv_size_format(st->pinned_bytes, pinned, sizeof(pinned)),
			kv_size_format(st->staged_bytes, staged, sizeof(staged)),
			kv_size_format(s->leased_bytes, leased, sizeof(leased)), more);
}

static int32_t put_error(struct shard *s, uint64_t total, int error)
{
	if (error == -KV_ENOMEM)
		shard_count(s, WIRE_STAT_NOMEM);
	if (error == -KV_ENOMEM || error == -KV_ETOOBIG)
		refused_log(s, total, error);
	return wire_error_status(error);
}

static uint64_t expires_at(const struct shard *s, uint32_t ttl_s, uint64_t now_ns)
{
	uint64_t ttl_ns = ttl_s ? ttl_s * 1000000000ull : s->opt.ttl_ns;

	return ttl_ns ? kv_deadline(now_ns, ttl_ns) : KV_NEVER;
}

/* Another value has the key already: is it the same? Then it was used, and lives as long as the longer of both was to.
 */
static int32_t judge_holder(struct shard *s, struct block *holder, uint64_t total, uint64_t checksum, uint32_t ttl_s,
			    uint64_t *out_generation)
{
	if (holder->len == total && holder->checksum == checksum) {
		uint64_t expires_ns = expires_at(s, ttl_s, loop_turn_now(s->loop));
		shard_count(s, WIRE_STAT_PUT_DUPLICATES);
		store_use(&s->store, holder);
		if (expires_ns > holder->expire.when_ns)
			store_expire_at(&s->store, holder, expires_ns);
		*out_generation = holder->generation;
		return WIRE_OK;
	}
	shard_count(s, WIRE_STAT_PUT_CONFLICTS);
	return WIRE_EXISTS_OTHER;
}

/* Check a whole staged block and make it visible. On success the block is LIVE, else still STAGED. */
static int32_t check_and_commit(struct shard *s, struct block *b, uint64_t digest, uint64_t checksum, uint32_t ttl_s,
				uint64_t *out_generation)
{
	uint64_t now_ns = loop_turn_now(s->loop);
	struct block *holder;
	int rc;

	if (digest != checksum) {
		shard_count(s, WIRE_STAT_CORRUPT);
		return WIRE_CORRUPT;
	}
	rc = store_commit(&s->store, b, checksum, expires_at(s, ttl_s, now_ns), now_ns, &holder);
	if (rc == -KV_EEXIST)
		return judge_holder(s, holder, b->len, checksum, ttl_s, out_generation);
	if (rc)
		return put_error(s, b->len, rc);
	s->stat[WIRE_STAT_BYTES_WRITTEN] += b->len;
	*out_generation = b->generation;
	return WIRE_OK;
}

/* ---- the last range ---- */

/* The value is whole: check, make visible, answer st->last. Ends the stage. */
static void stage_commit(struct stage *st)
{
	struct request *last = st->last;
	struct shard *s = st->session->shard;
	struct block *b = st->block;
	int32_t status = check_and_commit(s, b, kv_hasher_digest(&st->hasher), st->checksum, st->ttl_s,
					  &last->reply.put.generation);

	if (b->state == BLOCK_STAGED)
		store_drop(&s->store, b);
	last->put.stage = NULL;
	stage_free(st);
	request_answer(last, status);
	request_free(last);
}

/* There may be bytes to sum up, or the value may be whole. May end the stage. */
static void put_advance(struct stage *st)
{
	if (stage_advance(st))
		stage_commit(st);
}

void put_hash(struct stage *st, uint64_t *budget)
{
	if (stage_hash(st, budget))
		stage_commit(st);
}

/* ---- one range ---- */

/* What a range that did not arrive is answered. */
static int32_t failure(const struct request *r, int error)
{
	if (r->put.failed)
		return r->put.failed;
	if (r->canceled || error == -KV_ECANCELED)
		return WIRE_CANCELED;
	if (error == -KV_EINVAL)
		return WIRE_INVALID;
	return error == -KV_ETIMEOUT || loop_turn_now(r->session->shard->loop) >= r->deadline_ns ? WIRE_TIMEOUT
												 : WIRE_FABRIC;
}

static void range_failed(struct request *r, int error)
{
	int32_t status = failure(r, error);

	if (r->put.stage)
		stage_kill(r->put.stage, status, r);
	if (!r->answered)
		request_answer(r, status);
	request_free(r);
}

/* The bytes of this range are there. */
static void range_arrived(struct request *r)
{
	struct stage *st = r->put.stage;

	stage_arrived(st, r);
	if (r->put.flags & WIRE_PUT_LAST) {
		st->last = r;
	} else {
		request_answer(r, WIRE_OK);
		request_free(r);
	}
	put_advance(st);
}

static void put_done(struct request *r)
{
	int status = request_status(r);

	if (status || !r->put.stage || r->canceled)
		range_failed(r, status);
	else
		range_arrived(r);
}

static void put_progress(struct request *r)
{
	if (r->put.stage)
		put_advance(r->put.stage);
}

static void put_cancel(struct request *r)
{
	r->canceled = true;
	request_stop(r);
	if (!request_running(r)) /* else it is answered when nothing is in flight any more */
		range_failed(r, -KV_ECANCELED);
}

static void put_stop(struct request *r);

static const struct request_ops put_ops = {
	.done = put_done,
	.progress = put_progress,
	.stop = put_stop,
	.cancel = put_cancel,
};

static void range_move(struct request *r, const struct wire_request *q)
{
	struct region_use *u = regions_usable(&r->session->regions, &q->dest);
	int rc = -KV_EINVAL;

	if (u && q->dest.count <= REQUEST_SLICES_MAX) {
		r->use = region_use_keep(u);
		rc = request_move(r, TE_READ, &q->dest, q->put.offset, q->put.length, NULL);
		if (rc == 0 && !request_posting(r))
			request_posted_now(r);
	}
	if (rc)
		range_failed(r, rc);
}

/* A range that cannot be begun. */
static void range_refuse(struct link *l, const struct wire_request *q, struct stage *st, struct request *r, int rc)
{
	if (r) {
		request_answer(r, wire_error_status(rc));
		request_free(r);
	} else {
		put_reply(l, q, WIRE_BUSY, 0);
	}
	/* A client that is told to come later begins anew: what it has brought would only lie there until it is stale.
	 */
	if ((q->flags & WIRE_PUT_FIRST) || rc == -KV_EBUSY)
		stage_kill(st, WIRE_BUSY, NULL);
}

/* r: the request that waited for the stage's memory; NULL: none yet. */
static void range_begin(struct link *l, const struct wire_request *q, struct stage *st, struct request *r,
			uint64_t now_ns)
{
	int rc;

	r = r ? r : request_new(l, q, &put_ops, now_ns);
	rc = r ? stage_claim(st, r, q->put.offset, q->put.length) : -KV_EBUSY;
	if (rc) {
		range_refuse(l, q, st, r, rc);
		return;
	}
	stage_time(st, r->deadline_ns);
	r->reply.put.stage = st->id;
	r->put.stage = st;
	r->put.offset = q->put.offset;
	r->put.length = q->put.length;
	r->put.flags = q->flags;
	r->block = st->block;
	block_ref(r->block);
	if (q->put.inline_data.len)
		memcpy(store_data(&l->session->shard->store, st->block) + q->put.offset, q->put.inline_data.data,
		       q->put.inline_data.len);
	if (q->put.inline_data.len || q->put.length == 0)
		range_arrived(r);
	else
		range_move(r, q);
}

static bool range_fits(const struct stage *st, const struct wire_request *q)
{
	const struct index_item *item = &st->block->item;

	return st->total == q->put.total && st->checksum == q->put.checksum &&
	       !(st->last && q->flags & WIRE_PUT_LAST) && item->key_len == q->key.len &&
	       memcmp(item->key, q->key.data, q->key.len) == 0;
}

/* A PUT without a stage is over: r is its request if it waited, else NULL. */
static void put_answer(struct link *l, const struct wire_request *q, struct request *r, int32_t status,
		       uint64_t generation)
{
	if (!r) {
		put_reply(l, q, status, generation);
		return;
	}
	r->reply.put.generation = generation;
	request_answer(r, status);
	request_free(r);
}

/* The whole value came with the request. */
static bool put_whole(const struct wire_request *q)
{
	return (q->flags & WIRE_PUT_LAST) && q->put.inline_data.len == q->put.total;
}

static void put_small(struct link *l, const struct wire_request *q, struct request *r, struct block *b)
{
	struct shard *s = l->session->shard;
	uint64_t generation = 0;
	int32_t status;

	memcpy(store_data(&s->store, b), q->put.inline_data.data, q->put.inline_data.len);
	status = check_and_commit(s, b, kv_hash_block(store_data(&s->store, b), b->len), q->put.checksum, q->put.ttl_s,
				  &generation);
	if (b->state == BLOCK_STAGED)
		store_drop(&s->store, b);
	block_unref(&s->store, b);
	put_answer(l, q, r, status, generation);
}

/* There is memory for the value that q begins. */
static void put_placed(struct link *l, const struct wire_request *q, struct request *r, struct block *b,
		       uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct stage *st;
	int rc;

	if (put_whole(q)) {
		put_small(l, q, r, b);
		return;
	}
	rc = stage_open(r ? r->owner : l->owner, q, b, now_ns, &st);
	if (rc == 0) {
		range_begin(l, q, st, r, now_ns);
		return;
	}
	store_drop(&s->store, b);
	block_unref(&s->store, b);
	put_answer(l, q, r, put_error(s, q->put.total, rc), 0);
}

/* ---- waiting for memory ---- */

/* A PUT whose memory takes several turns to clear (room.c), with what came in its frame. It belongs to its request. */
struct put_wait {
	struct kv_list node; /* of the shard */
	struct request *r;
	struct room *room; /* NULL: it is over */
	uint64_t charged;  /* to the session's stages */
	struct wire_request q;
	uint8_t key[KV_KEY_MAX], data[KV_INLINE_MAX];
};

_Static_assert(sizeof(struct put_wait) <= PUT_WAIT_BYTES, "their slab has room for them");

static void wait_begin(struct link *l, const struct wire_request *q, struct room *room, uint64_t now_ns)
{
	struct session *session = l->session;
	struct shard *s = session->shard;
	struct put_wait *w = session->stage_count < SESSION_STAGES_MAX ? slab_get(&s->work->waits) : NULL;
	struct request *r = w ? request_new(l, q, &put_ops, now_ns) : NULL;

	if (!r) {
		if (w)
			slab_put(&s->work->waits, w);
		store_stage_end(&s->store, room);
		put_reply(l, q, WIRE_BUSY, 0);
		return;
	}
	w->r = r;
	w->room = room;
	w->q = *q;
	w->q.key.data = memcpy(w->key, q->key.data, q->key.len);
	if (q->put.inline_data.len)
		w->q.put.inline_data.data = memcpy(w->data, q->put.inline_data.data, q->put.inline_data.len);
	w->charged = arena_round(q->put.total);
	session->staged_bytes += w->charged;
	session->stage_count++;
	kv_list_add_tail(&s->work->rooms, &w->node);
	r->put.wait = w;
	shard_count(s, WIRE_STAT_ROOMS);
}

/* Another one may have waited for nothing but that this one ends (ROOMS_AT_ONCE). */
static void wait_leave(struct shard *s, struct put_wait *w)
{
	struct kv_list *next;

	kv_list_del(&w->node);
	w->r->session->staged_bytes -= w->charged;
	w->r->session->stage_count--;
	w->r->put.wait = NULL;
	if (w->room)
		store_stage_end(&s->store, w->room);
	next = kv_list_pop(&s->work->rooms_queued);
	if (next)
		kv_list_add_tail(&s->work->rooms, next);
}

/* A request that waits is to go: the memory is given up. */
static void put_stop(struct request *r)
{
	struct shard *s = r->session->shard;
	struct put_wait *w = r->put.wait;

	if (!w)
		return;
	wait_leave(s, w);
	slab_put(&s->work->waits, w);
}

/* Its memory is there, or cannot be had; the request goes on without w, whose copy of the frame is needed until then.
 */
static void wait_over(struct shard *s, struct put_wait *w, struct block *b, int rc, uint64_t now_ns)
{
	struct request *r = w->r;

	wait_leave(s, w);
	if (rc == 0)
		put_placed(r->link, &w->q, r, b, now_ns);
	else
		put_answer(r->link, &w->q, r, put_error(s, w->q.put.total, rc), 0);
	slab_put(&s->work->waits, w);
}

/* One of them goes on. */
static void wait_step(struct shard *s, struct put_wait *w, unsigned *budget, uint64_t now_ns)
{
	struct block *b = w->room->block;
	int rc = !s->te ? -KV_ECLOSED : now_ns >= w->r->deadline_ns ? -KV_ETIMEOUT : 0;

	if (rc == 0) {
		rc = store_stage_step(&s->store, w->room, budget);
		if (rc == -EAGAIN) {
			kv_list_del(&w->node);
			kv_list_add_tail(!w->room->waits  ? &s->work->rooms
					 : w->room->begun ? &s->work->rooms_later
							  : &s->work->rooms_queued,
					 &w->node);
			return;
		}
		w->room = NULL; /* the store ended it */
	}
	wait_over(s, w, b, rc, now_ns);
}

void put_turn(struct shard *s)
{
	uint64_t now_ns = loop_turn_now(s->loop);

	for (unsigned budget = STORE_STEPS_AT_ONCE; budget && !kv_list_empty(&s->work->rooms);)
		wait_step(s, KV_LIST_ENTRY(s->work->rooms.next, struct put_wait, node), &budget, now_ns);
}

/* ---- begin ---- */

/* A new value: nothing has its key. */
static void put_new(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	enum arena_end end = q->put.ttl_s ? ARENA_HIGH : ARENA_LOW;
	struct room *room;
	struct block *b;
	int rc = put_whole(q) ? 0 : stage_allowed(l->session, q->put.total);

	if (rc == 0)
		rc = store_stage(&s->store, q->key.data, q->key.len, q->put.total, end, &b, &room);
	if (rc == 0)
		put_placed(l, q, NULL, b, now_ns);
	else if (rc == -EAGAIN)
		wait_begin(l, q, room, now_ns);
	else
		put_reply(l, q, put_error(s, q->put.total, rc), 0);
}

static void put_first(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct block *holder = store_find(&s->store, q->key.data, q->key.len, now_ns);

	shard_count(s, WIRE_STAT_PUTS);
	if (q->put.total == 0) {
		put_reply(l, q, WIRE_INVALID, 0);
	} else if (q->put.total > s->opt.value_max) {
		put_reply(l, q, put_error(s, q->put.total, -KV_ETOOBIG), 0);
	} else if (holder) {
		uint64_t generation = 0;
		int32_t status = judge_holder(s, holder, q->put.total, q->put.checksum, q->put.ttl_s, &generation);
		put_reply(l, q, status, generation);
	} else {
		put_new(l, q, now_ns);
	}
}

void put_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct stage *st;

	/* WELCOME said so: with this provider a client that dies while it answers a read would take us with it. */
	if (l->session->shard->info.reads_refused && q->put.length > 0 && q->put.inline_data.len == 0) {
		put_reply(l, q, WIRE_NOTSUP, 0);
		return;
	}
	if (q->flags & WIRE_PUT_FIRST) {
		put_first(l, q, now_ns);
		return;
	}
	st = stage_find(l->owner, q->put.stage);
	if (!st)
		put_reply(l, q, WIRE_STALE, 0);
	else if (!range_fits(st, q))
		put_reply(l, q, WIRE_INVALID, 0);
	else
		range_begin(l, q, st, NULL, now_ns);
}
