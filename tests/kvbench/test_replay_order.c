/* SPDX-License-Identifier: Apache-2.0 */
/* test_replay_order.c -- the order of a replay, on real loops and threads, against what a plain reading of the file
 * gives.
 *
 * A made cache (a table under a mutex) stands for the server. Workers on several loops do what replay.c does, with
 * random pauses between the steps; in strict order every request must find exactly the blocks that the requests before
 * it in the file stored. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvbench/load/replay_order.h"
#include "tests/kvbench/check.h"

enum { LOOPS = 3, WORKERS = 12, IDS = 300, REQUESTS = 500, LEN = 16 };
#define PATIENCE_S 60

struct rig {
	struct sequencer *seq;
	struct loop *loop[LOOPS];
	pthread_t thread[LOOPS];
	pthread_mutex_t lock; /* of the made cache and the counts */
	bool stored[IDS];
	uint64_t hits, requests;
	_Atomic unsigned running;
	_Atomic bool over;
	bool pauses;
	uint64_t hold_ns;             /* a request takes so long after its look-up */
	uint64_t at_ns[REQUESTS + 1]; /* by line */
};

struct worker {
	struct rig *rig;
	unsigned number;
};

static void pause_await(struct rig *r)
{
	struct loop *loop = loop_current();
	uint64_t n = kv_prng_below(loop_prng(loop), 8);
	if (!r->pauses)
		return;
	if (n > 5)
		co_sleep_await(loop_now(loop) + 1000 * kv_prng_below(loop_prng(loop), 300));
	for (; n > 0 && n <= 5; n--)
		co_yield_await();
}

static unsigned look_up(struct rig *r, const struct seq_worker *w)
{
	unsigned found = 0;
	pthread_mutex_lock(&r->lock);
	while (found < w->num_ids && r->stored[w->ids[found]])
		found++;
	r->hits += found;
	r->requests++;
	pthread_mutex_unlock(&r->lock);
	return found;
}

static void store(struct rig *r, const struct seq_worker *w, unsigned i)
{
	pthread_mutex_lock(&r->lock);
	r->stored[w->ids[i]] = true;
	pthread_mutex_unlock(&r->lock);
}

static void work_main(void *arg)
{
	struct worker *me = arg;
	struct rig *r = me->rig;
	struct seq_worker w = {0};
	seq_worker_init(&w, r->seq);
	while (seq_next_await(&w)) {
		unsigned found;
		pause_await(r);
		r->at_ns[w.line] = w.at_ns;
		found = look_up(r, &w);
		seq_looked_up_await(&w, found);
		if (r->hold_ns)
			co_sleep_await(loop_now(loop_current()) + r->hold_ns);
		for (unsigned i = found; i < w.num_ids; i++) {
			pause_await(r);
			store(r, &w, i);
		}
	}
	seq_worker_fini(&w);
	atomic_fetch_sub(&r->running, 1);
}

static void *loop_main(void *arg)
{
	loop_run(arg);
	return NULL;
}

static void spawn_one(void *arg)
{
	assert_int_equal(co_spawn(loop_current(), work_main, arg, "worker"), 0);
}

static bool is_over(void *arg)
{
	return atomic_load(&((struct rig *)arg)->over);
}

/* Run WORKERS over the trace; the rig has the counts afterwards. Returns what sequencer_stop gave. */
static int run_rig(struct rig *r, const char *path, struct seq_options so, struct seq_stats *stats,
		   struct kv_error *err)
{
	struct worker worker[WORKERS];
	unsigned waited_ms = 0;
	int rc;
	pthread_mutex_init(&r->lock, NULL);
	so.path = path;
	so.over = is_over;
	so.arg = r;
	assert_int_equal(sequencer_start(&so, &r->seq, err), 0);
	atomic_store(&r->running, WORKERS);
	for (unsigned i = 0; i < LOOPS; i++) {
		struct loop_options lo = {.name = "test", .seed = i + 1};
		assert_int_equal(loop_create(&lo, &r->loop[i], err), 0);
		assert_int_equal(pthread_create(&r->thread[i], NULL, loop_main, r->loop[i]), 0);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		worker[i] = (struct worker){r, i};
		assert_int_equal(loop_post(r->loop[i % LOOPS], spawn_one, &worker[i]), 0);
	}
	for (; atomic_load(&r->running) > 0; waited_ms++) {
		if (waited_ms > PATIENCE_S * 1000) {
			fprintf(stderr, "the workers did not end within %d s\n", PATIENCE_S);
			abort();
		}
		usleep(1000);
	}
	/* First the sequencer: it may still be ringing a loop whose last worker has ended. */
	rc = sequencer_stop(&r->seq, stats, err);
	for (unsigned i = 0; i < LOOPS; i++) {
		loop_stop(r->loop[i]);
		pthread_join(r->thread[i], NULL);
		loop_destroy(&r->loop[i]);
	}
	pthread_mutex_destroy(&r->lock);
	return rc;
}

/* Requests that share much: few roots, short tails. */
static void make_trace(struct kv_prng *prng, struct check_file *file, unsigned step_ms)
{
	FILE *out = check_file_open(file);
	for (unsigned q = 0; q < REQUESTS; q++) {
		unsigned n = (unsigned)kv_prng_below(prng, LEN), root = (unsigned)kv_prng_below(prng, 8) * 30;
		fprintf(out, "{\"timestamp\": %u, \"hash_ids\": [", q * step_ms);
		for (unsigned i = 0; i < n; i++)
			fprintf(out, "%s%u", i ? ", " : "", i < n / 2 ? root + i : (unsigned)kv_prng_below(prng, IDS));
		fputs("]}\n", out);
	}
	fclose(out);
}

static void strict_order_gives_the_hits_of_the_file(void **state)
{
	struct kv_prng prng = check_seed();
	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		struct rig r = {.pauses = true};
		struct seq_stats stats;
		struct trace_totals want;
		struct check_file file;
		struct kv_error err;

		make_trace(&prng, &file, 1);
		assert_int_equal(trace_scan(file.path, &want, &err), 0);
		assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true}, &stats, &err), 0);
		assert_int_equal(r.requests, REQUESTS);
		assert_int_equal(r.hits, want.prefix_hits);
		assert_int_equal(stats.started, REQUESTS);
		assert_true(stats.end_of_file);
		assert_true(stats.waited > 0); /* else the trace shares too little to test anything */
		check_file_remove(&file);
	}
}

static void relaxed_order_replays_everything_without_waiting(void **state)
{
	struct kv_prng prng = check_seed();
	struct rig r = {.pauses = true};
	struct seq_stats stats;
	struct check_file file;
	struct kv_error err;
	(void)state;
	make_trace(&prng, &file, 1);
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = false}, &stats, &err), 0);
	assert_int_equal(r.requests, REQUESTS);
	assert_int_equal(stats.waited, 0);
	check_file_remove(&file);
}

static void speed_spreads_requests_over_the_traces_time(void **state)
{
	struct kv_prng prng = check_seed();
	struct rig r = {0};
	struct seq_stats stats;
	struct check_file file;
	struct kv_error err;
	uint64_t start_ns = kv_clock_now(&kv_clock_monotonic), took_ns;
	(void)state;
	make_trace(&prng, &file, 2); /* one second of trace */
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true, .speed = 4}, &stats, &err), 0);
	took_ns = kv_clock_now(&kv_clock_monotonic) - start_ns;
	assert_int_equal(r.requests, REQUESTS);
	/* Never earlier than its time: that is no matter of how fast the machine is. */
	assert_true(took_ns >= (uint64_t)(REQUESTS - 1) * 2 * 1000000 / 4);
	check_file_remove(&file);
}

/* The second waits for the block that the first stores: it does not start at its time, and that is told. */
static void what_a_start_waits_for_makes_it_late(void **state)
{
	struct check_file file =
		check_file_make("{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 1, \"hash_ids\": [1]}\n");
	struct rig r = {.hold_ns = 40000000};
	struct seq_stats stats;
	struct kv_error err;
	(void)state;
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true, .speed = 1}, &stats, &err), 0);
	assert_int_equal(r.requests, 2);
	assert_true(stats.late_max_ns >= 30000000); /* 39 ms, less a turn of each loop */
	check_file_remove(&file);
}

static void a_time_that_goes_back_counts_as_the_one_before(void **state)
{
	struct check_file file =
		check_file_make("{\"timestamp\": 10, \"hash_ids\": [1]}\n{\"timestamp\": 5, \"hash_ids\": [2]}\n"
				"{\"timestamp\": 30, \"hash_ids\": [3]}\n{\"timestamp\": 12, \"hash_ids\": [4]}\n"
				"{\"timestamp\": 31, \"hash_ids\": [5]}\n");
	static const uint64_t want_ms[] = {0, 0, 20, 20, 21};
	struct trace_totals totals;
	struct rig r = {0};
	struct seq_stats stats;
	struct kv_error err;
	(void)state;
	assert_int_equal(trace_scan(file.path, &totals, &err), 0);
	assert_int_equal(totals.back, 2);
	assert_true(totals.last_ms == 31);
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true, .speed = 1}, &stats, &err), 0);
	for (unsigned i = 0; i < KV_COUNT(want_ms); i++)
		assert_int_equal(r.at_ns[i + 1], want_ms[i] * 1000000);
	check_file_remove(&file);
}

static void a_bad_line_ends_the_replay_with_its_sentence(void **state)
{
	struct check_file file = check_file_make(
		"{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 0, \"hash_ids\": [1, 2]}\nbroken\n");
	struct rig r = {0};
	struct seq_stats stats;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true}, &stats, &err), -KV_EINVAL);
	check_contains(err.text, "line 3");
	assert_int_equal(r.requests, 2);
	assert_false(stats.end_of_file);
	check_file_remove(&file);
}

static void over_ends_the_replay_while_it_waits_for_a_time(void **state)
{
	struct check_file file = check_file_make(
		"{\"timestamp\": 0, \"hash_ids\": [1]}\n{\"timestamp\": 86400000, \"hash_ids\": [1, 2]}\n");
	struct rig r = {0};
	struct seq_stats stats;
	struct kv_error err = {0};
	(void)state;
	/* The second request is a day away; the duration ends the wait. */
	assert_int_equal(run_rig(&r, file.path,
				 (struct seq_options){.strict = true, .speed = 1, .duration_ns = 50000000}, &stats,
				 &err),
			 0);
	assert_int_equal(r.requests, 1);
	assert_false(stats.end_of_file);
	check_file_remove(&file);
}

/* All workers are busy when the time is over: what was due until then is counted, and what is due later is not. */
static void what_was_due_and_never_started_is_counted(void **state)
{
	enum { LEFT = 50 };
	struct check_file file;
	FILE *out = check_file_open(&file);
	struct rig r = {.hold_ns = 100000000};
	struct seq_stats stats;
	struct kv_error err = {0};
	(void)state;
	for (unsigned i = 0; i < WORKERS + LEFT; i++)
		fprintf(out, "{\"timestamp\": %u, \"hash_ids\": [%u]}\n", i >= WORKERS, i);
	fputs("{\"timestamp\": 86400000, \"hash_ids\": [1]}\n", out);
	fclose(out);
	assert_int_equal(
		run_rig(&r, file.path, (struct seq_options){.speed = 1, .duration_ns = 40000000}, &stats, &err), 0);
	assert_int_equal(stats.started + stats.never_started, WORKERS + LEFT);
	assert_int_equal(stats.started, r.requests);
	assert_true(stats.never_started >= LEFT);
	assert_true(stats.late_max_ns >= 39000000);
	assert_false(stats.end_of_file);
	check_file_remove(&file);
}

static void no_request_is_started_once_it_is_over(void **state)
{
	struct kv_prng prng = check_seed();
	struct rig r = {.over = true};
	struct seq_stats stats;
	struct check_file file;
	struct kv_error err = {0};
	(void)state;
	make_trace(&prng, &file, 1);
	assert_int_equal(run_rig(&r, file.path, (struct seq_options){.strict = true}, &stats, &err), 0);
	assert_int_equal(r.requests, 0);
	check_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strict_order_gives_the_hits_of_the_file),
		cmocka_unit_test(relaxed_order_replays_everything_without_waiting),
		cmocka_unit_test(speed_spreads_requests_over_the_traces_time),
		cmocka_unit_test(what_a_start_waits_for_makes_it_late),
		cmocka_unit_test(a_time_that_goes_back_counts_as_the_one_before),
		cmocka_unit_test(a_bad_line_ends_the_replay_with_its_sentence),
		cmocka_unit_test(over_ends_the_replay_while_it_waits_for_a_time),
		cmocka_unit_test(what_was_due_and_never_started_is_counted),
		cmocka_unit_test(no_request_is_started_once_it_is_over),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
