/* SPDX-License-Identifier: Apache-2.0 */
/* stage.c -- values that arrive in ranges, in any order, and are summed up as they come.
 *
 * Every byte is claimed by exactly one request, and claimed once: a second range over the same bytes is refused, so
 * that nothing can change under the checksum after it was summed up. Therefore a range that fails ends the whole stage;
 * the client begins again. (Rejected: retrying a range, which needs the hash state from before it.) The checksum runs
 * over the prefix that is there without a gap, including the front of a range that is still moving
 * (te_xfer.contiguous), a bounded number of bytes per turn of the loop.
 *
 * Ends: committed; or killed by a failed or cancelled range, a wrong checksum, the deadline of the call (the latest
 * that one of its ranges named: afterwards nobody waits for it), a minute without progress, or the session's end. A
 * killed stage's memory stays (GONE, quarantined) until the transfers into it are over, because each of their requests
 * holds a reference. */
#include "kvserver/ops/stage.h"

#include "kvserver/ops/work.h"
#include "kvserver/shard/request.h"

/* ---- begin ---- */

/* At most 3/4 of a shard's memory may be staged: the rest serves readers; and 1/2 by one session, so that nobody's
 * abandoned PUTs keep all others from writing. With pins and leases together it is at most what shard_keep_left allows.
 * One value alone may be larger. */
int stage_allowed(const struct session *s, uint64_t total)
{
	const struct shard *shard = s->shard;
	const struct store *st = &shard->store;
	uint64_t size = arena_round(total), limit = st->arena.limit;

	if (s->stage_count == SESSION_STAGES_MAX || (st->staged_bytes && st->staged_bytes + size > limit / 4 * 3) ||
	    (s->staged_bytes && s->staged_bytes + size > limit / SESSION_STAGE_SHARE))
		return -KV_EBUSY;
	if (shard_kept(shard) == 0 || size <= shard_keep_left(shard))
		return 0;
	return st->staged_bytes || shard->leased_bytes ? -KV_EBUSY : -KV_ENOMEM;
}

int stage_open(struct owner *o, const struct wire_request *q, struct block *b, uint64_t now_ns, struct stage **out)
{
	struct session *s = o->session;
	struct shard *shard = s->shard;
	struct stage *st = s->stage_count == SESSION_STAGES_MAX ? NULL : slab_get(&shard->work->stages);

	if (!st)
		return -KV_EBUSY;
	memset(st, 0, offsetof(struct stage, extent)); /* the extents are many, and none is in use */
	st->session = s;
	st->owner = o;
	st->id = kv_prng_next(loop_prng(shard->loop)) | 1;
	st->total = q->put.total;
	st->checksum = q->put.checksum;
	st->touched_ns = now_ns;
	st->ttl_s = q->put.ttl_s;
	st->block = b;
	kv_hasher_init(&st->hasher);
	kv_list_init(&st->hashing);
	kv_list_add_tail(&s->stages, &st->node);
	s->stage_count++;
	st->size = st->block->mem->size;
	s->staged_bytes += st->size;
	*out = st;
	return 0;
}

struct stage *stage_find(const struct owner *o, uint64_t id)
{
	KV_LIST_EACH (n, &o->session->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (st->id == id && st->owner == o)
			return st;
	}
	return NULL;
}

/* ---- extents ---- */

static void extent_remove(struct stage *st, unsigned i)
{
	st->extents--;
	memmove(&st->extent[i], &st->extent[i + 1], (st->extents - i) * sizeof(st->extent[0]));
}

int stage_claim(struct stage *st, struct request *r, uint64_t offset, uint64_t length)
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

/* Join extent i + 1 to extent i if both are there and touch. */
static void extent_join(struct stage *st, unsigned i)
{
	struct extent *a = &st->extent[i], *b = a + 1;

	if (i + 1 >= st->extents || a->by || b->by || a->to != b->from)
		return;
	a->to = b->to;
	extent_remove(st, i + 1);
}

void stage_arrived(struct stage *st, struct request *r)
{
	st->touched_ns = loop_turn_now(st->session->shard->loop);
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

/* How many bytes from the start are there. */
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

/* ---- progress ---- */

bool stage_advance(struct stage *st)
{
	if (st->last && st->hashed == st->total)
		return true;
	if (stage_prefix(st) > st->hashed && kv_list_empty(&st->hashing))
		kv_list_add_tail(&st->session->shard->work->hashing, &st->hashing);
	return false;
}

bool stage_hash(struct stage *st, uint64_t *budget)
{
	uint64_t prefix = stage_prefix(st), n = KV_MIN(prefix - st->hashed, *budget);

	kv_hasher_update(&st->hasher, store_data(&st->session->shard->store, st->block) + st->hashed, n);
	st->hashed += n;
	*budget -= n;
	st->touched_ns = loop_turn_now(st->session->shard->loop);
	kv_list_del(&st->hashing);
	return stage_advance(st);
}

/* ---- end ---- */

void stage_free(struct stage *st)
{
	struct shard *shard = st->session->shard;

	kv_list_del(&st->hashing);
	kv_list_del(&st->node);
	st->session->stage_count--;
	st->session->staged_bytes -= st->size;
	block_unref(&shard->store, st->block);
	slab_put(&shard->work->stages, st);
}

void stage_kill(struct stage *st, int32_t status, const struct request *but)
{
	struct session *s = st->session;
	struct request *last = st->last;

	KV_LIST_EACH (n, &s->requests) {
		struct request *r = KV_LIST_ENTRY(n, struct request, node);
		if (r->type != WIRE_PUT || r->put.stage != st)
			continue;
		r->put.stage = NULL;
		r->put.failed = status;
		if (r != but)
			request_stop(r);
	}
	store_drop(&s->shard->store, st->block);
	stage_free(st);
	/* The one that waited for the others has nothing in flight: nobody else would answer it. */
	if (last && last != but) {
		if (!last->answered)
			request_answer(last, status);
		request_free(last);
	}
}

void stages_drop(struct session *s)
{
	while (!kv_list_empty(&s->stages))
		stage_kill(KV_LIST_ENTRY(s->stages.next, struct stage, node), WIRE_CANCELED, NULL);
}

void stages_drop_owner(struct session *s, const struct owner *o)
{
	KV_LIST_EACH_SAFE (n, &s->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (st->owner == o)
			stage_kill(st, WIRE_CANCELED, NULL);
	}
}

void stages_tick(struct session *s, uint64_t now_ns)
{
	KV_LIST_EACH_SAFE (n, &s->stages) {
		struct stage *st = KV_LIST_ENTRY(n, struct stage, node);
		if (now_ns < st->deadline_ns && now_ns < st->touched_ns + SHARD_STAGE_IDLE_NS)
			continue;
		shard_count(s->shard, WIRE_STAT_STAGES_EXPIRED);
		stage_kill(st, WIRE_TIMEOUT, NULL);
	}
}
