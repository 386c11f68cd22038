/* SPDX-License-Identifier: Apache-2.0 */
/* test_io.c -- reads, writes, accepts and connects on real descriptors; nearly each test once on a ring of one thread
 * and once on a ring that any thread may turn (other io_uring flags). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/loop/harness.h"

static struct loop *loop;
static int pair[2];

static int set_up(void **state)
{
	loop = harness_loop(&(struct loop_options){.name = "io", .host_turned = *state != NULL});
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	loop_destroy(&loop);
	return 0;
}

static uint64_t in_ms(uint64_t ms)
{
	return loop_now(loop) + ms * MS;
}

static void ping(void *arg)
{
	char buf[8] = "";
	(void)arg;
	for (int i = 0; i < 100; i++) {
		CHECK(io_write_all_await(pair[0], "ping", 4, in_ms(5000)) == 0);
		CHECK(io_read_await(pair[0], buf, sizeof(buf), in_ms(5000)) == 4);
		CHECK(memcmp(buf, "pong", 4) == 0);
	}
}

static void pong(void *arg)
{
	char buf[8] = "";
	(void)arg;
	for (int i = 0; i < 100; i++) {
		CHECK(io_read_await(pair[1], buf, sizeof(buf), KV_NEVER) == 4);
		CHECK(memcmp(buf, "ping", 4) == 0);
		CHECK(io_write_await(pair[1], "pong", 4, KV_NEVER) == 4);
	}
}

static void two_coroutines_talk(void **state)
{
	(void)state;
	harness_spawn(loop, ping, NULL);
	harness_spawn(loop, pong, NULL);
	harness_run(loop);
}

static void read_times_out_then_works(void *arg)
{
	char buf[4] = "";
	(void)arg;
	CHECK(io_read_await(pair[0], buf, sizeof(buf), in_ms(2)) == -KV_ETIMEOUT);
	CHECK(io_read_await(pair[0], buf, sizeof(buf), 0) == -KV_ETIMEOUT);
	/* Had a timed-out read stayed with the kernel, it would steal these bytes. */
	CHECK(write(pair[1], "abcd", 4) == 4);
	CHECK(io_read_await(pair[0], buf, sizeof(buf), KV_NEVER) == 4);
	CHECK(memcmp(buf, "abcd", 4) == 0);
}

static void a_timed_out_read_takes_no_bytes(void **state)
{
	(void)state;
	harness_spawn(loop, read_times_out_then_works, NULL);
	harness_run(loop);
}

enum { BIG = 4 << 20 };

static void write_big(void *arg)
{
	CHECK(io_write_all_await(pair[0], arg, BIG, KV_NEVER) == 0);
	io_shutdown(loop, pair[0]);
}

static void read_big(void *arg)
{
	char *got = malloc(BIG + 1);
	size_t have = 0;
	ssize_t n;
	while ((n = io_read_await(pair[1], got + have, BIG + 1 - have, KV_NEVER)) > 0)
		have += (size_t)n;
	CHECK(n == 0);
	CHECK(have == BIG);
	CHECK(memcmp(got, arg, BIG) == 0);
	free(got);
}

static void write_all_moves_more_than_the_socket_holds(void **state)
{
	struct kv_prng prng;
	char *bytes = malloc(BIG);
	(void)state;
	kv_prng_seed(&prng, 7);
	kv_prng_fill(&prng, bytes, BIG);
	harness_spawn(loop, write_big, bytes);
	harness_spawn(loop, read_big, bytes);
	harness_run(loop);
	free(bytes);
}

static void write_until_full_times_out(void *arg)
{
	CHECK(io_write_all_await(pair[0], arg, BIG, in_ms(5)) == -KV_ETIMEOUT);
}

static void a_write_nobody_reads_times_out(void **state)
{
	char *bytes = calloc(1, BIG);
	(void)state;
	harness_spawn(loop, write_until_full_times_out, bytes);
	harness_run(loop);
	free(bytes);
}

static void read_sees_end(void *arg)
{
	char c;
	(void)arg;
	CHECK(io_read_await(pair[0], &c, 1, KV_NEVER) == 0);
}

static void shut(void *arg)
{
	(void)arg;
	CHECK(co_sleep_await(in_ms(1)) == 0);
	io_shutdown(loop, pair[0]);
}

static void shutdown_ends_a_read(void **state)
{
	(void)state;
	harness_spawn(loop, read_sees_end, NULL);
	harness_spawn(loop, shut, NULL);
	harness_run(loop);
}

static void shut_at_once(void *arg)
{
	(void)arg;
	io_shutdown(loop, pair[0]);
}

static void shutdown_ends_a_read_of_the_same_turn(void **state)
{
	(void)state;
	harness_spawn(loop, read_sees_end, NULL);
	harness_spawn(loop, shut_at_once, NULL);
	harness_run(loop);
}

static void write_to_closed(void *arg)
{
	(void)arg;
	CHECK(io_write_await(pair[0], "x", 1, KV_NEVER) == -EPIPE);
}

static void writing_to_a_closed_socket_raises_no_signal(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_DFL);
	close(pair[1]);
	pair[1] = -1;
	harness_spawn(loop, write_to_closed, NULL);
	harness_run(loop);
}

static void read_closed_under_it(void *arg)
{
	char c;
	CHECK(io_read_await(*(int *)arg, &c, 1, KV_NEVER) == -KV_ECLOSED);
}

static void close_and_reuse(void *arg)
{
	int fd = pair[0], other[2];
	char c = 0;
	(void)arg;
	io_close(loop, fd);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, other) == 0);
	CHECK(other[0] == fd); /* the number is used again at once */
	CHECK(write(other[1], "y", 1) == 1);
	CHECK(co_sleep_await(in_ms(2)) == 0);
	CHECK(io_read_await(fd, &c, 1, in_ms(1000)) == 1);
	CHECK(c == 'y');
	close(other[1]);
}

static void close_ends_reads_and_spares_the_next_owner_of_the_number(void **state)
{
	int fd = pair[0];
	(void)state;
	harness_spawn(loop, read_closed_under_it, &fd); /* queued, not yet with the kernel */
	harness_spawn(loop, close_and_reuse, NULL);
	harness_run(loop);
}

static void close_later(void *arg)
{
	(void)arg;
	co_sleep_await(in_ms(1));
	io_close(loop, pair[0]);
	pair[0] = -1;
}

static void close_ends_a_read_that_the_kernel_has(void **state)
{
	int fd = pair[0];
	(void)state;
	harness_spawn(loop, read_closed_under_it, &fd);
	harness_spawn(loop, close_later, NULL);
	harness_run(loop);
}

static void use_pipe_and_eventfd(void *arg)
{
	int ends[2], efd = eventfd(0, EFD_NONBLOCK);
	char buf[8] = "";
	uint64_t one = 1;
	(void)arg;
	CHECK(pipe(ends) == 0);
	CHECK(io_write_all_await(ends[1], "pipe", 4, in_ms(1000)) == 0);
	CHECK(io_read_await(ends[0], buf, sizeof(buf), in_ms(1000)) == 4);
	CHECK(memcmp(buf, "pipe", 4) == 0);
	/* O_NONBLOCK is waited for as well. */
	CHECK(io_read_await(efd, buf, sizeof(buf), in_ms(2)) == -KV_ETIMEOUT);
	CHECK(io_poll_await(efd, POLLIN, in_ms(2)) == -KV_ETIMEOUT);
	CHECK(write(efd, &one, sizeof(one)) == sizeof(one));
	CHECK(io_poll_await(efd, POLLIN, KV_NEVER) == POLLIN);
	CHECK(io_read_await(efd, buf, sizeof(buf), in_ms(1000)) == 8);
	CHECK(io_read_await(-1, buf, 1, KV_NEVER) == -EBADF);
	close(ends[0]);
	close(ends[1]);
	close(efd);
}

static void descriptors_that_are_no_sockets_are_read_and_written(void **state)
{
	(void)state;
	harness_spawn(loop, use_pipe_and_eventfd, NULL);
	harness_run(loop);
}

static struct sockaddr_storage server;
static int listen_fd;

static void listen_here(void)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&server;
	struct kv_error err;
	memset(&server, 0, sizeof(server));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(io_listen(loop, &server, sizeof(*in), &listen_fd, &err), 0);
	assert_int_not_equal(in->sin_port, 0);
}

static void serve_one(void *arg)
{
	struct sockaddr_storage peer;
	char buf[5];
	int fd = -1, on = 0;
	socklen_t len = sizeof(on);
	(void)arg;
	CHECK(io_accept_await(listen_fd, &fd, NULL, in_ms(1)) == -KV_ETIMEOUT);
	CHECK(io_accept_await(listen_fd, &fd, &peer, KV_NEVER) == 0);
	CHECK(kv_sockaddr_is_loopback(&peer));
	CHECK(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on == 1);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &on, &len) == 0 && on <= 256 << 10);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(io_user_timeout(loop, fd, 3000) == 0);
	CHECK(io_read_await(fd, buf, 5, KV_NEVER) == 5);
	CHECK(io_write_all_await(fd, buf, 5, KV_NEVER) == 0);
	CHECK(io_read_await(fd, buf, 5, KV_NEVER) == 0);
	io_close(loop, fd);
}

static void call_one(void *arg)
{
	char buf[5] = "";
	int fd = -1;
	(void)arg;
	co_sleep_await(in_ms(3));
	CHECK(io_connect_await(&server, sizeof(struct sockaddr_in), &fd, in_ms(1000)) == 0);
	CHECK(io_write_all_await(fd, "hello", 5, KV_NEVER) == 0);
	CHECK(io_read_await(fd, buf, 5, KV_NEVER) == 5);
	CHECK(memcmp(buf, "hello", 5) == 0);
	io_close(loop, fd);
}

static void who_connects_over_tcp_is_accepted(void **state)
{
	(void)state;
	listen_here();
	harness_spawn(loop, serve_one, NULL);
	harness_spawn(loop, call_one, NULL);
	harness_run(loop);
	io_close(loop, listen_fd);
}

static void connect_refused(void *arg)
{
	int fd = -7;
	(void)arg;
	CHECK(io_connect_await(&server, sizeof(struct sockaddr_in), &fd, in_ms(1000)) == -ECONNREFUSED);
	CHECK(fd == -7);
}

static void connect_to_nobody_is_refused(void **state)
{
	(void)state;
	listen_here();
	io_close(loop, listen_fd);
	harness_spawn(loop, connect_refused, NULL);
	harness_run(loop);
}

static void accept_ends(void *arg)
{
	int fd;
	CHECK(io_accept_await(listen_fd, &fd, NULL, KV_NEVER) == *(int *)arg);
}

static void shutdown_ends_an_accept(void **state)
{
	int want = -EINVAL;
	(void)state;
	listen_here();
	harness_spawn(loop, accept_ends, &want);
	loop_turn(loop, 0);
	io_shutdown(loop, listen_fd);
	harness_run(loop);
	io_close(loop, listen_fd);
}

static void close_ends_an_accept_and_frees_the_port(void **state)
{
	int want = -KV_ECLOSED;
	(void)state;
	listen_here();
	harness_spawn(loop, accept_ends, &want);
	loop_turn(loop, 0);
	io_close(loop, listen_fd);
	harness_run(loop);
	harness_spawn(loop, connect_refused, NULL);
	harness_run(loop);
}

static void connect_times_out(void *arg)
{
	int fd = -7;
	(void)arg;
	CHECK(io_connect_await(&server, sizeof(struct sockaddr_in), &fd, in_ms(20)) == -KV_ETIMEOUT);
}

static void connect_times_out_when_the_backlog_is_full(void **state)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&server;
	socklen_t len = sizeof(server);
	int fd = socket(AF_INET, SOCK_STREAM, 0), fill[4];
	(void)state;
	memset(&server, 0, sizeof(server));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&server, sizeof(*in)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&server, &len), 0);
	for (size_t i = 0; i < KV_COUNT(fill); i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fill[i], (struct sockaddr *)&server, sizeof(*in));
	}
	harness_spawn(loop, connect_times_out, NULL);
	harness_run(loop);
	for (size_t i = 0; i < KV_COUNT(fill); i++)
		close(fill[i]);
	close(fd);
}

static struct co *dialer;

static void connect_interrupted(void *arg)
{
	int fd = -7;
	char c;
	(void)arg;
	dialer = co_self();
	CHECK(io_connect_await(&server, sizeof(struct sockaddr_in), &fd, KV_NEVER) == -KV_ECANCELED);
	CHECK(fd == -7);
	CHECK(io_read_await(pair[0], &c, 1, KV_NEVER) == -KV_ECANCELED); /* it lasts */
	io_interrupt(dialer, false);
	CHECK(io_read_await(pair[0], &c, 1, in_ms(1000)) == 1);
}

static void interrupt_later(void *arg)
{
	(void)arg;
	co_sleep_await(in_ms(5));
	CHECK(write(pair[1], "z", 1) == 1);
	io_interrupt(dialer, true);
}

static void an_interrupt_ends_a_connect(void **state)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&server;
	socklen_t len = sizeof(server);
	int fd = socket(AF_INET, SOCK_STREAM, 0), fill[4];
	(void)state;
	memset(&server, 0, sizeof(server));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&server, sizeof(*in)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&server, &len), 0);
	for (size_t i = 0; i < KV_COUNT(fill); i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fill[i], (struct sockaddr *)&server, sizeof(*in));
	}
	harness_spawn(loop, connect_interrupted, NULL);
	harness_spawn(loop, interrupt_later, NULL);
	harness_run(loop);
	for (size_t i = 0; i < KV_COUNT(fill); i++)
		close(fill[i]);
	close(fd);
}

static void listen_error_names_the_address(void **state)
{
	struct sockaddr_storage again;
	struct kv_error err = {0};
	int fd = -7;
	(void)state;
	listen_here();
	again = server;
	assert_int_equal(io_listen(loop, &again, sizeof(struct sockaddr_in), &fd, &err), -EADDRINUSE);
	assert_int_equal(fd, -7);
	assert_non_null(strstr(err.text, "listening on 127.0.0.1:"));
	assert_non_null(strstr(err.text, "another process listens there"));
	io_close(loop, listen_fd);
}

/* The owner of a port: the client's end of a connection to listen_fd, whose other end is *out_other. */
static int outgoing(bool reuse, int *out_other, struct sockaddr_storage *out)
{
	struct sockaddr_in *at = (struct sockaddr_in *)out;
	socklen_t len = sizeof(*at);
	int on = reuse, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&server, sizeof(*at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
	*out_other = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*out_other >= 0);
	return fd;
}

/* The end that closes first has the TIME_WAIT. */
static void linger(int fd, int other)
{
	char end;
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(read(other, &end, 1), 0);
	close(other);
	assert_int_equal(read(fd, &end, 1), 0);
	close(fd);
}

/* The port of an outgoing connection cannot be listened on, though no other socket listens there. */
static void listen_error_says_what_has_the_port(void **state)
{
	struct sockaddr_storage taken, again;
	struct kv_error err = {0};
	int fd, other, listener = -7;
	(void)state;
	listen_here();
	fd = outgoing(false, &other, &taken);
	again = taken;
	assert_int_equal(io_listen(loop, &again, sizeof(struct sockaddr_in), &listener, &err), -EADDRINUSE);
	assert_null(strstr(err.text, "another process listens"));
	assert_non_null(strstr(err.text, "an outgoing connection has this port"));
	linger(fd, other);
	again = taken;
	assert_int_equal(io_listen(loop, &again, sizeof(struct sockaddr_in), &listener, &err), -EADDRINUSE);
	assert_null(strstr(err.text, "another process listens"));
	assert_non_null(strstr(err.text, "TIME_WAIT"));
	((struct sockaddr_in *)&again)->sin_addr.s_addr = INADDR_ANY; /* in the way of any address, too */
	assert_int_equal(io_listen(loop, &again, sizeof(struct sockaddr_in), &listener, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "TIME_WAIT"));
	io_close(loop, listen_fd);
}

static void listen_error_says_that_a_socket_only_has_the_port(void **state)
{
	struct sockaddr_storage taken, again;
	struct kv_error err = {0};
	socklen_t len = sizeof(struct sockaddr_in);
	int listener = -7, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)state;
	memset(&taken, 0, sizeof(taken));
	taken.ss_family = AF_INET;
	assert_int_equal(bind(fd, (struct sockaddr *)&taken, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&taken, &len), 0);
	again = taken;
	assert_int_equal(io_listen(loop, &again, sizeof(struct sockaddr_in), &listener, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "a socket is bound to this port"));
	close(fd);
}

/* Where the other socket allows it, too, a TIME_WAIT is no obstacle: a server that is started again has its port at
 * once. */
static void a_port_is_listened_on_where_a_connection_lingers(void **state)
{
	struct sockaddr_storage taken;
	struct kv_error err = {0};
	int fd, other, listener = -7;
	(void)state;
	listen_here();
	fd = outgoing(true, &other, &taken);
	linger(fd, other);
	assert_int_equal(io_listen(loop, &taken, sizeof(struct sockaddr_in), &listener, &err), 0);
	io_close(loop, listener);
	io_close(loop, listen_fd);
}

static void listen_error_says_the_same_on_ipv6(void **state)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_storage again = {0};
	struct kv_error err = {0};
	int first = -7, second = -7, rc;
	(void)state;
	memcpy(&again, &at, sizeof(at));
	rc = io_listen(loop, &again, sizeof(at), &first, &err);
	if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT) {
		print_message("this machine has no ::1\n");
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(io_listen(loop, &again, sizeof(at), &second, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "another process listens there"));
	io_close(loop, first);
}

enum { READERS = 600 }; /* more than the submission queue holds at once */

static int reader_pairs[READERS][2];

static void read_one_byte(void *arg)
{
	int i = (int)(intptr_t)arg;
	char c = 0;
	CHECK(io_read_await(reader_pairs[i][0], &c, 1, KV_NEVER) == 1);
	CHECK(c == (char)i);
}

static void more_requests_than_the_submission_queue_holds_are_made(void **state)
{
	(void)state;
	for (intptr_t i = 0; i < READERS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, reader_pairs[i]), 0);
		harness_spawn(loop, read_one_byte, (void *)i);
	}
	loop_turn(loop, 0);
	for (int i = 0; i < READERS; i++) {
		char c = (char)i;
		assert_int_equal(write(reader_pairs[i][1], &c, 1), 1);
	}
	harness_run(loop);
	for (int i = 0; i < READERS; i++) {
		close(reader_pairs[i][0]);
		close(reader_pairs[i][1]);
	}
}

static void read_for_ever(void *arg)
{
	char buf[64];
	io_read_await(pair[0], buf, sizeof(buf), KV_NEVER);
	(void)arg;
	CHECK(false);
}

static void destroy_with_a_read_in_flight_cancels_it(void **state)
{
	struct kv_log silent = {.level = KV_LOG_OFF};
	struct loop *doomed = harness_loop(&(struct loop_options){.log = &silent, .host_turned = *state != NULL});
	char buf[4];
	harness_spawn(doomed, read_for_ever, NULL);
	assert_int_equal(loop_turn(doomed, 0), 1);
	loop_destroy(&doomed);
	assert_int_equal(harness_failures, 0);
	/* The bytes are still there for the next reader. */
	assert_int_equal(write(pair[1], "abcd", 4), 4);
	assert_int_equal(recv(pair[0], buf, 4, MSG_DONTWAIT), 4);
}

static void accept_for_ever(void *arg)
{
	int fd;
	(void)arg;
	io_accept_await(listen_fd, &fd, NULL, KV_NEVER);
	CHECK(false);
}

static void destroy_with_an_accept_in_flight_frees_the_port(void **state)
{
	struct kv_log silent = {.level = KV_LOG_OFF};
	struct loop *doomed = harness_loop(&(struct loop_options){.log = &silent, .host_turned = *state != NULL});
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	listen_here();
	harness_spawn(doomed, accept_for_ever, NULL);
	assert_int_equal(loop_turn(doomed, 0), 1);
	loop_destroy(&doomed);
	close(listen_fd);
	assert_int_equal(connect(fd, (struct sockaddr *)&server, sizeof(struct sockaddr_in)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
}

static void *turn_once(void *arg)
{
	*(int *)arg = loop_turn(loop, 0);
	return NULL;
}

static int turn_on_another_thread(void)
{
	pthread_t thread;
	int rc = -1;
	assert_int_equal(pthread_create(&thread, NULL, turn_once, &rc), 0);
	pthread_join(thread, NULL);
	return rc;
}

static void read_x(void *arg)
{
	char c = 0;
	(void)arg;
	CHECK(io_read_await(pair[0], &c, 1, KV_NEVER) == 1);
	CHECK(c == 'x');
}

static void a_request_survives_the_thread_that_submitted_it(void **state)
{
	(void)state;
	harness_spawn(loop, read_x, NULL);
	assert_int_equal(turn_on_another_thread(), 1);
	assert_int_equal(harness_live(loop), 1);
	loop_turn(loop, 10 * MS);
	assert_int_equal(write(pair[1], "x", 1), 1);
	harness_run(loop);
}

static void a_second_thread_is_refused(void **state)
{
	struct kv_log silent = {.level = KV_LOG_OFF};
	(void)state;
	loop_destroy(&loop);
	loop = harness_loop(&(struct loop_options){.log = &silent});
	assert_int_equal(loop_turn(loop, 0), 0);
	assert_int_equal(turn_on_another_thread(), -KV_EINVAL);
	assert_int_equal(loop_turn(loop, 0), 0);
}

/* ---- files ---- */

enum { PIECES = 64, PIECE = 8192 };

static unsigned at_ended;

static void at_end(struct io_at *io, int64_t result)
{
	at_ended++;
	CHECK(result == (int64_t)io->len);
}

static void at_end_badly(struct io_at *io, int64_t result)
{
	(void)io;
	at_ended++;
	CHECK(result == -EBADF);
}

static void turn_until(unsigned ended)
{
	uint64_t end_ns = in_ms(20000);
	while (at_ended < ended && loop_now(loop) < end_ns)
		loop_turn(loop, 10 * MS);
	assert_int_equal(at_ended, ended);
}

static void files_are_written_and_read_at_offsets(void **state)
{
	static uint8_t out[PIECES][PIECE], in[PIECES][PIECE];
	static struct io_at io[PIECES];
	FILE *f = tmpfile();
	(void)state;
	assert_non_null(f);
	at_ended = 0;
	for (unsigned i = 0; i < PIECES; i++) {
		memset(out[i], (int)i + 1, PIECE);
		io[i] = (struct io_at){.fd = fileno(f),
				       .write = true,
				       .background = i % 2,
				       .buf = out[i],
				       .len = PIECE,
				       .offset = (uint64_t)(PIECES - 1 - i) * PIECE,
				       .done = at_end};
		io_at_submit(loop, &io[i]);
	}
	turn_until(PIECES);
	for (unsigned i = 0; i < PIECES; i++) {
		io[i] = (struct io_at){
			.fd = fileno(f), .buf = in[i], .len = PIECE, .offset = (uint64_t)i * PIECE, .done = at_end};
		io_at_submit(loop, &io[i]);
	}
	turn_until(2 * PIECES);
	for (unsigned i = 0; i < PIECES; i++)
		assert_memory_equal(in[i], out[PIECES - 1 - i], PIECE);
	io[0] = (struct io_at){.fd = -1, .buf = in[0], .len = PIECE, .done = at_end_badly};
	io_at_submit(loop, &io[0]);
	turn_until(2 * PIECES + 1);
	fclose(f);
	assert_int_equal(harness_failures, 0);
}

enum { CROWD = 256, READS = 8 * CROWD, LARGE = 256 << 10 };

static unsigned reads_ended;
static bool write_ended;

static void read_again(struct io_at *io, int64_t result)
{
	CHECK(result == (int64_t)io->len);
	if (++reads_ended < READS && !write_ended)
		io_at_submit(loop, io);
	else
		at_ended++;
}

static void write_end(struct io_at *io, int64_t result)
{
	CHECK(result == (int64_t)io->len);
	write_ended = true;
	at_ended++;
}

/* A write has its turn, though there are always reads. */
static void reads_do_not_starve_a_write(void **state)
{
	static uint8_t in[CROWD][LARGE], out[LARGE];
	static struct io_at io[CROWD + 1];
	FILE *f = tmpfile();
	(void)state;
	assert_non_null(f);
	assert_int_equal(fwrite(out, 1, LARGE, f), LARGE);
	assert_int_equal(fflush(f), 0);
	at_ended = reads_ended = 0;
	write_ended = false;
	for (unsigned i = 0; i < CROWD; i++) {
		io[i] = (struct io_at){.fd = fileno(f), .buf = in[i], .len = LARGE, .done = read_again};
		io_at_submit(loop, &io[i]);
	}
	io[CROWD] = (struct io_at){
		.fd = fileno(f), .write = true, .background = true, .buf = out, .len = PIECE, .done = write_end};
	io_at_submit(loop, &io[CROWD]);
	turn_until(CROWD + 1);
	assert_true(reads_ended < READS);
	fclose(f);
	assert_int_equal(harness_failures, 0);
}

#define ONE(f)  {#f " (one thread)", f, set_up, tear_down, NULL}
#define ANY(f)  {#f " (any thread)", f, set_up, tear_down, &any}
#define BOTH(f) ONE(f), ANY(f)

int main(void)
{
	static int any;
	const struct CMUnitTest tests[] = {
		BOTH(two_coroutines_talk),
		BOTH(a_timed_out_read_takes_no_bytes),
		BOTH(write_all_moves_more_than_the_socket_holds),
		BOTH(a_write_nobody_reads_times_out),
		BOTH(shutdown_ends_a_read),
		BOTH(shutdown_ends_a_read_of_the_same_turn),
		BOTH(writing_to_a_closed_socket_raises_no_signal),
		BOTH(close_ends_reads_and_spares_the_next_owner_of_the_number),
		BOTH(close_ends_a_read_that_the_kernel_has),
		BOTH(descriptors_that_are_no_sockets_are_read_and_written),
		BOTH(who_connects_over_tcp_is_accepted),
		BOTH(connect_to_nobody_is_refused),
		BOTH(shutdown_ends_an_accept),
		BOTH(close_ends_an_accept_and_frees_the_port),
		BOTH(connect_times_out_when_the_backlog_is_full),
		BOTH(an_interrupt_ends_a_connect),
		BOTH(files_are_written_and_read_at_offsets),
		BOTH(reads_do_not_starve_a_write),
		BOTH(listen_error_names_the_address),
		ONE(listen_error_says_what_has_the_port),
		ONE(listen_error_says_that_a_socket_only_has_the_port),
		ONE(a_port_is_listened_on_where_a_connection_lingers),
		ONE(listen_error_says_the_same_on_ipv6),
		BOTH(more_requests_than_the_submission_queue_holds_are_made),
		BOTH(destroy_with_a_read_in_flight_cancels_it),
		BOTH(destroy_with_an_accept_in_flight_frees_the_port),
		ANY(a_request_survives_the_thread_that_submitted_it),
		ONE(a_second_thread_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
