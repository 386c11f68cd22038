/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.c -- the calls for threads that are no loop's: each runs on a client's loop while the thread waits
 * (block.c).
 *
 * Clients are chosen round-robin. The deadline counts from the call: what a job waited for its loop is taken from its
 * time.
 *
 * A large batch is cut into parts of neighbouring items, one for a client on each loop, so that several cores work on
 * it. A part is a batch of its own, with a job of its own, that shares the deadline: what it cannot do is told to its
 * items, and the others go on. The parts are equal in work, which is bytes, and for an item as much as ITEM_WORK bytes
 * cost. A part is worth its two context switches from PART_WORK on (1.3 MiB of work in two parts was a tenth slower
 * than whole). Rejected: more parts than loops, which share a core and one loop's turn; parts for the batches of
 * workers, which belong to their client, and of which a program has many at a time anyway. */
#include "kvclient/call/call.h"
#include "kvclient/core/block.h"
#include "kvclient/core/sized.h"

enum { PARTS_MAX = 16, ITEM_WORK = 16 << 10, PART_WORK = 2 << 20 };

/* ---- the calls ---- */

struct args {
	struct kvc_key key;
	void *dst;
	const void *src;
	uint64_t len;
	const struct kvc_key *keys;
	uint8_t *found;
	unsigned *prefix;
	struct kvc_item *items;
	struct kvc_stat_item *stats;
	unsigned n;
	const struct kvc_call *call;
	uint64_t *left_ms;
	uint64_t bytes; /* that the call moves at most */
	struct kvc_call own;
	uint64_t deadline_ns;
};

static int args_check(const struct kvc_pool *pool, struct args *a)
{
	int rc = pool ? kvc_call_check(a->call, &a->own) : -KV_EINVAL;
	return rc == 0 && a->own.session && a->own.session->client->pool != pool ? -KV_EINVAL : rc;
}

static int64_t on_some_client(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct args *a)
{
	int64_t result = 0;
	unsigned i;
	int rc = args_check(pool, a);
	if (rc < 0)
		return rc;
	rc = kvc_pool_enter(pool);
	if (rc < 0)
		return rc;
	a->deadline_ns = kv_deadline(kvc_block_now(pool), kvc_pool_time(pool, &a->own, a->bytes));
	i = a->own.session ? a->own.session->client->index
			   : atomic_fetch_add_explicit(&pool->next_client, 1, memory_order_relaxed) % pool->num_clients;
	rc = kvc_block_run(pool->client[i], a->deadline_ns, fn, a, &result);
	kvc_pool_leave(pool);
	return rc < 0 ? rc : result;
}

/* The call with the time that is left. */
static const struct kvc_call *args_call(struct kvc_client *c, struct args *a)
{
	uint64_t now = loop_now(c->loop);
	a->own.size = sizeof(a->own);
	a->own.timeout_ns = a->deadline_ns > now ? a->deadline_ns - now : 1;
	return &a->own;
}

#define ON_CLIENT(name, call)                                                                                          \
	static int64_t name(struct kvc_client *c, void *arg)                                                           \
	{                                                                                                              \
		struct args *a = arg;                                                                                  \
		return call;                                                                                           \
	}
ON_CLIENT(do_get, kvc_get_await(c, a->key, a->dst, a->len, args_call(c, a)))
ON_CLIENT(do_put, kvc_put_await(c, a->key, a->src, a->len, args_call(c, a)))
ON_CLIENT(do_exists, kvc_exists_await(c, a->keys, a->n, a->found, a->prefix, args_call(c, a)))
ON_CLIENT(do_delete, kvc_delete_await(c, a->key, args_call(c, a)))
ON_CLIENT(do_touch, kvc_touch_await(c, a->key, args_call(c, a)))
ON_CLIENT(do_ttl, kvc_ttl_await(c, a->key, a->left_ms, args_call(c, a)))
ON_CLIENT(do_ping, kvc_ping_await(c, args_call(c, a)))
ON_CLIENT(do_get_batch, kvc_get_batch_await(c, a->items, a->n, args_call(c, a)))
ON_CLIENT(do_put_batch, kvc_put_batch_await(c, a->items, a->n, args_call(c, a)))
ON_CLIENT(do_stat, kvc_stat_await(c, a->stats, a->n, args_call(c, a)))

int64_t kvc_get(struct kvc_pool *pool, struct kvc_key key, void *dst, uint64_t dst_len, const struct kvc_call *call)
{
	return on_some_client(pool, do_get,
			      &(struct args){.key = key, .dst = dst, .len = dst_len, .bytes = dst_len, .call = call});
}

int kvc_put(struct kvc_pool *pool, struct kvc_key key, const void *data, uint64_t len, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_put,
				   &(struct args){.key = key, .src = data, .len = len, .bytes = len, .call = call});
}

int kvc_exists(struct kvc_pool *pool, const struct kvc_key *keys, unsigned n, uint8_t *out_found, unsigned *out_prefix,
	       const struct kvc_call *call)
{
	return (int)on_some_client(
		pool, do_exists,
		&(struct args){.keys = keys, .n = n, .found = out_found, .prefix = out_prefix, .call = call});
}

int kvc_delete(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_delete, &(struct args){.key = key, .call = call});
}

int kvc_touch(struct kvc_pool *pool, struct kvc_key key, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_touch, &(struct args){.key = key, .call = call});
}

int kvc_ttl(struct kvc_pool *pool, struct kvc_key key, uint64_t *out_left_ms, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_ttl, &(struct args){.key = key, .left_ms = out_left_ms, .call = call});
}

int kvc_ping(struct kvc_pool *pool, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_ping, &(struct args){.call = call});
}

/* ---- batches ---- */

struct part {
	struct args a;
	struct kvc_job *job; /* NULL: it has not begun, and why is in rc */
	struct kvc_phases phases;
	int rc;
};

static uint64_t item_work(const struct kvc_item *it)
{
	return ITEM_WORK + KV_MIN(it->len, KV_VALUE_MAX);
}

/* Into how many parts; the work of all in *out_work. A session is one client's. */
static unsigned parts_count(const struct kvc_pool *pool, const struct args *all, uint64_t *out_work)
{
	uint64_t work = 0;
	for (unsigned i = 0; all->items && i < all->n; i++)
		work += item_work(&all->items[i]);
	*out_work = work;
	if (!all->items || all->own.session)
		return 1;
	return (unsigned)KV_MIN(KV_MIN(work / PART_WORK, (uint64_t)all->n),
				(uint64_t)KV_MIN(KV_MIN(pool->num_loops, pool->num_clients), (unsigned)PARTS_MAX));
}

/* The items of each part, in order: the k-th begins where k times its share of the work is behind it. */
static void parts_cut(const struct args *all, uint64_t work, struct part *parts, unsigned count)
{
	uint64_t done = 0;
	unsigned at = 0;
	for (unsigned k = 0; k < count; k++) {
		struct args *a = &parts[k].a;
		unsigned from = at, last = all->n - (count - k - 1); /* one item at least for each that follows */
		*a = *all;
		do
			done += item_work(&all->items[at++]);
		while (at < last && done < work / count * (k + 1));
		if (k + 1 == count)
			at = all->n;
		a->items = all->items + from;
		a->n = at - from;
		parts[k].phases = (struct kvc_phases){.size = sizeof(parts[k].phases)};
		if (all->own.phases)
			a->own.phases = &parts[k].phases;
	}
}

/* A client of the k-th loop from a place that moves on with each batch. */
static struct kvc_client *part_client(const struct kvc_pool *pool, unsigned turn, unsigned k)
{
	unsigned loops = KV_MIN(pool->num_loops, pool->num_clients), loop = (turn + k) % loops;
	unsigned clients = (pool->num_clients - loop + loops - 1) / loops;
	return pool->client[loop + turn / loops % clients * loops];
}

static void parts_run(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct part *parts,
		      unsigned count)
{
	unsigned turn = atomic_fetch_add_explicit(&pool->next_client, 1, memory_order_relaxed);
	int64_t result;
	for (unsigned k = 0; k < count; k++) {
		parts[k].job = NULL;
		parts[k].rc = kvc_job_begin(part_client(pool, turn, k), fn, &parts[k].a, &parts[k].job);
	}
	for (unsigned k = 0; k < count; k++)
		if (parts[k].job)
			parts[k].rc = kvc_job_end(parts[k].job, parts[k].a.deadline_ns, &result);
}

/* A part that never began has told its items nothing. The call's phases are those of the part that took longest. */
static int parts_result(const struct args *all, const struct part *parts, unsigned count)
{
	const struct kvc_phases *longest = NULL;
	for (unsigned k = 0; k < count; k++) {
		const struct part *p = &parts[k];
		for (unsigned i = 0; p->rc < 0 && i < p->a.n; i++)
			p->a.items[i].result = p->rc;
		if (p->rc == 0 && p->phases.total_ns > (longest ? longest->total_ns : 0))
			longest = &p->phases;
	}
	if (all->own.phases && longest)
		kvc_sized_give(all->own.phases, longest, sizeof(*longest));
	for (unsigned i = 0; i < all->n; i++)
		if (all->items[i].result < 0)
			return (int)all->items[i].result;
	return 0;
}

/* (The frame of the parts is its own: most batches have none.) */
static __attribute__((noinline)) int batch_spread(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg),
						  struct args *all, uint64_t work, unsigned count)
{
	struct part parts[PARTS_MAX];
	int rc = kvc_pool_alien(pool) ? -KV_ECLOSED : loop_current() ? -KV_EINVAL : kvc_pool_enter(pool);
	if (rc < 0)
		return rc;
	all->deadline_ns = kv_deadline(kvc_block_now(pool), kvc_pool_time(pool, &all->own, all->bytes));
	parts_cut(all, work, parts, count);
	parts_run(pool, fn, parts, count);
	kvc_pool_leave(pool);
	return parts_result(all, parts, count);
}

/* A batch that never began has told its items nothing: each gets the code of the whole, or its caller would read there
 * what it left. */
static int batch(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct kvc_item *items,
		 unsigned n, const struct kvc_call *call)
{
	const int64_t untold = -KV_ERESET; /* no item ends with it */
	struct args a = {.items = items, .n = n, .bytes = kvc_batch_bytes(items, n), .call = call};
	uint64_t work;
	int rc = args_check(pool, &a);
	unsigned parts = rc < 0 ? 0 : parts_count(pool, &a, &work);
	for (unsigned i = 0; items && i < n; i++)
		items[i].result = untold;
	if (rc == 0)
		rc = parts > 1 ? batch_spread(pool, fn, &a, work, parts) : (int)on_some_client(pool, fn, &a);
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

int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_stat, &(struct args){.stats = out, .n = max, .call = call});
}
