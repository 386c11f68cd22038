/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c -- where callbacks of the owner run: the events of the rails, reports of ended operations, and requests for
 * the messages behind ordered writes. They run only where no list is being walked: in te_poll, in the fence's turn, in
 * te_close, and after the handler of a message.
 *
 * Only an operation in OP_POSTED accepts a completion; any other event is a stray, counted and ignored. A callback may
 * fence: the rest of the batch of events then belongs to the closed endpoint and is dropped. A receive is wiped and
 * posted after its handler returned. */
#include <errno.h>

#include "engine/inside.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/peer.h"
#include "engine/rail.h"
#include "engine/xfer.h"

void notify_init(struct ended *ended, struct order *order)
{
	kv_list_init(&ended->xfers);
	kv_list_init(&ended->msgs);
	kv_list_init(&order->links);
}

/* ---- ended operations ---- */

/* The operation is freed first, so the owner may start the next one with it. */
static void op_finish(struct rail *r, struct op *op, int status)
{
	struct op done = {
		.link = op->link, .addr = op->addr, .of = op->of, .len = op->len, .chunk = op->chunk, .kind = op->kind};
	KV_ASSERT_HOT(op->state == OP_POSTED || op->state == OP_ENDED); /* 2 */
	if (KV_UNLIKELY(op->after_break) && status == 0)
		op->addr->broke = op->addr->lost = false;
	rail_op_put(r, op);
	addr_put(done.addr);
	if (done.kind == OP_SEND)
		msg_op_done(&done, status);
	else
		xfer_op_done(&done, status);
}

static bool rail_ended_report(struct rail *r)
{
	bool any = false;
	for (uint32_t i = 0; i < r->pool.limit * r->sets; i++) {
		struct op *op = &r->pool.ops[i];
		if (op->state != OP_ENDED)
			continue;
		any = true;
		r->pool.credits -= op->left; /* op_finish returns it once more */
		op->left = false;
		op_finish(r, op, op->status);
	}
	return any;
}

bool te_notify(struct te *te)
{
	bool any = false;
	if (KV_UNLIKELY(te->ended.ops)) {
		te->ended.ops = false;
		for (unsigned i = 0; i < te->nrails; i++)
			any |= rail_ended_report(&te->rails[i]);
	}
	if (!kv_list_empty(&te->ended.xfers))
		any |= xfers_notify(&te->ended.xfers);
	if (!kv_list_empty(&te->ended.msgs))
		any |= msgs_notify(te) > 0;
	return any;
}

/* ---- ordered writes ---- */

static void te_follow(struct te *te)
{
	struct kv_list *n;
	te->handlers.follow(te->arg);
	/* The owner sends no message behind the writes of the remaining links. */
	while ((n = kv_list_pop(&te->order.links))) {
		struct te_link *l = KV_LIST_ENTRY(n, struct te_link, follow_node);
		if (l->follow)
			rail_op_put(l->rail, l->follow);
		l->follow = NULL;
	}
}

void te_order_begin(struct te *te)
{
	te->order.open = true;
}

void te_order_end(struct te *te)
{
	if (!kv_list_empty(&te->order.links))
		te_follow(te);
	te->order.open = false;
}

/* ---- events of a rail ---- */

static bool is_receive(const struct rail *r, const struct op *op)
{
	return op >= r->recv.set && op < r->recv.set + r->recv.count;
}

static void on_message(struct rail *r, struct op *op, uint64_t len)
{
	struct te *te = r->te;
	r->recv.failures = 0;
	op->state = OP_IDLE;
	if (len > KV_MSG_MAX) {
		r->stats.stray_events++;
	} else {
		r->stats.receives++;
		op->in_handler = te->order.open = true;
		if (te->handlers.message)
			te->handlers.message(te->arg, r->index, op->of.buf, (size_t)len);
		/* Before other messages cause postings that may be refused for peers in trouble. */
		if (!kv_list_empty(&te->order.links))
			te_follow(te);
		op->in_handler = te->order.open = false;
		if (!is_receive(r, op)) /* the handler fenced */
			return;
		memset(op->of.buf, 0, (size_t)len);
	}
	rail_receive_post(r, op);
}

/* A failed receive says nothing about a peer. If all receives in a row fail, the endpoint is broken. */
static void on_recv_failed(struct rail *r, struct op *op, int status)
{
	r->stats.stray_events++;
	kv_debug(r->te->log, "rail %u: a receive failed: %s (%s)", r->index, kv_strerror(status),
		 fab_last_error(r->fab));
	op->state = OP_IDLE;
	if (++r->recv.failures > 2 * r->recv.count)
		rail_failed(r);
	memset(op->of.buf, 0, KV_MSG_MAX);
	rail_receive_post(r, op);
}

static bool op_valid(const struct rail *r, const struct op *op, bool recv)
{
	bool ours = recv ? is_receive(r, op) : op >= r->pool.ops && op < r->pool.ops + r->pool.limit * r->sets;
	return ours && op->state == OP_POSTED;
}

static void on_failure(struct rail *r, const struct fab_event *ev)
{
	struct op *op = (struct op *)ev->ctx;
	if (op && op_valid(r, op, true)) {
		on_recv_failed(r, op, ev->status);
		return;
	}
	if (!op || !op_valid(r, op, false)) {
		r->stats.stray_events++;
		kv_debug(r->te->log, "rail %u: an error without an operation: %s", r->index, fab_last_error(r->fab));
		return;
	}
	int status = ev->status < 0 ? ev->status : -KV_EPROVIDER;
	switch (fab_error_class(status)) {
	case FAB_ERR_OP:
		if (status == -EADDRNOTAVAIL && rail_stranded(r))
			status = -KV_ERESET; /* the rebuild follows in this poll */
		else if (rail_log_due(++r->stats.failed_ops))
			kv_warn(r->te->log, "rail %u: an operation failed: %s (%llu so far)", r->index,
				fab_last_error(r->fab), (unsigned long long)r->stats.failed_ops);
		break;
	case FAB_ERR_PEER:
		r->stats.failed_peer++;
		kv_debug(r->te->log, "rail %u: an operation failed: %s", r->index, fab_last_error(r->fab));
		if (addr_broken(op, status != -ECANCELED))
			addr_lost(r, peers_well(r->te));
		status = -KV_EPEERDOWN;
		break;
	case FAB_ERR_ENDPOINT:
		r->stats.failed_endpoint++;
		status = -KV_ERESET; /* the rebuild follows in this poll */
		rail_failed(r);
		break;
	}
	op_finish(r, op, status);
}

static void on_event(struct rail *r, const struct fab_event *ev)
{
	struct op *op = (struct op *)ev->ctx;
	switch (ev->type) {
	case FAB_EV_DONE:
		if (op_valid(r, op, false))
			op_finish(r, op, 0);
		else
			r->stats.stray_events++;
		break;
	case FAB_EV_RECV:
		if (op_valid(r, op, true))
			on_message(r, op, ev->len);
		else
			r->stats.stray_events++;
		break;
	case FAB_EV_IMM:
		r->stats.immediates++;
		if (op && op_valid(r, op, true)) { /* the immediate used up a receive */
			op->state = OP_IDLE;
			rail_receive_post(r, op);
		}
		if (r->te->handlers.immediate)
			r->te->handlers.immediate(r->te->arg, r->index, ev->imm);
		break;
	case FAB_EV_FAIL:
		on_failure(r, ev);
		break;
	case FAB_EV_DEAD:
		r->stats.failed_endpoint++;
		kv_event(r->te->log, KV_LOG_ERROR,
			 KV_EVENT("rail_failed", KV_NUMBER("rail", r->index),
				  KV_FIELD("reason", fab_last_error(r->fab))),
			 "rail %u: the endpoint failed: %s", r->index, fab_last_error(r->fab));
		rail_failed(r);
		break;
	}
}

static int rail_reap(struct rail *r)
{
	struct fab_event ev[TE_POLL_BATCH];
	uint32_t generation = r->te->fence.generation;
	int total = 0;
	if (r->recv.idle && rail_up(r))
		rail_receives_retry(r);
	for (int round = 0; round < TE_POLL_ROUNDS; round++) {
		r->stamp++;
		int n = fab_poll(r->fab, ev, TE_POLL_BATCH);
		total += n;
		for (int i = 0; i < n; i++) {
			on_event(r, &ev[i]);
			if (r->te->fence.generation != generation)
				return total;
		}
		if (n < TE_POLL_BATCH)
			break;
	}
	return total;
}

/* ---- frames of local peers ---- */

/* The frames of one entry of the table. A handler may empty the entry, but it stays in place. */
static int local_reap(struct te *te, uint32_t at)
{
	struct locals *l = &te->locals;
	int n = 0;
	uint32_t len;
	for (; n < TE_LOCAL_FRAMES && l->at[at].peer; n++) {
		struct te_peer *peer = l->at[at].peer;
		int rc = local_receive(l->at[at].channel, l->buf, &len);
		if (KV_LIKELY(rc == 0))
			break;
		if (KV_UNLIKELY(rc < 0)) {
			local_failed(peer, rc);
			break;
		}
		te->stats.local_receives++;
		te->handlers.local(te->arg, peer, l->buf, len);
	}
	return n;
}

static void failed_down(struct locals *l)
{
	l->down = false;
	for (uint32_t i = 0; i < l->count; i++)
		if (l->at[i].peer && l->at[i].peer->down)
			peer_down(l->at[i].peer);
}

/* Replies of the handlers end at once, so their buffers are free for the next peer's. */
static int locals_reap(struct te *te)
{
	struct locals *l = &te->locals;
	int n = 0;
	local_walk(l);
	for (uint32_t i = 0; i < l->count; i++) {
		n += local_reap(te, i);
		if (!kv_list_empty(&te->ended.msgs))
			n += msgs_notify(te);
	}
	if (KV_UNLIKELY(l->down))
		failed_down(l);
	local_walked(l);
	return n;
}

_Static_assert(TE_FABRIC_QUIET <= UINT8_MAX && TE_LOCAL_IDLE <= UINT8_MAX, "struct locals counts so far");

/* With tcp a look at a quiet fabric is a system call, and half of a turn. So while frames of local peers arrive, and no
 * operation is out, most turns leave it out. */
static bool fabric_due(const struct te *te)
{
	const struct locals *l = &te->locals;
	return l->count == 0 || l->idle >= TE_LOCAL_IDLE || l->fabric_quiet < TE_FABRIC_QUIET ||
	       l->fabric_unseen + 1 >= TE_FABRIC_TURNS || te->live > 0;
}

static int rails_reap(struct te *te)
{
	struct locals *l = &te->locals;
	int n = 0;
	if (!fabric_due(te)) {
		l->fabric_unseen++;
		return 0;
	}
	for (unsigned i = 0; i < te->nrails; i++)
		n += rail_reap(&te->rails[i]);
	l->fabric_unseen = 0;
	l->fabric_quiet = n ? 0 : KV_MIN(l->fabric_quiet + 1, TE_FABRIC_QUIET);
	return n;
}

int te_reap(struct te *te)
{
	int n = rails_reap(te), frames;
	if (te->locals.count == 0)
		return n;
	frames = locals_reap(te);
	te->locals.idle = frames ? 0 : KV_MIN(te->locals.idle + 1, TE_LOCAL_IDLE);
	return n + frames;
}
