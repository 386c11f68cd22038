/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- batches: one call that makes an operation on many items.
 *
 * Up to WINDOW items are out at a time, in a ring, each with one request, submitted without parking. Without room for
 * the next item, the batch waits for its oldest one.
 *
 * It never waits for room while it holds any (request/admission.c). An item that needs more than its first request is
 * marked for a second pass; if it fails again, it is a single call when nothing else is out. Made again at once, it
 * could wait for another batch's pieces, and that one for its.
 *
 * Each server's items are a part in a coroutine of its own, so a stopped server delays only its part. The call makes
 * the first part, and those without a coroutine.
 *
 * Items under way form a chain (parts.h). A stopped batch (kc_trace.stop) begins and awaits nothing, and cancels its
 * requests. */
#include "kvclient/call/batch.h"

#include <stdlib.h>

#include "kvclient/call/claim.h"
#include "kvclient/call/exists.h"
#include "kvclient/call/keyed.h"
#include "kvclient/call/parts.h"
#include "kvclient/conn/deletes_owed.h"
#include "kvclient/copies/copies.h"
#include "kvclient/core/waits.h"
#include "kvclient/logical/pins.h"
#include "kvclient/request/life.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/repair.h"
#include "kvclient/route/second.h"
#include "kvclient/seal/names.h"
#include "kvclient/transfer/get.h"
#include "kvclient/transfer/memory.h"
#include "kvclient/transfer/put.h"

enum { WINDOW = 128, PLACE_STEP = 1024, TOLD_MAX = 4, LATER = 1 };

#define NONE KC_CHAIN_END

struct batch {
	struct kvc_client *c;
	struct kvc_item *items;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kc_wait wait;
	uint64_t epoch;
	uint64_t begun_ns;    /* start of the batch: DELETE, and PUT if values are kept twice */
	const uint64_t *born; /* birth times, if the items are copies; else NULL */
	bool spare;           /* copies use free memory only */
	unsigned pass;        /* 0 or 1 */
	unsigned first, last;
	struct kc_window out;
	struct kc_req *req[WINDOW];
	struct slot {
		struct kc_node *node; /* asked server */
		unsigned item;
		uint8_t num_told; /* DELETE: servers that answered before */
		bool deleted;     /* DELETE: one of them had the value */
		union {
			struct kc_client_mem *mem; /* GET, PUT: `users` is raised while the request is out */
			uint16_t told[TOLD_MAX];   /* DELETE: those servers */
		};
	} slot[WINDOW];
	uint64_t row[KV_SHARDS_MAX]; /* see kvc_get.batch */
	uint32_t turn;
};

static void again(struct batch *b, unsigned i, enum route_mark mark)
{
	struct kvc_item *last = b->last == NONE ? NULL : &b->items[b->last];
	b->items[i].result = kc_chain_link(NONE, mark);
	if (last)
		last->result = kc_chain_link(i, kc_chain_mark(last));
	else
		b->first = i;
	b->last = i;
}

static int target_take(const struct batch *b, const struct kvc_item *it, struct kc_target *out)
{
	int rc = kc_target_make(out, it, NULL);
	return rc == 0 && KV_UNLIKELY(it->slice) && kc_target_leaves(b->c, out, it->len) ? -KV_EINVAL : rc;
}

static int lent_init(struct batch *b, const struct kvc_item *it, struct kvc_get *g)
{
	const struct kc_target nowhere = {.at = b->c->area.base};
	int rc = kc_get_init(g, b->c, it->key, &nowhere, 1, b->call, b->deadline_ns);
	if (rc < 0)
		return rc;
	g->to.place = KC_GET_LEASED;
	g->to.cap = KV_VALUE_MAX;
	g->ask.guess = kc_get_guess(b->c, it->len ? it->len : b->call->length);
	g->ask.exact = b->call->flags & KVC_EXACT ? it->len : 0;
	return 0;
}

static int item_get(struct batch *b, struct kvc_item *it, struct kvc_get *g)
{
	struct kc_target to;
	bool valid, lent = KV_UNLIKELY(it->layout != NULL) && kc_layout_borrowed(it, &valid);
	int rc;
	if (lent && KV_UNLIKELY(b->c->sealer != NULL))
		rc = -KV_ENOTSUP;
	else if (lent)
		rc = valid ? 0 : -KV_EINVAL;
	else
		rc = target_take(b, it, &to);
	if (rc == 0)
		rc = lent ? lent_init(b, it, g) : kc_get_init(g, b->c, it->key, &to, it->len, b->call, b->deadline_ns);
	if (KV_UNLIKELY(kc_chain_mark(it) != ROUTE_FRESH) && rc == 0)
		route_resume(&g->route, kc_chain_mark(it), b->c->cluster.view.epoch != b->epoch);
	if (rc == 0)
		kc_get_seal(g);
	g->own_wait.trace = b->wait.trace;
	g->ask.single = true;
	return rc;
}

/* Never parks. 0; -KV_EBUSY: no room now; or another code. */
static int get_begin(struct batch *b, unsigned i, struct slot *slot, struct kc_req **out)
{
	struct kvc_item *it = &b->items[i];
	struct kvc_get g;
	int rc = item_get(b, it, &g);
	if (rc < 0)
		return rc;
	g.batch.row = b->row;
	g.batch.turn = b->turn;
	g.wait = &b->wait; /* g goes out of scope before the request ends */
	rc = kc_get_issue_await(&g, false, out);
	if (rc < 0) {
		kc_get_fini(&g);
		return rc == -KV_ENOTSUP ? LATER : rc;
	}
	if (g.route.former == 0)
		route_count(g.route.n, it->key);
	slot->node = g.route.n;
	slot->mem = g.to.mem;
	slot->item = i;
	return 0;
}

static bool stopped(const struct batch *b)
{
	return kc_trace_stopped(b->wait.trace);
}

static int batch_over(const struct batch *b)
{
	return kc_call_over(b->c, b->wait.trace, b->deadline_ns);
}

static int64_t item_code(const struct batch *b, int64_t rc)
{
	return kc_item_code(b->c, b->wait.trace, rc);
}

/* A request of item i ended with rc at r->n: retry in the next pass, or give the item its code. */
static void failed_await(struct batch *b, unsigned i, struct route *r, int rc)
{
	r->tries |= b->pass;
	if (!stopped(b) && kc_call_next_await(r, rc))
		again(b, i, route_mark(r));
	else
		b->items[i].result = route_code(r, item_code(b, rc));
}

/* The same for a GET: its miss may be one in memory alone. */
static void get_failed_await(struct batch *b, unsigned i, struct kvc_get *g, int rc)
{
	failed_await(b, i, &g->route, rc);
	b->items[i].result = kc_get_code(g, b->items[i].result);
}

static void get_end_await(struct batch *b, struct slot *slot, struct kc_req *r, int status)
{
	struct kvc_item *it = &b->items[slot->item];
	struct kvc_get g;
	bool valid;
	int init = item_get(b, it, &g), rc = init;
	g.route.n = slot->node;
	if (init == 0)
		rc = kc_get_take_await(&g, r, status, NULL);
	if (rc == 0 && KV_UNLIKELY(g.to.place == KC_GET_LEASED) &&
	    kc_get_lend(&g, r, kc_layout_borrowed(it, &valid)) < 0)
		g.state = KC_GET_READING; /* it is a whole GET */
	kc_req_release(b->c, r);
	if (init < 0)
		it->result = init;
	else if (rc < 0)
		get_failed_await(b, slot->item, &g, rc);
	else if (g.state != KC_GET_WHOLE)
		again(b, slot->item, kc_chain_mark(it) == ROUTE_FRESH ? ROUTE_AGAIN : kc_chain_mark(it));
	else
		it->result = route_code(&g.route, (int64_t)kc_get_total(&g));
	if (init == 0)
		kc_get_fini(&g);
	if (slot->mem)
		slot->mem->users--;
}

static void get_whole_await(struct batch *b, unsigned i)
{
	struct kvc_item *it = &b->items[i];
	struct kvc_get g;
	bool valid;
	int rc = item_get(b, it, &g);
	it->result = rc;
	if (rc < 0)
		return;
	g.ask.single = false;
	if (KV_UNLIKELY(g.to.place == KC_GET_LEASED)) {
		struct kvc_borrowed *out = kc_layout_borrowed(it, &valid);
		it->result = kc_get_lent_await(&g, g.ask.guess, out);
		if (it->result == 0)
			it->result = (int64_t)out->len;
	} else {
		it->result = kc_get_all_await(&g);
	}
	kc_get_fini(&g);
}

static int item_put(struct batch *b, struct kvc_item *it, struct kvc_put *p)
{
	struct kc_target from;
	int rc = target_take(b, it, &from);
	if (rc == 0)
		rc = kc_put_init(p, b->c, it->key, &from, it->len, b->call, b->deadline_ns);
	if (rc == 0 && !b->born) /* a copy is sealed already */
		rc = kc_put_seal(p);
	p->own_wait.trace = b->wait.trace;
	p->born_ns = b->born ? b->born[it - b->items] : 0;
	p->spare = b->spare;
	p->batched = true;
	p->turn = b->turn;
	route_resume(&p->route, kc_chain_mark(it), false);
	return rc;
}

static int put_begin(struct batch *b, unsigned i, struct slot *slot, struct kc_req **out)
{
	const struct kvc_item *it = &b->items[i];
	struct kvc_put p;
	int rc = item_put(b, &b->items[i], &p);
	if (rc < 0)
		return rc;
	p.wait = &b->wait;
	rc = kc_put_single(&p) ? kc_put_issue_await(&p, 0, p.len, 0, false, out) : -KV_EBUSY;
	if (rc < 0) {
		kc_put_fini(&p);
		return rc == -KV_ERESET ? -KV_EBUSY : rc;
	}
	route_count(p.route.n, it->key);
	slot->node = p.route.n;
	slot->mem = p.mem;
	slot->item = i;
	return 0;
}

/* Not inlined, so that batches of values kept once have no stack for its frame. */
static __attribute__((noinline)) void put_twice_await(struct batch *b, const struct kvc_item *it, uint64_t checksum)
{
	struct kc_target from;
	if (kc_target_make(&from, it, NULL) == 0)
		kc_second_put_await(b->c, &(struct kc_second_value){.key = it->key,
								    .from = &from,
								    .len = it->len,
								    .checksum = checksum,
								    .born_ns = b->begun_ns,
								    .ttl_s = b->call->ttl_s});
}

/* Retry at the key's server only. */
static void ask_failed_await(struct batch *b, const struct slot *slot, int status)
{
	const struct kvc_item *it = &b->items[slot->item];
	struct route r;
	route_begin(&r, b->c, it->key, ROUTE_ONE, b->call->flags, b->deadline_ns);
	route_resume(&r, kc_chain_mark(it), false);
	r.n = slot->node;
	failed_await(b, slot->item, &r, status);
}

static void put_end_await(struct batch *b, struct slot *slot, struct kc_req *r, int status)
{
	uint64_t checksum = r->wire.put.checksum;
	if (KV_UNLIKELY(status == -KV_EDELETED) && !b->born)
		status = kc_put_cleared(slot->node, b->wait.trace, r);
	kc_req_release(b->c, r);
	if (status < 0)
		ask_failed_await(b, slot, status);
	else
		b->items[slot->item].result = 0;
	if (status == 0 && route_two_copies(b->c, b->call->flags))
		put_twice_await(b, &b->items[slot->item], checksum);
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
	it->result = kc_put_all_await(&p);
	if (it->result == 0 && route_two_copies(b->c, b->call->flags))
		put_twice_await(b, it, p.checksum);
	kc_put_fini(&p);
}

/* ---- DELETE ---- */

static int delete_send(struct batch *b, struct slot *slot, struct kc_node *n, struct kc_req **out)
{
	slot->node = n;
	return kc_delete_begin(n, b->items[slot->item].key, b->deadline_ns, &b->wait, out);
}

/* Begin no more copies of the key's value. True: one is under way. */
static bool copies_forget(struct kvc_client *c, struct kvc_key key)
{
	bool repair = repair_forget(c, key), second = kc_second_forget(c, key);
	return repair || second;
}

/* LATER: the DELETE must follow a pending copy. */
static int delete_begin(struct batch *b, unsigned i, struct slot *slot, struct kc_req **out)
{
	struct kvc_key key = b->items[i].key;
	int rc;
	if (!kc_key_valid(key))
		return -KV_EINVAL;
	if (copies_forget(b->c, key))
		return LATER;
	*slot = (struct slot){.item = i};
	rc = delete_send(b, slot, route_first(b->c, key), out);
	if (rc == 0)
		route_count(slot->node, key);
	return rc;
}

/* Whether the DELETE can proceed. A lost server has no value, but the first one must answer. */
static bool delete_answered(const struct slot *slot, int status)
{
	return status == 0 || status == -KV_ENOTFOUND ||
	       (slot->num_told > 0 && (status == -KV_EPEERDOWN || status == -KV_ELEFT));
}

/* An earlier attempt, whose answer was lost, may have deleted the value. */
static int delete_over(const struct batch *b, const struct slot *slot)
{
	const struct kvc_item *it = &b->items[slot->item];
	kc_owed_note(b->c, it->key, b->begun_ns, 0);
	return slot->deleted || kc_chain_mark(it) != ROUTE_FRESH ? 0 : -KV_ENOTFOUND;
}

/* Without room there, the item starts again in the next pass. */
static void delete_go_on(struct batch *b, const struct slot *slot, struct kc_node *n)
{
	struct kvc_item *it = &b->items[slot->item];
	struct slot *next = &b->slot[kc_window_place(&b->out)];
	struct kc_req *r;
	int over = batch_over(b);
	if (over < 0) {
		it->result = item_code(b, over);
		return;
	}
	*next = *slot;
	if (slot->num_told == TOLD_MAX)
		over = -KV_EBUSY;
	else
		next->told[next->num_told++] = (uint16_t)slot->node->index;
	if (over == 0 && delete_send(b, next, n, &r) == 0)
		kc_window_add(&b->out, r);
	else
		again(b, slot->item, slot->deleted ? ROUTE_AGAIN : kc_chain_mark(it));
}

static void delete_end_await(struct batch *b, struct slot *slot, struct kc_req *req, int status)
{
	struct kvc_item *it = &b->items[slot->item];
	struct kc_place_set told = {0};
	struct route r;
	kc_req_release(b->c, req);
	if (!delete_answered(slot, status)) {
		ask_failed_await(b, slot, status);
		return;
	}
	slot->deleted |= status == 0;
	route_begin(&r, b->c, it->key, ROUTE_DELETE, b->call->flags, b->deadline_ns);
	r.n = slot->node;
	r.told = &told;
	for (unsigned i = 0; i < slot->num_told; i++)
		kc_place_set_put(&told, slot->told[i], true);
	if (KV_UNLIKELY(route_next(&r, status)))
		delete_go_on(b, slot, r.n);
	else
		it->result = delete_over(b, slot);
}

static void delete_whole_await(struct batch *b, unsigned i)
{
	struct kvc_item *it = &b->items[i];
	bool tried = kc_chain_mark(it) != ROUTE_FRESH;
	it->result = !kc_key_valid(it->key) ? -KV_EINVAL
					    : kc_delete_item_await(b->c, it->key, b->call->flags, b->deadline_ns, tried,
								   b->wait.trace);
}

/* ---- passes ---- */

/* The operations' differences. EXISTS has only chain_await. */
struct batch_ops {
	enum kvc_op op;
	void (*chain_await)(struct batch *b); /* NULL: begin, end, whole */
	/* 0 and *out; LATER: in the next pass; or a code. */
	int (*begin)(struct batch *b, unsigned i, struct slot *slot, struct kc_req **out);
	void (*end_await)(struct batch *b, struct slot *slot, struct kc_req *r, int status); /* releases r */
	void (*whole_await)(struct batch *b, unsigned i);
	void (*count)(struct kvc_client *c, struct kvc_item *it, const struct kvc_call *call); /* its result is final */
};

static void oldest_await(struct batch *b, const struct batch_ops *ops)
{
	struct slot slot = b->slot[b->out.head]; /* a copy: its place may be used again */
	struct kc_req *r;
	int status = kc_window_next_await(b->c, &b->out, b->deadline_ns, &r);
	ops->end_await(b, &slot, r, status);
}

static void item_whole_await(struct batch *b, const struct batch_ops *ops, unsigned i)
{
	if (stopped(b)) {
		b->items[i].result = -KV_ECANCELED;
		return;
	}
	ops->whole_await(b, i);
	b->items[i].result = item_code(b, b->items[i].result);
}

static void pass_await(struct batch *b, const struct batch_ops *ops)
{
	unsigned i = b->first, next;
	b->first = b->last = NONE;
	for (; i != NONE; i = next) {
		struct kc_req *r;
		int over = batch_over(b), rc = -KV_EBUSY;
		if (!kc_window_full(&b->out) && over == 0)
			rc = ops->begin(b, i, &b->slot[kc_window_place(&b->out)], &r);
		next = rc >= 0 || b->out.count == 0 ? kc_chain_next(&b->items[i]) : i;
		if (rc == 0)
			kc_window_add(&b->out, r);
		else if (rc == LATER)
			again(b, i, kc_chain_mark(&b->items[i]));
		else if (b->out.count > 0)
			oldest_await(b, ops);
		else if (over < 0) /* failing thousands of items one by one would outlast the grace */
			b->items[i].result = over;
		else
			item_whole_await(b, ops, i);
	}
	while (b->out.count > 0)
		oldest_await(b, ops);
}

/* ---- the parts ---- */

/* A batch, shared by its parts. */
struct whole {
	struct kvc_client *c;
	struct kvc_item *items;
	unsigned n;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kc_trace *trace; /* the call's; its coroutines share a loop, and none parks inside a note */
	const struct batch_ops *ops;
	uint64_t begun_ns;    /* as in struct batch */
	const uint64_t *born; /* as in struct batch */
	bool spare;
	struct co *co;    /* waits for the parts */
	unsigned running; /* in coroutines of their own */
};

struct part {
	struct whole *whole;
	unsigned first; /* of its items; NONE: it has none */
};

/* Items read in parts come first (parts.c); the others stay in the chain. */
static __attribute__((noinline)) void parted_await(struct batch *b)
{
	struct kc_parts_job j = {.c = b->c,
				 .items = b->items,
				 .call = b->call,
				 .deadline_ns = b->deadline_ns,
				 .wait = &b->wait,
				 .row = b->row,
				 .turn = b->turn,
				 .first = NONE};
	unsigned first = NONE, next;
	struct kvc_item *tail[2] = {NULL, NULL};
	for (unsigned i = b->first; i != NONE; i = next) {
		struct kvc_item *it = &b->items[i];
		unsigned which = kc_parts_item(it);
		next = kc_chain_next(it);
		it->result = kc_chain_link(NONE, ROUTE_FRESH);
		if (tail[which])
			tail[which]->result = kc_chain_link(i, ROUTE_FRESH);
		else
			*(which ? &j.first : &first) = i;
		tail[which] = it;
	}
	b->first = first;
	if (j.first != NONE)
		kc_parts_await(&j);
}

static bool any_layout(const struct batch *b)
{
	unsigned i = b->first;
	while (i != NONE && !b->items[i].layout)
		i = kc_chain_next(&b->items[i]);
	return i != NONE;
}

static __attribute__((noinline)) void part_make_await(const struct part *p)
{
	const struct whole *w = p->whole;
	struct batch b = {.c = w->c,
			  .items = w->items,
			  .call = w->call,
			  .deadline_ns = w->deadline_ns,
			  .wait = {.co = co_self(), .trace = w->trace},
			  .epoch = w->c->cluster.view.epoch,
			  .begun_ns = w->begun_ns,
			  .born = w->born,
			  .spare = w->spare,
			  .out = {.req = b.req, .size = WINDOW},
			  .first = p->first,
			  .turn = w->c->batches.begun++};
	if (w->ops->chain_await) {
		w->ops->chain_await(&b);
		return;
	}
	memset(b.row, 0xFF, sizeof(b.row));
	if (w->ops->op == KVC_OP_GET && any_layout(&b))
		parted_await(&b);
	for (b.pass = 0; b.pass < 2; b.pass++)
		pass_await(&b, w->ops);
	for (unsigned i = b.first, next; i != NONE; i = next) {
		next = kc_chain_next(&w->items[i]);
		item_whole_await(&b, w->ops, i);
	}
}

static void part_await(const struct part *p)
{
	kc_wait_stop_set(p->whole->trace->stop);
	part_make_await(p);
	kc_wait_stop_set(NULL);
}

static void part_main(void *arg)
{
	struct part *p = arg;
	struct whole *w = p->whole;
	part_await(p);
	w->c->batches.parts--;
	if (--w->running == 0)
		co_wake(w->co);
}

static bool part_start(struct part *p)
{
	struct kvc_client *c = p->whole->c;
	if (c->batches.parts >= c->batches.parts_max || co_spawn(c->loop, part_main, p, "kvc batch") < 0)
		return false;
	c->batches.parts++;
	p->whole->running++;
	return true;
}

/* A part without a coroutine is made before the call's own part. */
static void part_join(struct part *own, const struct part *p)
{
	struct kvc_item *items = p->whole->items, *last = &items[p->first];
	while (kc_chain_next(last) != NONE)
		last = &items[kc_chain_next(last)];
	last->result = kc_chain_link(own->first, ROUTE_FRESH);
	own->first = p->first;
}

static void items_place_await(const struct whole *w, struct part *parts)
{
	for (unsigned i = w->n; i-- > 0;) {
		struct kvc_item *it = &w->items[i];
		struct part *p = &parts[kc_key_valid(it->key) ? route_first(w->c, it->key)->index : 0];
		it->result = kc_chain_link(p->first, ROUTE_FRESH);
		p->first = i;
		if (i % PLACE_STEP == 0 && i > 0)
			co_yield_await();
	}
}

static __attribute__((noinline)) void parts_await(struct whole *w)
{
	struct part parts[KC_SERVERS_MAX], *own = NULL;
	unsigned n = w->c->pool->room; /* nodes may come while items are placed */
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

/* Several servers have a stack frame of their own, so a worker with one server touches less stack. */
static void whole_await(struct whole *w)
{
	const struct part all = {w, w->n > 0 ? 0 : NONE};
	if (w->c->num_nodes > 1) {
		parts_await(w);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		w->items[i].result = kc_chain_link(i + 1 < w->n ? i + 1 : NONE, ROUTE_FRESH);
	part_await(&all);
}

/* Exchange the items' keys and names. */
static void names_swap(struct kvc_item *items, unsigned n, struct kvc_key *names)
{
	for (unsigned i = 0; i < n; i++) {
		struct kvc_key key = items[i].key;
		items[i].key = names[i];
		names[i] = key;
	}
}

static int batch_refuse(struct kvc_item *items, unsigned n, int rc)
{
	for (unsigned i = 0; items && i < n; i++)
		items[i].result = rc;
	return rc;
}

static int batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n, const struct kvc_call *call,
		       const struct batch_ops *ops, const bool *stop, const uint64_t *born, bool spare)
{
	struct kc_trace t;
	struct whole w = {.c = client,
			  .items = items,
			  .n = n,
			  .trace = &t,
			  .ops = ops,
			  .born = born,
			  .spare = spare,
			  .co = co_self()};
	struct kvc_key *names = NULL;
	struct kvc_call own;
	int rc = kc_call_begin(client, &t, ops->op, call);
	if (rc < 0)
		return batch_refuse(items, n, rc);
	if ((!items && n > 0) || kc_call_check(call, &own) < 0) {
		rc = batch_refuse(items, n, -KV_EINVAL);
		goto out;
	}
	t.batch = true;
	t.stop = stop;
	w.call = &own;
	w.begun_ns = ops->op == KVC_OP_DELETE || (ops->op == KVC_OP_PUT && route_two_copies(client, own.flags))
			     ? loop_now(client->loop)
			     : 0;
	w.deadline_ns = kc_call_deadline(client, &own, ops->chain_await ? 0 : kc_batch_bytes(items, n));
	if (kc_names(client) && !born && n > 0) { /* copies have names */
		rc = kc_names_await(client, &items->key, sizeof(*items), n, &names);
		if (rc < 0) {
			batch_refuse(items, n, rc);
			goto out;
		}
		names_swap(items, n, names);
	}
	whole_await(&w);
	for (unsigned i = 0; i < n; i++) {
		KV_ASSERT_HOT(!kc_chain_linked(&items[i])); /* rule 32: each has its result */
		ops->count(client, &items[i], &own);
		kc_result_count(client, ops->op, items[i].result);
		if (items[i].result < 0 && rc == 0)
			rc = (int)items[i].result;
	}
	if (KV_UNLIKELY(names != NULL)) {
		names_swap(items, n, names);
		free(names);
	}
out:
	return (int)kc_call_end(client, &t, rc);
}

/* An item may count as a miss if all servers are down. */
static void get_end_count(struct kvc_client *c, struct kvc_item *it, const struct kvc_call *call)
{
	if (it->result < 0 && kc_key_valid(it->key))
		it->result = route_down(route_owner(c, it->key), call->flags, it->result);
	kc_get_count(c, it->result);
}

static void put_end_count(struct kvc_client *c, struct kvc_item *it, const struct kvc_call *call)
{
	(void)call;
	kc_put_count(c, (int)it->result, it->len);
}

/* Count after the code is set: a miss at a lost server deleted nothing. */
static void delete_end_count(struct kvc_client *c, struct kvc_item *it, const struct kvc_call *call)
{
	if (it->result < 0 && kc_key_valid(it->key))
		it->result = route_down(route_owner(c, it->key), call->flags, it->result);
	kc_add(&c->count.deletes, 1);
}

static void exists_end_count(struct kvc_client *c, struct kvc_item *it, const struct kvc_call *call)
{
	(void)it;
	(void)call;
	kc_add(&c->count.exists, 1);
}

/* ---- EXISTS ---- */

struct exists_window {
	unsigned item[KC_EXISTS_WINDOW];
	unsigned n;
};

/* Take items of one server from the front of the chain, up to a window. Invalid items get their code. */
static void exists_take(struct batch *b, struct exists_window *w)
{
	bool several = b->c->num_nodes > 1;
	const struct kc_node *of = NULL;
	unsigned next;
	w->n = 0;
	for (unsigned i = b->first; i != NONE && w->n < KC_EXISTS_WINDOW; b->first = i = next) {
		struct kvc_item *it = &b->items[i];
		bool wrong = !kc_key_valid(it->key);
		next = kc_chain_next(it);
		if (several && !wrong) {
			const struct kc_node *n = route_first(b->c, it->key);
			if (of && of != n)
				break;
			of = n;
		}
		if (wrong)
			it->result = -KV_EINVAL;
		else
			w->item[w->n++] = i;
	}
}

static void exists_chain_await(struct batch *b)
{
	struct exists_window w;
	while (b->first != NONE) {
		int64_t rc;
		exists_take(b, &w);
		if (w.n == 0)
			continue;
		rc = batch_over(b);
		if (rc == 0)
			rc = item_code(b, kc_exists_items_await(b->c, b->items, w.item, w.n, b->call, b->deadline_ns,
								b->wait.trace));
		for (unsigned i = 0; i < w.n && rc < 0; i++)
			b->items[w.item[i]].result = rc;
	}
}

/* ---- the calls ---- */

static const struct batch_ops get_ops = {KVC_OP_GET, NULL, get_begin, get_end_await, get_whole_await, get_end_count};
static const struct batch_ops put_ops = {KVC_OP_PUT, NULL, put_begin, put_end_await, put_whole_await, put_end_count};
static const struct batch_ops delete_ops = {KVC_OP_DELETE,   NULL, delete_begin, delete_end_await, delete_whole_await,
					    delete_end_count};
static const struct batch_ops exists_ops = {
	.op = KVC_OP_EXISTS, .chain_await = exists_chain_await, .count = exists_end_count};

int kvc_get_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	int rc = kc_items_check(KVC_OP_GET, items, n);
	if (rc < 0)
		return rc;
	kc_parts_claim(items, n, NULL);
	return batch_await(client, items, n, call, &get_ops, NULL, NULL, false);
}

int kvc_put_batch_await(struct kvc_client *client, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	int rc = kc_items_check(KVC_OP_PUT, items, n);
	return rc < 0 ? rc : batch_await(client, items, n, call, &put_ops, NULL, NULL, false);
}

int kc_copy_batch_await(struct kvc_client *c, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
			const struct kvc_call *call)
{
	return batch_await(c, items, n, call, &put_ops, NULL, born_ns, spare);
}

int kc_batch_await(struct kvc_client *c, enum kvc_op op, struct kvc_item *items, unsigned n,
		   const struct kvc_call *call, const bool *stop)
{
	static const struct batch_ops *const ops[] = {[KVC_OP_GET] = &get_ops,
						      [KVC_OP_PUT] = &put_ops,
						      [KVC_OP_EXISTS] = &exists_ops,
						      [KVC_OP_DELETE] = &delete_ops};
	return batch_await(c, items, n, call, ops[op], stop, NULL, false);
}

void kc_batch_stop(struct kvc_client *c, const bool *stop)
{
	for (uint32_t i = 0; i < c->reqs.count; i++) {
		const struct kc_wait *w = c->reqs.entry[i].wait;
		if (w && w->co && w->trace && w->trace->stop == stop)
			co_wake(w->co);
	}
	kc_room_stop(c, stop);
	kc_waits_stop(c, stop);
}
