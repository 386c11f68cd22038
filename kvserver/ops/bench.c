/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- BENCH, the roofline of kv-bench: writes of resident blocks into the client's slices, and nothing else per
 * write.
 *
 * Each write takes the path of a GET below the request (the same transfer, chunk size and links), without a request, a
 * look-up by key or a reply of its own. `depth` lanes each have one write under way and start the next when it is done.
 * The seed picks a block anew for every write, so that the source is as cold as a GET's. The request is answered when
 * the last write is posted, and lives until all are done. Each BENCH takes memory from the allocator: it is no request
 * of production.
 *
 * A write announces itself by its immediate. Where that is a second operation (info.ordered), and one link carries all,
 * the idle lanes start in a burst at the end of the turn, as plain writes, and one immediate behind them announces the
 * burst, like the replies of GETs that came in one frame. Otherwise half of the measured operations would announce, and
 * GET could be faster than bare writes. `posted` counts immediates. An immediate that cannot go behind its writes any
 * more makes the session void: the client would believe that nothing is on its way to its memory. A lane that cannot be
 * part of a burst (its write crosses a border of a region's parts, or nothing else is in flight whose end would try
 * again) goes by itself, with an immediate of its own. */
#include "kvserver/ops/bench.h"

#include <stdlib.h>

#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"

enum { DEPTH_MAX = 256, PICK_TRIES = 64, BURSTS_MAX = 16 };

/* All requests of a shard, all their lanes and all replies that wait may refer to one block. */
_Static_assert((uint64_t)SHARD_REQUESTS_MAX *(DEPTH_MAX + 3) < BLOCK_REFS_MAX, "a block counts its references");

#define OPERATIONS_MAX (1ull << 24)

struct lane {
	struct te_xfer xfer;
	struct bench *bench;
	struct block *block; /* NULL: the lane is idle. Otherwise one reference is ours */
	struct lane *next;   /* of bench.idle */
	bool posting;
	bool quiet; /* part of a burst: its write has no immediate */
};

/* The announcement of a burst. */
struct burst {
	struct te_xfer xfer;
	struct bench *bench;
	bool running;
};

struct bench {
	struct request *request;
	struct wire_dest dest;
	uint64_t left, length;
	uint32_t imm, depth, slice;
	uint32_t posted, running; /* posted: immediates of bursts, and of the lanes that are done */
	bool in_bursts;
	int32_t status;     /* the status that the burst of this turn ended with */
	struct kv_list due; /* in work.benches, while lanes wait to be started at the end of the turn */
	struct lane *idle;
	struct kv_prng prng;
	struct burst burst[BURSTS_MAX];
	struct lane lane[];
};

static uint32_t bench_posted(const struct bench *b)
{
	uint32_t posted = b->posted;

	for (uint32_t i = 0; i < b->depth; i++)
		if (b->lane[i].block && !b->lane[i].quiet)
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

static bool bench_running(const struct request *r)
{
	return r->bench && r->bench->running > 0;
}

static bool bench_block(const struct request *r, unsigned i, struct block **out)
{
	if (!r->bench || i >= r->bench->depth)
		return false;
	*out = r->bench->lane[i].block;
	return true;
}

static void bench_stop(struct request *r)
{
	struct bench *b = r->bench;

	if (!b)
		return;
	b->left = 0;
	kv_list_del(&b->due);
	kv_list_init(&b->due);
	for (uint32_t i = 0; i < b->depth; i++) {
		struct lane *l = &b->lane[i];
		if (l->posting && r->session->shard->te)
			te_xfer_cancel(r->session->shard->te, &l->xfer);
		l->posting = false;
	}
}

static void bench_free(struct request *r)
{
	if (r->bench)
		kv_list_del(&r->bench->due);
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
	if (r->state != REQUEST_ANSWERED && (status != WIRE_OK || !bench_posting(r->bench))) {
		bench_stop(r);
		r->reply.bench.posted = bench_posted(r->bench);
		request_answer(r, status);
	}
	if (r->state == REQUEST_ANSWERED && !request_running(r))
		request_free(r);
}

static void lane_posted(struct te_xfer *x)
{
	struct lane *l = x->arg;

	l->posting = false;
	bench_settle(l->bench->request, WIRE_OK);
}

static int32_t bench_more(struct bench *b);

static void lane_idle(struct lane *l)
{
	l->next = l->bench->idle;
	l->bench->idle = l;
}

static void bench_due(struct bench *b)
{
	if (b->left && kv_list_empty(&b->due))
		kv_list_add_tail(&b->request->session->shard->work->benches, &b->due);
}

/* The status that a write or an announcement ended with. */
static int32_t status_of(int status)
{
	if (status == 0)
		return WIRE_OK;
	return status == -KV_ETIMEOUT ? WIRE_TIMEOUT : status == -KV_ECANCELED ? WIRE_CANCELED : WIRE_FABRIC;
}

static void lane_done(struct te_xfer *x, int status)
{
	struct lane *l = x->arg;
	struct bench *b = l->bench;
	struct request *r = b->request;
	int32_t wire = status_of(status);

	b->posted += l->quiet ? 0 : x->posted;
	if (KV_UNLIKELY(x->completed < x->posted))
		session_lost(r->session, x->posted - x->completed);
	b->running--;
	l->posting = false;
	block_unref(&r->session->shard->store, l->block);
	l->block = NULL;
	lane_idle(l);
	if (wire == WIRE_OK && b->in_bursts)
		bench_due(b);
	else if (wire == WIRE_OK && r->state != REQUEST_ANSWERED)
		wire = bench_more(b);
	bench_settle(r, wire);
}

static void lane_xfer(struct lane *l, const struct block *block)
{
	struct bench *b = l->bench;
	struct request *r = b->request;
	struct shard *s = r->session->shard;

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
}

/* Start the lane's next write, in a burst or by itself. 0, -KV_EBUSY (in a burst only: not now), -KV_ENOTFOUND (no
 * block of that length), or another code. */
static int lane_start(struct lane *l, bool quiet)
{
	struct bench *b = l->bench;
	struct shard *s = b->request->session->shard;
	struct block *block = bench_pick(b);
	int rc;

	if (!block)
		return -KV_ENOTFOUND;
	lane_xfer(l, block);
	if (quiet) {
		l->xfer.link = b->request->link->index;
		l->xfer.ordered = true;
		l->xfer.with_imm = false;
	}
	rc = te_xfer_start(s->te, &l->xfer);
	if (rc < 0)
		return rc;
	b->idle = l->next;
	l->quiet = quiet;
	l->posting = rc == 0;
	l->block = block;
	block_ref(block);
	b->running++;
	b->left--;
	b->slice = (b->slice + 1) % b->dest.count;
	s->stat[WIRE_STAT_BYTES_READ] += b->length;
	return 0;
}

static int32_t start_status(int rc)
{
	if (rc == 0 || rc == -KV_EBUSY)
		return WIRE_OK;
	return rc == -KV_ENOTFOUND ? WIRE_NOTFOUND : rc == -KV_EINVAL ? WIRE_INVALID : WIRE_FABRIC;
}

/* Start the idle lanes, each by itself. */
static int32_t bench_more(struct bench *b)
{
	int rc = 0;

	if (!b->request->session->shard->te)
		return WIRE_CLOSING;
	while (rc == 0 && b->left && b->idle)
		rc = lane_start(b->idle, false);
	return start_status(rc);
}

/* ---- bursts ---- */

static void burst_done(struct te_xfer *x, int status)
{
	struct burst *u = x->arg;
	struct bench *b = u->bench;
	struct request *r = b->request;

	u->running = false;
	b->running--;
	if (KV_UNLIKELY(x->completed < x->posted))
		session_lost(r->session, 1);
	bench_due(b);
	bench_settle(r, status_of(status));
}

static struct burst *burst_free(struct bench *b)
{
	for (unsigned i = 0; i < BURSTS_MAX; i++)
		if (!b->burst[i].running)
			return &b->burst[i];
	return NULL;
}

static bool burst_announce(struct burst *u)
{
	struct bench *b = u->bench;
	struct request *r = b->request;

	u->xfer = (struct te_xfer){
		.dir = TE_WRITE,
		.peer = r->session->peer,
		.link = r->link->index,
		.local = r->session->shard->region,
		.remote = &r->use->region->remote,
		.at = {.offset = b->dest.offset, .count = 1},
		.ordered = true,
		.with_imm = true,
		.imm = b->imm,
		.deadline_ns = r->deadline_ns,
		.done = burst_done,
		.arg = u,
	};
	if (te_xfer_start(r->session->shard->te, &u->xfer) != 1)
		return false;
	u->running = true;
	b->running++;
	b->posted++;
	return true;
}

static int32_t bench_burst(struct bench *b)
{
	struct burst *u = burst_free(b);
	uint32_t writes = 0;
	int rc = 0;

	if (!u)
		return WIRE_OK;
	while (b->left && b->idle && (rc = lane_start(b->idle, true)) == 0)
		writes++;
	if (writes && !burst_announce(u)) {
		session_lost(b->request->session, writes);
		return WIRE_FABRIC;
	}
	if (rc == -KV_EBUSY && b->running == 0)
		rc = lane_start(b->idle, false);
	return start_status(rc);
}

void bench_turn(struct shard *s)
{
	struct kv_list due, *n;

	kv_list_init(&due);
	kv_list_splice_tail(&due, &s->work->benches);
	if (s->te)
		te_order_begin(s->te);
	KV_LIST_EACH (i, &due) {
		struct bench *b = KV_LIST_ENTRY(i, struct bench, due);
		b->status = s->te ? bench_burst(b) : WIRE_CLOSING;
	}
	if (s->te)
		te_order_end(s->te);
	while ((n = kv_list_pop(&due))) {
		struct bench *b = KV_LIST_ENTRY(n, struct bench, due);
		kv_list_init(&b->due);
		if (b->idle)
			bench_due(b); /* the end of a write or of an announcement makes room */
		bench_settle(b->request, b->status);
	}
}

static void bench_cancel(struct request *r)
{
	request_stop(r);
	r->reply.bench.posted = bench_posted(r->bench);
	request_end(r, WIRE_CANCELED);
}

static const struct request_ops bench_ops = {
	.free = bench_free,
	.cancel = bench_cancel,
	.stop = bench_stop,
	.running = bench_running,
	.block = bench_block,
};

static int32_t bench_check(struct link *l, const struct wire_request *q, const struct region_use *u)
{
	if (!l->session->shard->opt.allow_bench)
		return WIRE_NOTSUP;
	if (!u || q->bench.length == 0 || q->bench.length > q->dest.slice)
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
	kv_list_init(&b->due);
	b->in_bursts = r->session->shard->info.ordered && r->session->links == 1;
	kv_prng_seed(&b->prng, q->bench.seed);
	for (uint32_t i = 0; i < BURSTS_MAX; i++)
		b->burst[i].bench = b;
	for (uint32_t i = depth; i-- > 0;) {
		b->lane[i].bench = b;
		lane_idle(&b->lane[i]);
	}
	return b;
}

void bench_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct region_use *u = regions_usable(&l->session->regions, &q->dest);
	struct wire_reply reply = {.type = WIRE_BENCH, .id = q->id, .status = bench_check(l, q, u)};
	struct request *r = reply.status == WIRE_OK ? request_new(l, q, &bench_ops, now_ns) : NULL;
	int32_t status = WIRE_OK;

	if (!r) {
		reply.status = reply.status == WIRE_OK ? WIRE_BUSY : reply.status;
		reply_put(l, &reply, NULL);
		return;
	}
	r->bench = bench_new(r, q);
	if (!r->bench) {
		request_end(r, WIRE_NOMEM);
		return;
	}
	r->use = region_use_keep(u);
	if (r->bench->in_bursts)
		bench_due(r->bench);
	else
		status = bench_more(r->bench);
	bench_settle(r, status);
}
