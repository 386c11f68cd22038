/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c -- items read in parts, so a caller can use the first layer of all blocks while the others arrive.
 *
 * Part 0 of every item is asked for, then part 1 of every item, ..., WINDOW at a time, each with a checksum. Verified
 * parts are counted in the item's struct kvc_arrival, in order, and never written again; the count is stored with
 * release after the bytes, for any thread. Counted parts are announced before the call waits for more, so that a burst
 * of them wakes the host once.
 *
 * All parts of an item have one generation. After a replacement or the server's death the item begins again if nothing
 * is counted, else it is a miss.
 *
 * If one request does not suffice, the item is slow: its missing parts are single calls when nothing else is out, so
 * nothing waits for room while it holds any. */
#include "kvclient/call/parts.h"

#include "kvclient/core/sized.h"
#include "kvclient/route/hot.h"
#include "kvclient/transfer/get.h"
#include "kvclient/transfer/memory.h"

enum { WINDOW = 128 };

/* An item's progress. */
struct course {
	struct kc_target at;
	uint64_t generation, value_len; /* 0: unknown */
	union {
		int64_t code;   /* over: the result */
		uint64_t chain; /* else, of a sealed value: kc_get_chain of its last part */
	};
	uint16_t node; /* source of all parts */
	bool over, slow, corrupt;
};

/* In kvc_arrival.priv. `of` is written only when the batch is submitted: items that share the state read it on other
 * loops. */
struct state {
	const struct kvc_item *of;
	struct kc_parts_told *told; /* or NULL */
	struct course now;
};

_Static_assert(sizeof(struct state) <= sizeof(((struct kvc_arrival *)0)->priv), "the caller's memory has room for it");

struct part_out {
	struct kc_client_mem *mem; /* `users` is raised while the request is out */
	unsigned item, part;
};

struct parts {
	const struct kc_parts_job *j;
	struct kc_window out;
	struct kc_req *req[WINDOW];
	struct part_out part[WINDOW];
	unsigned most;
	struct kc_parts_told *untold; /* parts were counted, and are to be announced there */
};

uint32_t kvc_arrival_parts(const struct kvc_arrival *arrival)
{
	return arrival ? __atomic_load_n(&arrival->parts, __ATOMIC_ACQUIRE) : 0;
}

/* ---- items ---- */

/* Another struct version is refused, as for any other item. */
bool kc_parts_item(const struct kvc_item *it)
{
	struct kvc_layout l;
	return it->layout && kc_layout_take(it, &l) == 0 && (l.num_parts || l.part_ends || l.arrival);
}

static struct state *state_of(const struct kvc_item *it)
{
	return (struct state *)(void *)it->layout->arrival->priv;
}

static struct course *course_of(const struct kvc_item *it)
{
	return &state_of(it)->now;
}

static void item_over(struct kvc_item *it, int64_t code)
{
	struct course *now = course_of(it);
	if (!now->over)
		now->code = code;
	now->over = true;
}

static uint64_t part_from(const struct kvc_item *it, unsigned part)
{
	return part > 0 ? it->layout->part_ends[part - 1] : 0;
}

/* The bytes to read for a part: those before have been read. Pieces of sealed values are read as a whole, with the part
 * in which they begin. False: none. */
static bool part_span(const struct kc_parts_job *j, const struct kvc_item *it, unsigned part, uint64_t *out_from,
		      uint64_t *out_end)
{
	*out_from = part_from(it, part);
	*out_end = it->layout->part_ends[part];
	if (KV_UNLIKELY(j->c->sealer != NULL)) {
		*out_from = kv_align_up(*out_from, KC_SEAL_PIECE);
		*out_end = KV_MIN(kv_align_up(*out_end, KC_SEAL_PIECE), it->len);
	}
	return *out_from < *out_end;
}

static struct kc_node *node_of(const struct kc_parts_job *j, const struct kvc_item *it)
{
	return route_read_first(j->c, j->call->flags, it->key);
}

static bool ends_right(const struct kvc_layout *l, uint64_t len)
{
	uint64_t from = 0;
	if (!l->arrival || !l->part_ends || l->num_parts == 0 || l->num_parts > KVC_PARTS_OF_ITEM_MAX)
		return false;
	for (uint32_t i = 0; i < l->num_parts; from = l->part_ends[i++])
		if (l->part_ends[i] <= from)
			return false;
	return from == len;
}

static int item_begin(const struct kc_parts_job *j, struct kvc_item *it)
{
	struct kvc_layout l;
	struct kc_target at;
	struct course *now;
	if (kc_target_make(&at, it, &l) < 0 || (it->slice && kc_target_leaves(j->c, &at, it->len)) ||
	    !kc_key_valid(it->key) || !ends_right(&l, it->len) || j->call->offset || j->call->length)
		return -KV_EINVAL;
	if (state_of(it)->of != it)
		return -KV_EINVAL; /* another item's state is left alone */
	now = course_of(it);
	*now = (struct course){.at = at, .node = (uint16_t)node_of(j, it)->index};
	route_count(&j->c->node[now->node], it->key);
	return 0;
}

static void part_count(struct kvc_item *it, unsigned part)
{
	const struct course *now = course_of(it);
	uint64_t end = it->layout->part_ends[part];
	KV_ASSERT_HOT(part == kvc_arrival_parts(it->layout->arrival)); /* rule 52: in order */
	if (end <= now->value_len)
		__atomic_store_n(&it->layout->arrival->parts, part + 1, __ATOMIC_RELEASE);
	if (end >= now->value_len)
		item_over(it, (int64_t)now->value_len);
}

/* -KV_ESTALE: the bytes are of another value. */
static int part_there(const struct kc_parts_job *j, struct kvc_item *it, unsigned part, const struct kvc_get *g)
{
	struct course *now = course_of(it);
	uint64_t from = 0, end;
	if (part > 0 && (g->value.generation != now->generation || kc_get_len(g) != now->value_len))
		return -KV_ESTALE;
	if (j->call->flags & KVC_EXACT && kc_get_len(g) != it->len)
		return -KV_ENOTFOUND;
	if (kc_get_len(g) > it->len)
		return -KV_ETOOBIG;
	now->generation = g->value.generation;
	now->value_len = kc_get_len(g);
	if (KV_UNLIKELY(g->sealed.by != NULL))
		now->chain = kc_get_chain(g);
	do
		part_count(it, part++);
	while (part < it->layout->num_parts && !now->over && !part_span(j, it, part, &from, &end));
	if (part < it->layout->num_parts && !now->over && from >= now->value_len)
		item_over(it, (int64_t)now->value_len); /* the last piece came with an earlier part */
	return 0;
}

static void parts_tell(struct kc_parts_told **untold)
{
	struct kc_parts_told *told = *untold;
	*untold = NULL;
	if (told)
		told->fn(told);
}

static bool part_next(const struct kvc_item *it, unsigned part)
{
	return !course_of(it)->over && part < it->layout->num_parts && part == kvc_arrival_parts(it->layout->arrival);
}

static void part_get(const struct kc_parts_job *j, const struct kvc_item *it, unsigned part, struct kvc_get *g)
{
	struct kc_target at = course_of(it)->at;
	uint64_t from, end;
	(void)part_span(j, it, part, &from, &end);
	at.skip = from;
	(void)kc_get_init(g, j->c, it->key, &at, end - from, j->call, j->deadline_ns); /* item_begin has checked */
	g->route.n = &j->c->node[course_of(it)->node];
	g->ask.offset = from;
	g->ask.length = end - from;
	g->ask.more = part > 0;
	g->ask.exact = 0; /* part_there checks the whole value */
	kc_get_seal(g);
	if (KV_UNLIKELY(g->sealed.by != NULL) && part > 0 && part_next(it, part))
		g->sealed.chain = course_of(it)->chain;
	g->own_wait.trace = j->wait->trace;
}

/* ---- parts side by side ---- */

static bool worth_again(int rc)
{
	return rc == -KV_ERESET || rc == -KV_ESTALE || rc == -KV_ECORRUPT || rc == -KV_EBUSY || rc == -KV_EPROVIDER ||
	       rc == -KV_EINVAL || rc == -KV_ETOOBIG; /* the last two: another, shorter value; or several ranges */
}

/* A part failed with rc: make the rest part by part, if that may help. */
static void part_failed(const struct kc_parts_job *j, struct kvc_item *it, int rc)
{
	struct course *now = course_of(it);
	struct route r;
	route_begin(&r, j->c, it->key, ROUTE_READ, j->call->flags, j->deadline_ns);
	r.n = &j->c->node[now->node];
	now->corrupt |= rc == -KV_ECORRUPT;
	if (worth_again(rc) || route_next(&r, rc))
		now->slow = true; /* if time is up, its next part fails with that */
	else
		item_over(it, kc_item_code(j->c, j->wait->trace, rc));
}

static void part_end_await(struct parts *p)
{
	const struct kc_parts_job *j = p->j;
	const struct part_out *u = &p->part[p->out.head];
	struct kvc_item *it = &j->items[u->item];
	struct kc_req *r = p->req[p->out.head];
	struct kvc_get g;
	int rc;
	if (r->state != KC_REQ_DONE)
		parts_tell(&p->untold);
	rc = kc_window_next_await(j->c, &p->out, j->deadline_ns, &r);
	part_get(j, it, u->part, &g);
	rc = kc_get_take_await(&g, r, rc, NULL);
	kc_req_release(j->c, r);
	if (part_next(it, u->part)) {
		if (rc == 0 && g.state != KC_GET_WHOLE)
			rc = -KV_ETOOBIG; /* several ranges */
		if (rc == 0)
			rc = part_there(j, it, u->part, &g);
		if (rc == 0)
			p->untold = state_of(it)->told;
		else
			part_failed(j, it, rc);
	}
	kc_get_fini(&g);
	if (u->mem)
		u->mem->users--;
}

/* Ask for a part, without parking. 0; -KV_EBUSY: no room now. */
static int part_begin(struct parts *p, unsigned i, unsigned part)
{
	const struct kc_parts_job *j = p->j;
	struct kc_req *r;
	struct kvc_get g;
	int rc;
	if (kc_window_full(&p->out))
		return -KV_EBUSY;
	part_get(j, &j->items[i], part, &g);
	g.ask.single = true;
	g.batch.row = j->row;
	g.batch.turn = j->turn;
	g.wait = j->wait; /* g goes out of scope before the request ends */
	rc = kc_get_issue_await(&g, false, &r);
	if (rc < 0) {
		kc_get_fini(&g);
		return rc;
	}
	p->part[kc_window_place(&p->out)] = (struct part_out){g.to.mem, i, part};
	kc_window_add(&p->out, r);
	return 0;
}

static void part_ask_await(struct parts *p, unsigned i, unsigned part)
{
	struct kvc_item *it = &p->j->items[i];
	struct course *now = course_of(it);
	uint64_t from, end;
	if (part >= it->layout->num_parts || !part_span(p->j, it, part, &from, &end))
		return;
	while (!now->over && !now->slow) {
		int over = kc_call_over(p->j->c, p->j->wait->trace, p->j->deadline_ns);
		int rc = over < 0 ? over : part_begin(p, i, part);
		if (rc == 0)
			return;
		if (over < 0)
			item_over(it, over);
		else if (rc == -KV_ETOOBIG)
			now->slow = true; /* several ranges */
		else if (p->out.count > 0)
			part_end_await(p);
		else
			part_failed(p->j, it, rc);
	}
}

/* ---- parts one by one ---- */

static void part_alone_await(const struct kc_parts_job *j, struct kvc_item *it, unsigned part)
{
	struct course *now = course_of(it);
	struct kvc_get g;
	int64_t rc = kc_call_over(j->c, j->wait->trace, j->deadline_ns);
	if (rc < 0) {
		item_over(it, rc);
		return;
	}
	if (part == 0)
		now->node = (uint16_t)node_of(j, it)->index;
	part_get(j, it, part, &g);
	g.route.tries = now->corrupt ? KC_TRIED_CORRUPT : 0;
	rc = kc_get_all_await(&g);
	if (rc >= 0 && part > 0 && g.route.n->index != now->node)
		rc = -KV_ESTALE; /* generations of two servers may be alike */
	now->node = (uint16_t)g.route.n->index;
	if (rc >= 0)
		rc = part_there(j, it, part, &g);
	kc_get_fini(&g);
	if (rc == 0)
		parts_tell(&(struct kc_parts_told *){state_of(it)->told});
	if (rc == -KV_ESTALE || (rc == -KV_EINVAL && part > 0))
		rc = -KV_ENOTFOUND;
	if (rc < 0)
		item_over(it, kc_item_code(j->c, j->wait->trace, rc));
}

/* ---- all ---- */

static void arrival_claim(const struct kvc_item *it, struct kc_parts_told *told)
{
	state_of(it)->of = it;
	state_of(it)->told = told;
	__atomic_store_n(&it->layout->arrival->parts, 0, __ATOMIC_RELEASE);
}

static void borrowed_claim(const struct kvc_item *it)
{
	bool valid;
	struct kvc_borrowed *out = kc_layout_borrowed(it, &valid);
	if (out)
		*out = (struct kvc_borrowed){0};
}

void kc_parts_claim(const struct kvc_item *items, unsigned n, struct kc_parts_told *told)
{
	for (unsigned i = 0; items && i < n; i++)
		if (KV_UNLIKELY(items[i].layout != NULL))
			borrowed_claim(&items[i]);
	for (unsigned i = 0; items && i < n; i++)
		if (KV_UNLIKELY(items[i].layout != NULL) && kc_parts_item(&items[i]) && items[i].layout->arrival)
			arrival_claim(&items[i], told);
}

static unsigned items_begin(const struct kc_parts_job *j)
{
	unsigned first = KC_CHAIN_END, next;
	struct kvc_item *last = NULL;
	for (unsigned i = j->first; i != KC_CHAIN_END; i = next) {
		struct kvc_item *it = &j->items[i];
		int rc = item_begin(j, it);
		next = kc_chain_next(it);
		if (rc < 0) {
			it->result = rc;
			continue;
		}
		if (last)
			last->result = kc_chain_link(i, ROUTE_FRESH);
		else
			first = i;
		last = it;
	}
	if (last)
		last->result = kc_chain_link(KC_CHAIN_END, ROUTE_FRESH);
	return first;
}

void kc_parts_await(const struct kc_parts_job *job)
{
	struct kc_parts_job j = *job;
	struct parts p = {.j = &j, .out = {.req = p.req, .size = WINDOW}};
	unsigned next;
	j.first = items_begin(&j);
	for (unsigned i = j.first; i != KC_CHAIN_END; i = kc_chain_next(&j.items[i]))
		p.most = KV_MAX(p.most, j.items[i].layout->num_parts);
	for (unsigned part = 0; part < p.most; part++)
		for (unsigned i = j.first; i != KC_CHAIN_END; i = kc_chain_next(&j.items[i]))
			part_ask_await(&p, i, part);
	while (p.out.count > 0)
		part_end_await(&p);
	parts_tell(&p.untold);
	for (unsigned part = 0; part < p.most; part++)
		for (unsigned i = j.first; i != KC_CHAIN_END; i = kc_chain_next(&j.items[i]))
			if (part_next(&j.items[i], part))
				part_alone_await(&j, &j.items[i], part);
	for (unsigned i = j.first; i != KC_CHAIN_END; i = next) {
		struct kvc_item *it = &j.items[i];
		next = kc_chain_next(it);
		it->result = course_of(it)->code;
	}
}
