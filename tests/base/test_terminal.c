/* SPDX-License-Identifier: Apache-2.0 */
/* test_terminal.c -- a terminal by its environment. */
#include "tests/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static FILE *terminal_open(int *out_main)
{
	FILE *f = NULL;
	*out_main = posix_openpt(O_RDWR | O_NOCTTY);
	if (*out_main >= 0 && grantpt(*out_main) == 0 && unlockpt(*out_main) == 0)
		f = fopen(ptsname(*out_main), "r+e");
	return f;
}

static void the_environment_decides(void **state)
{
	static const struct {
		const char *term, *no_color;
		bool terminal, colours;
	} of[] = {{"xterm", NULL, true, true}, {"xterm", "1", true, false},  {"xterm", "", true, true},
		  {NULL, NULL, true, true},    {"dumb", NULL, false, false}, {"dumb", "", false, false},
		  {"", NULL, false, false}};
	int fd;
	FILE *f = terminal_open(&fd);
	(void)state;
	if (!f) {
		print_message("there are no pseudo-terminals here\n");
		skip();
	}
	for (unsigned i = 0; i < KV_COUNT(of); i++) {
		of[i].term ? setenv("TERM", of[i].term, 1) : unsetenv("TERM");
		of[i].no_color ? setenv("NO_COLOR", of[i].no_color, 1) : unsetenv("NO_COLOR");
		assert_int_equal(kv_terminal(f), of[i].terminal);
		assert_int_equal(kv_terminal_colours(f), of[i].colours);
	}
	fclose(f);
	close(fd);
}

static void a_file_is_none(void **state)
{
	FILE *f = fopen("/dev/null", "we");
	(void)state;
	assert_non_null(f);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	assert_false(kv_terminal(f) || kv_terminal_colours(f));
	fclose(f);
}

/* A pipe whose reader has gone got all that was wanted; a full disk did not. */
static void lost_text_is_told_from_text_that_nobody_reads(void **state)
{
	int end[2];
	FILE *f;
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(end), 0);
	f = fdopen(end[1], "w");
	assert_non_null(f);
	fputs("read", f);
	assert_true(kv_written(f));
	close(end[0]);
	fputs("not read", f);
	assert_true(kv_written(f));
	assert_true(ferror(f));
	fclose(f);
	f = fopen("/dev/full", "we");
	if (!f)
		return;
	fputs("lost", f);
	assert_false(kv_written(f));
	assert_false(kv_written(f));
	fclose(f);
}

static void columns_come_from_the_terminal_or_the_environment(void **state)
{
	struct winsize size = {.ws_row = 24, .ws_col = 77};
	int fd;
	FILE *f = fopen("/dev/null", "we");
	(void)state;
	assert_non_null(f);
	unsetenv("COLUMNS");
	assert_int_equal(kv_terminal_columns(f), 0);
	setenv("COLUMNS", "60", 1);
	assert_int_equal(kv_terminal_columns(f), 60);
	setenv("COLUMNS", "wide", 1);
	assert_int_equal(kv_terminal_columns(f), 0);
	fclose(f);
	f = terminal_open(&fd);
	if (!f || ioctl(fd, TIOCSWINSZ, &size) != 0) {
		print_message("there are no pseudo-terminals here\n");
		skip();
	}
	assert_int_equal(kv_terminal_columns(f), 77);
	fclose(f);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_environment_decides),
		cmocka_unit_test(a_file_is_none),
		cmocka_unit_test(lost_text_is_told_from_text_that_nobody_reads),
		cmocka_unit_test(columns_come_from_the_terminal_or_the_environment),
	};
	return cmocka_run_group_tests_name("base/terminal", tests, NULL, NULL);
}
