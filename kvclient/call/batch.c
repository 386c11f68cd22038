/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- many items at once over one coroutine.
 *
 * Up to WINDOW items are out at a time, in a ring; each begins as one request (the usual case: a value of one range),
 * submitted without parking. When there is no room for the next, the oldest is waited for, which frees some.
 *
 * A batch never waits for room while it holds any (admission.c says why). So an item whose first request was not enough
 * (more ranges, a wrong guess, a reset) is only marked. The marked ones make a second pass like the first: a guess is
 * better by then. What fails in that one too is made as a single call, when nothing else of the batch is out.
 * (Rejected: making an item again as soon as its own request has ended. The others hold pieces meanwhile, and two
 * batches waited for each other's.)
 *
 * With several servers each has a part of the batch, in a coroutine of its own, so that items of one that is stopped
 * stand in front of nobody else's. A part is to the rest of the client what a call is: what it holds it gives back
 * whatever the other parts do, and so the rule about room holds for each by itself. Parts live on the stack of the call
 * that made them, which returns after the last of them has ended; that call holds the client for all. The first part is
 * made by the call itself, and items of servers that no coroutine is to be had for are made with it: then they may have
 * to wait for each other. (Rejected: one coroutine that leaves items of several ranges of a slow server for later. It
 * has to wait for them at the end, and who is slow is known only then.)
 *
 * Items that are not over are chained: until then `result` is the place of the next one of the part, and how far this
 * one got.
 *
 * Every item has its own result; all share one deadline. */
#include "kvclient/call/get.h"
#include "kvclient/call/put.h"
#include "kvclient/request/life.h"

enum { WINDOW = 128, PLACE_STEP = 1024 };

#define NONE UINT32_MAX

/* How far an item is that is not over: in its first pass, to be made again, or to be made again because its bytes were
 * corrupt: then the server shall look at what it has. */
enum mark { FRESH, AGAIN, AGAIN_CHECK, MARK_BITS = 2 };

struct batch {
	struct kvc_client *c;
	struct kvc_item *items;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kvc_wait wait;
	unsigned pass;        /* 0, 1 */
	unsigned first, last; /* the chain of items for the next pass */
	struct slot {
		struct kvc_req *req;
		struct kvc_client_mem *mem; /* held while the request is out */
		unsigned item;
	} slot[WINDOW];
	unsigned head, count;
	uint64_t row[KV_SHARDS_MAX]; /* see struct kvc_get */
	uint32_t turn;
};

static int64_t link_result(unsigned next, enum mark mark)
{
	return (int64_t)((uint64_t)next << MARK_BITS | mark);
}

static unsigned next_of(const struct kvc_item *it)
{
	return (unsigned)(it->result >> MARK_BITS);
}

static enum mark mark_of(const struct kvc_item *it)
{
	return (enum mark)(it->result & ((1 << MARK_BITS) - 1));
}

/* The item is made again in the next pass. */
static void again(struct batch *b, unsigned i, enum mark mark)
{
	struct kvc_item *last = b->last == NONE ? NULL : &b->items[b->last];
	b->items[i].result = link_result(NONE, mark);
	if (last)
		last->result = link_result(i, mark_of(last));
	else
		b->first = i;
	b->last = i;
}

static int item_get(struct batch *b, struct kvc_item *it, struct kvc_get *g)
{
	int rc = it->reserved ? -KV_EINVAL
			      : kvc_get_init(g, b->c, it->key, it->data, it->len, it->slice, it->stride, b->call,
					     b->deadline_ns);
	g->own_wait.trace = b->wait.trace;
	g->check = mark_of(it) == AGAIN_CHECK;
	return rc;
}

/* Begin an item without parking. 0, or -KV_EBUSY: no room now. */
static int get_begin(struct batch *b, unsigned i, struct slot *slot)
{
	struct kvc_item *it = &b->items[i];
	struct kvc_get g;
	int rc = item_get(b, it, &g);
	if (rc < 0)
		return rc;
	g.row = b->row;
	g.turn = b->turn;
	g.wait = &b->wait; /* g goes out of scope before the request ends */
	rc = kvc_get_issue_await(&g, false, &slot->req);
	if (rc < 0) {
		kvc_get_fini(&g);
		return rc;
	}
	slot->mem = g.mem;
	slot->item = i;
	return 0;
}

/* A request of item i failed with rc. */
static void failed_await(struct batch *b, unsigned i, int rc, enum mark mark)
{
	unsigned tries = b->pass;
	if (kvc_call_again_await(b->c, rc, b->deadline_ns, &tries))
		again(b, i, mark);
	else
		b->items[i].result = kvc_call_code(b->c, rc);
}

/* End the item of a slot: take what came. */
static void get_end_await(struct batch *b, struct slot *slot, int status)
{
	struct kvc_item *it = &b->items[slot->item];
	struct kvc_get g;
	int init = item_get(b, it, &g), rc = init;
	enum mark mark;
	g.direct = slot->req->caller_memory; /* as it was begun: the memory may have been registered since */
	if (init == 0)
		rc = kvc_get_take_await(&g, slot->req, status, NULL);
	kvc_req_release(b->c, slot->req);
	mark = init == 0 && g.check ? AGAIN_CHECK : AGAIN;
	if (init < 0)
		it->result = init;
	else if (rc < 0)
		failed_await(b, slot->item, rc, mark);
	else if (g.taken < g.total)
		again(b, slot->item, mark);
	else
		it->result = (int64_t)g.total;
	if (init == 0)
		kvc_get_fini(&g);
	if (slot->mem)
		slot->mem->users--;
}

/* An item by itself, parking as it needs. */
static void get_whole_await(struct batch *b, unsigned i)
{
	struct kvc_item *it = &b->items[i];
	struct kvc_get g;
	int rc = item_get(b, it, &g);
	it->result = rc;
	if (rc < 0)
		return;
	it->result = kvc_get_all_await(&g);
	kvc_get_fini(&g);
}

static int item_put(struct batch *b, struct kvc_item *it, struct kvc_put *p)
{
	/* A PUT gathers nothing: to take slices for one piece would store other bytes than were meant. */
	int rc = it->reserved || it->slice || it->stride
			 ? -KV_EINVAL
			 : kvc_put_init(p, b->c, it->key, it->data, it->len, b->call, b->deadline_ns);
	p->own_wait.trace = b->wait.trace;
	return rc;
}

static int put_begin(struct batch *b, unsigned i, struct slot *slot)
{
	struct kvc_put p;
	int rc = item_put(b, &b->items[i], &p);
	if (rc < 0)
		return rc;
	p.wait = &b->wait;
	rc = kvc_put_single(&p) ? kvc_put_issue_await(&p, 0, p.len, 0, false, &slot->req) : -KV_EBUSY;
	if (rc < 0) {
		kvc_put_fini(&p);
		return rc == -KV_ERESET ? -KV_EBUSY : rc;
	}
	slot->mem = p.mem;
	slot->item = i;
	return 0;
}

static void put_end_await(struct batch *b, struct slot *slot, int status)
{
	kvc_req_release(b->c, slot->req);
	if (status < 0)
		failed_await(b, slot->item, status, AGAIN);
	else
		b->items[slot->item].result = 0;
	if (slot->mem)
		slot->mem->users--;
}

static void put_whole_await(struct batch *b, unsigned i)
{
	struct kvc_item *it = &b->items[i];
	struct kvc_put p;
	int rc = item_put(b, it, &p);
	it->result = rc;
	if (rc < 0)
		return;
	it->result = kvc_put_all_await(&p);
	kvc_put_fini(&p);
}

/* What GET and PUT do differently. */
struct batch_ops {
	int (*begin)(struct batch *b, unsigned i, struct slot *slot);
	void (*end_await)(struct batch *b, struct slot *slot, int status);
	void (*whole_await)(struct batch *b, unsigned i);
};

/* Wait for the oldest item and end it. When time is up, all are cancelled at once, so that they share the grace. (An
 * item whose failure is known is not waited for so long: that is its own affair.) */
static void oldest_await(struct batch *b, const struct batch_ops *ops)
{
	struct slot *slot = &b->slot[b->head];
	int why = kvc_call_wait_await(b->c, slot->req, b->deadline_ns);
	bool all = why == -KV_ECLOSED || (why < 0 && loop_now(b->c->loop) >= b->deadline_ns);
	for (unsigned i = 0; i < b->count && all; i++)
		kvc_req_cancel(b->slot[(b->head + i) % WINDOW].req, why);
	ops->end_await(b, slot, kvc_call_finish_await(b->c, slot->req, why));
	b->head = (b->head + 1) % WINDOW;
	b->count--;
}

/* The items of the chain, which becomes that of those to be made again. */
static void pass_await(struct batch *b, const struct batch_ops *ops)
{
	unsigned i = b->first, next;
	b->first = b->last = NONE;
	for (; i != NONE; i = next) {
		bool late = loop_turn_now(b->c->loop) >= b->deadline_ns;
		int rc = b->count < WINDOW && !late ? ops->begin(b, i, &b->slot[(b->head + b->count) % WINDOW])
						    : -KV_EBUSY;
		next = rc == 0 || b->count == 0 ? next_of(&b->items[i]) : i;
		if (rc == 0)
			b->count++;
		else if (b->count > 0)
			oldest_await(b, ops);
		else if (late) /* Nothing is begun: many thousands of items take longer to fail than the grace. */
			b->items[i].result = -KV_ETIMEOUT;
		else
			ops->whole_await(b, i);
	}
	while (b->count > 0)
		oldest_await(b, ops);
}

/* ---- the parts ---- */

/* A batch, as its parts share it. */
struct whole {
	struct kvc_client *c;
	struct kvc_item *items;
	unsigned n;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kvc_trace *trace; /* of one call: its coroutines are of one loop, and none parks inside a note */
	const struct batch_ops *ops;
	struct co *co;    /* that waits for the parts */
	unsigned running; /* parts in coroutines of their own */
};

struct part {
	struct whole *whole;
	unsigned first; /* of its items; NONE: it has none */
};

static __attribute__((noinline)) void part_await(const struct part *p)
{
	const struct whole *w = p->whole;
	struct batch b = {.c = w->c,
			  .items = w->items,
			  .call = w->call,
			  .deadline_ns = w->deadline_ns,
			  .wait = {.co = co_self(), .trace = w->trace},
			  .first = p->first,
			  .turn = w->c->batches++};
	memset(b.row, 0xFF, sizeof(b.row));
	for (b.pass = 0; b.pass < 2; b.pass++)
		pass_await(&b, w->ops);
	for (unsigned i = b.first, next; i != NONE; i = next) {
		next = next_of(&w->items[i]);
		w->ops->whole_await(&b, i);
	}
}

static void part_main(void *arg)
{
	struct part *p = arg;
	struct whole *w = p->whole;
	part_await(p);
	w->c->parts--;
	if (--w->running == 0)
		co_wake(w->co);
}

static bool part_start(struct part *p)
{
	struct kvc_client *c = p->whole->c;
	if (c->parts >= c->parts_max || co_spawn(c->loop, part_main, p, "kvc batch") < 0)
		return false;
	c->parts++;
	p->whole->running++;
	return true;
}

/* Items of a part that has no coroutine go in front of those of the call's own. */
static void part_join(struct part *own, const struct part *p)
{
	struct kvc_item *items = p->whole->items, *last = &items[p->first];
	while (next_of(last) != NONE)
		last = &items[next_of(last)];
	last->result = link_result(own->first, FRESH);
	own->first = p->first;
}

/* Give each item to the part of its server. */
static void items_place_await(const struct whole *w, struct part *parts)
{
	for (unsigned i = w->n; i-- > 0;) {
		struct kvc_item *it = &w->items[i];
		struct part *p = &parts[kvc_key_valid(it->key) ? kvc_call_node(w->c, it->key)->index : 0];
		it->result = link_result(p->first, FRESH);
		p->first = i;
		if (i % PLACE_STEP == 0 && i > 0)
			co_yield_await();
	}
}

static __attribute__((noinline)) void parts_await(struct whole *w)
{
	struct part parts[KVC_SERVERS_MAX], *own = NULL;
	unsigned n = w->c->pool->num_servers;
	for (unsigned s = 0; s < n; s++)
		parts[s] = (struct part){w, NONE};
	items_place_await(w, parts);
	for (struct part *p = parts; p < parts + n; p++) {
		if (p->first == NONE)
			continue;
		if (!own)
			own = p;
		else if (!part_start(p))
			part_join(own, p);
	}
	if (own)
		part_await(own);
	while (w->running > 0)
		co_park_await(KV_NEVER);
}

/* (A frame of its own for several servers: with one, a parked worker touches less of its stack.) */
static void whole_await(struct whole *w)
{
	const struct part all = {w, w->n > 0 ? 0 : NONE};
	if (w->c->pool->num_servers > 1) {
		parts_await(w);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		w->items[i].result = link_result(i + 1 < w->n ? i + 1 : NONE, FRESH);
	part_await(&all);
}

static int batch_check(const struct kvc_item *items, unsigned n, const struct kvc_call *call, struct kvc_call *own)
{
	return (!items && n > 0) || kvc_call_check(call, own) < 0 ? -KV_EINVAL : 0;
}

/* Nothing was begun: every item has the code of the whole. */
static int batch_refuse(struct kvc_item *items, unsigned n, int rc)
{
	for (unsigned i = 0; items && i < n; i++)
		items[i].result = rc;
	return rc;
}

int kvc_get_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	static const struct batch_ops ops = {get_begin, get_end_await, get_whole_await};
	struct kvc_trace t;
	struct whole w = {.c = client, .items = items, .n = n, .trace = &t, .ops = &ops, .co = co_self()};
	struct kvc_call own;
	int rc = kvc_call_begin(client, &t, KVC_OP_GET, call);
	if (rc < 0)
		return batch_refuse(items, n, rc);
	rc = batch_check(items, n, call, &own);
	if (rc < 0) {
		batch_refuse(items, n, rc);
		goto out;
	}
	t.batch = true;
	w.call = &own;
	w.deadline_ns = kvc_call_deadline(client, &own, kvc_batch_bytes(items, n));
	whole_await(&w);
	for (unsigned i = 0; i < n; i++) {
		if (items[i].result < 0 && kvc_key_valid(items[i].key))
			items[i].result =
				kvc_call_down(kvc_call_node(client, items[i].key), own.flags, items[i].result);
		kvc_get_count(client, items[i].result);
		kvc_result_count(client, KVC_OP_GET, items[i].result);
		if (items[i].result < 0 && rc == 0)
			rc = (int)items[i].result;
	}
out:
	return (int)kvc_call_end(client, &t, rc);
}

int kvc_put_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	static const struct batch_ops ops = {put_begin, put_end_await, put_whole_await};
	struct kvc_trace t;
	struct whole w = {.c = client, .items = items, .n = n, .trace = &t, .ops = &ops, .co = co_self()};
	struct kvc_call own;
	int rc = kvc_call_begin(client, &t, KVC_OP_PUT, call);
	if (rc < 0)
		return batch_refuse(items, n, rc);
	rc = batch_check(items, n, call, &own);
	if (rc < 0) {
		batch_refuse(items, n, rc);
		goto out;
	}
	t.batch = true;
	w.call = &own;
	w.deadline_ns = kvc_call_deadline(client, &own, kvc_batch_bytes(items, n));
	whole_await(&w);
	for (unsigned i = 0; i < n; i++) {
		kvc_put_count(client, (int)items[i].result, items[i].len);
		kvc_result_count(client, KVC_OP_PUT, items[i].result);
		if (items[i].result < 0 && rc == 0)
			rc = (int)items[i].result;
	}
out:
	return (int)kvc_call_end(client, &t, rc);
}
