/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c -- the namespaces, the tenants and the holders of leases of a server: pages of rows from each shard, added
 * up by their names, or by their sessions. */
#include "kvclient/call/keyed.h"

#include <stdlib.h>

#include "kvclient/conn/alias.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

struct listing;

/* A kind of rows. */
struct kind {
	size_t bytes;  /* of a row */
	unsigned most; /* rows that a shard may have */
	/* page_await -- append the page at *from to the list, and set *from to the next one; 0: there is none. */
	int (*page_await)(struct kvc_client *c, uint64_t *from, struct listing *l, const struct kvc_call *call);
	/* order -- as qsort's function; 0: rows of the same thing at two shards. add -- add one to the other. */
	int (*order)(const void *a, const void *b);
	void (*add)(void *to, const void *from);
};

struct listing {
	const struct kind *kind;
	char *all;
	size_t count, room;
};

/* Place for one more row. NULL: no memory. */
static void *listing_room(struct listing *l)
{
	if (l->count == l->room) {
		size_t room = KV_MAX(l->room * 2, (size_t)256);
		char *more = realloc(l->all, room * l->kind->bytes);
		if (!more)
			return NULL;
		l->all = more;
		l->room = room;
	}
	return l->all + l->count++ * l->kind->bytes;
}

/* Rows that begin with their names. */
static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void listing_fold(struct listing *l)
{
	size_t n = 0, bytes = l->kind->bytes;
	if (l->count == 0)
		return;
	qsort(l->all, l->count, bytes, l->kind->order);
	for (size_t i = 1; i < l->count; i++) {
		const char *from = l->all + i * bytes;
		char *to = l->all + n * bytes;
		if (l->kind->order(from, to) == 0)
			l->kind->add(to, from);
		else if (++n < i)
			memcpy(to + bytes, from, bytes);
	}
	l->count = n + 1;
}

/* A page of a question to shard call->shard - 1. 0 or a code; -KV_EINVAL: no such shard. */
static int page_await(struct kvc_client *c, const struct wire_request *wire, void *out, const struct kvc_call *call)
{
	struct kvc_call own;
	struct kc_trace t;
	int rc = kc_call_open(c, &t, KVC_OP_STAT, call, &own);
	uint64_t deadline;
	if (rc < 0)
		return rc;
	deadline = kc_call_deadline(c, &own, 0);
	rc = -KV_EINVAL;
	if (own.server < c->num_nodes && own.shard > 0)
		rc = kc_ask_shard_await(kc_alias_node_await(c, own.server, deadline), wire, own.shard - 1, deadline,
					out, &t);
	return (int)kc_call_end(c, &t, rc == 1 ? -KV_EINVAL : rc);
}

/* A lying server ends no page: more rows than it may have are too many. */
static int shard_list_await(struct kvc_client *c, const struct kvc_call *call, struct listing *l)
{
	size_t before = l->count, last;
	uint64_t from = 0;
	int rc;
	do {
		last = l->count;
		rc = l->kind->page_await(c, &from, l, call);
		if (rc == 0 && (l->count - before > l->kind->most || (from && l->count == last)))
			rc = -KV_EPROTO;
	} while (rc == 0 && from);
	return rc;
}

/* All rows of call->server, or of one shard of it. */
static int list_await(struct kvc_client *c, const struct kind *kind, void *out, unsigned max,
		      const struct kvc_call *call)
{
	struct listing l = {.kind = kind};
	struct kvc_call own;
	int rc = kc_call_allowed(c);
	bool only;
	if (rc == 0)
		rc = (out || max == 0) ? kc_call_check(call, &own) : -KV_EINVAL;
	if (rc < 0)
		return rc;
	only = own.shard > 0;
	own.shard = KV_MAX(own.shard, 1u);
	rc = shard_list_await(c, &own, &l);
	while (rc == 0 && !only) {
		own.shard++;
		rc = shard_list_await(c, &own, &l);
		only = rc == -KV_EINVAL; /* there are no more shards */
		rc = only ? 0 : rc;
	}
	if (rc == 0) {
		listing_fold(&l);
		if (l.count && max)
			memcpy(out, l.all, KV_MIN(l.count, (size_t)max) * kind->bytes);
	}
	free(l.all);
	return rc < 0 ? rc : (int)l.count;
}

/* ---- namespaces ---- */

int kc_spaces_await(struct kvc_client *c, uint64_t from, struct kc_spaces *out, const struct kvc_call *call)
{
	return page_await(c, &(struct wire_request){.type = WIRE_SPACES, .tombs.from = from}, out, call);
}

static int spaces_page_await(struct kvc_client *c, uint64_t *from, struct listing *l, const struct kvc_call *call)
{
	struct kc_spaces page;
	int rc = kc_spaces_await(c, *from, &page, call);
	for (unsigned i = 0; rc == 0 && i < page.count; i++) {
		const struct wire_space *w = &page.space[i];
		struct kvc_namespace *to = listing_room(l);
		if (!to)
			return -KV_ENOMEM;
		*to = (struct kvc_namespace){.generation = w->generation,
					     .blocks = w->blocks,
					     .bytes = w->bytes,
					     .gets = w->gets,
					     .hits = w->hits,
					     .tier_bytes = w->tier_bytes};
		memcpy(to->name, w->name, sizeof(w->name));
	}
	*from = rc == 0 ? page.next : 0;
	return rc;
}

static void space_add(void *to, const void *from)
{
	struct kvc_namespace *sum = to;
	const struct kvc_namespace *more = from;
	sum->generation = KV_MAX(sum->generation, more->generation);
	sum->blocks += more->blocks;
	sum->bytes += more->bytes;
	sum->gets += more->gets;
	sum->hits += more->hits;
	sum->tier_bytes += more->tier_bytes;
}

int kvc_namespaces_await(struct kvc_client *client, struct kvc_namespace *out, unsigned max,
			 const struct kvc_call *call)
{
	static const struct kind kind = {sizeof(*out), KC_SPACES_MAX, spaces_page_await, by_name, space_add};
	return list_await(client, &kind, out, max, call);
}

/* ---- tenants ---- */

static int tenants_page_await(struct kvc_client *c, uint64_t *from, struct listing *l, const struct kvc_call *call)
{
	const struct wire_request wire = {.type = WIRE_TENANTS, .tombs.from = *from};
	struct kc_tenants page;
	int rc = page_await(c, &wire, &page, call);
	for (unsigned i = 0; rc == 0 && i < page.count; i++) {
		const struct wire_tenant *w = &page.tenant[i];
		struct kvc_tenant *to = listing_room(l);
		if (!to)
			return -KV_ENOMEM;
		*to = (struct kvc_tenant){.listed = w->listed,
					  .memory_bytes = w->bytes,
					  .memory_share = w->share,
					  .memory_cap = w->cap,
					  .tier_bytes = w->tier_bytes,
					  .tier_cap = w->tier_cap,
					  .pinned_bytes = w->pinned,
					  .pins_cap = w->pins_cap,
					  .requests = w->active,
					  .requests_max = w->requests_max,
					  .read_bytes = w->read_bytes,
					  .read_rate = w->read_rate,
					  .sessions = w->sessions,
					  .namespaces = w->spaces,
					  .evictions = w->evicted,
					  .refused = w->denied};
		memcpy(to->name, w->name, sizeof(w->name));
	}
	*from = rc == 0 ? page.next : 0;
	return rc;
}

/* UINT64_MAX stays: no limit. */
static void limit_add(uint64_t *to, uint64_t more)
{
	*to = *to > UINT64_MAX - more ? UINT64_MAX : *to + more;
}

/* A session is on each shard, and so is a namespace. */
static void tenant_add(void *to, const void *from)
{
	struct kvc_tenant *sum = to;
	const struct kvc_tenant *more = from;
	sum->listed |= more->listed;
	sum->memory_bytes += more->memory_bytes;
	limit_add(&sum->memory_share, more->memory_share);
	limit_add(&sum->memory_cap, more->memory_cap);
	sum->tier_bytes += more->tier_bytes;
	limit_add(&sum->tier_cap, more->tier_cap);
	sum->pinned_bytes += more->pinned_bytes;
	limit_add(&sum->pins_cap, more->pins_cap);
	sum->requests += more->requests;
	limit_add(&sum->requests_max, more->requests_max);
	sum->read_bytes += more->read_bytes;
	limit_add(&sum->read_rate, more->read_rate);
	sum->sessions = KV_MAX(sum->sessions, more->sessions);
	sum->namespaces = KV_MAX(sum->namespaces, more->namespaces);
	sum->evictions += more->evictions;
	sum->refused += more->refused;
}

int kvc_tenants_await(struct kvc_client *client, struct kvc_tenant *out, unsigned max, const struct kvc_call *call)
{
	static const struct kind kind = {sizeof(*out), KC_TENANTS_MAX, tenants_page_await, by_name, tenant_add};
	return list_await(client, &kind, out, max, call);
}

/* ---- leases ---- */

static int holders_page_await(struct kvc_client *c, uint64_t *from, struct listing *l, const struct kvc_call *call)
{
	const struct wire_request wire = {.type = WIRE_LEASES, .tombs.from = *from};
	struct kc_holders page;
	int rc = page_await(c, &wire, &page, call);
	for (unsigned i = 0; rc == 0 && i < page.count; i++) {
		const struct wire_holder *w = &page.holder[i];
		struct kvc_lease_holder *to = listing_room(l);
		if (!to)
			return -KV_ENOMEM;
		*to = (struct kvc_lease_holder){.client_id = w->client_id,
						.session = w->session,
						.pid = w->pid,
						.leases = w->leases,
						.bytes = w->bytes,
						.age_ns = w->age_ns};
		memcpy(to->identity, w->identity, sizeof(w->identity));
	}
	*from = rc == 0 ? page.next : 0;
	return rc;
}

static int by_session(const void *a, const void *b)
{
	const struct kvc_lease_holder *x = a, *y = b;
	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->client_id < y->client_id ? -1 : x->client_id > y->client_id;
}

static void holder_add(void *to, const void *from)
{
	struct kvc_lease_holder *sum = to;
	const struct kvc_lease_holder *more = from;
	sum->leases += more->leases;
	sum->bytes += more->bytes;
	sum->age_ns = KV_MAX(sum->age_ns, more->age_ns);
}

int kvc_leases_await(struct kvc_client *client, struct kvc_lease_holder *out, unsigned max, const struct kvc_call *call)
{
	static const struct kind kind = {sizeof(*out), KC_HOLDERS_MAX, holders_page_await, by_session, holder_add};
	return list_await(client, &kind, out, max, call);
}
