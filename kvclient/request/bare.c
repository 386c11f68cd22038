/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c -- bare writes to a landing area, the roofline of PUT.
 *
 * Each lane has a piece of the area and a write in flight. On TCP a write is done when the bytes have left this
 * process, so a piece may be written while its last bytes are on their way; nobody reads them. That all have arrived is
 * known by a message behind them (call/raw.c). Values longer than what lands at once go in as many writes as those of a
 * PUT, one after the other.
 *
 * The writes of a turn go as a frame of PUTs does: ordered writes, and one thing behind them that the server notices.
 * That is an empty immediate here, on which the server does nothing. Without it, a server that has nothing else to do
 * would go to sleep between two writes, and bare writes would be slower than PUTs. A write that cannot be part of that
 * while nothing is in flight goes by itself.
 *
 * The pieces are taken from the area, so that PUTs of other callers are as safe as ever, and wait if there is no piece
 * left. They go back when a message behind the writes was answered on each link. Else (the time was up) bytes may still
 * be on their way, and a PUT over another link would overtake them: such a piece is not used again while the attachment
 * lasts, as that of a PUT without an answer is not. (That a connection is replaced between a write and the message is
 * left to the checksums of PUTs.) Each run takes memory from the allocator: it is no request of production.
 *
 * A write is the engine's until it is done, as a write of a PUT is (landing.c), and may outlive the call. So the run
 * lives until the last one is done. Until then it has a reference to its attachment, whose keys the writes need, and to
 * the memory that they read. If the server dies, the engine ends them. */
#include "kvclient/request/bare.h"

#include <stdlib.h>

#include "kvclient/request/attachment.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/link.h"

enum { LANES_MAX = 1024, BURSTS = 16, SOURCE_STEP = 4096 /* values begin at multiples of it, as a PUT's do */ };

struct lane {
	struct te_xfer xfer;
	struct kvc_bare *bare;
	struct kvc_piece piece;
	struct kvc_link *link;
	bool busy, written;
};

/* What goes behind the writes of a turn. */
struct burst {
	struct te_xfer xfer;
	struct kvc_bare *bare;
	bool busy;
};

struct kvc_bare {
	struct kvc_attachment *attachment;
	unsigned shard;
	struct kvc_bare_ask ask;
	struct kv_prng prng;
	struct co *waiter; /* NULL: the call has gone */
	uint64_t each;     /* bytes of a write at most */
	uint64_t left;     /* values that are not begun */
	uint64_t value;    /* of the present one: its offset in the memory */
	uint64_t pos;      /* and how much of it is on its way; at its length there is none */
	unsigned lanes, running;
	int status;
	bool arrived; /* all that was written */
	struct burst burst[BURSTS];
	struct lane lane[];
};

static void bare_free(struct kvc_bare *b)
{
	for (unsigned i = 0; i < b->lanes; i++)
		if (b->arrived || !b->lane[i].written)
			kvc_landing_give(b->lane[i].link, &b->lane[i].piece);
		else
			kvc_landing_lost(b->lane[i].link);
	b->ask.mem->users--;
	kvc_attachment_unref(b->attachment);
	free(b);
}

static bool bare_more(const struct kvc_bare *b)
{
	return b->status == 0 && (b->left > 0 || b->pos < b->ask.len);
}

bool kvc_bare_over(const struct kvc_bare *b)
{
	return b->running == 0 && !bare_more(b);
}

static void one_done(struct kvc_bare *b, int status)
{
	b->running--;
	if (status < 0 && b->status == 0)
		b->status = status;
	if (b->waiter)
		co_wake(b->waiter);
	else if (b->running == 0)
		bare_free(b);
}

static void lane_done(struct te_xfer *x, int status)
{
	struct lane *l = x->arg;
	l->busy = false;
	one_done(l->bare, status);
}

static void burst_done(struct te_xfer *x, int status)
{
	struct burst *u = x->arg;
	u->busy = false;
	one_done(u->bare, status);
}

/* Start the lane's next write. 0, -KV_EBUSY (ordered, and not now), or another code. */
static int lane_start(struct lane *l, bool ordered)
{
	struct kvc_bare *b = l->bare;
	const struct kvc_bare_ask *a = &b->ask;
	uint64_t n;
	int rc;
	if (b->pos == a->len) {
		b->value = a->from + kv_prng_below(&b->prng, (a->room - a->len) / SOURCE_STEP + 1) * SOURCE_STEP;
		b->pos = 0;
		b->left--;
	}
	n = KV_MIN(b->each, a->len - b->pos);
	l->xfer = (struct te_xfer){.dir = TE_WRITE,
				   .peer = b->attachment->peer[b->shard],
				   .link = l->link->index,
				   .local = a->mem->region,
				   .local_offset = b->value + b->pos,
				   .remote = &b->attachment->landing[b->shard].remote,
				   .at = {l->piece.offset, 0, n, 1},
				   .ordered = ordered,
				   .deadline_ns = a->deadline_ns,
				   .done = lane_done,
				   .arg = l};
	rc = te_xfer_start(b->attachment->node->client->te, &l->xfer);
	if (rc < 0)
		return rc;
	l->busy = l->written = true;
	b->pos += n;
	b->running++;
	return 0;
}

/* If it cannot go now, the server is told by the next one. */
static void burst_start(struct kvc_bare *b, struct burst *u, const struct kvc_link *l)
{
	u->bare = b;
	u->xfer = (struct te_xfer){.dir = TE_WRITE,
				   .peer = b->attachment->peer[b->shard],
				   .link = l->index,
				   .local = b->ask.mem->region,
				   .remote = &b->attachment->landing[b->shard].remote,
				   .at = {.count = 1},
				   .ordered = true,
				   .with_imm = true,
				   .deadline_ns = b->ask.deadline_ns,
				   .done = burst_done,
				   .arg = u};
	if (te_xfer_start(b->attachment->node->client->te, &u->xfer) != 1)
		return;
	u->busy = true;
	b->running++;
}

static struct burst *burst_free(struct kvc_bare *b)
{
	for (unsigned i = 0; i < BURSTS; i++)
		if (!b->burst[i].busy)
			return &b->burst[i];
	return NULL;
}

/* What the idle lanes of a link can start. 0 or a code. */
static int link_turn(struct kvc_bare *b, const struct kvc_link *l)
{
	struct te *te = b->attachment->node->client->te;
	struct burst *u = burst_free(b);
	unsigned started = 0;
	int rc = 0;
	if (!u)
		return 0;
	te_order_begin(te);
	for (unsigned i = 0; i < b->lanes && rc == 0 && bare_more(b); i++) {
		if (b->lane[i].busy || b->lane[i].link != l)
			continue;
		rc = lane_start(&b->lane[i], true);
		started += rc == 0;
	}
	if (started)
		burst_start(b, u, l);
	te_order_end(te);
	return rc == -KV_EBUSY ? 0 : rc;
}

void kvc_bare_turn(struct kvc_bare *b)
{
	struct kvc_attachment *s = b->attachment;
	for (unsigned i = 0; i < s->links_per_shard && bare_more(b); i++)
		b->status = s->open ? link_turn(b, &s->link[b->shard * s->links_per_shard + i]) : -KV_ERESET;
	if (b->running == 0 && bare_more(b))
		b->status = lane_start(&b->lane[0], false);
}

/* As many lanes as there are pieces, and no more than there is work for. */
static int lanes_take(struct kvc_bare *b, unsigned wanted)
{
	int rc = 0;
	for (; b->lanes < wanted; b->lanes++) {
		struct lane *l = &b->lane[b->lanes];
		l->bare = b;
		l->link = kvc_link_pick(b->attachment, b->shard);
		rc = kvc_landing_take(l->link, b->each, &l->piece);
		if (rc < 0)
			break;
	}
	return b->lanes > 0 ? 0 : rc;
}

int kvc_bare_start(struct kvc_attachment *s, unsigned shard, const struct kvc_bare_ask *ask, struct kvc_bare **out)
{
	uint64_t max = kvc_landing_max(s, shard), each = KV_MIN(max, ask->len), wanted;
	struct kvc_bare *b;
	int rc;
	if (max == 0)
		return -KV_ENOTSUP;
	wanted = KV_MIN(KV_MIN((uint64_t)ask->depth, ask->ops) * ((ask->len + each - 1) / each), (uint64_t)LANES_MAX);
	b = calloc(1, sizeof(*b) + wanted * sizeof(b->lane[0]));
	if (!b)
		return -KV_ENOMEM;
	b->attachment = s;
	b->shard = shard;
	b->ask = *ask;
	b->each = each;
	b->left = ask->ops;
	b->pos = ask->len;
	b->waiter = co_self();
	kv_prng_seed(&b->prng, ask->seed);
	s->refs++;
	ask->mem->users++;
	rc = lanes_take(b, (unsigned)wanted);
	if (rc < 0)
		bare_free(b);
	else
		*out = b;
	return rc;
}

void kvc_bare_stop(struct kvc_bare *b)
{
	struct te *te = b->attachment->node->client->te;
	if (b->status == 0)
		b->status = -KV_ECANCELED;
	for (unsigned i = 0; i < b->lanes; i++)
		if (b->lane[i].busy)
			te_xfer_cancel(te, &b->lane[i].xfer);
}

struct kvc_link *kvc_bare_link(const struct kvc_bare *b, unsigned i)
{
	struct kvc_link *l = &b->attachment->link[b->shard * b->attachment->links_per_shard + i];
	for (unsigned k = 0; k < b->lanes; k++)
		if (b->lane[k].link == l)
			return l;
	return NULL;
}

int kvc_bare_leave(struct kvc_bare **b, bool arrived)
{
	int rc = (*b)->status;
	(*b)->waiter = NULL;
	(*b)->arrived = arrived && rc == 0;
	if ((*b)->running == 0)
		bare_free(*b);
	*b = NULL;
	return rc;
}
