/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- many items at once over one coroutine.
 *
 * Up to WINDOW items are out at a time, in a ring; each begins as one request (the usual case: a value of one range),
 * submitted without parking. When there is no room for the next, the oldest is waited for, which frees some.
 *
 * A batch never waits for room while it holds any (room.c says why). So an item whose first request was not enough
 * (more ranges, a wrong guess, a reset) is only marked. The marked ones make a second pass like the first: a guess is
 * better by then. What fails in that one too is made as a single call, when nothing else of the batch is out.
 * (Rejected: making an item again as soon as its own request has ended. The others hold pieces meanwhile, and two
 * batches waited for each other's.)
 *
 * Every item has its own result; all share one deadline. */
#include "kvclient/call.h"

enum { WINDOW = 128 };

/* The result of an item that is to be made again, and of one whose bytes were corrupt: then the server shall look at what it
 * has. kvc_call_code never returns them. */
#define AGAIN       (-KV_ERESET)
#define AGAIN_CHECK (-KV_ESTALE)

struct batch {
	struct kvc_client *c;
	struct kvc_item *items;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kvc_wait wait;
	unsigned pass; /* 0, 1 */
	struct slot {
		struct kvc_req *req;
		struct kvc_client_mem *mem; /* held while the request is out */
		unsigned item;
	} slot[WINDOW];
	unsigned head, count;
};

static bool is_again(const struct kvc_item *it)
{
	return it->result == AGAIN || it->result == AGAIN_CHECK;
}

static int item_get(struct batch *b, struct kvc_item *it, struct kvc_get *g)
{
	int rc = kvc_get_init(g, b->c, it->key, it->data, it->len, it->slice, it->stride, b->call, b->deadline_ns);
	g->own_wait.trace = b->wait.trace;
	g->check = b->pass > 0 && it->result == AGAIN_CHECK;
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

/* A request failed with rc: the item's result. */
static int64_t failure_await(struct batch *b, int rc)
{
	unsigned tries = b->pass;
	return kvc_call_again_await(b->c, rc, b->deadline_ns, &tries) ? AGAIN : kvc_call_code(b->c, rc);
}

/* End the item of a slot: take what came. */
static void get_end_await(struct batch *b, struct slot *slot, int status)
{
	struct kvc_item *it = &b->items[slot->item];
	struct kvc_get g;
	int init = item_get(b, it, &g), rc = init;
	g.direct = slot->req->caller_memory; /* as it was begun: the memory may have been registered since */
	if (init == 0)
		rc = kvc_get_take_await(&g, slot->req, status, NULL);
	kvc_req_release(b->c, slot->req);
	if (init < 0)
		it->result = init;
	else if (rc == 0)
		it->result = g.taken == g.total ? (int64_t)g.total : AGAIN;
	else
		it->result = failure_await(b, rc);
	if (g.check && it->result == AGAIN)
		it->result = AGAIN_CHECK;
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
	int rc = kvc_put_init(p, b->c, it->key, it->data, it->len, b->call, b->deadline_ns);
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
	struct kvc_item *it = &b->items[slot->item];
	kvc_req_release(b->c, slot->req);
	it->result = status < 0 ? failure_await(b, status) : 0;
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

/* Wait for the oldest item and end it. When time is up, all are cancelled at once, so that they share the grace. (An item
 * whose failure is known is not waited for so long: that is its own affair.) */
static void oldest_await(struct batch *b, const struct batch_ops *ops)
{
	struct slot *slot = &b->slot[b->head];
	int why = kvc_req_wait_await(b->c, slot->req, b->deadline_ns);
	bool all = why == -KV_ECLOSED || (why < 0 && loop_now(b->c->loop) >= b->deadline_ns);
	for (unsigned i = 0; i < b->count && all; i++)
		kvc_req_cancel(b->slot[(b->head + i) % WINDOW].req, why);
	ops->end_await(b, slot, kvc_req_finish_await(b->c, slot->req, why));
	b->head = (b->head + 1) % WINDOW;
	b->count--;
}

static void pass_await(struct batch *b, unsigned n, const struct batch_ops *ops)
{
	unsigned i = 0;
	while (i < n) {
		int rc;
		if (b->pass > 0 && !is_again(&b->items[i])) {
			i++;
			continue;
		}
		/* When time is up nothing is begun any more: many thousands of items take longer to fail than the
		 * grace. */
		if (loop_turn_now(b->c->loop) >= b->deadline_ns && b->count == 0) {
			b->items[i++].result = -KV_ETIMEOUT;
			continue;
		}
		rc = b->count < WINDOW && loop_turn_now(b->c->loop) < b->deadline_ns
			     ? ops->begin(b, i, &b->slot[(b->head + b->count) % WINDOW])
			     : -KV_EBUSY;
		if (rc == 0) {
			b->count++;
			i++;
		} else if (b->count > 0) {
			oldest_await(b, ops);
		} else {
			ops->whole_await(b, i++);
		}
	}
	while (b->count > 0)
		oldest_await(b, ops);
}

static void batch_await(struct batch *b, unsigned n, const struct batch_ops *ops)
{
	for (b->pass = 0; b->pass < 2; b->pass++)
		pass_await(b, n, ops);
	for (unsigned i = 0; i < n; i++)
		if (is_again(&b->items[i]))
			ops->whole_await(b, i);
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
	struct batch b = {.c = client, .items = items, .wait = {.co = co_self(), .trace = &t}};
	struct kvc_call own;
	int rc = kvc_call_begin(client, &t, KVC_OP_GET);
	if (rc < 0)
		return batch_refuse(items, n, rc);
	rc = batch_check(items, n, call, &own);
	if (rc < 0) {
		batch_refuse(items, n, rc);
		goto out;
	}
	t.batch = true;
	b.call = &own;
	b.deadline_ns = kvc_call_deadline(client, &own, kvc_batch_bytes(items, n));
	batch_await(&b, n, &ops);
	for (unsigned i = 0; i < n; i++) {
		items[i].result = kvc_call_down(client, own.flags, items[i].result);
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
	struct batch b = {.c = client, .items = items, .wait = {.co = co_self(), .trace = &t}};
	struct kvc_call own;
	int rc = kvc_call_begin(client, &t, KVC_OP_PUT);
	if (rc < 0)
		return batch_refuse(items, n, rc);
	rc = batch_check(items, n, call, &own);
	if (rc < 0) {
		batch_refuse(items, n, rc);
		goto out;
	}
	t.batch = true;
	b.call = &own;
	b.deadline_ns = kvc_call_deadline(client, &own, kvc_batch_bytes(items, n));
	batch_await(&b, n, &ops);
	for (unsigned i = 0; i < n; i++) {
		kvc_put_count(client, (int)items[i].result, items[i].len);
		kvc_result_count(client, KVC_OP_PUT, items[i].result);
		if (items[i].result < 0 && rc == 0)
			rc = (int)items[i].result;
	}
out:
	return (int)kvc_call_end(client, &t, rc);
}
