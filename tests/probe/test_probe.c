/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c -- children that end in every way, and what is known of them. The child is this program with a second
 * argument. */
#include "tests/check.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "probe/probe.h"

struct result {
	unsigned step;
	char said[64];
};

static struct result result;
static struct probe p;

static int fresh(void **state)
{
	(void)state;
	result = (struct result){0};
	p = (struct probe){
		.name = "the trial", .result = &result, .result_bytes = sizeof(result), .timeout_ns = 20000000000ull};
	return 0;
}

static void run(const char *kind)
{
	char tell[16], input[16];
	int rc = probe_open(&p);
	snprintf(tell, sizeof(tell), "%d", p.report_fd);
	snprintf(input, sizeof(input), "%d", p.input_fd);
	const char *argv[] = {"test_probe", kind, tell, input, NULL};
	probe_run(&p, rc, argv);
	assert_true(p.ours[0] < 0 && p.ours[1] < 0 && p.ours[2] < 0 && p.theirs[0] < 0 && p.theirs[2] < 0);
}

static void a_child_gets_its_input_and_tells(void **state)
{
	(void)state;
	p.input = "a word";
	p.input_bytes = 6;
	run("echo");
	assert_int_equal(p.end, PROBE_EXITED);
	assert_int_equal(p.code, 3);
	assert_string_equal(p.text, "the process of the trial ended with status 3 before it was done");
	assert_int_equal(result.step, 2);
	assert_string_equal(result.said, "a word");
}

static void what_was_told_last_outlives_a_death(void **state)
{
	(void)state;
	p.keep_log = true;
	run("abort");
	assert_int_equal(p.end, PROBE_SIGNALLED);
	assert_int_equal(p.code, SIGABRT);
	assert_string_equal(p.text, "the process of the trial was ended by signal 6 (Aborted)");
	assert_int_equal(result.step, 7);
	assert_string_equal(p.log, "a last word\n");
}

static void the_log_keeps_its_end(void **state)
{
	(void)state;
	p.keep_log = true;
	run("talk");
	assert_int_equal(strlen(p.log), PROBE_LOG_MAX - 1);
	assert_string_equal(p.log + strlen(p.log) - 4, "999\n");
}

static void a_kill_from_outside_hints_at_memory(void **state)
{
	(void)state;
	run("kill");
	assert_int_equal(p.end, PROBE_SIGNALLED);
	assert_non_null(strstr(p.text, "signal 9 (Killed): for lack of memory"));
}

static void a_child_that_hangs_is_killed(void **state)
{
	(void)state;
	p.timeout_ns = 300000000;
	run("hang");
	assert_int_equal(p.end, PROBE_KILLED);
	assert_string_equal(p.text, "the trial did not end in time and was killed");
	assert_int_equal(result.step, 1);
}

/* Also one that closed its pipes before. */
static void a_child_that_hangs_without_pipes_is_killed(void **state)
{
	(void)state;
	p.timeout_ns = 300000000;
	run("silent");
	assert_int_equal(p.end, PROBE_KILLED);
}

/* Its heir has its pipes open for 20 s. */
static void a_child_with_an_heir_ends_when_it_ends(void **state)
{
	uint64_t began_ns = kv_clock_now(&kv_clock_monotonic);
	(void)state;
	p.keep_log = true;
	run("heir");
	assert_int_equal(p.end, PROBE_EXITED);
	assert_int_equal(p.code, 4);
	assert_int_equal(result.step, 1);
	assert_string_equal(p.log, "a last word\n");
	assert_true(kv_clock_now(&kv_clock_monotonic) - began_ns < 10000000000ull);
}

static void a_child_with_an_heir_is_killed(void **state)
{
	uint64_t began_ns = kv_clock_now(&kv_clock_monotonic);
	(void)state;
	p.keep_log = true;
	p.timeout_ns = 300000000;
	run("family");
	assert_int_equal(p.end, PROBE_KILLED);
	assert_true(kv_clock_now(&kv_clock_monotonic) - began_ns < 10000000000ull);
}

static void a_child_that_cannot_start_is_an_end_like_others(void **state)
{
	const char *argv[] = {"test_probe", NULL};
	(void)state;
	assert_int_equal(probe_open(&p), 0);
	probe_run(&p, -EAGAIN, argv);
	assert_int_equal(p.end, PROBE_NOT_STARTED);
	assert_int_equal(p.code, -EAGAIN);
	assert_non_null(strstr(p.text, "the process of the trial cannot be started: "));
	assert_non_null(strstr(p.text, "ulimit -u"));
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
	const char *argv[] = {"x", NULL};
	pid_t pid;
	(void)state;
	assert_int_equal(probe_spawn("/nonexistent/x", argv, -1, -1, (const int[]){-1, -1}, false, &pid), -ENOENT);
}

static int child(char **argv)
{
	const char *kind = argv[1];
	struct result r = {.step = 1};
	int fd = atoi(argv[2]);
	probe_report(fd, &r, sizeof(r));
	if (strcmp(kind, "echo") == 0) {
		r.step = 2;
		assert_int_equal(probe_take(atoi(argv[3]), r.said, sizeof(r.said)), 6);
		probe_report(fd, &r, sizeof(r));
		return 3;
	}
	if (strcmp(kind, "abort") == 0) {
		fputs("a last word\n", stderr);
		r.step = 7;
		probe_report(fd, &r, sizeof(r));
		signal(SIGABRT, SIG_DFL);
		abort();
	}
	for (unsigned i = 0; strcmp(kind, "talk") == 0 && i < 1000; i++)
		fprintf(stderr, "%u\n", i);
	if (strcmp(kind, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(kind, "silent") == 0)
		close(fd);
	if ((strcmp(kind, "heir") == 0 || strcmp(kind, "family") == 0) && fork() == 0) {
		alarm(20);
		pause();
	}
	if (strcmp(kind, "heir") == 0) {
		fputs("a last word\n", stderr);
		return 4;
	}
	while (strcmp(kind, "talk") != 0)
		pause();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_child_gets_its_input_and_tells, fresh),
		cmocka_unit_test_setup(what_was_told_last_outlives_a_death, fresh),
		cmocka_unit_test_setup(the_log_keeps_its_end, fresh),
		cmocka_unit_test_setup(a_kill_from_outside_hints_at_memory, fresh),
		cmocka_unit_test_setup(a_child_that_hangs_is_killed, fresh),
		cmocka_unit_test_setup(a_child_that_hangs_without_pipes_is_killed, fresh),
		cmocka_unit_test_setup(a_child_with_an_heir_ends_when_it_ends, fresh),
		cmocka_unit_test_setup(a_child_with_an_heir_is_killed, fresh),
		cmocka_unit_test_setup(a_child_that_cannot_start_is_an_end_like_others, fresh),
		cmocka_unit_test(a_program_that_is_not_there_is_an_error),
	};
	if (argc > 3)
		return child(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
