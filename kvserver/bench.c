/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- BENCH, the roofline: writes of resident blocks into the client's slices, and nothing else per write.
 *
 * The path below is that of GET (the same transfer, chunk size, links and immediates); above it there is no request, no
 * look-up by key, no reply per write. `depth` lanes each have one write under way and start the next when it is done.
 * Blocks are picked by the seed, anew for every write, so that the source is as cold as a GET's. Answered when the last
 * write is posted; lives until all are done. One allocation per BENCH: it is no request of production. */
#include <stdlib.h>

#include "kvserver/reply.h"
#include "kvserver/shard.h"

enum { DEPTH_MAX = 256, PICK_TRIES = 64 };

/* All requests of a shard, all their lanes and all replies that wait may be over one block. */
_Static_assert((uint64_t)SHARD_REQUESTS_MAX * (DEPTH_MAX + 3) < BLOCK_REFS_MAX, "a block counts its references");

#define OPERATIONS_MAX (1ull << 24)

struct lane {
	struct te_xfer xfer;
	struct bench *bench;
	struct block *block; /* NULL: idle; else one reference is ours */
	bool posting;
};

struct bench {
	struct request *request;
	struct wire_dest dest;
	uint64_t left, length;
	uint32_t imm, depth, slice;
	uint32_t posted, running; /* posted: of the lanes that are done */
	struct kv_prng prng;
	struct lane lane[];
};

static uint32_t bench_posted(const struct bench *b)
{
	uint32_t posted = b->posted;

	for (uint32_t i = 0; i < b->depth; i++)
		if (b->lane[i].block)
			posted += b->lane[i].xfer.posted;
	return posted;
}

static bool bench_posting(const struct bench *b)
{
	for (uint32_t i = 0; i < b->depth; i++)
		if (b->lane[i].posting)
			return true;
	return b->left > 0;
}

bool bench_running(const struct request *r)
{
	return r->bench && r->bench->running > 0;
}

bool bench_block(const struct request *r, unsigned i, struct block **out)
{
	if (!r->bench || i >= r->bench->depth)
		return false;
	*out = r->bench->lane[i].block;
	return true;
}

void bench_stop(struct request *r)
{
	struct bench *b = r->bench;

	if (!b)
		return;
	b->left = 0;
	for (uint32_t i = 0; i < b->depth; i++) {
		struct lane *l = &b->lane[i];
		if (l->posting && r->session->shard->te)
			te_xfer_cancel(r->session->shard->te, &l->xfer);
		l->posting = false;
	}
}

void bench_free(struct request *r)
{
	free(r->bench);
	r->bench = NULL;
}

static struct block *bench_pick(struct bench *b)
{
	struct store *st = &b->request->session->shard->store;

	for (unsigned i = 0; i < PICK_TRIES; i++) {
		struct index_item *item = index_near(&st->index, kv_prng_next(&b->prng));
		struct block *block = item ? KV_CONTAINER(item, struct block, item) : NULL;
		if (block && block->len >= b->length)
			return block;
	}
	return NULL;
}

/* Answer once posting is final; free once nothing is in flight. */
static void bench_settle(struct request *r, int32_t status)
{
	if (!r->answered && (status != WIRE_OK || !bench_posting(r->bench))) {
		bench_stop(r);
		r->reply.bench.posted = bench_posted(r->bench);
		request_answer(r, status);
	}
	if (r->answered && !request_running(r))
		request_free(r);
}

static void lane_posted(struct te_xfer *x)
{
	struct lane *l = x->arg;

	l->posting = false;
	bench_settle(l->bench->request, WIRE_OK);
}

static int32_t lane_next(struct lane *l);

static void lane_done(struct te_xfer *x, int status)
{
	struct lane *l = x->arg;
	struct bench *b = l->bench;
	struct request *r = b->request;
	int32_t wire = WIRE_OK;

	b->posted += x->posted;
	if (KV_UNLIKELY(x->completed < x->posted))
		session_lost(r->session, x->posted - x->completed);
	b->running--;
	l->posting = false;
	block_unref(&r->session->shard->store, l->block);
	l->block = NULL;
	if (status)
		wire = status == -KV_ETIMEOUT ? WIRE_TIMEOUT : status == -KV_ECANCELED ? WIRE_CANCELED : WIRE_FABRIC;
	else if (b->left && !r->answered)
		wire = lane_next(l);
	bench_settle(r, wire);
}

/* Start the lane's next write. */
static int32_t lane_next(struct lane *l)
{
	struct bench *b = l->bench;
	struct request *r = b->request;
	struct shard *s = r->session->shard;
	struct block *block = bench_pick(b);
	int rc;

	if (!block)
		return WIRE_NOTFOUND;
	if (!s->te)
		return WIRE_CLOSING;
	l->xfer = (struct te_xfer){
		.dir = TE_WRITE,
		.peer = r->session->peer,
		.link = TE_LINK_ANY,
		.local = s->region,
		.local_offset = block->offset,
		.remote = &r->use->region->remote,
		.at = {.offset = b->dest.offset + b->slice * b->dest.stride, .slice = b->length, .count = 1},
		.with_imm = true,
		.imm = b->imm,
		.deadline_ns = r->deadline_ns,
		.posting_done = lane_posted,
		.done = lane_done,
		.arg = l,
	};
	rc = te_xfer_start(s->te, &l->xfer);
	if (rc < 0)
		return rc == -KV_EINVAL ? WIRE_INVALID : WIRE_FABRIC;
	l->posting = rc == 0;
	l->block = block;
	block_ref(block);
	b->running++;
	b->left--;
	b->slice = (b->slice + 1) % b->dest.count;
	s->stat[WIRE_STAT_BYTES_READ] += b->length;
	return WIRE_OK;
}

uint32_t bench_cancel(struct request *r)
{
	uint32_t posted;

	r->canceled = true;
	bench_stop(r);
	r->reply.bench.posted = posted = bench_posted(r->bench);
	request_answer(r, WIRE_CANCELED);
	if (!request_running(r))
		request_free(r);
	return posted;
}

static int32_t bench_check(struct link *l, const struct wire_request *q, const struct region_use *u)
{
	if (!l->session->shard->opt.allow_bench)
		return WIRE_NOTSUP;
	if (!u || u->revoked || !region_holds(u->region, &q->dest) || q->bench.length == 0 ||
	    q->bench.length > q->dest.slice)
		return WIRE_INVALID;
	return q->bench.operations == 0 || q->bench.operations > OPERATIONS_MAX ? WIRE_INVALID : WIRE_OK;
}

static struct bench *bench_new(struct request *r, const struct wire_request *q)
{
	uint32_t depth = KV_MIN(KV_MAX(q->bench.depth, 1u), (uint32_t)DEPTH_MAX);
	struct bench *b = calloc(1, sizeof(*b) + depth * sizeof(b->lane[0]));

	if (!b)
		return NULL;
	b->request = r;
	b->dest = q->dest;
	b->left = q->bench.operations;
	b->length = q->bench.length;
	b->imm = q->bench.imm;
	b->depth = depth;
	kv_prng_seed(&b->prng, q->bench.seed);
	for (uint32_t i = 0; i < depth; i++)
		b->lane[i].bench = b;
	return b;
}

void bench_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct region_use *u = session_region_find(l->session, q->dest.region);
	struct wire_reply reply = {.type = WIRE_BENCH, .id = q->id, .status = bench_check(l, q, u)};
	struct request *r = reply.status == WIRE_OK ? request_new(l, q, now_ns) : NULL;
	int32_t status = WIRE_OK;

	if (!r) {
		reply.status = reply.status == WIRE_OK ? WIRE_BUSY : reply.status;
		reply_put(l, &reply, NULL);
		return;
	}
	r->bench = bench_new(r, q);
	if (!r->bench) {
		request_answer(r, WIRE_NOMEM);
		request_free(r);
		return;
	}
	r->use = u;
	u->refs++;
	for (uint32_t i = 0; status == WIRE_OK && i < r->bench->depth && r->bench->left; i++)
		status = lane_next(&r->bench->lane[i]);
	bench_settle(r, status);
}
