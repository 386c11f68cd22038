/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack.c -- what coroutines cost in pages, what idle stacks keep, and how an overflow ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/inside.h"
#include "loop/sanitize.h"
#include "loop/stack.h"
#include "tests/loop/harness.h"

enum {
	WORKERS = 400,
/* An optimised frame chain of a parked worker fits the page of its struct co. Unoptimised or instrumented ones may take
 * another. */
#if defined(NDEBUG) && !defined(KVRAIL_UCONTEXT)
	PAGES_EACH = 1
#else
	PAGES_EACH = 2
#endif
};

static struct loop *loop;

static int set_up(void **state)
{
	(void)state;
	loop = harness_loop(NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	loop_destroy(&loop);
	return 0;
}

/* Pages of the area that are in memory, as the kernel counts them. */
static size_t resident_pages(const struct stack_pool *pool)
{
	size_t pages = pool->opened * (pool->slot_bytes / pool->page_bytes), resident = 0;
	unsigned char *map = calloc(pages + 1, 1);
	assert_int_equal(mincore(pool->base, pages * pool->page_bytes, map), 0);
	for (size_t i = 0; i < pages; i++)
		resident += map[i] & 1;
	free(map);
	return resident;
}

static struct co_queue gate;
static struct co *parked[WORKERS];
static int pairs[WORKERS][2];

static void wait_in_queue(void *arg)
{
	(void)arg;
	CHECK(co_queue_wait_await(&gate, KV_NEVER) == 0);
}

static void park_with_deadline(void *arg)
{
	parked[(intptr_t)arg] = co_self();
	CHECK(co_park_await(loop_now(loop) + 3600 * SECOND) == 0);
}

static void read_with_deadline(void *arg)
{
	char c;
	CHECK(io_read_await(pairs[(intptr_t)arg][0], &c, 1, loop_now(loop) + 3600 * SECOND) == 1);
}

static void spawn_all(void (*fn)(void *arg))
{
	for (intptr_t i = 0; i < WORKERS; i++)
		harness_spawn(loop, fn, (void *)i);
	loop_turn(loop, 0);
	assert_int_equal(harness_live(loop), WORKERS);
}

static void assert_pages_per_worker(void)
{
	size_t pages = resident_pages(&loop->cos.stacks);
	printf("%zu pages for %d parked coroutines\n", pages, WORKERS);
#if !KV_ASAN && !KV_TSAN
	assert_in_range(pages, WORKERS, PAGES_EACH * WORKERS);
#endif
}

static void a_coroutine_in_a_queue_costs_one_page(void **state)
{
	(void)state;
	co_queue_init(&gate);
	spawn_all(wait_in_queue);
	assert_pages_per_worker();
	co_queue_wake_all(&gate);
	harness_run(loop);
}

static void a_parked_coroutine_costs_one_page(void **state)
{
	(void)state;
	spawn_all(park_with_deadline);
	assert_pages_per_worker();
	for (int i = 0; i < WORKERS; i++)
		co_wake(parked[i]);
	harness_run(loop);
}

static void a_coroutine_that_reads_costs_one_page(void **state)
{
	(void)state;
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
	spawn_all(read_with_deadline);
	assert_pages_per_worker();
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(write(pairs[i][1], "x", 1), 1);
	harness_run(loop);
	for (int i = 0; i < WORKERS; i++) {
		close(pairs[i][0]);
		close(pairs[i][1]);
	}
}

enum { DEEP_BYTES = 40 << 10 };

static void go_deep(void *arg)
{
	char frame[DEEP_BYTES];
	(void)arg;
	memset(frame, 1, sizeof(frame));
	__asm__ volatile("" ::"r"(frame) : "memory"); /* the compiler may not leave it out */
	CHECK(co_queue_wait_await(&gate, KV_NEVER) == 0);
}

static void a_burst_leaves_only_the_hot_stacks_in_memory(void **state)
{
	struct stack_pool *pool = &loop->cos.stacks;
	struct loop_stats stats;
	(void)state;
	for (int round = 0; round < 3; round++) {
		co_queue_init(&gate);
		spawn_all(go_deep);
		assert_in_range(resident_pages(pool), KV_ASAN ? WORKERS : WORKERS * 10,
				WORKERS * (pool->stack_bytes / pool->page_bytes));
		co_queue_wake_all(&gate);
		harness_run(loop);
		loop_stats(loop, &stats);
		assert_int_equal(stats.stacks_touched, STACK_HOT_MAX);
		assert_in_range(resident_pages(pool), STACK_HOT_MAX,
				STACK_HOT_MAX * (pool->stack_bytes / pool->page_bytes));
	}
	assert_int_equal(pool->fresh, WORKERS); /* the cold ones were used again */
}

static void slots_are_given_out_once(void **state)
{
	/* Against a stupid model: a table of slots and their owners. */
	enum { SLOTS = 300, STEPS = 20000 };
	struct stack_pool pool;
	struct kv_prng prng;
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	bool taken[SLOTS] = {false};
	unsigned count = 0;
	(void)state;
	printf("KVRAIL_SEED=0x%llx\n", (unsigned long long)seed);
	kv_prng_seed(&prng, seed);
	assert_int_equal(stack_pool_init(&pool, 16 << 10, SLOTS, STACK_GUARD_MADVISE, NULL), 0);
	for (int i = 0; i < STEPS; i++) {
		struct stack s;
		uint32_t slot = (uint32_t)kv_prng_below(&prng, SLOTS);
		if (taken[slot]) {
			stack_put(&pool, slot);
			taken[slot] = false;
			count--;
		} else if (stack_get(&pool, &s) == 0) {
			assert_false(taken[s.slot]);
			taken[s.slot] = true;
			count++;
			s.low[0] = s.top[-1] = 1; /* both ends are ours */
		} else {
			fail();
		}
		assert_in_range(stack_touched(&pool), count, count + STACK_HOT_MAX);
	}
	stack_pool_fini(&pool);
	stack_pool_fini(&pool); /* harmless */
}

/* ---- overflows: each in a child, whose end and last words are looked at ---- */

static int end_of_child(void (*body)(void), char *words, size_t cap)
{
	int ends[2], status = 0;
	size_t have = 0;
	ssize_t n;
	fflush(NULL);
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit no_core = {0};
		setrlimit(RLIMIT_CORE, &no_core);
		dup2(ends[1], STDERR_FILENO);
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test, in the child */
		alarm(20);
		body();
		_exit(0);
	}
	close(ends[1]);
	while (have + 1 < cap && (n = read(ends[0], words + have, cap - 1 - have)) > 0)
		have += (size_t)n;
	words[have] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_segv(int status)
{
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static enum stack_guard child_guard;

static void write_below_stack(void)
{
	struct stack_pool pool;
	struct stack first, second;
	if (stack_pool_init(&pool, 16 << 10, 4, child_guard, NULL) < 0 || stack_get(&pool, &first) < 0 ||
	    stack_get(&pool, &second) < 0)
		return;
	second.low[0] = 1;
	stack_put(&pool, second.slot);
	((volatile char *)second.low)[-1] = 1;
}

static void the_page_below_a_stack_is_guarded(void **state)
{
	char words[4096];
	(void)state;
	for (int i = 0; i < 2; i++) {
		child_guard = i ? STACK_GUARD_MPROTECT : STACK_GUARD_MADVISE;
		assert_segv(end_of_child(write_below_stack, words, sizeof(words)));
	}
}

static int recurse(int depth)
{
	volatile char frame[512];
	frame[0] = (char)depth;
	return depth < 1 << 20 ? recurse(depth + 1) + frame[0] : 0;
}

static void overflow(void *arg)
{
	*(volatile int *)arg = recurse(0);
}

static void overflow_in_loop(void)
{
	int sum = 0;
	struct loop *l = NULL;
	if (loop_create(&(struct loop_options){.name = "kv-1"}, &l, NULL) < 0 ||
	    co_spawn(l, overflow, &sum, "greedy") < 0)
		return;
	loop_turn(l, 0);
}

static void overflow_with_handler(void)
{
	if (loop_debug_overflow_handler() == 0)
		overflow_in_loop();
}

static void an_overflow_ends_the_process(void **state)
{
	char words[1 << 14];
	(void)state;
	assert_segv(end_of_child(overflow_in_loop, words, sizeof(words)));
	assert_null(strstr(words, "kvrail:"));
}

static void the_debug_handler_names_the_coroutine(void **state)
{
	char words[1 << 14];
	(void)state;
	assert_segv(end_of_child(overflow_with_handler, words, sizeof(words)));
	assert_non_null(strstr(
		words, "kvrail: stack overflow in coroutine 'greedy' of loop 'kv-1'; raise loop_options.stack_bytes"));
}

static void segv_elsewhere(void)
{
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED && loop_debug_overflow_handler() == 0)
		*page = 1;
}

static void the_debug_handler_is_silent_about_other_faults(void **state)
{
	char words[1 << 14];
	(void)state;
	assert_segv(end_of_child(segv_elsewhere, words, sizeof(words)));
	assert_null(strstr(words, "stack overflow in coroutine"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_coroutine_in_a_queue_costs_one_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_parked_coroutine_costs_one_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_coroutine_that_reads_costs_one_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_burst_leaves_only_the_hot_stacks_in_memory, set_up, tear_down),
		cmocka_unit_test(slots_are_given_out_once),
		cmocka_unit_test(the_page_below_a_stack_is_guarded),
		cmocka_unit_test(an_overflow_ends_the_process),
		cmocka_unit_test(the_debug_handler_names_the_coroutine),
		cmocka_unit_test(the_debug_handler_is_silent_about_other_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
