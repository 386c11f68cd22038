/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c -- values that arrive in ranges, in any order, and are summed as they come.
 *
 *   stage_open --> FILLING --LAST begins--> ENDING --LAST arrived--> ENDED --all is summed--> committed, freed
 *                  +------------------------+------------------------+--stage_kill--> freed
 *
 * stage_enter changes the state of a stage, range_enter that of a request for a range (drawn in put.c). stage_advance
 * decides the next step after every change.
 *
 * Every byte is claimed by exactly one request, once, so nothing changes under the checksum. One request alone ends the
 * value. A failed range ends the whole stage, and the client begins again. The checksum runs over the gapless prefix,
 * including the front of a moving range (te_xfer.contiguous), a bounded number of bytes per turn. A failed or cancelled
 * range, a wrong checksum, the latest deadline of its ranges, a minute without progress, or the attachment's end kills
 * a stage. Its memory stays (GONE, quarantined) while transfers into it hold references. */
#include "kvserver/ops/stage.h"

#include "kvserver/ops/private.h"
#include "kvserver/ops/put_commit.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/request.h"

/* ---- begin ---- */

/* At most KEPT_STAGES of a shard's memory may be staged: the rest serves readers. One attachment may stage 1/2, so that
 * one client's abandoned PUTs do not stop all others, and one tenant the rest beside the others' shares.
 * shard_keep_left bounds stages, pins and leases together. A single value may be larger. */
int stage_allowed(const struct session *o, uint64_t total)
{
	const struct shard_attachment *s = o->attachment;
	const struct shard *shard = s->shard;
	const struct store *st = &shard->store;
	uint64_t size = arena_round(total), limit = st->arena.limit;
	if (s->stage_count == ATTACHMENT_STAGES_MAX ||
	    (st->staged_bytes && st->staged_bytes + size > kept_part(KEPT_STAGES, limit)) ||
	    (s->staged_bytes && s->staged_bytes + size > limit / ATTACHMENT_STAGE_SHARE))
		return -KV_EBUSY;
	if (o->tenant && st->staged_bytes && !tenant_may_keep(st, o->tenant, KEPT_STAGES, size))
		return -KV_EBUSY;
	while (size > shard_keep_left(shard) && pins_leaving(&shard->store))
		(void)pins_sweep(&s->shard->store, PINS_AT_ONCE);
	if (shard_kept(shard) == 0 || size <= shard_keep_left(shard))
		return 0;
	return st->staged_bytes || shard->leased_bytes ? -KV_EBUSY : -KV_ENOMEM;
}

void stage_count(struct session *o, uint64_t bytes)
{
	o->attachment->staged_bytes += bytes;
	if (o->tenant)
		tenant_keep(&o->attachment->shard->store.tenancy, o->tenant, KEPT_STAGES, bytes);
}

void stage_uncount(struct session *o, uint64_t bytes)
{
	o->attachment->staged_bytes -= bytes;
	if (o->tenant)
		tenant_release(&o->attachment->shard->store.tenancy, o->tenant, KEPT_STAGES, bytes);
}

int stage_open(struct session *o, const struct wire_request *q, struct block *b, uint64_t now_ns, struct stage **out)
{
	struct shard_attachment *s = o->attachment;
	struct shard *shard = s->shard;
	struct stage *st = s->stage_count == ATTACHMENT_STAGES_MAX ? NULL : slab_get(&shard->work->stages);
	if (!st)
		return -KV_EBUSY;
	memset(st, 0, offsetof(struct stage, extent)); /* the extents are many, and none is in use */
	st->attachment = s;
	st->session = o;
	st->id = kv_prng_next(loop_prng(shard->loop)) | 1;
	st->total = q->put.total;
	st->checksum = q->put.checksum;
	st->touched_ns = now_ns;
	st->ttl_s = q->put.ttl_s;
	st->born_ns = put_born(shard, q);
	st->spare = q->flags & WIRE_PUT_SPARE;
	st->sum_last = q->flags & WIRE_PUT_SUM_LAST;
	st->block = b;
	kv_hasher_init(&st->hasher);
	kv_list_init(&st->hashing);
	kv_list_add_tail(&s->stages, &st->node);
	s->stage_count++;
	st->size = st->block->mem->size;
	stage_count(o, st->size);
	*out = st;
	return 0;
}

static void stage_enter(struct stage *st, enum stage_state to)
{
	KV_ASSERT_HOT(to == st->state + 1);
	st->state = to;
}

struct stage *stage_find(const struct session *o, uint64_t id)
{
	KV_LIST_EACH (n, &o->attachment->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (st->id == id && st->session == o)
			return st;
	}
	return NULL;
}

/* ---- extents ---- */

/* Claim [offset, offset + length) for this request. 0; -KV_EINVAL (overlaps another), -KV_EBUSY (too scattered). */
static int extent_claim(struct stage *st, struct request *r, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;
	unsigned i = 0;
	if (length == 0)
		return 0;
	while (i < st->extents && st->extent[i].to <= offset)
		i++;
	if (i < st->extents && st->extent[i].from < end)
		return -KV_EINVAL;
	if (st->extents == STAGE_EXTENTS)
		return -KV_EBUSY;
	memmove(&st->extent[i + 1], &st->extent[i], (st->extents - i) * sizeof(st->extent[0]));
	st->extents++;
	st->extent[i] = (struct extent){offset, end, r};
	return 0;
}

static void extent_join(struct stage *st, unsigned i)
{
	struct extent *a = &st->extent[i], *b = a + 1;
	if (i + 1 >= st->extents || a->by || b->by || a->to != b->from)
		return;
	a->to = b->to;
	st->extents--;
	memmove(b, b + 1, (st->extents - (i + 1)) * sizeof(*b));
}

static void extent_arrived(struct stage *st, const struct request *r)
{
	st->touched_ns = loop_turn_now(st->attachment->shard->loop);
	for (unsigned i = 0; i < st->extents; i++) {
		if (st->extent[i].by != r)
			continue;
		st->extent[i].by = NULL;
		extent_join(st, i);
		if (i > 0)
			extent_join(st, i - 1);
		break;
	}
}

/* The length of the gapless prefix. */
static uint64_t stage_prefix(const struct stage *st)
{
	uint64_t prefix = 0;
	for (unsigned i = 0; i < st->extents; i++) {
		const struct extent *e = &st->extent[i];
		if (e->from != prefix)
			break;
		if (e->by)
			return prefix + request_contiguous(e->by);
		prefix = e->to;
	}
	return prefix;
}

/* ---- end ---- */

static void range_enter(struct request *r, enum put_state to)
{
	KV_ASSERT_HOT(to > r->put.state);
	r->put.state = (uint8_t)to;
}

static bool range_of(const struct request *r, const struct stage *st)
{
	return r->type == WIRE_PUT && (r->put.state == PUT_MOVING || r->put.state == PUT_LAST) && r->put.stage == st;
}

static void stage_free(struct stage *st)
{
	struct shard *shard = st->attachment->shard;
	kv_list_del(&st->hashing);
	kv_list_del(&st->node);
	st->attachment->stage_count--;
	stage_uncount(st->session, st->size);
	block_unref(&shard->store, st->block);
	slab_put(&shard->work->stages, st);
}

void stage_kill(struct stage *st, int32_t status, const struct request *but)
{
	struct shard_attachment *s = st->attachment;
	struct request *last = st->last;
	KV_LIST_EACH (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (!range_of(r, st))
			continue;
		range_enter(r, PUT_LOST);
		r->put.lost = status;
		if (r != but)
			request_stop(r);
	}
	store_drop(&s->shard->store, st->block);
	stage_free(st);
	/* The range waiting for the others has nothing in flight, so no transfer's end would answer it. */
	if (last && last != but)
		request_end(last, status);
}

/* The value is whole: check, make visible, answer st->last. Ends the stage. */
static void stage_commit(struct stage *st)
{
	struct request *last = st->last;
	struct shard *s = st->attachment->shard;
	struct block *b = st->block;
	uint64_t generation = 0;
	int32_t status =
		put_commit(s, b, kv_hasher_digest(&st->hasher), st->checksum, st->ttl_s, st->born_ns, &generation);
	if (KV_UNLIKELY(st->spare) && b->state == BLOCK_LIVE)
		store_last(&s->store, b);
	if (b->state == BLOCK_STAGED)
		store_drop(&s->store, b);
	stage_free(st);
	put_answer(last->link, NULL, last, status, generation);
}

/* ---- progress ---- */

void stage_advance(struct stage *st)
{
	if (st->state == STAGE_ENDED && st->hashed == st->total)
		stage_commit(st);
	else if (stage_prefix(st) > st->hashed && kv_list_empty(&st->hashing))
		kv_list_add_tail(&st->attachment->shard->work->hashing, &st->hashing);
}

void stage_hash(struct stage *st, uint64_t *budget)
{
	uint64_t prefix = stage_prefix(st), n = KV_MIN(prefix - st->hashed, *budget);
	kv_hasher_update(&st->hasher, store_data(&st->attachment->shard->store, st->block) + st->hashed, n);
	st->hashed += n;
	*budget -= n;
	st->touched_ns = loop_turn_now(st->attachment->shard->loop);
	kv_list_del(&st->hashing);
	stage_advance(st);
}

/* ---- ranges ---- */

static int32_t range_failure(const struct request *r, int error)
{
	if (r->put.state == PUT_LOST)
		return r->put.lost;
	if (r->state == REQUEST_STOPPED || error == -KV_ECANCELED)
		return WIRE_CANCELED;
	if (error == -KV_EINVAL)
		return WIRE_INVALID;
	return error == -KV_ETIMEOUT || loop_turn_now(r->attachment->shard->loop) >= r->deadline_ns ? WIRE_TIMEOUT
												    : WIRE_FABRIC;
}

static void range_failed(struct request *r, int error)
{
	int32_t status = range_failure(r, error);
	if (r->put.state != PUT_LOST)
		stage_kill(r->put.stage, status, r);
	request_end(r, status);
}

/* May end the stage. */
static void range_arrived(struct request *r)
{
	struct stage *st = r->put.stage;
	extent_arrived(st, r);
	if (r->put.ends) {
		range_enter(r, PUT_LAST);
		stage_enter(st, STAGE_ENDED);
		st->last = r;
	} else {
		request_end(r, WIRE_OK);
	}
	stage_advance(st);
}

static void range_done(struct request *r)
{
	int status = request_status(r);
	if (status || r->put.state == PUT_LOST || r->state == REQUEST_STOPPED)
		range_failed(r, status);
	else
		range_arrived(r);
}

static void range_progress(struct request *r)
{
	if (r->put.state != PUT_LOST)
		stage_advance(r->put.stage);
}

static void range_cancel(struct request *r)
{
	request_stop(r);
	if (!request_running(r)) /* otherwise it is answered when nothing is in flight any more */
		range_failed(r, -KV_ECANCELED);
}

static const struct request_ops range_ops = {
	.done = range_done,
	.progress = range_progress,
	.cancel = range_cancel,
};

static void range_join(struct request *r, struct stage *st, bool ends)
{
	range_enter(r, PUT_MOVING);
	r->ops = &range_ops;
	r->reply.put.stage = st->id;
	r->put.stage = st;
	r->put.ends = ends;
	r->block = st->block;
	block_ref(r->block);
}

static void range_move(struct request *r, const struct wire_request *q)
{
	struct region_use *u = regions_usable(&r->attachment->regions, &q->dest);
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

/* Answer a range that cannot begin. */
static void range_refuse(struct link *l, const struct wire_request *q, struct stage *st, struct request *r, int rc)
{
	if (r) {
		request_end(r, wire_error_status(rc));
	} else {
		put_reply(l, q, WIRE_BUSY, 0);
	}
	/* A client told to come later begins anew: its bytes here would only become stale. */
	if ((q->flags & WIRE_PUT_FIRST) || rc == -KV_EBUSY)
		stage_kill(st, WIRE_BUSY, NULL);
}

/* Those next in the value are summed on the way: all earlier ones are summed. */
static void range_copy(struct stage *st, const struct wire_request *q)
{
	uint8_t *to = store_data(&st->attachment->shard->store, st->block) + q->put.offset;
	const struct wire_bytes *from = &q->put.inline_data;
	if (st->hashed != q->put.offset || q->put.offset % COPY_ALIGN) {
		memcpy(to, from->data, from->len);
		return;
	}
	copy_sum(&st->hasher, to, from->data, from->len);
	st->hashed += from->len;
}

/* Begin a range. r: the request that waited for the stage's memory; NULL: none yet. */
static void range_begin(struct link *l, const struct wire_request *q, struct stage *st, struct request *r,
			uint64_t now_ns)
{
	int rc;
	r = r ? r : request_new(l, q, &range_ops, now_ns);
	rc = r ? extent_claim(st, r, q->put.offset, q->put.length) : -KV_EBUSY;
	if (rc) {
		range_refuse(l, q, st, r, rc);
		return;
	}
	st->deadline_ns = KV_MAX(st->deadline_ns, r->deadline_ns);
	if (q->flags & WIRE_PUT_LAST) {
		stage_enter(st, STAGE_ENDING);
		st->checksum = q->put.checksum;
	}
	range_join(r, st, q->flags & WIRE_PUT_LAST);
	if (q->put.inline_data.len)
		range_copy(st, q);
	if (q->put.inline_data.len || q->put.length == 0)
		range_arrived(r);
	else
		range_move(r, q);
}

static bool range_fits(const struct stage *st, const struct wire_request *q)
{
	const struct index_item *item = &st->block->item;
	return st->total == q->put.total && (st->sum_last || st->checksum == q->put.checksum) &&
	       !(st->state != STAGE_FILLING && q->flags & WIRE_PUT_LAST) && item->key_len == q->key.len &&
	       memcmp(item->key, q->key.data, q->key.len) == 0;
}

int stage_begin(struct link *l, const struct wire_request *q, struct request *r, struct block *b, uint64_t now_ns)
{
	struct stage *st;
	int rc = stage_open(r ? r->session : l->session, q, b, now_ns, &st);
	if (rc == 0)
		range_begin(l, q, st, r, now_ns);
	return rc;
}

void stage_range(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct stage *st = stage_find(l->session, q->put.stage);
	if (!st)
		put_reply(l, q, WIRE_STALE, 0);
	else if (!range_fits(st, q))
		put_reply(l, q, WIRE_INVALID, 0);
	else
		range_begin(l, q, st, NULL, now_ns);
}

/* ---- stages of an attachment ---- */

void stages_drop(struct shard_attachment *s)
{
	while (!kv_list_empty(&s->stages))
		stage_kill(KV_LIST_ENTRY(s->stages.next, struct stage, node), WIRE_CANCELED, NULL);
}

void stages_drop_session(struct shard_attachment *s, const struct session *o)
{
	KV_LIST_EACH_SAFE (n, &s->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (st->session == o)
			stage_kill(st, WIRE_CANCELED, NULL);
	}
}

void stages_tick(struct shard_attachment *s, uint64_t now_ns)
{
	KV_LIST_EACH_SAFE (n, &s->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (now_ns < st->deadline_ns && now_ns < st->touched_ns + SHARD_STAGE_IDLE_NS)
			continue;
		shard_count(s->shard, WIRE_STAT_STAGES_EXPIRED);
		stage_kill(st, WIRE_TIMEOUT, NULL);
	}
}
