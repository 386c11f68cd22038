/* SPDX-License-Identifier: Apache-2.0 */
/* test_run.c -- what a run asks of the client library. No server is here: the opening of the pool is stood in for. */
#include "kvbench/run.h"

#include "kvbench/load/bench.h"
#include "kvbench/setup/options.h"
#include "kvclient/kvclient.h"
#include "tests/kvbench/check.h"

#define SECOND 1000000000ull

static uint64_t connect_ns;

int __wrap_kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out_pool, struct kv_error *err);
int __wrap_kvc_pool_open(const struct kvc_options *options, struct kvc_pool **out_pool, struct kv_error *err)
{
	(void)out_pool;
	connect_ns = options->connect_timeout_ns;
	return kv_fail(err, -KV_EPEERDOWN, "no server is here");
}

/* How long a run waits for its server. */
static uint64_t connecting(char *timeout)
{
	char *argv[] = {"kv-bench", "--quiet", "--server", "127.0.0.1:1", "--timeout", timeout, NULL};
	struct bench_options o;
	struct kv_error err = {0};
	assert_int_equal(bench_options_parse((int)KV_COUNT(argv) - 1, argv, &o, &err), 0);
	connect_ns = 0;
	assert_int_equal(bench_run(&o), BENCH_NO_START);
	return connect_ns;
}

static void connecting_has_15_seconds(void **state)
{
	(void)state;
	assert_int_equal(connecting("0"), 15 * SECOND);
	assert_int_equal(connecting("3"), 15 * SECOND);
}

static void connecting_has_the_time_of_a_call_that_has_more(void **state)
{
	(void)state;
	assert_int_equal(connecting("100"), 100 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connecting_has_15_seconds),
		cmocka_unit_test(connecting_has_the_time_of_a_call_that_has_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
