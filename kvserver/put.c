/* SPDX-License-Identifier: Apache-2.0 */
/* put.c -- PUT: ranges into a private stage, a check of the whole, and a commit that the first one wins.
 *
 * Answers. A range is answered when its bytes are there (and nothing of it is in flight, so that the client's source is
 * free); the last one when the value is whole, checked and committed. A value already there is answered without moving
 * a byte: OK for the same length and checksum, else EXISTS_OTHER. A range whose stage is gone gets what ended it, or
 * STALE if it is not known any more: the client begins again. A small value in one message has no stage: copy, check,
 * commit. */
#include "kvserver/reply.h"
#include "kvserver/shard.h"

static void put_reply(struct link *l, const struct wire_request *q, int32_t status, uint64_t generation)
{
	struct wire_reply r = {.type = WIRE_PUT,
			       .status = status,
			       .id = q->id,
			       .put = {.stage = q->put.stage, .generation = generation}};

	reply_put(l, &r, NULL);
}

static int32_t put_error(struct shard *s, int error)
{
	if (error == -KV_ENOMEM)
		shard_count(s, WIRE_STAT_NOMEM);
	return wire_error_status(error);
}

static uint64_t expires_at(const struct shard *s, uint32_t ttl_s, uint64_t now_ns)
{
	uint64_t ttl_ns = ttl_s ? ttl_s * 1000000000ull : s->opt.ttl_ns;

	return ttl_ns ? kv_deadline(now_ns, ttl_ns) : KV_NEVER;
}

/* Another value has the key already: is it the same? */
static int32_t judge_holder(struct shard *s, const struct block *holder, uint64_t total, uint64_t checksum,
			    uint64_t *out_generation)
{
	if (holder->len == total && holder->checksum == checksum) {
		shard_count(s, WIRE_STAT_PUT_DUPLICATES);
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
		return judge_holder(s, holder, b->len, checksum, out_generation);
	if (rc)
		return put_error(s, rc);
	s->stat[WIRE_STAT_BYTES_WRITTEN] += b->len;
	*out_generation = b->generation;
	return WIRE_OK;
}

/* ---- the last range ---- */

void stage_commit(struct stage *st)
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
	stage_advance(st);
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
		stage_advance(r->put.stage);
}

bool put_cancel(struct request *r)
{
	r->canceled = true;
	request_stop(r);
	if (request_running(r))
		return false;
	range_failed(r, -KV_ECANCELED);
	return true;
}

static void range_move(struct request *r, const struct wire_request *q)
{
	struct region_use *u = session_region_find(r->session, q->dest.region);
	int rc = -KV_EINVAL;

	if (u && !u->revoked && region_holds(u->region, &q->dest) && q->dest.count <= REQUEST_SLICES_MAX) {
		u->refs++;
		r->use = u;
		rc = request_move(r, TE_READ, &q->dest, q->put.offset, q->put.length, NULL);
		if (rc == 0 && !request_posting(r))
			request_posted_now(r);
	}
	if (rc)
		range_failed(r, rc);
}

static void range_begin(struct link *l, const struct wire_request *q, struct stage *st, uint64_t now_ns)
{
	struct request *r = request_new(l, q, now_ns);
	int rc = r ? stage_claim(st, r, q->put.offset, q->put.length) : -KV_EBUSY;

	if (rc) {
		if (r) {
			request_answer(r, wire_error_status(rc));
			request_free(r);
		} else {
			put_reply(l, q, WIRE_BUSY, 0);
		}
		/* A client that is told to come later begins anew: what it has brought would only lie there until it is stale. */
		if ((q->flags & WIRE_PUT_FIRST) || rc == -KV_EBUSY)
			stage_kill(st, WIRE_BUSY, NULL);
		return;
	}
	stage_time(st, r->deadline_ns);
	r->reply.put.stage = st->id;
	r->put.stage = st;
	r->put.offset = q->put.offset;
	r->put.length = q->put.length;
	r->put.flags = q->flags;
	r->done = put_done;
	r->progress = put_progress;
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

/* ---- begin ---- */

static bool range_fits(const struct stage *st, const struct wire_request *q)
{
	const struct index_item *item = &st->block->item;

	return st->total == q->put.total && st->checksum == q->put.checksum && !(st->last && q->flags & WIRE_PUT_LAST) &&
	       item->key_len == q->key.len && memcmp(item->key, q->key.data, q->key.len) == 0;
}

/* The whole value came with the request. */
static void put_small(struct link *l, const struct wire_request *q)
{
	struct shard *s = l->session->shard;
	uint64_t generation = 0;
	struct block *b;
	int32_t status;
	int rc = store_stage(&s->store, q->key.data, q->key.len, q->put.total, &b);

	if (rc) {
		put_reply(l, q, put_error(s, rc), 0);
		return;
	}
	memcpy(store_data(&s->store, b), q->put.inline_data.data, q->put.inline_data.len);
	status = check_and_commit(s, b, kv_hash_block(store_data(&s->store, b), b->len), q->put.checksum, q->put.ttl_s,
				  &generation);
	if (b->state == BLOCK_STAGED)
		store_drop(&s->store, b);
	block_unref(&s->store, b);
	put_reply(l, q, status, generation);
}

static void put_first(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->session->shard;
	struct block *holder = store_find(&s->store, q->key.data, q->key.len, now_ns);
	struct stage *st;
	int rc;

	shard_count(s, WIRE_STAT_PUTS);
	if (q->put.total == 0) {
		put_reply(l, q, WIRE_INVALID, 0);
	} else if (q->put.total > s->opt.value_max) {
		put_reply(l, q, WIRE_TOOBIG, 0);
	} else if (holder) {
		uint64_t generation = 0;
		int32_t status = judge_holder(s, holder, q->put.total, q->put.checksum, &generation);
		put_reply(l, q, status, generation);
	} else if ((q->flags & WIRE_PUT_LAST) && q->put.inline_data.len == q->put.total) {
		put_small(l, q);
	} else {
		rc = stage_open(l->owner, q, now_ns, &st);
		if (rc)
			put_reply(l, q, put_error(s, rc), 0);
		else
			range_begin(l, q, st, now_ns);
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
		range_begin(l, q, st, now_ns);
}
