/* SPDX-License-Identifier: Apache-2.0 */
/* block.c -- the calls for threads that are no loop's: the call is posted to a client's loop, runs there as a
 * coroutine, and the thread sleeps on a futex.
 *
 * The job lies on the caller's stack. The last thing that the loop does with it is to store `done`; the wake-up after
 * that touches no memory (a futex address is only a name), so that the caller may return at once.
 *
 * The loop, though, is still rung by loop_post when the job may be over: threads inside are counted, and a pool being
 * closed waits for them.
 *
 * Clients are chosen round-robin. Deadlines are the calls' own, so the wait for the job needs none. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kvclient/block.h"

struct job {
	struct kvc_client *client;
	int64_t (*fn)(struct kvc_client *c, void *arg);
	void *arg;
	int64_t rc;
	int start; /* why it could not be started */
	_Atomic uint32_t done;
};

static void job_finish(struct job *j)
{
	_Atomic uint32_t *done = &j->done;
	atomic_store_explicit(done, 1, memory_order_release);
	syscall(SYS_futex, done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void job_main(void *arg)
{
	struct job *j = arg;
	j->rc = j->fn(j->client, j->arg);
	job_finish(j);
}

static void job_start(void *arg)
{
	struct job *j = arg;
	j->start = co_spawn(j->client->loop, job_main, j, "kvc call");
	if (j->start < 0)
		job_finish(j);
}

int kvc_block_run(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg, int64_t *out_rc)
{
	struct job j = {.client = c, .fn = fn, .arg = arg};
	int rc;
	if (loop_current())
		return -KV_EINVAL;
	rc = loop_post(c->loop, job_start, &j);
	if (rc < 0)
		return rc;
	while (!atomic_load_explicit(&j.done, memory_order_acquire))
		syscall(SYS_futex, &j.done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	if (j.start < 0)
		return j.start;
	*out_rc = j.rc;
	return 0;
}

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
};

static int64_t on_some_client(struct kvc_pool *pool, int64_t (*fn)(struct kvc_client *c, void *arg), struct args *a)
{
	int64_t result = 0;
	unsigned i;
	int rc;
	if (!pool)
		return -KV_EINVAL;
	rc = kvc_pool_enter(pool);
	if (rc < 0)
		return rc;
	i = atomic_fetch_add_explicit(&pool->next_client, 1, memory_order_relaxed) % pool->num_clients;
	rc = kvc_block_run(pool->client[i], fn, a, &result);
	kvc_pool_leave(pool);
	return rc < 0 ? rc : result;
}

#define ON_CLIENT(name, call)                                                                                          \
	static int64_t name(struct kvc_client *c, void *arg)                                                           \
	{                                                                                                              \
		struct args *a = arg;                                                                                  \
		return call;                                                                                           \
	}
ON_CLIENT(do_get, kvc_get_await(c, a->key, a->dst, a->len, a->call))
ON_CLIENT(do_put, kvc_put_await(c, a->key, a->src, a->len, a->call))
ON_CLIENT(do_exists, kvc_exists_await(c, a->keys, a->n, a->found, a->prefix, a->call))
ON_CLIENT(do_delete, kvc_delete_await(c, a->key, a->call))
ON_CLIENT(do_touch, kvc_touch_await(c, a->key, a->call))
ON_CLIENT(do_ping, kvc_ping_await(c, a->call))
ON_CLIENT(do_get_batch, kvc_get_batch_await(c, a->items, a->n, a->call))
ON_CLIENT(do_put_batch, kvc_put_batch_await(c, a->items, a->n, a->call))
ON_CLIENT(do_stat, kvc_stat_await(c, a->stats, a->n, a->call))

int64_t kvc_get(struct kvc_pool *pool, struct kvc_key key, void *dst, uint64_t dst_len, const struct kvc_call *call)
{
	return on_some_client(pool, do_get, &(struct args){.key = key, .dst = dst, .len = dst_len, .call = call});
}

int kvc_put(struct kvc_pool *pool, struct kvc_key key, const void *data, uint64_t len, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_put, &(struct args){.key = key, .src = data, .len = len, .call = call});
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

int kvc_ping(struct kvc_pool *pool, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_ping, &(struct args){.call = call});
}

int kvc_get_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_get_batch, &(struct args){.items = items, .n = n, .call = call});
}

int kvc_put_batch(struct kvc_pool *pool, struct kvc_item *items, unsigned n, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_put_batch, &(struct args){.items = items, .n = n, .call = call});
}

int kvc_stat(struct kvc_pool *pool, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call)
{
	return (int)on_some_client(pool, do_stat, &(struct args){.stats = out, .n = max, .call = call});
}
