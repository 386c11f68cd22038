/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c -- the namespaces, the tenants and the holders of leases of a server: pages of rows from each shard, added
 * up by their names, or by their sessions. */
#include "kvclient/call/keyed.h"

#include <stdlib.h>

#include "kvclient/conn/alias.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

/* A number of a row: its place in the caller's struct. The server's number is the sum over its shards, or the largest
 * of theirs: a session is on each shard, and so are a namespace and a holder's ids. */
struct number {
	size_t at;
	bool largest;
};

struct kind {
	uint8_t type;     /* of the request */
	unsigned most;    /* rows that a shard may have */
	size_t bytes;     /* of the caller's struct, which begins with the name */
	size_t listed_at; /* its field for WIRE_ROW_LISTED; 0: none */
	const struct number *number;
	unsigned numbers;
	int (*order)(const void *a, const void *b); /* of rows, as qsort's; 0: the same thing at two shards */
};

struct listing {
	const struct kind *kind;
	struct wire_row *all;
	size_t count, room;
};

static int rows_add(struct listing *l, const struct kc_rows *page)
{
	if (l->count + page->count > l->room) {
		size_t room = KV_MAX(l->room * 2, (size_t)256);
		struct wire_row *more = realloc(l->all, room * sizeof(*more));
		if (!more)
			return -KV_ENOMEM;
		l->all = more;
		l->room = room;
	}
	memcpy(l->all + l->count, page->row, page->count * sizeof(*l->all));
	l->count += page->count;
	return 0;
}

/* UINT64_MAX stays: no limit. */
static void row_add(const struct kind *kind, struct wire_row *to, const struct wire_row *from)
{
	to->flags |= from->flags;
	for (unsigned i = 0; i < kind->numbers; i++) {
		uint64_t sum = to->number[i], more = from->number[i];
		if (kind->number[i].largest)
			to->number[i] = KV_MAX(sum, more);
		else
			to->number[i] = sum > UINT64_MAX - more ? UINT64_MAX : sum + more;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct wire_row *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static int by_session(const void *a, const void *b)
{
	const struct wire_row *x = a, *y = b;
	unsigned k = x->number[WIRE_HOLDER_SESSION] != y->number[WIRE_HOLDER_SESSION] ? WIRE_HOLDER_SESSION
										      : WIRE_HOLDER_CLIENT;
	return x->number[k] < y->number[k] ? -1 : x->number[k] > y->number[k];
}

static void listing_fold(struct listing *l)
{
	size_t n = 0;
	if (l->count == 0)
		return;
	qsort(l->all, l->count, sizeof(*l->all), l->kind->order);
	for (size_t i = 1; i < l->count; i++)
		if (l->kind->order(&l->all[i], &l->all[n]) == 0)
			row_add(l->kind, &l->all[n], &l->all[i]);
		else
			l->all[++n] = l->all[i];
	l->count = n + 1;
}

static void row_give(const struct kind *kind, const struct wire_row *row, char *out)
{
	memset(out, 0, kind->bytes);
	memcpy(out, row->name, sizeof(row->name));
	for (unsigned i = 0; i < kind->numbers; i++)
		*(uint64_t *)(void *)(out + kind->number[i].at) = row->number[i];
	if (kind->listed_at)
		*(uint64_t *)(void *)(out + kind->listed_at) = row->flags & WIRE_ROW_LISTED;
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
	size_t before = l->count;
	struct kc_rows page = {.next = 0};
	int rc;
	do {
		rc = page_await(c, &(struct wire_request){.type = l->kind->type, .tombs.from = page.next}, &page, call);
		if (rc == 0)
			rc = rows_add(l, &page);
		if (rc == 0 && (l->count - before > l->kind->most || (page.next && page.count == 0)))
			rc = -KV_EPROTO;
	} while (rc == 0 && page.next);
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
		for (size_t i = 0; i < KV_MIN(l.count, (size_t)max); i++)
			row_give(kind, &l.all[i], (char *)out + i * kind->bytes);
	}
	free(l.all);
	return rc < 0 ? rc : (int)l.count;
}

/* ---- namespaces ---- */

int kc_spaces_await(struct kvc_client *c, uint64_t from, struct kc_rows *out, const struct kvc_call *call)
{
	return page_await(c, &(struct wire_request){.type = WIRE_SPACES, .tombs.from = from}, out, call);
}

int kvc_namespaces_await(struct kvc_client *client, struct kvc_namespace *out, unsigned max,
			 const struct kvc_call *call)
{
#define NUMBER(member, largest) {offsetof(struct kvc_namespace, member), largest}
	static const struct number numbers[] = {
		[WIRE_SPACE_GENERATION] = NUMBER(generation, true),
		[WIRE_SPACE_BLOCKS] = NUMBER(blocks, false),
		[WIRE_SPACE_USED] = NUMBER(bytes, false),
		[WIRE_SPACE_TIER_USED] = NUMBER(tier_bytes, false),
		[WIRE_SPACE_GETS] = NUMBER(gets, false),
		[WIRE_SPACE_HITS] = NUMBER(hits, false),
	};
#undef NUMBER
	static const struct kind kind = {.type = WIRE_SPACES,
					 .most = KC_SPACES_MAX,
					 .bytes = sizeof(*out),
					 .number = numbers,
					 .numbers = KV_COUNT(numbers),
					 .order = by_name};
	return list_await(client, &kind, out, max, call);
}

/* ---- tenants ---- */

int kvc_tenants_await(struct kvc_client *client, struct kvc_tenant *out, unsigned max, const struct kvc_call *call)
{
#define NUMBER(member, largest) {offsetof(struct kvc_tenant, member), largest}
	static const struct number numbers[] = {
		[WIRE_TENANT_USED] = NUMBER(memory_bytes, false),
		[WIRE_TENANT_SHARE] = NUMBER(memory_share, false),
		[WIRE_TENANT_CAP] = NUMBER(memory_cap, false),
		[WIRE_TENANT_TIER_USED] = NUMBER(tier_bytes, false),
		[WIRE_TENANT_TIER_CAP] = NUMBER(tier_cap, false),
		[WIRE_TENANT_PINNED] = NUMBER(pinned_bytes, false),
		[WIRE_TENANT_PINS_CAP] = NUMBER(pins_cap, false),
		[WIRE_TENANT_ACTIVE] = NUMBER(requests, false),
		[WIRE_TENANT_REQUESTS_MAX] = NUMBER(requests_max, false),
		[WIRE_TENANT_READ] = NUMBER(read_bytes, false),
		[WIRE_TENANT_READ_RATE] = NUMBER(read_rate, false),
		[WIRE_TENANT_SESSIONS] = NUMBER(sessions, true),
		[WIRE_TENANT_SPACES] = NUMBER(namespaces, true),
		[WIRE_TENANT_EVICTED] = NUMBER(evictions, false),
		[WIRE_TENANT_DENIED] = NUMBER(refused, false),
	};
#undef NUMBER
	static const struct kind kind = {.type = WIRE_TENANTS,
					 .most = KC_TENANTS_MAX,
					 .bytes = sizeof(*out),
					 .listed_at = offsetof(struct kvc_tenant, listed),
					 .number = numbers,
					 .numbers = KV_COUNT(numbers),
					 .order = by_name};
	return list_await(client, &kind, out, max, call);
}

/* ---- leases ---- */

int kvc_leases_await(struct kvc_client *client, struct kvc_lease_holder *out, unsigned max, const struct kvc_call *call)
{
#define NUMBER(member, largest) {offsetof(struct kvc_lease_holder, member), largest}
	static const struct number numbers[] = {
		[WIRE_HOLDER_CLIENT] = NUMBER(client_id, true), [WIRE_HOLDER_SESSION] = NUMBER(session, true),
		[WIRE_HOLDER_PID] = NUMBER(pid, true),          [WIRE_HOLDER_LEASES] = NUMBER(leases, false),
		[WIRE_HOLDER_USED] = NUMBER(bytes, false),      [WIRE_HOLDER_AGE_NS] = NUMBER(age_ns, true),
	};
#undef NUMBER
	static const struct kind kind = {.type = WIRE_LEASES,
					 .most = KC_HOLDERS_MAX,
					 .bytes = sizeof(*out),
					 .number = numbers,
					 .numbers = KV_COUNT(numbers),
					 .order = by_session};
	return list_await(client, &kind, out, max, call);
}
