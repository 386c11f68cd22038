/* SPDX-License-Identifier: Apache-2.0 */
/* test_again.c -- kv-bench starts a process for its report. A shell stands for the other kv-bench. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvbench/setup/again.h"

#define SECOND 1000000000ull

static struct kv_error err;

static int shell(const char *script, struct again_run run, json_t **out)
{
	static struct again_args args;
	memset(&args, 0, sizeof(args));
	memset(&err, 0, sizeof(err));
	run.program = "/bin/sh";
	run.timeout_ns = run.timeout_ns ? run.timeout_ns : 60 * SECOND;
	again_put(&args, "sh");
	again_put(&args, "-c");
	again_add(&args, "%s", script);
	return again_report(&run, &args, out, &err);
}

static void a_report_is_parsed(void **state)
{
	json_t *doc;
	(void)state;
	assert_int_equal(shell("echo 'a line of the log' >&2; echo '{\"ops\": 7}'", (struct again_run){0}, &doc), 0);
	assert_int_equal(json_integer_value(json_object_get(doc, "ops")), 7);
	json_decref(doc);
}

static void a_status_up_to_the_highest_one_counts(void **state)
{
	json_t *doc;
	(void)state;
	assert_int_equal(shell("echo '{}'; exit 1", (struct again_run){.status_max = 1}, &doc), 0);
	json_decref(doc);
	assert_int_equal(shell("echo '{}'; exit 2", (struct again_run){.status_max = 1}, &doc), -KV_EINTERNAL);
	assert_null(doc);
	assert_string_equal(err.text, "exit status 2");
}

/* Our own line is the reason, wherever it stands; without one it is the last line. */
static void the_reason_is_a_line_of_the_log(void **state)
{
	json_t *doc;
	(void)state;
	shell("echo 'kv-bench: no server' >&2; echo 'a hint' >&2; exit 3", (struct again_run){0}, &doc);
	assert_string_equal(err.text, "exit status 3: no server");
	shell("echo first >&2; printf 'second\\tof two\\n' >&2; exit 3", (struct again_run){0}, &doc);
	assert_string_equal(err.text, "exit status 3: second of two");
	shell("yes filler | head -n 5000 >&2; echo the end >&2; kill -9 $$", (struct again_run){0}, &doc);
	assert_string_equal(err.text, "its process was ended by signal 9: the end");
}

static void a_report_that_is_none_is_an_error(void **state)
{
	json_t *doc;
	(void)state;
	assert_int_equal(shell("true", (struct again_run){0}, &doc), -KV_EINTERNAL);
	assert_string_equal(err.text, "it wrote no report");
	assert_int_equal(shell("echo '{\"cut\": '", (struct again_run){0}, &doc), -KV_EINTERNAL);
	assert_int_equal(shell("head -c 70000000 /dev/zero", (struct again_run){0}, &doc), -KV_EINVAL);
	assert_string_equal(err.text, "its report is longer than 64 MiB");
	assert_null(doc);
}

static void a_process_is_killed_when_its_time_is_over(void **state)
{
	json_t *doc;
	(void)state;
	assert_int_equal(
		shell("sleep 1000", (struct again_run){.timeout_ns = SECOND / 100, .timeout = "--cell-timeout"}, &doc),
		-KV_ETIMEOUT);
	assert_string_equal(err.text, "it was not over within 10.0 ms (--cell-timeout)");
}

static void a_program_that_is_not_there_cannot_be_started(void **state)
{
	static const struct again_run run = {.program = "/nonexistent/kv-bench", .timeout_ns = SECOND};
	static struct again_args args;
	json_t *doc;
	(void)state;
	again_put(&args, "kv-bench");
	assert_true(again_report(&run, &args, &doc, &err) < 0);
	assert_non_null(strstr(err.text, "cannot be started: No such file"));
}

static void arguments_without_room_are_an_error(void **state)
{
	static struct again_args args;
	static char longest[AGAIN_TEXT_MAX];
	json_t *doc;
	(void)state;
	for (unsigned i = 0; i < AGAIN_ARGS_MAX - 1; i++)
		again_put(&args, "x");
	assert_int_equal(again_check(&args, &err), 0);
	again_put(&args, "x");
	assert_int_equal(again_check(&args, &err), -KV_EINVAL);
	assert_int_equal(again_report(&(struct again_run){.timeout_ns = SECOND}, &args, &doc, &err), -KV_EINVAL);
	memset(&args, 0, sizeof(args));
	memset(longest, 'x', sizeof(longest) - 1);
	again_add(&args, "%s", longest);
	assert_int_equal(again_check(&args, &err), 0);
	again_add(&args, "%s", "");
	assert_int_equal(again_check(&args, &err), -KV_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_is_parsed),
		cmocka_unit_test(a_status_up_to_the_highest_one_counts),
		cmocka_unit_test(the_reason_is_a_line_of_the_log),
		cmocka_unit_test(a_report_that_is_none_is_an_error),
		cmocka_unit_test(a_process_is_killed_when_its_time_is_over),
		cmocka_unit_test(a_program_that_is_not_there_cannot_be_started),
		cmocka_unit_test(arguments_without_room_are_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
