/* SPDX-License-Identifier: Apache-2.0 */
/* test_epoll.c -- what is subtle in the ring of epoll, for which this process forbids io_uring to itself. That it does
 * what io_uring does is shown by the other tests of loop/ under the same filter (tests/integration/epoll.sh). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/ring.h"
#include "tests/loop/harness.h"
#include "tests/loop/seccomp.h"

static struct loop *loop;
static struct ring *ring;
static int pair[2];

struct request {
	struct ring_op op;
	int ended; /* how many times */
};

static int set_up(void **state)
{
	struct kv_error err;
	(void)state;
	loop = harness_loop(NULL);
	assert_non_null(loop_fallback(loop));
	assert_int_equal(ring_create(&(struct ring_options){0}, &ring, &err), 0);
	assert_non_null(ring_fallback(ring));
	assert_int_equal(ring_adopt(ring), 0);
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
	(void)state;
	loop_destroy(&loop);
	ring_destroy(&ring);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void ended(struct ring_op *op)
{
	KV_CONTAINER(op, struct request, op)->ended++;
}

static struct request to_poll(int fd, short events)
{
	return (struct request){.op = {.kind = RING_POLL, .fd = fd, .events = events, .done = ended}};
}

static struct request to_read(int fd, void *buf, size_t len)
{
	return (struct request){.op = {.kind = RING_READ, .fd = fd, .in = buf, .len = len, .done = ended}};
}

static struct request to_write(int fd, const void *buf, size_t len)
{
	return (struct request){.op = {.kind = RING_WRITE, .fd = fd, .out = buf, .len = len, .done = ended}};
}

static void start(struct request *r)
{
	ring_submit(ring, &r->op);
	ring_flush(ring);
}

/* Sleep once if nothing is done yet, and reap; how many ended. */
static int turn(void)
{
	ring_wait(ring, SECOND);
	return ring_reap(ring);
}

static void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void signal_event(int fd)
{
	assert_int_equal(eventfd_write(fd, 1), 0);
}

static void fill(int fd)
{
	static const char zeros[65536];
	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0)
		continue;
	assert_int_equal(errno, EAGAIN);
}

static void drain(int fd)
{
	static char bytes[65536];
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
}

static void a_close_ends_every_request_of_the_descriptor_once(void **state)
{
	char c[2], other;
	struct request all[] = {to_read(pair[0], &c[0], 1), to_poll(pair[0], POLLIN), to_write(pair[0], "w", 1),
				to_read(pair[0], &c[1], 1)};
	struct request spared = to_read(pair[1], &other, 1);
	(void)state;
	fill(pair[0]);
	for (size_t i = 0; i < 3; i++)
		start(&all[i]);
	ring_submit(ring, &all[3].op); /* queued only */
	drain(pair[1]);
	fill(pair[0]);
	int before = dup(pair[0]);
	ring_close(ring, pair[0]);
	drain(pair[1]);
	start(&spared); /* ends not: pair[0] is still open as `before` */
	assert_int_equal(turn(), 4);
	for (size_t i = 0; i < KV_COUNT(all); i++) {
		assert_int_equal(all[i].ended, 1);
		assert_true(all[i].op.closed);
		assert_int_equal(all[i].op.result, -ECANCELED);
	}
	pair[0] = before;
	say(pair[0], "s");
	assert_int_equal(turn(), 1);
	assert_int_equal(spared.ended, 1);
	ring_reap(ring);
	for (size_t i = 0; i < KV_COUNT(all); i++)
		assert_int_equal(all[i].ended, 1);
}

static void a_cancel_ends_a_request_once(void **state)
{
	char c;
	struct request r = to_read(pair[0], &c, 1), queued = to_read(pair[0], &c, 1);
	(void)state;
	start(&r);
	ring_submit(ring, &queued.op);
	for (int i = 0; i < 3; i++) {
		ring_cancel(ring, &r.op);
		ring_cancel(ring, &queued.op);
	}
	assert_int_equal(turn(), 2);
	ring_cancel(ring, &r.op);
	assert_int_equal(ring_reap(ring), 0);
	assert_int_equal(r.ended, 1);
	assert_int_equal(r.op.result, -ECANCELED);
	assert_false(r.op.closed);
	assert_int_equal(queued.ended, 1);
}

static void a_result_is_stronger_than_a_later_cancel_or_close(void **state)
{
	char c[2] = "";
	struct request first = to_read(pair[0], &c[0], 1), second = to_read(pair[0], &c[1], 1);
	(void)state;
	start(&first);
	say(pair[1], "ab");
	ring_wait(ring, SECOND); /* it has its byte now, and nobody was told */
	start(&second);          /* so has this one */
	ring_cancel(ring, &first.op);
	ring_close(ring, pair[0]);
	pair[0] = -1;
	assert_int_equal(turn(), 2);
	assert_int_equal(first.op.result, 1);
	assert_int_equal(second.op.result, 1);
	assert_memory_equal(c, "ab", 2);
}

/* Bytes that nobody takes are told of each time that somebody asks. */
static void a_level_is_seen_by_who_comes_late(void **state)
{
	struct request r = to_poll(pair[0], POLLIN);
	(void)state;
	start(&r);
	say(pair[1], "x");
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(turn(), 1);
		assert_int_equal(r.ended, i);
		assert_int_equal(r.op.result, POLLIN);
		start(&r);
	}
	ring_cancel(ring, &r.op);
	ring_reap(ring);
}

/* An event ends the order; what it did not end is ordered again. */
static void who_waits_on_after_another_s_event_is_not_forgotten(void **state)
{
	char c = 0;
	struct request reader = to_read(pair[0], &c, 1), writer = to_write(pair[0], "w", 1);
	(void)state;
	fill(pair[0]);
	start(&reader);
	start(&writer);
	say(pair[1], "r");
	assert_int_equal(turn(), 1);
	assert_int_equal(reader.ended, 1);
	assert_int_equal(writer.ended, 0);
	drain(pair[1]);
	assert_int_equal(turn(), 1);
	assert_int_equal(writer.ended, 1);
	assert_int_equal(writer.op.result, 1);
}

/* The library's fabric closes its descriptors by itself; the kernel gives the number to the next file. */
static void a_number_that_its_owner_closed_may_have_another_file(void **state)
{
	int old = eventfd(0, EFD_CLOEXEC);
	struct request before = to_poll(old, POLLIN);
	(void)state;
	start(&before);
	ring_cancel(ring, &before.op);
	assert_int_equal(turn(), 1);
	close(old);
	int new = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(new, old);
	struct request after = to_poll(new, POLLIN);
	start(&after);
	signal_event(new);
	assert_int_equal(turn(), 1);
	assert_int_equal(after.op.result, POLLIN);
	close(new);
}

/* A fork or a dup keeps the earlier file in the set, where it goes by the number that it had. */
static void an_earlier_file_of_the_number_wakes_nobody(void **state)
{
	int old = eventfd(0, EFD_CLOEXEC), kept = dup(old);
	struct request before = to_poll(old, POLLIN);
	(void)state;
	start(&before);
	ring_cancel(ring, &before.op);
	assert_int_equal(turn(), 1);
	close(old);
	int new = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(new, old);
	struct request after = to_poll(new, POLLIN);
	start(&after);
	signal_event(kept);
	assert_int_equal(turn(), 0);
	assert_int_equal(after.ended, 0);
	signal_event(new);
	assert_int_equal(turn(), 1);
	assert_int_equal(after.ended, 1);
	close(new);
	close(kept);
}

static bool enough;

static void never_rests(void *arg)
{
	(void)arg;
	for (uint64_t end = loop_now(loop) + 10 * SECOND; !enough && loop_now(loop) < end;)
		co_yield_await();
}

static void read_beside_it(void *arg)
{
	char c = 0;
	(void)arg;
	CHECK(io_read_await(pair[0], &c, 1, KV_NEVER) == 1);
	CHECK(!enough);
	enough = true;
}

static void send_later(void *arg)
{
	(void)arg;
	co_sleep_await(loop_now(loop) + MS);
	say(pair[1], "x");
}

static void a_loop_that_never_sleeps_sees_its_requests_end(void **state)
{
	struct loop_stats stats;
	(void)state;
	enough = false;
	harness_spawn(loop, never_rests, NULL);
	harness_spawn(loop, read_beside_it, NULL);
	harness_spawn(loop, send_later, NULL);
	harness_run(loop);
	assert_true(enough);
	loop_stats(loop, &stats);
	assert_int_equal(stats.sleeps, 0);
}

enum { MUCH = 1 << 20 };

static void write_much(void *arg)
{
	char *bytes = calloc(1, MUCH);
	CHECK(io_write_all_await(((int *)arg)[1], bytes, MUCH, KV_NEVER) == 0);
	close(((int *)arg)[1]);
	free(bytes);
}

static void read_much(void *arg)
{
	char bytes[1000];
	size_t have = 0;
	ssize_t n;
	while ((n = io_read_await(((int *)arg)[0], bytes, sizeof(bytes), KV_NEVER)) > 0)
		have += (size_t)n;
	CHECK(n == 0);
	CHECK(have == MUCH);
}

/* Neither end is non-blocking: a write of more than there is room for would stop the loop, and with it the reader. */
static void a_blocking_pipe_does_not_stop_the_loop(void **state)
{
	int ends[2];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	harness_spawn(loop, read_much, ends);
	harness_spawn(loop, write_much, ends);
	harness_run(loop);
	assert_false(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	close(ends[0]);
}

static void use_file(void *arg)
{
	char bytes[10000], back[sizeof(bytes)];
	int fd = fileno(arg);
	memset(bytes, 'f', sizeof(bytes));
	CHECK(io_write_all_await(fd, bytes, sizeof(bytes), KV_NEVER) == 0);
	CHECK(io_poll_await(fd, POLLIN, KV_NEVER) == POLLIN);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(io_read_await(fd, back, sizeof(back), KV_NEVER) == sizeof(back));
	CHECK(memcmp(back, bytes, sizeof(back)) == 0);
	CHECK(io_read_await(fd, back, sizeof(back), KV_NEVER) == 0);
}

static void a_regular_file_is_always_ready(void **state)
{
	FILE *file = tmpfile();
	(void)state;
	assert_non_null(file);
	harness_spawn(loop, use_file, file);
	harness_run(loop);
	fclose(file);
}

static struct sockaddr_storage server;

static void connect_and_look(void *arg)
{
	int fd = -1;
	(void)arg;
	CHECK(io_connect_await(&server, sizeof(struct sockaddr_in), &fd, KV_NEVER) == 0);
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK)); /* as with io_uring */
	io_close(loop, fd);
}

static void accept_and_look(void *arg)
{
	int fd = -1;
	CHECK(io_accept_await(*(int *)arg, &fd, NULL, KV_NEVER) == 0);
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	io_close(loop, fd);
	/* The listener blocks, and nobody comes: the loop goes on. */
	CHECK(io_accept_await(*(int *)arg, &fd, NULL, loop_now(loop) + MS) == -KV_ETIMEOUT);
}

static void connections_are_as_blocking_as_io_uring_leaves_them(void **state)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&server;
	struct kv_error err;
	int listener = -1;
	(void)state;
	*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(io_listen(loop, &server, sizeof(*in), &listener, &err), 0);
	harness_spawn(loop, accept_and_look, &listener);
	harness_spawn(loop, connect_and_look, NULL);
	harness_run(loop);
	io_close(loop, listener);
}

/* io_uring's memory does not go to a child of fork(), either. */
static void a_child_that_turns_the_loop_dies_of_it(void **state)
{
	int status = 0;
	(void)state;
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = {0};
		setrlimit(RLIMIT_CORE, &none);
		close(STDERR_FILENO);
		signal(SIGSEGV, SIG_DFL);
		loop_turn(loop, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	assert_int_equal(loop_turn(loop, 0), 0);
}

static void nothing(int signal)
{
	(void)signal;
}

static void sleep_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++)
		CHECK(co_sleep_await(loop_now(loop) + 2 * MS) == 0);
}

static void a_signal_ends_no_request(void **state)
{
	const struct itimerval often = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500},
			       never = {.it_interval.tv_usec = 0, .it_value.tv_usec = 0};
	char c;
	struct sigaction old, action = {.sa_handler = nothing}; /* without SA_RESTART */
	struct request r = to_read(pair[0], &c, 1);
	(void)state;
	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	start(&r);
	for (int i = 0; i < 10; i++)
		assert_int_equal(turn(), 0);
	harness_spawn(loop, sleep_often, NULL);
	harness_run(loop);
	setitimer(ITIMER_REAL, &never, NULL);
	say(pair[1], "x");
	assert_int_equal(turn(), 1);
	assert_int_equal(r.op.result, 1);
	sigaction(SIGALRM, &old, NULL);
}

/* The last one: it cannot be undone. Profiles older than Linux 5.11 do not know the system call. */
static void without_epoll_pwait2_it_sleeps_as_exactly(void **state)
{
	struct loop_stats stats;
	(void)state;
#ifdef SYS_epoll_pwait2
	assert_int_equal(seccomp_forbid(SYS_epoll_pwait2, EPERM), 0);
#endif
	harness_spawn(loop, sleep_often, NULL);
	harness_run(loop);
	loop_stats(loop, &stats);
	assert_in_range(stats.turns, 20, 2 * 21); /* it neither ends early nor turns at full speed */
	enough = false;
	harness_spawn(loop, read_beside_it, NULL);
	harness_spawn(loop, send_later, NULL);
	harness_run(loop);
	assert_true(enough);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_close_ends_every_request_of_the_descriptor_once),
		TEST(a_cancel_ends_a_request_once),
		TEST(a_result_is_stronger_than_a_later_cancel_or_close),
		TEST(a_level_is_seen_by_who_comes_late),
		TEST(who_waits_on_after_another_s_event_is_not_forgotten),
		TEST(a_number_that_its_owner_closed_may_have_another_file),
		TEST(an_earlier_file_of_the_number_wakes_nobody),
		TEST(a_loop_that_never_sleeps_sees_its_requests_end),
		TEST(a_blocking_pipe_does_not_stop_the_loop),
		TEST(a_regular_file_is_always_ready),
		TEST(connections_are_as_blocking_as_io_uring_leaves_them),
		TEST(a_child_that_turns_the_loop_dies_of_it),
		TEST(a_signal_ends_no_request),
		TEST(without_epoll_pwait2_it_sleeps_as_exactly),
	};
	int rc = seccomp_forbid(SYS_io_uring_setup, EPERM);
	if (rc < 0) {
		printf("seccomp: %s\n", kv_strerror(rc));
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
