/* SPDX-License-Identifier: Apache-2.0 */
/* test_server_child.c -- starting, losing and ending a child, with shell scripts in the server's place. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/setup/server_child.h"
#include "kvbench/setup/signals.h"
#include "tests/kvbench/check.h"

#define SECOND_NS 1000000000ull

/* A script that finds its --ready-fd and --psk-fd as READY and PSK, and then does what the test wants. */
static struct check_file script(const char *body)
{
	struct check_file file;
	FILE *out = check_file_open(&file);
	fprintf(out,
		"#!/bin/bash\nall=\"$*\"\nfor arg; do\ncase $arg in\n--ready-fd=*) READY=${arg#*=};;\n--psk-fd=*) "
		"PSK=${arg#*=};;\nesac\ndone\n%s\n",
		body);
	assert_int_equal(fchmod(fileno(out), 0700), 0);
	fclose(out);
	return file;
}

static int start(const char *body, uint64_t timeout_ns, struct server_child **out, struct kv_error *err)
{
	struct check_file file = script(body);
	struct server_child_options o = {
		.binary = file.path, .memory_mb = 64, .log_level = KV_LOG_INFO, .ready_timeout_ns = timeout_ns};
	int rc = server_child_start(&o, out, err);
	check_file_remove(&file);
	return rc;
}

/* No child of ours is left, running or dead. */
static void check_reaped(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* In a process group of its own it does not hear of Ctrl-C: it ends with the test. */
#define STAY "while kill -0 $PPID 2>/dev/null; do sleep 0.05; done"

static void the_ready_line_gives_the_address(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start("trap 'exit 0' TERM; echo 'READY 127.0.0.1:4711 and more' >&$READY; " STAY,
			       20 * SECOND_NS, &child, &err),
			 0);
	assert_string_equal(server_child_address(child), "127.0.0.1:4711");
	assert_false(server_child_dead(child));
	assert_int_equal(server_child_stop(&child, &err), 0);
	assert_null(child);
	check_reaped();
}

static void the_key_comes_through_the_pipe(void **state)
{
	struct server_child *child = NULL;
	struct check_file seen = check_file_make("");
	struct kv_error err = {0};
	char body[512], got[256] = "";
	FILE *in;
	(void)state;
	snprintf(body, sizeof(body),
		 "trap 'exit 0' TERM; read -r key <&$PSK; echo \"$key\" >%s; echo 'READY 127.0.0.1:1' >&$READY; " STAY,
		 seen.path);
	assert_int_equal(start(body, 20 * SECOND_NS, &child, &err), 0);
	in = fopen(seen.path, "r");
	assert_non_null(in);
	assert_non_null(fgets(got, sizeof(got), in));
	fclose(in);
	got[strcspn(got, "\n")] = 0;
	assert_string_equal(got, server_child_psk(child));
	assert_int_equal(strncmp(got, "kv-bench:", 9), 0);
	assert_int_equal(strlen(got), 9 + 64);
	assert_int_equal(server_child_stop(&child, &err), 0);
	check_file_remove(&seen);
}

static void the_child_is_told_what_it_is_to_be(void **state)
{
	struct server_child *child = NULL;
	struct check_file seen = check_file_make("");
	struct kv_error err = {0};
	char body[512], got[1024] = "";
	FILE *in;
	(void)state;
	snprintf(body, sizeof(body), "trap 'exit 0' TERM; echo \"$all\" >%s; echo 'READY 127.0.0.1:1' >&$READY; " STAY,
		 seen.path);
	assert_int_equal(start(body, 20 * SECOND_NS, &child, &err), 0);
	in = fopen(seen.path, "r");
	assert_non_null(in);
	assert_non_null(fgets(got, sizeof(got), in));
	fclose(in);
	check_contains(got, "--listen-addr=127.0.0.1:0");
	check_contains(got, "--die-with-parent");
	check_contains(got, "--memory-mb=64");
	check_contains(got, "--drain-sec=5"); /* less than it is waited for at its end */
	if (strstr(got, server_child_psk(child)))
		fail_msg("the key is in the argument list");
	assert_int_equal(server_child_stop(&child, &err), 0);
	check_file_remove(&seen);
}

static void ending_before_it_is_ready_is_told(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start("echo 'no such device' >&2; exit 3", 20 * SECOND_NS, &child, &err), -KV_EPEERDOWN);
	check_contains(err.text, "before it was ready");
	assert_null(child);
	check_reaped();
}

static void one_that_is_never_ready_is_told(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start(STAY, SECOND_NS / 5, &child, &err), -KV_ETIMEOUT);
	check_reaped();
}

/* As a kv-server that touches a lot of memory: Ctrl-C waited ten seconds for it. It counts tenths of a second from
 * SIGTERM on. */
static void a_server_that_is_not_ready_is_not_waited_for(void **state)
{
	struct server_child *child = NULL;
	struct check_file seen = check_file_make("");
	struct kv_error err = {0};
	struct stat st;
	char body[512];
	(void)state;
	snprintf(body, sizeof(body), "trap T=1 TERM; while :; do sleep 0.1; [ \"$T\" ] && printf x >>%s; done",
		 seen.path);
	assert_int_equal(start(body, SECOND_NS / 5, &child, &err), -KV_ETIMEOUT);
	assert_int_equal(stat(seen.path, &st), 0);
	assert_in_range(st.st_size, 0, 50);
	check_file_remove(&seen);
	check_reaped();
}

static void nonsense_instead_of_a_ready_line_is_told(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start("echo 'hello there' >&$READY; " STAY, 20 * SECOND_NS, &child, &err), -KV_EPROTO);
	check_reaped();
}

static void a_binary_that_is_not_there_is_told(void **state)
{
	struct server_child_options o = {.binary = "/nonexistent/kv-server",
					 .memory_mb = 64,
					 .log_level = KV_LOG_INFO,
					 .ready_timeout_ns = SECOND_NS};
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(server_child_start(&o, &child, &err), -ENOENT);
	check_contains(err.text, "--server");
	check_reaped();
}

static void wait_dead(const struct server_child *child)
{
	for (unsigned i = 0; i < 20000 && !server_child_dead(child); i++)
		usleep(1000);
	assert_true(server_child_dead(child));
}

static void dying_during_the_run_is_seen_and_told(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start("echo 'READY 127.0.0.1:1' >&$READY; kill -SEGV $$", 20 * SECOND_NS, &child, &err), 0);
	wait_dead(child);
	assert_int_equal(server_child_stop(&child, &err), -KV_EPEERDOWN);
	check_contains(err.text, "signal 11");
	check_reaped();
}

static void a_bad_exit_status_is_told(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(
		start("trap 'exit 66' TERM; echo 'READY 127.0.0.1:1' >&$READY; " STAY, 20 * SECOND_NS, &child, &err),
		0);
	assert_int_equal(server_child_stop(&child, &err), -KV_EPEERDOWN);
	check_contains(err.text, "status 66");
	check_reaped();
}

/* More log than a pipe holds must not stop the child. */
static void a_talkative_child_is_not_blocked(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(start("trap 'exit 0' TERM; for i in {1..20000}; do echo \"line $i of a long log\"; done; echo "
			       "'READY 127.0.0.1:1' >&$READY; " STAY,
			       30 * SECOND_NS, &child, &err),
			 0);
	assert_int_equal(server_child_stop(&child, &err), 0);
	check_reaped();
}

static void it_has_a_process_group_of_its_own(void **state)
{
	struct server_child *child = NULL;
	struct kv_error err = {0};
	(void)state;
	assert_int_equal(
		start("trap 'exit 0' TERM; echo 'READY 127.0.0.1:1' >&$READY; " STAY, 20 * SECOND_NS, &child, &err), 0);
	assert_int_equal(getpgid(server_child_pid(child)), server_child_pid(child));
	assert_int_equal(server_child_stop(&child, &err), 0);
}

/* It has nothing to finish, and would finish it first. The last test: the interruption stays. */
static void an_interrupted_start_kills_it_at_once(void **state)
{
	struct server_child *child = NULL;
	struct check_file asked = check_file_make("");
	struct kv_error err = {0};
	char body[512];
	(void)state;
	bench_signals_install();
	assert_int_equal(unlink(asked.path), 0);
	snprintf(body, sizeof(body), "trap 'echo asked >%s; exit 0' TERM; kill -INT $PPID; " STAY, asked.path);
	assert_int_equal(start(body, 60 * SECOND_NS, &child, &err), -KV_ECANCELED);
	assert_null(child);
	assert_int_equal(access(asked.path, F_OK), -1);
	check_reaped();
	check_file_remove(&asked);
}

static void stopping_nothing_does_nothing(void **state)
{
	struct server_child *child = NULL;
	(void)state;
	assert_int_equal(server_child_stop(&child, NULL), 0);
	assert_false(server_child_dead(NULL));
}

/* The first line of a file that has this in it. */
static void line_with(const char *path, const char *what, char *out, int cap)
{
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	while (fgets(out, cap, in))
		if (strstr(out, what)) {
			fclose(in);
			return;
		}
	fclose(in);
	out[0] = 0;
}

/* As kv-server: nothing before the key is there. Its port has its number as last digit. */
#define LATE_SERVER                                                                                                    \
	"trap 'exit 0' TERM; echo \"$all\" >>%s; read -r key <&$PSK || exit 9; a=${all#*--listen-addr=}; a=${a%%%% "   \
	"*}; "                                                                                                         \
	"echo \"READY ${a/:0/:$$} $key\" >&$READY; " STAY

/* Whether the list of members has this server. */
static bool listed(const char *members, const struct server_child *child, unsigned number)
{
	char name[256], line[256];
	snprintf(name, sizeof(name), "%s\n", server_child_name(child, number));
	line_with(members, name, line, sizeof(line));
	return line[0] != 0;
}

static void a_server_is_started_later_and_becomes_a_member(void **state)
{
	struct check_file seen = check_file_make(""), file;
	const unsigned starts[] = {2, 1};
	struct server_child_options o = {.memory_mb = 64,
					 .log_level = KV_LOG_INFO,
					 .ready_timeout_ns = 20 * SECOND_NS,
					 .count = 3,
					 .late = 2,
					 .start = starts,
					 .num_starts = 2};
	struct server_child *child = NULL;
	struct kv_error err = {0};
	char body[1024], line[1024], *members;
	(void)state;
	snprintf(body, sizeof(body), LATE_SERVER, seen.path);
	file = script(body);
	o.binary = file.path;
	assert_int_equal(server_child_start(&o, &child, &err), 0);
	assert_memory_equal(server_child_name(child, 1), "server-1=127.0.0.1:", 19);
	assert_null(server_child_name(child, 2));
	assert_memory_equal(server_child_name(child, 3), "server-3=127.0.0.1:", 19);
	line_with(seen.path, "--node-id=server-1", line, sizeof(line));
	members = strstr(line, "file:") + 5;
	*strchr(members, ' ') = 0;
	assert_true(listed(members, child, 1));
	assert_true(listed(members, child, 3));
	line_with(members, "server-2", body, sizeof(body));
	assert_false(body[0]);

	assert_int_equal(server_child_run(child, 2, &err), 0);
	assert_memory_equal(server_child_name(child, 2), "server-2=127.0.0.1:", 19);
	assert_true(listed(members, child, 2));
	assert_int_equal(server_child_run(child, 2, &err), -KV_EINVAL); /* there is no second one */

	assert_int_equal(server_child_stop(&child, &err), 0); /* the one that still waits is no failure */
	assert_int_equal(access(members, F_OK), -1);
	check_reaped();
	check_file_remove(&file);
	check_file_remove(&seen);
}

static bool port_free(const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
	close(fd);
	return is;
}

static void a_server_that_was_killed_is_started_where_it_was(void **state)
{
	struct check_file seen = check_file_make(""), file;
	const unsigned starts[] = {2};
	struct server_child_options o = {.memory_mb = 64,
					 .log_level = KV_LOG_INFO,
					 .ready_timeout_ns = 20 * SECOND_NS,
					 .count = 2,
					 .start = starts,
					 .num_starts = 1};
	struct server_child *child = NULL;
	struct kv_error err = {0};
	char body[1024], line[1024];
	(void)state;
	snprintf(body, sizeof(body),
		 "trap 'exit 0' TERM; echo \"$all\" >>%s; read -r key <&$PSK || exit 9; a=${all#*--listen-addr=}; "
		 "a=${a%%%% *}; echo \"READY ${a/:0/:$$}\" >&$READY; " STAY,
		 seen.path);
	file = script(body);
	o.binary = file.path;
	assert_int_equal(server_child_start(&o, &child, &err), 0);
	snprintf(line, sizeof(line), "%s", server_child_name(child, 2));
	server_child_signal(child, 2, SIGKILL);
	assert_false(port_free(strrchr(line, ':') + 1)); /* a connection would be given it while the server is dead */
	assert_int_equal(server_child_run(child, 2, &err), 0);
	assert_string_equal(server_child_name(child, 2), line);
	assert_false(server_child_dead(child));
	line_with(seen.path, strchr(line, '=') + 1, body, sizeof(body));
	assert_true(body[0]);
	server_child_signal(child, 2, SIGKILL); /* the new one */
	assert_int_equal(server_child_stop(&child, &err), 0);
	check_reaped();
	check_file_remove(&file);
	check_file_remove(&seen);
}

static volatile sig_atomic_t signals_of_ours;

static void count_signal(int signal)
{
	(void)signal;
	signals_of_ours++;
}

/* To signal process 0 would be to signal all that the test runs in: it is done here with a signal that others ignore.
 */
static void a_later_start_that_fails_says_why_and_leaves_nothing(void **state)
{
	struct check_file seen = check_file_make(""), file;
	const unsigned starts[] = {2, 3};
	struct server_child_options o = {.memory_mb = 64,
					 .log_level = KV_LOG_INFO,
					 .ready_timeout_ns = 20 * SECOND_NS,
					 .count = 3,
					 .late = 6,
					 .start = starts,
					 .num_starts = 2};
	struct server_child *child = NULL;
	struct kv_error err = {0};
	char body[1024], line[1024], *members;
	(void)state;
	signal(SIGURG, count_signal);
	snprintf(body, sizeof(body),
		 "trap 'exit 0' TERM; echo \"$all\" >>%s; read -r key <&$PSK; case $all in *server-2) echo 'no memory' "
		 ">&2; exit 3;; esac; echo 'READY 127.0.0.1:1' >&$READY; " STAY,
		 seen.path);
	file = script(body);
	o.binary = file.path;
	assert_int_equal(server_child_start(&o, &child, &err), 0);
	assert_int_equal(server_child_run(child, 2, &err), -KV_EPEERDOWN);
	check_contains(err.text, "no memory");
	assert_null(server_child_name(child, 2));
	server_child_signal(child, 2, SIGURG);
	assert_int_equal(signals_of_ours, 0);
	assert_int_equal(server_child_run(child, 2, &err), -KV_EINVAL);
	assert_int_equal(server_child_run(child, 3, &err), 0);
	line_with(seen.path, "--node-id=server-1", line, sizeof(line));
	members = strstr(line, "file:") + 5;
	*strchr(members, ' ') = 0;
	line_with(members, "server-3=", body, sizeof(body));
	assert_true(body[0]);
	line_with(members, "server-2", body, sizeof(body));
	assert_false(body[0]);
	server_child_stop(&child, &err);
	check_reaped();
	check_file_remove(&file);
	check_file_remove(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ready_line_gives_the_address),
		cmocka_unit_test(the_key_comes_through_the_pipe),
		cmocka_unit_test(the_child_is_told_what_it_is_to_be),
		cmocka_unit_test(ending_before_it_is_ready_is_told),
		cmocka_unit_test(one_that_is_never_ready_is_told),
		cmocka_unit_test(a_server_that_is_not_ready_is_not_waited_for),
		cmocka_unit_test(nonsense_instead_of_a_ready_line_is_told),
		cmocka_unit_test(a_binary_that_is_not_there_is_told),
		cmocka_unit_test(dying_during_the_run_is_seen_and_told),
		cmocka_unit_test(a_bad_exit_status_is_told),
		cmocka_unit_test(a_talkative_child_is_not_blocked),
		cmocka_unit_test(it_has_a_process_group_of_its_own),
		cmocka_unit_test(stopping_nothing_does_nothing),
		cmocka_unit_test(a_server_is_started_later_and_becomes_a_member),
		cmocka_unit_test(a_server_that_was_killed_is_started_where_it_was),
		cmocka_unit_test(a_later_start_that_fails_says_why_and_leaves_nothing),
		cmocka_unit_test(an_interrupted_start_kills_it_at_once),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
