/* SPDX-License-Identifier: Apache-2.0 */
/* xfer.c -- transfers: bounds, chunks, striping, progress, cancel.
 *
 * A chunk is a function of its position alone (chunk_at), so chunks need no storage. A LIVE transfer is QUEUED while
 * chunks remain to be posted: in its link's queue if it names one, else in the peer's. FINAL: `posted` will not change
 * any more. When FINAL and nothing is in flight, done runs; before it posting_done, unless start or cancel already
 * informed the caller (TOLD). A failed chunk ends the posting. Chunks complete in any order, so a read's priv.window
 * has a bit per chunk beyond the first unfinished one, and a read with a full window waits for it. */
#include <errno.h>

#include "engine/inside.h"
#include "engine/link.h"
#include "engine/rail.h"
#include "engine/region.h"
#include "engine/xfer.h"

struct chunk {
	uint64_t local, remote; /* offsets in the regions */
	uint32_t len, local_part, remote_part;
};

static uint64_t total_of(const struct te_xfer *x)
{
	return x->at.slice * x->at.count;
}

static void part_border(uint64_t offset, uint64_t part_bytes, uint32_t parts, uint32_t *part, uint64_t *left)
{
	if (parts <= 1) {
		*part = 0;
		return;
	}
	*part = (uint32_t)KV_MIN(offset / part_bytes,
				 (uint64_t)parts - 1); /* an empty write may stand at the very end */
	uint64_t to_border = part_bytes - offset % part_bytes;
	*left = KV_MIN(*left, to_border);
}

static void chunk_at(const struct te_rules *rules, const struct te_xfer *x, uint64_t pos, struct chunk *c)
{
	bool contiguous = x->at.count <= 1 || x->at.slice == 0 || x->at.stride == x->at.slice;
	uint64_t slice = contiguous ? 0 : pos / x->at.slice, in = pos - slice * x->at.slice;
	uint64_t left = (contiguous ? total_of(x) : x->at.slice) - in;
	c->local = x->local_offset + pos;
	c->remote = x->at.offset + slice * x->at.stride + in;
	left = KV_MIN(left, (uint64_t)rules->chunk_bytes);
	part_border(c->local, x->local->part_bytes, x->local->parts, &c->local_part, &left);
	part_border(c->remote, x->remote->part_bytes, x->remote->parts, &c->remote_part, &left);
	c->len = (uint32_t)left;
}

uint32_t te_xfer_chunks(const struct te *te, const struct te_xfer *x)
{
	uint64_t total = total_of(x), pos = 0;
	uint32_t n = 0;
	struct chunk c;
	if (total == 0)
		return x->with_imm ? 1 : 0;
	for (; pos < total; pos += c.len, n++)
		chunk_at(&te->rules, x, pos, &c);
	return n;
}

/* ---- bounds ---- */

static bool remote_ok(const struct te_xfer *x)
{
	const struct te_remote *r = x->remote;
	const struct te_slices *at = &x->at;
	uint64_t span, end;
	if (!r->keys || r->rails < x->peer->remote_rails || r->parts == 0 || r->part_bytes == 0)
		return false;
	if (r->len_bytes && (r->len_bytes - 1) / r->part_bytes >= r->parts)
		return false;
	if (at->count > 1 && at->stride < at->slice)
		return false;
	if (__builtin_mul_overflow((uint64_t)(at->count ? at->count - 1 : 0), at->stride, &span) ||
	    __builtin_add_overflow(span, at->slice, &span) || __builtin_add_overflow(at->offset, span, &end))
		return false;
	return end <= r->len_bytes;
}

static bool local_ok(const struct te_xfer *x, uint64_t total)
{
	return x->local_offset <= x->local->len && total <= x->local->len - x->local_offset;
}

static int check(const struct te *te, const struct te_xfer *x)
{
	uint64_t total;
	if (x->peer->closed || x->peer->is_void || x->peer->down || te->closing)
		return -KV_EPEERDOWN;
	if (x->link != TE_LINK_ANY && x->link >= x->peer->nlinks)
		return -KV_EINVAL;
	if (x->link == TE_LINK_ANY && x->peer->nused == 0)
		return -KV_EPEERDOWN;
	if (x->dir == TE_READ && x->with_imm)
		return -KV_EINVAL;
	if (__builtin_mul_overflow(x->at.slice, (uint64_t)x->at.count, &total) || !local_ok(x, total) || !remote_ok(x))
		return -KV_EINVAL;
	if (x->ordered && (x->dir == TE_READ || x->link == TE_LINK_ANY || (x->with_imm && total)))
		return -KV_EINVAL;
	/* Without an immediate the initiator's CPU writes the target's memory by itself, and no fence there stops it.
	 */
	if (te->rules.reads_refused && x->dir == TE_READ)
		return -KV_ENOTSUP;
	if (te->rules.push_imm_only && x->dir == TE_WRITE && !x->with_imm)
		return -KV_ENOTSUP;
	return 0;
}

/* ---- ending ---- */

static void notify(struct te_xfer *x)
{
	if (x->priv.state & XFER_NOTIFY)
		return;
	x->priv.state |= XFER_NOTIFY;
	kv_list_add_tail(&x->peer->te->ended.xfers, &x->priv.node);
}

static void unnotify(struct te_xfer *x)
{
	if (!(x->priv.state & XFER_NOTIFY))
		return;
	x->priv.state &= (uint8_t)~XFER_NOTIFY;
	kv_list_del(&x->priv.node);
}

static void end(struct te_xfer *x)
{
	struct te_peer *peer = x->peer;
	uint32_t all = x->priv.status || x->priv.state & XFER_CANCELED ? te_xfer_chunks(peer->te, x) : x->posted;
	int failure = x->priv.status ? x->priv.status : -KV_ECANCELED, status = x->completed == all ? 0 : failure;
	KV_ASSERT_HOT(x->priv.inflight == 0 && x->local->users > 0); /* 3: nothing moves any more */
	unnotify(x);
	x->priv.state = 0;
	x->local->users--;
	peer->te->live--;
	if (status == -KV_ECANCELED)
		peer->te->stats.canceled++;
	x->done(x, status); /* x is the caller's again, perhaps freed */
	peer_release(peer);
}

/* Only where callbacks may run. */
static void settle(struct te_xfer *x)
{
	unnotify(x);
	if (!(x->priv.state & XFER_FINAL))
		return;
	if (!(x->priv.state & XFER_TOLD)) {
		x->priv.state |= XFER_TOLD;
		if (x->posting_done)
			x->posting_done(x);
	}
	if (x->priv.inflight == 0)
		end(x);
}

void xfer_finalize(struct te_xfer *x)
{
	x->priv.state |= XFER_FINAL;
	notify(x);
}

static struct kv_list *queue_of(struct te_xfer *x)
{
	return x->link == TE_LINK_ANY ? &x->peer->xfers : &x->peer->links[x->link].xfers;
}

static void enqueue(struct te_xfer *x)
{
	x->priv.state |= XFER_QUEUED;
	kv_list_add_tail(queue_of(x), &x->priv.node);
	peer_queued(x->peer, x->deadline_ns);
}

void xfer_unqueue(struct te_xfer *x)
{
	if (!(x->priv.state & XFER_QUEUED))
		return;
	x->priv.state &= (uint8_t)~XFER_QUEUED;
	kv_list_del(&x->priv.node);
	peer_unqueued(x->peer);
}

void xfer_fail_queued(struct te_xfer *x, int status)
{
	xfer_unqueue(x);
	if (!x->priv.status)
		x->priv.status = status;
	if (status == -KV_ETIMEOUT)
		x->peer->te->stats.timeouts++;
	xfer_finalize(x);
}

bool xfers_notify(struct kv_list *ended)
{
	bool any = !kv_list_empty(ended);
	struct kv_list due, *n;
	kv_list_init(&due);
	kv_list_splice_tail(&due, ended);
	while ((n = kv_list_pop(&due)))
		settle(KV_LIST_ENTRY(n, struct te_xfer, priv.node));
	return any;
}

/* ---- posting ---- */

bool xfer_blocked(const struct te_xfer *x)
{
	return x->dir == TE_READ && x->posted - x->priv.first >= TE_READ_WINDOW;
}

static int post(const struct te_link *l, const struct te_xfer *x, const struct chunk *c, struct op *op)
{
	struct rail *r = l->rail;
	struct fab_mr *mr = x->local->mrs[(size_t)r->index * x->local->parts + c->local_part];
	const struct te_key *key = &x->remote->keys[(size_t)l->remote * x->remote->parts + c->remote_part];
	uint64_t addr = key->base + (c->remote - (uint64_t)c->remote_part * x->remote->part_bytes);
	uint8_t *local = x->local->base + c->local;
	if (x->dir == TE_READ)
		return fab_read(r->fab, local, c->len, mr, l->addr->handle, addr, key->key, &op->ctx);
	return fab_write(r->fab, local, c->len, mr, l->addr->handle, addr, key->key, x->with_imm ? &x->imm : NULL,
			 x->ordered && !x->with_imm ? FAB_MORE : 0, &op->ctx);
}

static enum post post_next(struct te_link *l, struct te_xfer *x, struct op *op)
{
	struct chunk c;
	KV_ASSERT_HOT(!(x->priv.state & XFER_TOLD)); /* 4: `posted` is final */
	chunk_at(&x->peer->te->rules, x, x->priv.pos, &c);
	op->of.xfer = x;
	op->len = c.len;
	op->chunk = x->posted;
	enum post p = link_posted(l, op, post(l, x, &c, op));
	if (p != POST_DONE)
		return p;
	l->ops++;
	l->bytes += c.len;
	x->priv.inflight++;
	x->posted++;
	x->priv.pos += c.len;
	if (x->priv.pos >= total_of(x))
		x->priv.state |= XFER_FINAL;
	return POST_DONE;
}

enum post xfer_post(struct te_link *l, struct te_xfer *x)
{
	struct op *op = rail_op_get(l->rail, x->dir == TE_READ ? OP_READ : OP_WRITE);
	return op ? post_next(l, x, op) : POST_NO_CREDIT;
}

/* Post while the link has room and its line is empty. Returns why it ended. */
static enum post post_direct(struct te_xfer *x, struct te_link *l)
{
	enum post p = POST_NOTHING;
	while (!(x->priv.state & XFER_FINAL) && !xfer_blocked(x) && link_direct(l) && !link_has_work(l) &&
	       link_room(l)) {
		p = xfer_post(l, x);
		if (p != POST_DONE || x->link == TE_LINK_ANY)
			return p;
	}
	return p == POST_DONE ? POST_DONE : POST_NOTHING;
}

/* Stripe: one chunk per link in turn, until all are posted or a whole round found no room. */
static enum post post_striped(struct te_xfer *x)
{
	struct te_peer *peer = x->peer;
	enum post p = POST_NOTHING;
	for (unsigned idle = 0; idle < peer->nlinks && !(x->priv.state & XFER_FINAL);) {
		struct te_link *l = &peer->links[peer->next_link];
		peer->next_link = (uint16_t)(peer->next_link + 1u < peer->nlinks ? peer->next_link + 1u : 0);
		p = l->use ? post_direct(x, l) : POST_NOTHING;
		if (p == POST_STALLED)
			link_stall(l);
		if (p == POST_FAILED)
			return p;
		idle = p == POST_DONE ? 0 : idle + 1;
	}
	return p;
}

static void activate_links(struct te_xfer *x)
{
	if (x->link != TE_LINK_ANY) {
		link_activate(&x->peer->links[x->link]);
		return;
	}
	for (unsigned i = 0; i < x->peer->nlinks; i++)
		if (x->peer->links[i].use)
			link_activate(&x->peer->links[i]);
}

static void begin(struct te *te, struct te_xfer *x)
{
	KV_ASSERT_HOT(!(x->priv.state & XFER_LIVE)); /* 3: it is the caller's */
	KV_ASSERT_HOT(x->local->ready);              /* 48 */
	memset(&x->priv, 0, sizeof(x->priv));
	kv_list_init(&x->priv.node);
	x->posted = x->completed = 0;
	x->contiguous = 0;
	x->priv.state = XFER_LIVE;
	x->local->users++;
	te->live++;
	peer_hold(x->peer);
}

static bool order_possible(const struct te *te, const struct te_xfer *x)
{
	const struct te_link *l = &x->peer->links[x->link];
	struct chunk c;
	if (!te->rules.can_order || !te->handlers.follow || !te->order.open || x->peer->channel ||
	    (l->follow && l->stamp != l->rail->stamp))
		return false;
	if (!link_direct(l) || link_has_work(l) || !link_room(l) || !link_direct_msg(l))
		return false;
	chunk_at(&te->rules, x, 0, &c);
	return c.len > 0 && c.len == total_of(x);
}

/* Undo begin after a failed posting. */
static void unbegin(struct te *te, struct te_xfer *x)
{
	x->priv.state = 0;
	x->local->users--;
	te->live--;
	peer_release(x->peer);
}

/* The immediate behind ordered writes uses the operation reserved for a message. */
static int start_behind(struct te *te, struct te_xfer *x)
{
	struct te_link *l = &x->peer->links[x->link];
	struct op *op = link_follow_take(l);
	if (!op)
		return -KV_EBUSY;
	op->kind = OP_WRITE;
	begin(te, x);
	if (post_next(l, x, op) != POST_DONE) {
		unbegin(te, x);
		return -KV_EBUSY;
	}
	x->priv.state |= XFER_TOLD;
	return 1;
}

/* All or nothing. It reserves the operation for the following message, so that no other posting can take it. */
static int start_ordered(struct te *te, struct te_xfer *x)
{
	struct te_link *l = &x->peer->links[x->link];
	struct op *follow;
	if (!order_possible(te, x))
		return -KV_EBUSY;
	follow = l->follow ? l->follow : rail_op_get(l->rail, OP_SEND);
	if (!follow)
		return -KV_EBUSY;
	begin(te, x);
	if (xfer_post(l, x) != POST_DONE) {
		if (!l->follow)
			rail_op_put(l->rail, follow);
		unbegin(te, x);
		return -KV_EBUSY;
	}
	if (!l->follow) {
		kv_list_del(&l->follow_node); /* it may be there since before a reset */
		kv_list_add_tail(&te->order.links, &l->follow_node);
	}
	l->follow = follow;
	l->stamp = l->rail->stamp;
	x->priv.state |= XFER_TOLD;
	return 1;
}

int te_xfer_start(struct te *te, struct te_xfer *x)
{
	int rc = check(te, x);
	if (KV_UNLIKELY(rc))
		return rc;
	if (x->ordered)
		return x->with_imm ? start_behind(te, x) : start_ordered(te, x);
	begin(te, x);
	if (total_of(x) == 0 && !x->with_imm) {
		x->priv.state |= XFER_FINAL | XFER_TOLD;
		notify(x);
		return 1;
	}
	enum post p;
	if (x->link == TE_LINK_ANY) {
		p = post_striped(x);
	} else {
		p = post_direct(x, &x->peer->links[x->link]);
		if (p == POST_STALLED)
			link_stall(&x->peer->links[x->link]);
	}
	if (KV_LIKELY(x->priv.state & XFER_FINAL)) {
		x->priv.state |= XFER_TOLD;
		return 1;
	}
	if (p == POST_FAILED) {
		x->priv.status = -KV_EPROVIDER;
		xfer_finalize(x);
		return 0;
	}
	enqueue(x);
	activate_links(x);
	return 0;
}

void te_xfer_cancel(struct te *te, struct te_xfer *x)
{
	(void)te;
	if (!(x->priv.state & XFER_LIVE) || x->priv.state & XFER_CANCELED)
		return;
	xfer_unqueue(x);
	if (!(x->priv.state & XFER_FINAL) && !x->priv.status)
		x->priv.status = -KV_ECANCELED;
	x->priv.state |= XFER_CANCELED | XFER_FINAL | XFER_TOLD;
	if (x->priv.inflight == 0)
		notify(x);
}

/* ---- completing ---- */

static void contiguous_grow(struct te_xfer *x, uint32_t chunk)
{
	struct chunk c;
	bool grew = false;
	x->priv.window |= (uint64_t)1 << (chunk - x->priv.first);
	while (x->priv.window & 1) {
		chunk_at(&x->peer->te->rules, x, x->contiguous, &c);
		x->contiguous += c.len;
		x->priv.window >>= 1;
		x->priv.first++;
		grew = true;
	}
	if (grew && x->progress)
		x->progress(x);
}

static void count(struct rail *r, const struct op *op)
{
	if (op->kind == OP_READ) {
		r->stats.reads++;
		r->stats.bytes_read += op->len;
	} else {
		r->stats.writes++;
		r->stats.bytes_written += op->len;
	}
}

void xfer_op_done(struct op *op, int status)
{
	struct te_xfer *x = op->of.xfer;
	struct te_link *l = op->link;
	struct te_peer *peer = l->peer;
	l->ops--;
	l->bytes -= op->len;
	x->priv.inflight--;
	if (KV_LIKELY(status == 0)) {
		count(l->rail, op);
		x->completed++;
		if (x->dir == TE_READ)
			contiguous_grow(x, op->chunk);
	} else {
		if (!x->priv.status)
			x->priv.status = status;
		xfer_unqueue(x);
		x->priv.state |= XFER_FINAL;
	}
	if (x->priv.state & XFER_QUEUED && x->dir == TE_READ)
		activate_links(x); /* its window may have opened for links with nothing in flight */
	else if (link_has_work(l))
		link_activate(l);
	settle(x);
	peer_release(peer);
}
