/* SPDX-License-Identifier: Apache-2.0 */
/* blocking.c -- the calls for threads that are no loop's: the call is posted to a client's loop, runs there as a
 * coroutine, and the thread sleeps on a futex.
 *
 * A job is POSTED until the loop takes it up (STARTED), and DONE when its coroutine has returned. A thread whose
 * deadline passes while its job is only posted takes it back (GIVEN_UP): a loop that is stuck, because a worker keeps
 * its thread, delays nobody. Once started, a job uses the caller's memory and is waited for; the deadline is then its
 * own. So a job is on the heap and not on the caller's stack: whoever looks at it last frees it, the thread, or the
 * loop that comes too late. (The allocation is lost in the cost of two context switches.)
 *
 * The last thing that the loop does with a job is to store DONE; the wake-up after that touches no memory (a futex
 * address is only a name). The loop, though, is still rung by loop_post when the job may be over: threads inside are
 * counted, and a pool being closed waits for them.
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
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/call/blocking.h"
#include "kvclient/call/call.h"
#include "kvclient/pool/sized.h"

#define STILL_NS 5000000000ull

enum { PARTS_MAX = 16, ITEM_WORK = 16 << 10, PART_WORK = 2 << 20 };

enum job_state { JOB_POSTED, JOB_STARTED, JOB_DONE, JOB_GIVEN_UP };

struct job {
	struct kvc_client *client;
	int64_t (*fn)(struct kvc_client *c, void *arg);
	void *arg;
	int64_t rc;
	int start; /* why it could not be started */
	_Atomic uint32_t state;
};

static void job_finish(struct job *j)
{
	_Atomic uint32_t *state = &j->state;
	atomic_store_explicit(state, JOB_DONE, memory_order_release);
	syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void job_main(void *arg)
{
	struct job *j = arg;
	j->rc = j->fn(j->client, j->arg);
	job_finish(j);
}

/* Take it to another state; false: somebody else was first. */
static bool job_take(struct job *j, uint32_t state)
{
	uint32_t posted = JOB_POSTED;
	return atomic_compare_exchange_strong(&j->state, &posted, state);
}

static void job_start(void *arg)
{
	struct job *j = arg;
	if (!job_take(j, JOB_STARTED)) {
		free(j);
		return;
	}
	j->start = co_spawn(j->client->loop, job_main, j, "kvc call");
	if (j->start < 0)
		job_finish(j);
}

uint64_t kvc_block_now(const struct kvc_pool *pool)
{
	return kv_clock_now(pool->clock ? pool->clock : &kv_clock_monotonic);
}

/* Sleep while it is in this state, by the deadline. */
static void job_sleep(struct job *j, uint32_t state, uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct timespec t = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
	syscall(SYS_futex, &j->state, FUTEX_WAIT_PRIVATE, state, deadline_ns == KV_NEVER ? NULL : &t, NULL, 0);
}

/* The loop has what it needs of the caller's memory: it cannot be left. If it stands still, that is worth a sentence.
 */
static void job_watch(struct job *j, uint64_t *turns)
{
	struct kvc_client *c = j->client;
	uint64_t now = kvc_block_now(c->pool), seen = loop_turns(c->loop);
	job_sleep(j, JOB_STARTED, now, now + STILL_NS);
	if (seen == loop_turns(c->loop) && *turns != seen &&
	    atomic_load_explicit(&j->state, memory_order_acquire) == JOB_STARTED) {
		*turns = seen;
		kv_error_log(kvc_client_log(c),
			     "client %u: its loop has stood still for 5 s, and calls with it: a worker keeps the "
			     "thread, or provider %s does%s",
			     c->index, c->info.provider,
			     c->info.death_fatal
				     ? " (a process that it shares locks with has died: start this one again)"
				     : "");
	}
}

/* False: it was given up, and is the loop's to free. */
static bool job_wait(struct job *j, uint64_t deadline_ns)
{
	uint64_t turns = UINT64_MAX;
	uint32_t state;
	while ((state = atomic_load_explicit(&j->state, memory_order_acquire)) != JOB_DONE) {
		uint64_t now;
		if (state == JOB_STARTED) {
			job_watch(j, &turns);
			continue;
		}
		now = kvc_block_now(j->client->pool);
		if (now >= deadline_ns && job_take(j, JOB_GIVEN_UP))
			return false;
		job_sleep(j, JOB_POSTED, now, deadline_ns);
	}
	return true;
}

/* 0 and a job that job_end must end; or a code. Not on a loop's thread. */
static int job_begin(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg, struct job **out)
{
	struct job *j = malloc(sizeof(*j));
	int rc;
	if (!j)
		return -KV_ENOMEM;
	*j = (struct job){.client = c, .fn = fn, .arg = arg};
	rc = loop_post(c->loop, job_start, j);
	if (rc < 0)
		free(j);
	else
		*out = j;
	return rc;
}

/* Wait for it, and free it. 0 and what fn returned; or why fn never ran. */
static int job_end(struct job *j, uint64_t deadline_ns, int64_t *out_rc)
{
	int rc;
	if (!job_wait(j, deadline_ns))
		return -KV_ETIMEOUT;
	rc = j->start;
	if (rc == 0)
		*out_rc = j->rc;
	free(j);
	return rc;
}

int kvc_block_run(struct kvc_client *c, uint64_t deadline_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		  int64_t *out_rc)
{
	struct job *j;
	int rc;
	if (loop_current())
		return -KV_EINVAL;
	rc = job_begin(c, fn, arg, &j);
	return rc < 0 ? rc : job_end(j, deadline_ns, out_rc);
}

int kvc_block_run_all(struct kvc_pool *pool, unsigned n, uint64_t deadline_ns,
		      int64_t (*fn)(struct kvc_client *c, void *arg), void *arg)
{
	struct job **job;
	int first = 0;
	if (loop_current())
		return -KV_EINVAL;
	if (n == 0)
		return 0;
	job = calloc(n, sizeof(struct job *));
	if (!job)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		int rc = job_begin(pool->client[i], fn, arg, &job[i]);
		first = first < 0 ? first : rc;
	}
	for (unsigned i = 0; i < n; i++) {
		int64_t result = 0;
		int rc = job[i] ? job_end(job[i], deadline_ns, &result) : 0;
		rc = rc < 0 ? rc : (int)result;
		first = first < 0 ? first : rc;
	}
	free(job);
	return first;
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
	a->deadline_ns = kv_deadline(kvc_block_now(pool), kvc_call_time(pool, &a->own, a->bytes));
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
	struct job *job; /* NULL: it has not begun, and why is in rc */
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
		parts[k].rc = job_begin(part_client(pool, turn, k), fn, &parts[k].a, &parts[k].job);
	}
	for (unsigned k = 0; k < count; k++)
		if (parts[k].job)
			parts[k].rc = job_end(parts[k].job, parts[k].a.deadline_ns, &result);
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
	all->deadline_ns = kv_deadline(kvc_block_now(pool), kvc_call_time(pool, &all->own, all->bytes));
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
