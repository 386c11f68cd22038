/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c -- the turn of a loop, its sleep, its begin and end.
 *
 * A turn is one pass over all sources of work. If it found none, a rest and a second pass follow. Requests of
 * coroutines reach the kernel at the end of the turn at the latest.
 *
 * A rest begins with spinning (yield, then look again) while pollers are active and it pays (spin.c), for spin_ns at
 * most. Else the loop arms the pollers, announces the sleep to posting threads, and sleeps in the ring until a
 * completion, a bell, the next timer, or the pollers' longest time. Only events restart the spin. */
#include "loop/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop/inside.h"
#include "loop/sanitize.h"

enum {
	STACK_BYTES_DEFAULT = KV_ASAN || KV_TSAN ? 256 << 10 : 64 << 10,
	COROUTINES_DEFAULT = 16384,
	POST_DEPTH_DEFAULT = 4096,
	POSTS_PER_PASS = 256
};

/* ---- the turn ---- */

static void read_clock(struct loop *loop)
{
	loop->now_ns = kv_clock_now(loop->clock);
}

static int run_posts(struct loop *loop)
{
	int ran = post_run(&loop->posts, POSTS_PER_PASS);
	loop->posted += (uint64_t)ran;
	return ran;
}

static int pass(struct loop *loop)
{
	int done = 0;
	read_clock(loop);
	done += ring_reap(loop->ring);
	done += poller_poll_all(&loop->pollers);
	done += run_posts(loop);
	done += timer_expire(&loop->timers, loop->now_ns);
	done += co_run_ready(&loop->cos);
	if (done > 0)
		spin_found(&loop->spin, loop->now_ns);
	return done;
}

static bool spin(struct loop *loop)
{
	bool blind;
	loop->spun = false;
	if (!poller_any_active(&loop->pollers, &blind) || !spin_again(&loop->spin, loop->now_ns, blind))
		return false;
	loop->spun = true;
	loop->spins++;
	ring_relax(loop->ring);
	return true;
}

static void sleep_until(struct loop *loop, uint64_t wait_ns)
{
	if (!poller_arm_all(&loop->pollers, loop->ring, &wait_ns) || !kv_list_empty(&loop->cos.ready))
		return;
	if (!post_sleep(&loop->posts))
		return;
	/* loop_stop stores `stop`, then checks whether this thread sleeps. The sleep is announced; so check `stop` now.
	 */
	if (!atomic_load(&loop->stop)) {
		loop->sleeps++;
		ring_wait(loop->ring, wait_ns);
	}
	post_awake(&loop->posts);
}

static void rest(struct loop *loop, uint64_t max_wait_ns)
{
	uint64_t next_ns = timer_next_ns(&loop->timers);
	uint64_t until_ns = next_ns > loop->now_ns ? next_ns - loop->now_ns : 0;
	uint64_t wait_ns = next_ns == KV_NEVER ? max_wait_ns : KV_MIN(max_wait_ns, until_ns);
	if (wait_ns > 0 && !spin(loop))
		sleep_until(loop, wait_ns);
}

static int turn(struct loop *loop, uint64_t max_wait_ns)
{
	int done = 0;
	if (loop->spun && max_wait_ns > 0)
		read_clock(loop);
	else
		done = pass(loop);
	if (done == 0 && max_wait_ns > 0) {
		rest(loop, max_wait_ns);
		done = pass(loop);
	}
	if (done > 0)
		loop->spun = false;
	ring_flush(loop->ring);
	atomic_store_explicit(&loop->turns, loop_turns(loop) + 1, memory_order_relaxed);
	return done;
}

static int refuse_stranger(struct loop *loop)
{
	if (!loop->strange)
		kv_error_log(loop->log,
			     "loop %s was turned by a second thread; create it with host_turned to allow that",
			     loop->name);
	loop->strange = true;
	return -KV_EINVAL;
}

int loop_turn(struct loop *loop, uint64_t max_wait_ns)
{
	struct loop **current, *outer;
	if (atomic_exchange_explicit(&loop->turning, true, memory_order_acquire))
		return -KV_EBUSY;
	current = current_at();
	outer = *current;
	*current = loop;
	int done = ring_adopt(loop->ring) == 0 ? turn(loop, max_wait_ns) : refuse_stranger(loop);
	*current = outer;
	atomic_store_explicit(&loop->turning, false, memory_order_release);
	return done;
}

int loop_run(struct loop *loop)
{
	char old_name[LOOP_NAME_MAX] = "";
	if (atomic_load(&loop->turning))
		return -KV_EINVAL; /* inside a turn, or a host turns it */
	int rc = ring_adopt(loop->ring);
	if (rc < 0)
		return refuse_stranger(loop);
	pthread_getname_np(pthread_self(), old_name, sizeof(old_name));
	if (loop->name[0])
		pthread_setname_np(pthread_self(), loop->name);
#ifdef KVRAIL_DEBUG
	loop_debug_overflow_handler(); /* only with MODE=debug */
#endif
	ring_settle(loop->ring);
	while (rc >= 0 && !atomic_exchange(&loop->stop, false))
		rc = loop_turn(loop, KV_NEVER);
	ring_unsettle(loop->ring);
	pthread_setname_np(pthread_self(), old_name);
	return rc < 0 ? -KV_EINVAL : 0;
}

/* ---- from other threads ---- */

static void ring_bell(struct loop *loop)
{
	if (post_bell_needed(&loop->posts))
		ring_wake(loop->ring);
}

void loop_stop(struct loop *loop)
{
	atomic_store(&loop->stop, true);
	ring_bell(loop);
}

int loop_post(struct loop *loop, void (*fn)(void *arg), void *arg)
{
	int rc = post_put(&loop->posts, fn, arg);
	if (rc == 0)
		ring_bell(loop);
	return rc;
}

/* ---- begin and end ---- */

static int seed_prng(struct loop *loop, uint64_t seed, struct kv_error *err)
{
	int rc = seed ? 0 : kv_entropy_fill(loop->entropy, &seed, sizeof(seed));
	if (rc < 0)
		return kv_fail(err, rc, "seeding loop %s: getrandom: %s", loop->name, kv_strerror(rc));
	kv_prng_seed(&loop->prng, seed);
	return 0;
}

static int init_posts(struct loop *loop, uint32_t depth, struct kv_error *err)
{
	int rc = post_init(&loop->posts, depth ? depth : POST_DEPTH_DEFAULT);
	if (rc == -KV_EINVAL)
		return kv_fail(err, rc, "loop %s: post_depth %u is not a power of two of at least 2", loop->name,
			       depth);
	if (rc < 0)
		return kv_fail(err, rc, "loop %s: no memory for a post queue of depth %u", loop->name, depth);
	return 0;
}

static int init_cos(struct loop *loop, const struct loop_options *options, struct kv_error *err)
{
	uint32_t stack_bytes = options->stack_bytes ? options->stack_bytes : STACK_BYTES_DEFAULT;
	uint32_t max = options->coroutines_max ? options->coroutines_max : COROUTINES_DEFAULT;
	int rc = co_sched_init(&loop->cos, stack_bytes, max, err);
	if (rc == 0 && loop->cos.stacks.max < max)
		kv_warn(loop->log, "loop %s: address space is short (ulimit -v): %u coroutines at a time instead of %u",
			loop->name, loop->cos.stacks.max, max);
	return rc;
}

int loop_create(const struct loop_options *options, struct loop **out, struct kv_error *err)
{
	struct ring_options ring_options = {.any_thread = options->host_turned, .log = options->log};
	struct loop *loop = NULL;
	if (posix_memalign((void **)&loop, KV_CACHELINE, sizeof(*loop)) != 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for a loop");
	memset(loop, 0, sizeof(*loop));
	snprintf(loop->name, sizeof(loop->name), "%s", options->name ? options->name : "");
	loop->log = options->log;
	loop->entropy = options->entropy ? options->entropy : &kv_entropy_kernel;
	spin_init(&loop->spin, options->spin_ns);
	poller_set_init(&loop->pollers);
	int rc = seed_prng(loop, options->seed, err);
	if (rc < 0)
		goto err_free;
	rc = init_posts(loop, options->post_depth, err);
	if (rc < 0)
		goto err_free;
	rc = init_cos(loop, options, err);
	if (rc < 0)
		goto err_posts;
	rc = ring_create(&ring_options, &loop->ring, err);
	if (rc < 0)
		goto err_cos;
	loop->clock = options->clock ? options->clock : ring_clock(loop->ring);
	read_clock(loop);
	*out = loop;
	return 0;

err_cos:
	co_sched_fini(&loop->cos);
err_posts:
	post_fini(&loop->posts);
err_free:
	free(loop);
	return rc;
}

const struct kv_error *loop_fallback(const struct loop *loop)
{
	return ring_fallback(loop->ring);
}

void loop_destroy(struct loop **loop)
{
	struct loop *l = *loop;
	if (!l)
		return;
	KV_ASSERT(!atomic_load(&l->turning));
	if (l->cos.count > 0)
		kv_warn(l->log, "loop %s is destroyed with %u coroutines still parked", l->name, l->cos.count);
	/* The ring first: frames of parked coroutines have requests. */
	ring_destroy(&l->ring);
	poller_set_fini(&l->pollers);
	co_sched_fini(&l->cos);
	post_fini(&l->posts);
	free(l);
	*loop = NULL;
}

/* ---- small things ---- */

uint64_t loop_turns(const struct loop *loop)
{
	return atomic_load_explicit(&loop->turns, memory_order_relaxed);
}

struct kv_prng *loop_prng(struct loop *loop)
{
	return &loop->prng;
}

int loop_random(struct loop *loop, void *out, size_t n)
{
	return kv_entropy_fill(loop->entropy, out, n);
}

void loop_set_spin(struct loop *loop, uint64_t spin_ns)
{
	loop->spin.limit_ns = spin_ns;
}

void loop_stats(const struct loop *loop, struct loop_stats *out)
{
	*out = (struct loop_stats){.turns = loop_turns(loop),
				   .sleeps = loop->sleeps,
				   .spins = loop->spins,
				   .posts = loop->posted,
				   .coroutines = loop->cos.count,
				   .coroutines_peak = loop->cos.peak,
				   .coroutines_max = loop->cos.stacks.max,
				   .stacks_touched = stack_touched(&loop->cos.stacks)};
}
