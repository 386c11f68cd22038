/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.c -- blocking calls, for threads without a loop: each runs on a client's loop while its thread waits
 * (core/block.c).
 *
 * The client with the fewest such calls makes the next one. With two copies, the key chooses the client of a PUT,
 * DELETE or TOUCH: a DELETE must wait for pending copies, known to their client alone (second_put.c). The deadline
 * includes the wait for the loop.
 *
 * A large batch is cut into parts of neighbouring items, one for a client on each loop (spread.c). */
#include "kvclient/call/batch.h"
#include "kvclient/call/claim.h"
#include "kvclient/call/keyed.h"
#include "kvclient/call/parts.h"
#include "kvclient/call/spread.h"
#include "kvclient/copy.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"
#include "kvclient/route/second.h"
#include "kvclient/transfer/call.h"
#include "kvclient/transfer/get.h"

/* ---- the calls ---- */

struct call_args {
	struct kvc_key key;
	void *dst;
	const void *src;
	uint64_t len;
	const struct kvc_key *keys;
	uint8_t *found;
	unsigned *prefix;
	struct kvc_item *items;
	const uint64_t *born_ns; /* copies only */
	bool spare;              /* copies only */
	uint64_t time_ns;        /* of DELETE */
	struct kc_tombs *tombs;
	struct kc_rows *spaces;
	struct kvc_namespace *namespaces;
	struct kvc_tenant *tenants;
	struct kvc_lease_holder *holders;
	uint64_t *generation;
	uint64_t from;
	struct kvc_stat_item *stats;
	unsigned n;
	const struct kvc_call *call;
	uint64_t *left_ms;
	uint64_t bytes; /* upper bound of bytes moved */
	struct kvc_borrowed *borrowed;
	struct kvc_client *client; /* must make the call; NULL: any */
	bool changes;              /* changes the value of `key`, or its time to live */
	struct kvc_call own;
	uint64_t begun_ns, deadline_ns;
};

static int args_check(const struct kvc_pool *pool, struct call_args *a)
{
	int rc = pool ? kc_call_check(a->call, &a->own) : -KV_EINVAL;
	return rc == 0 && a->own.session && a->own.session->client->pool != pool ? -KV_EINVAL : rc;
}

static unsigned client_of(struct kvc_pool *pool, const struct call_args *a)
{
	if (a->client)
		return a->client->index;
	if (a->own.session)
		return a->own.session->client->index;
	if (a->changes && (pool->options.flags | a->own.flags) & KVC_TWO_COPIES)
		return route_client(pool, a->key);
	return kc_spread_idlest(pool, pool->loads.keys,
				atomic_fetch_add_explicit(&pool->loads.next, 1, memory_order_relaxed));
}

static int64_t on_some_client(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg),
			      struct call_args *a)
{
	int64_t result = 0;
	unsigned client, load;
	int rc = args_check(pool, a);
	if (rc < 0)
		return rc;
	rc = kc_pool_enter(pool);
	if (rc < 0)
		return rc;
	a->begun_ns = kc_block_now(pool);
	a->deadline_ns = kv_deadline(a->begun_ns, kc_pool_time(pool, &a->own, a->bytes));
	client = client_of(pool, a);
	load = KV_MAX(a->n, 1u);
	atomic_fetch_add_explicit(&pool->loads.keys[client], load, memory_order_relaxed);
	rc = kc_block_run(pool->client[client], a->deadline_ns, fn, a, &result);
	atomic_fetch_sub_explicit(&pool->loads.keys[client], load, memory_order_relaxed);
	kc_pool_leave(pool);
	return rc < 0 ? rc : result;
}

/* The caller's options, with the remaining time. The call begins with them. */
static const struct kvc_call *args_call(struct kvc_client *c, struct call_args *a)
{
	uint64_t now = loop_now(c->loop);
	c->hints.begun_ns = a->begun_ns;
	a->own.size = sizeof(a->own);
	a->own.timeout_ns = a->deadline_ns > now ? a->deadline_ns - now : 1;
	return &a->own;
}

#define ON_CLIENT(name, call)                                                                                          \
	static int64_t name(struct kvc_client *c, void *arg)                                                           \
	{                                                                                                              \
		struct call_args *a = arg;                                                                             \
		int64_t rc = call;                                                                                     \
		c->hints.begun_ns = 0; /* a call that was refused has left it */                                       \
		return rc;                                                                                             \
	}
ON_CLIENT(do_get, kvc_get_await(c, a->key, a->dst, a->len, args_call(c, a)))
ON_CLIENT(do_put, kvc_put_await(c, a->key, a->src, a->len, args_call(c, a)))
ON_CLIENT(do_get_borrowed, kvc_get_borrowed_await(c, a->key, a->len, args_call(c, a), a->borrowed))
ON_CLIENT(do_put_borrow, kvc_put_borrow_await(c, a->key, a->len, args_call(c, a)->timeout_ns, a->borrowed))
ON_CLIENT(do_exists, kvc_exists_await(c, a->keys, a->n, a->found, a->prefix, args_call(c, a)))
ON_CLIENT(do_delete, kvc_delete_await(c, a->key, args_call(c, a)))
ON_CLIENT(do_touch, kvc_touch_await(c, a->key, args_call(c, a)))
ON_CLIENT(do_ttl, kvc_ttl_await(c, a->key, a->left_ms, args_call(c, a)))
ON_CLIENT(do_ping, kvc_ping_await(c, args_call(c, a)))
ON_CLIENT(do_get_batch, kc_batch_await(c, KVC_OP_GET, a->items, a->n, args_call(c, a), NULL))
ON_CLIENT(do_put_batch, kvc_put_batch_await(c, a->items, a->n, args_call(c, a)))
ON_CLIENT(do_copy_batch, kc_copy_batch_await(c, a->items, a->born_ns, a->n, a->spare, args_call(c, a)))
ON_CLIENT(do_delete_at, kc_delete_at_await(c, a->key, a->time_ns, args_call(c, a)))
ON_CLIENT(do_tombs, kc_tombs_await(c, a->from, a->tombs, args_call(c, a)))
ON_CLIENT(do_spaces, kc_spaces_await(c, a->from, a->spaces, args_call(c, a)))
ON_CLIENT(do_clear, kvc_namespace_clear_await(c, a->generation, args_call(c, a)))
ON_CLIENT(do_namespaces, kvc_namespaces_await(c, a->namespaces, a->n, args_call(c, a)))
ON_CLIENT(do_tenants, kvc_tenants_await(c, a->tenants, a->n, args_call(c, a)))
ON_CLIENT(do_leases, kvc_leases_await(c, a->holders, a->n, args_call(c, a)))
ON_CLIENT(do_stat, kvc_stat_await(c, a->stats, a->n, args_call(c, a)))

int64_t kvc_get(struct kvc_pool *pool, struct kvc_key key, void *dst, uint64_t dst_len, const struct kvc_call *call)
{
	return on_some_client(
		pool, do_get,
		&(struct call_args){.key = key, .dst = dst, .len = dst_len, .bytes = dst_len, .call = call});
}

int kvc_put(struct kvc_pool *pool, struct kvc_key key, const void *data, uint64_t len, const struct kvc_call *call)
{
	return (int)on_some_client(
		pool, do_put,
		&(struct call_args){.key = key, .src = data, .len = len, .bytes = len, .changes = true, .call = call});
}

int64_t kvc_get_borrowed(struct kvc_pool *pool, struct kvc_key key, uint64_t expect_len, const struct kvc_call *call,
			 struct kvc_borrowed *out)
{
	if (!out)
		return -KV_EINVAL;
	*out = (struct kvc_borrowed){0};
	return on_some_client(
		pool, do_get_borrowed,
		&(struct call_args){.key = key, .len = expect_len, .bytes = expect_len, .borrowed = out, .call = call});
}

int kvc_put_borrow(struct kvc_pool *pool, struct kvc_key key, uint64_t len_bytes, uint64_t timeout_ns,
		   struct kvc_borrowed *out)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = timeout_ns};
	if (!out)
		return -KV_EINVAL;
	*out = (struct kvc_borrowed){0};
	return (int)on_some_client(
		pool, do_put_borrow,
		&(struct call_args){.key = key, .len = len_bytes, .borrowed = out, .changes = true, .call = &call});
}

int kvc_put_borrowed(struct kvc_pool *pool, struct kvc_key key, const struct kvc_borrowed *room,
		     const struct kvc_call *call)
{
	struct kvc_client *client = kc_borrowed_client(room);
	if (!client || client->pool != pool)
		return -KV_EINVAL;
	return (int)on_some_client(pool, do_put,
				   &(struct call_args){.key = key,
						       .src = room->data,
						       .len = room->len,
						       .bytes = room->len,
						       .client = client,
						       .call = call});
}

int kvc_exists(struct kvc_pool *pool, const struct kvc_key *keys, unsigned n, uint8_t *out_found, unsigned *out_prefix,
	       const struct kvc_call *call)
{
	return (int)on_some_client(
		pool, do_exists,
		&(struct call_args){.keys = keys, .n = n, .found = out_found, .prefix = out_prefix, .call = call});
}

int kvc_delete(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_delete, &(struct call_args){.key = key, .changes = true, .call = call});
}

int kvc_touch(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_touch, &(struct call_args){.key = key, .changes = true, .call = call});
}

int kvc_ttl(struct kvc_pool *pool, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_ttl, &(struct call_args){.key = key, .left_ms = out_left_ms, .call = call});
}

int kvc_ping(struct kvc_pool *pool, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_ping, &(struct call_args){.call = call});
}

/* ---- batches ---- */

struct spread_part {
	struct call_args a;
	struct kc_job *job; /* NULL: not begun, rc is the reason */
	struct kvc_phases phases;
	int rc;
};

static unsigned parts_count(const struct kvc_pool *pool, const struct call_args *all, struct kc_spread *out)
{
	if (!all->items || all->own.session)
		return 1;
	return kc_spread_begin(out, pool, all->items, all->n, true);
}

static void parts_cut(const struct call_args *all, struct kc_spread *spread, struct spread_part *parts)
{
	for (unsigned k = 0; k < spread->count; k++) {
		struct call_args *a = &parts[k].a;
		unsigned from;
		*a = *all;
		a->n = kc_spread_next(spread, &from);
		a->items = all->items + from;
		parts[k].phases = (struct kvc_phases){.size = sizeof(parts[k].phases)};
		if (all->own.phases)
			a->own.phases = &parts[k].phases;
	}
}

static void parts_run(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct spread_part *parts,
		      unsigned count)
{
	unsigned turn = atomic_fetch_add_explicit(&pool->loads.next, 1, memory_order_relaxed);
	int64_t result;
	for (unsigned k = 0; k < count; k++) {
		parts[k].job = NULL;
		parts[k].rc = kc_job_begin(kc_spread_client(pool, turn, k), fn, &parts[k].a, &parts[k].job);
	}
	for (unsigned k = 0; k < count; k++)
		if (parts[k].job)
			parts[k].rc = kc_job_end(parts[k].job, parts[k].a.deadline_ns, &result);
}

/* Items of a part that never began get its code. The call reports the phases of its longest part. */
static int parts_result(const struct call_args *all, const struct spread_part *parts, unsigned count)
{
	const struct kvc_phases *longest = NULL;
	for (unsigned k = 0; k < count; k++) {
		const struct spread_part *p = &parts[k];
		for (unsigned i = 0; p->rc < 0 && i < p->a.n; i++)
			p->a.items[i].result = p->rc;
		if (p->rc == 0 && p->phases.total_ns > (longest ? longest->total_ns : 0))
			longest = &p->phases;
	}
	if (all->own.phases && longest)
		kc_sized_give(all->own.phases, longest, sizeof(*longest));
	for (unsigned i = 0; i < all->n; i++)
		if (all->items[i].result < 0)
			return (int)all->items[i].result;
	return 0;
}

/* A stack frame of their own: most batches have no parts. */
static __attribute__((noinline)) int batch_spread(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg),
						  struct call_args *all, struct kc_spread *spread)
{
	struct spread_part parts[KC_SPREAD_MAX];
	unsigned count = spread->count;
	int rc;
	if (!kc_pool_alien(pool) && loop_current())
		return -KV_EINVAL;
	rc = kc_pool_enter(pool);
	if (rc < 0)
		return rc;
	all->begun_ns = kc_block_now(pool);
	all->deadline_ns = kv_deadline(all->begun_ns, kc_pool_time(pool, &all->own, all->bytes));
	parts_cut(all, spread, parts);
	parts_run(pool, fn, parts, count);
	kc_pool_leave(pool);
	return parts_result(all, parts, count);
}

/* If the batch never began, each item gets the batch's code instead of a stale result. */
static int batch(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct kvc_item *items,
		 unsigned n, const struct kvc_call *call)
{
	const int64_t untold = -KV_ERESET; /* no item ends with this code */
	struct call_args a = {.items = items, .n = n, .bytes = kc_batch_bytes(items, n), .call = call};
	struct kc_spread spread;
	int rc = kc_items_check(fn == do_get_batch ? KVC_OP_GET : KVC_OP_PUT, items, n);
	unsigned parts;
	if (rc < 0)
		return rc;
	rc = args_check(pool, &a);
	parts = rc < 0 ? 0 : parts_count(pool, &a, &spread);
	a.changes = fn == do_put_batch && items && n == 1;
	if (a.changes)
		a.key = items[0].key;
	if (rc == 0 && fn == do_get_batch)
		kc_parts_claim(items, n, NULL);
	for (unsigned i = 0; items && i < n; i++)
		items[i].result = untold;
	if (rc == 0)
		rc = parts > 1 ? batch_spread(pool, fn, &a, &spread) : (int)on_some_client(pool, fn, &a);
	for (unsigned i = 0; items && i < n; i++)
		if (items[i].result == untold)
			items[i].result = rc;
	return rc;
}

int kvc_get_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	return batch(pool, do_get_batch, items, n, call);
}

int kvc_put_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	return batch(pool, do_put_batch, items, n, call);
}

int kc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
		  const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_copy_batch,
				   &(struct call_args){.items = items,
						       .born_ns = born_ns,
						       .n = n,
						       .spare = spare,
						       .bytes = kc_batch_bytes(items, n),
						       .call = call});
}

int kc_delete_at(struct kvc_pool *pool, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_delete_at,
				   &(struct call_args){.key = key, .time_ns = time_ns, .call = call});
}

int kc_tombs(struct kvc_pool *pool, uint64_t from, struct kc_tombs *out, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_tombs, &(struct call_args){.from = from, .tombs = out, .call = call});
}

int kc_spaces(struct kvc_pool *pool, uint64_t from, struct kc_rows *out, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_spaces, &(struct call_args){.from = from, .spaces = out, .call = call});
}

int kvc_namespace_clear(struct kvc_pool *pool, uint64_t *out_generation, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_clear, &(struct call_args){.generation = out_generation, .call = call});
}

int kvc_namespaces(struct kvc_pool *pool, struct kvc_namespace *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_namespaces, &(struct call_args){.namespaces = out, .n = max, .call = call});
}

int kvc_tenants(struct kvc_pool *pool, struct kvc_tenant *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_tenants, &(struct call_args){.tenants = out, .n = max, .call = call});
}

int kvc_leases(struct kvc_pool *pool, struct kvc_lease_holder *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_leases, &(struct call_args){.holders = out, .n = max, .call = call});
}

int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_stat, &(struct call_args){.stats = out, .n = max, .call = call});
}
