/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c -- a loop for a test. A test that hangs ends after 20 s of turns instead. */
#include <stdio.h>

#include "tests/loop/harness.h"

int harness_failures;

static const struct kv_log harness_log = {.level = KV_LOG_WARN, .write = kv_log_stderr};

struct loop *harness_loop(const struct loop_options *options)
{
	struct loop_options o = options ? *options : (struct loop_options){.name = "test"};
	struct loop *loop = NULL;
	struct kv_error err = {0};
	if (!o.log)
		o.log = &harness_log;
	harness_failures = 0;
	int rc = loop_create(&o, &loop, &err);
	if (rc < 0)
		fprintf(stderr, "loop_create: %s\n", err.text);
	assert_int_equal(rc, 0);
	return loop;
}

uint64_t harness_live(const struct loop *loop)
{
	struct loop_stats stats;
	loop_stats(loop, &stats);
	return stats.coroutines;
}

void harness_run(struct loop *loop)
{
	uint64_t give_up = loop_now(loop) + 100 * SECOND;
	while (harness_live(loop) > 0 && loop_now(loop) < give_up)
		assert_true(loop_turn(loop, 100 * MS) >= 0);
	assert_int_equal(harness_live(loop), 0);
	assert_int_equal(harness_failures, 0);
}

void harness_spawn(struct loop *loop, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(co_spawn(loop, fn, arg, "test"), 0);
}
