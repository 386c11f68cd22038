/* SPDX-License-Identifier: Apache-2.0 */
/* block.c -- a job: a function that runs as a coroutine on a client's loop while a thread outside the loops waits on a
 * futex (or turns the loop: kc_drive).
 *
 * The job is POSTED, then STARTED by the loop, then DONE. A thread whose deadline passes takes back a POSTED job
 * (GIVEN_UP). A STARTED job uses the caller's memory: the thread waits, and the job watches its own deadline. The last
 * of thread and loop frees it. The loop's last access to a job stores DONE; the wake-up uses the futex address as a
 * name only. But loop_post may still be ringing the loop then, so blocked threads are counted, and a closing pool waits
 * for them. */
#include "kvclient/core/block.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STILL_NS  5000000000ull
#define MOMENT_NS 1000000ull

/* ---- a pool without threads ---- */

/* A thread that finds the loop turning sleeps a moment and retries. Turns are short: the awaited event may have
 * happened just before the turn, and nothing would end it. */
bool kc_drive(struct kvc_pool *pool, uint64_t *wait_ns)
{
	if (!pool->turned)
		return false;
	*wait_ns = KV_MIN(*wait_ns, MOMENT_NS);
	return loop_turn(pool->loop[0], *wait_ns) >= 0;
}

void kc_post_surely(struct kvc_pool *pool, struct loop *loop, void (*fn)(void *arg), void *arg)
{
	while (loop_post(loop, fn, arg) < 0)
		kc_drive_nap(pool);
}

void kc_drive_nap(struct kvc_pool *pool)
{
	uint64_t wait_ns = MOMENT_NS;
	const struct timespec pause = {.tv_nsec = (long)wait_ns};
	if (!kc_drive(pool, &wait_ns))
		nanosleep(&pause, NULL);
}

/* ---- jobs ---- */

enum job_state { JOB_POSTED, JOB_STARTED, JOB_DONE, JOB_GIVEN_UP };

struct kc_job {
	struct kvc_client *client;
	int64_t (*fn)(struct kvc_client *c, void *arg);
	void *arg;
	int64_t rc;
	int start; /* code of a failed start */
	_Atomic uint32_t state;
};

static void job_finish(struct kc_job *j)
{
	_Atomic uint32_t *state = &j->state;
	atomic_store_explicit(state, JOB_DONE, memory_order_release);
	syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void job_main(void *arg)
{
	struct kc_job *j = arg;
	j->rc = j->fn(j->client, j->arg);
	job_finish(j);
}

/* Change its state from POSTED. False: the other side was first. */
static bool job_take(struct kc_job *j, uint32_t state)
{
	uint32_t posted = JOB_POSTED;
	return atomic_compare_exchange_strong(&j->state, &posted, state);
}

static void job_start(void *arg)
{
	struct kc_job *j = arg;
	if (!job_take(j, JOB_STARTED)) {
		free(j);
		return;
	}
	j->start = co_spawn(j->client->loop, job_main, j, "kvc call");
	if (j->start < 0)
		job_finish(j);
}

uint64_t kc_block_now(const struct kvc_pool *pool)
{
	return kv_clock_now(pool->clock ? pool->clock : &kv_clock_monotonic);
}

static void job_sleep(struct kc_job *j, uint32_t state, uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
	struct timespec t;
	if (deadline_ns == KV_NEVER)
		left = KV_NEVER;
	if (kc_drive(j->client->pool, &left))
		return;
	t = (struct timespec){.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
	syscall(SYS_futex, &j->state, FUTEX_WAIT_PRIVATE, state, left == KV_NEVER ? NULL : &t, NULL, 0);
}

/* The thread cannot leave a started job. */
static void job_watch(struct kc_job *j, uint64_t *turns)
{
	struct kvc_client *c = j->client;
	uint64_t now = kc_block_now(c->pool), until = now + STILL_NS, seen = loop_turns(c->loop);
	for (; now < until && atomic_load_explicit(&j->state, memory_order_acquire) == JOB_STARTED;
	     now = kc_block_now(c->pool))
		job_sleep(j, JOB_STARTED, now, until);
	if (seen == loop_turns(c->loop) && *turns != seen &&
	    atomic_load_explicit(&j->state, memory_order_acquire) == JOB_STARTED) {
		*turns = seen;
		kv_event(kc_client_log(c), KV_LOG_ERROR, KV_EVENT("client_silent", KV_NUMBER("client", c->index)),
			 "client %u: its loop has stood still for 5 s, and so have its "
			 "calls: a worker or provider %s occupies the thread%s",
			 c->index, c->info.provider,
			 c->info.death_fatal ? " (a process that it shares locks with has died: start this one again)"
					     : "");
	}
}

/* False: given up; the loop frees it. */
static bool job_wait(struct kc_job *j, uint64_t deadline_ns)
{
	uint64_t turns = UINT64_MAX;
	uint32_t state;
	while ((state = atomic_load_explicit(&j->state, memory_order_acquire)) != JOB_DONE) {
		uint64_t now;
		if (state == JOB_STARTED) {
			job_watch(j, &turns);
			continue;
		}
		now = kc_block_now(j->client->pool);
		if (now >= deadline_ns && job_take(j, JOB_GIVEN_UP))
			return false;
		job_sleep(j, JOB_POSTED, now, deadline_ns);
	}
	return true;
}

int kc_job_begin(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg, struct kc_job **out)
{
	struct kc_job *j = malloc(sizeof(*j));
	int rc;
	if (!j)
		return -KV_ENOMEM;
	*j = (struct kc_job){.client = c, .fn = fn, .arg = arg};
	rc = loop_post(c->loop, job_start, j);
	if (rc < 0)
		free(j);
	else
		*out = j;
	return rc;
}

int kc_job_end(struct kc_job *j, uint64_t deadline_ns, int64_t *out_rc)
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

int kc_block_run(struct kvc_client *c, uint64_t deadline_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		 int64_t *out_rc)
{
	struct kc_job *j;
	int rc;
	if (loop_current())
		return -KV_EINVAL;
	rc = kc_job_begin(c, fn, arg, &j);
	return rc < 0 ? rc : kc_job_end(j, deadline_ns, out_rc);
}

void kc_block_run_surely(struct kvc_client *c, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg)
{
	int64_t result;
	while (kc_block_run(c, KV_NEVER, fn, arg, &result) < 0)
		kc_drive_nap(c->pool);
}

int64_t kc_block_call(struct kvc_client *c, uint64_t time_ns, int64_t (*fn)(struct kvc_client *c, void *arg), void *arg,
		      uint64_t *out_deadline_ns)
{
	uint64_t deadline_ns;
	int64_t result = 0;
	int rc = kc_pool_enter(c->pool);
	if (rc < 0)
		return rc;
	deadline_ns = kv_deadline(kc_block_now(c->pool), time_ns);
	if (out_deadline_ns)
		*out_deadline_ns = deadline_ns;
	rc = kc_block_run(c, deadline_ns, fn, arg, &result);
	kc_pool_leave(c->pool);
	return rc < 0 ? rc : result;
}

int kc_block_run_all(struct kvc_pool *pool, unsigned n, uint64_t deadline_ns,
		     int64_t (*fn)(struct kvc_client *c, void *arg), void *arg)
{
	struct kc_job **job;
	int first = 0;
	if (loop_current())
		return -KV_EINVAL;
	if (n == 0)
		return 0;
	job = calloc(n, sizeof(struct kc_job *));
	if (!job)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		int rc = kc_job_begin(pool->client[i], fn, arg, &job[i]);
		first = first < 0 ? first : rc;
	}
	for (unsigned i = 0; i < n; i++) {
		int64_t result = 0;
		int rc = job[i] ? kc_job_end(job[i], deadline_ns, &result) : 0;
		rc = rc < 0 ? rc : (int)result;
		first = first < 0 ? first : rc;
	}
	free(job);
	return first;
}
