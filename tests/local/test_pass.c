/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass.c -- passing of descriptors over a Unix socket: they arrive, close-on-exec, and none is left open, whatever
 * the other side sends. */
#include "tests/local/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop/loop.h"

#define SECOND 1000000000ull

enum { MESSAGE = 32 + LOCAL_NONCE_LEN, SHARDS = 3 };

static struct loop *loop;
static unsigned before;
static int failures;

#define CHECK(cond)                                                                                                    \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #cond);                       \
			failures++;                                                                                    \
		}                                                                                                      \
	} while (0)

static const uint8_t nonce[LOCAL_NONCE_LEN] = "0123456789abcdef";

static int set_up(void **state)
{
	(void)state;
	before = open_files();
	failures = 0;
	return loop_create(&(struct loop_options){.name = "pass"}, &loop, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	loop_destroy(&loop);
	return open_files() == before ? 0 : -1;
}

static void run(void)
{
	struct loop_stats stats;
	uint64_t until = kv_now() + 20 * SECOND;
	do {
		loop_turn(loop, 10000000);
		loop_stats(loop, &stats);
	} while (stats.coroutines > 0 && kv_now() < until);
	assert_int_equal(stats.coroutines, 0);
	assert_int_equal(failures, 0);
}

static uint64_t soon(void)
{
	return loop_now(loop) + 5 * SECOND;
}

/* ---- a server and a client ---- */

static int listener = -1;
static char name[LOCAL_NAME_MAX];

/* Five eventfds in the places of real descriptors. */
static struct local_shard shard_make(uint32_t number)
{
	struct local_shard s = {.shard = number, .shards = SHARDS, .arena_bytes = 1000 + number, .landing_bytes = 7};
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		s.fd[i] = eventfd(100 * number + i, EFD_CLOEXEC | EFD_NONBLOCK);
	return s;
}

static void shard_close(struct local_shard *s)
{
	for (unsigned i = 0; i < LOCAL_FDS; i++)
		close(s->fd[i]);
}

static void server(void *arg)
{
	uint8_t got[LOCAL_NONCE_LEN] = {0};
	int fd = -1;
	(void)arg;
	CHECK(local_accept_await(listener, &fd, soon()) == 0);
	CHECK(local_nonce_await(fd, got, soon()) == 0);
	CHECK(memcmp(got, nonce, sizeof(got)) == 0);
	CHECK(local_peer_pid(fd) == (uint32_t)getpid());
	CHECK(local_peer_pid(-1) == 0);
	for (uint32_t i = 0; i < SHARDS; i++) {
		struct local_shard s = shard_make(i);
		CHECK(local_give_await(fd, &s, soon()) == 0);
		shard_close(&s);
	}
	CHECK(local_ready_await(fd, soon()) == 0);
	CHECK(local_end_await(fd, soon()) == 0);
	io_close(loop, fd);
}

static void client(void *arg)
{
	int fd = -1;
	(void)arg;
	CHECK(local_connect_await(name, nonce, &fd, soon()) == 0);
	for (uint32_t n = 0; n < SHARDS; n++) {
		struct local_shard s = {0};
		CHECK(local_take_await(fd, &s, soon()) == 0);
		CHECK(s.shard == n && s.shards == SHARDS && s.arena_bytes == 1000 + n && s.landing_bytes == 7);
		for (unsigned i = 0; i < LOCAL_FDS; i++) {
			uint64_t value = 0;
			CHECK(fcntl(s.fd[i], F_GETFD) & FD_CLOEXEC);
			CHECK(100 * n + i == 0 || read(s.fd[i], &value, sizeof(value)) == sizeof(value));
			CHECK(value == 100 * n + i);
		}
		shard_close(&s);
	}
	CHECK(local_ready_send_await(fd, soon()) == 0);
	CHECK(write(fd, "dropped", 7) == 7);
	io_close(loop, fd);
}

static void talk(const char *wanted)
{
	struct kv_error err = {0};
	if (local_listen(wanted, &listener, name, &err))
		fail_msg("%s", err.text);
	assert_int_equal(co_spawn(loop, server, NULL, "server"), 0);
	assert_int_equal(co_spawn(loop, client, NULL, "client"), 0);
	run();
	local_unlisten(&listener, name);
	assert_int_equal(listener, -1);
	local_unlisten(&listener, name);
}

static void descriptors_arrive_at_a_chosen_name(void **state)
{
	(void)state;
	talk(NULL);
	assert_int_equal(name[0], '@');
}

static void descriptors_arrive_at_an_abstract_name(void **state)
{
	char wanted[LOCAL_NAME_MAX];
	(void)state;
	snprintf(wanted, sizeof(wanted), "@kvrail-test-%d", getpid());
	talk(wanted);
	assert_string_equal(name, wanted);
}

/* ---- names ---- */

static char dir[64], path[96];

static int with_dir(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/kvrail-pass-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", dir);
	return set_up(state);
}

static int without_dir(void **state)
{
	unlink(path);
	rmdir(dir);
	return tear_down(state);
}

static void descriptors_arrive_at_a_path(void **state)
{
	struct stat st;
	(void)state;
	talk(path);
	assert_string_equal(name, path);
	assert_int_equal(stat(path, &st), -1);
}

static void every_user_may_connect_to_a_path(void **state)
{
	struct stat st;
	mode_t mask = umask(077);
	(void)state;
	assert_int_equal(local_listen(path, &listener, name, NULL), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0666);
	local_unlisten(&listener, name);
}

static void the_socket_of_a_killed_server_is_replaced(void **state)
{
	int dead = -1;
	(void)state;
	assert_int_equal(local_listen(path, &dead, name, NULL), 0);
	close(dead); /* and the path stays */
	talk(path);
}

static void another_server_is_not_replaced(void **state)
{
	struct kv_error err = {0};
	int second = -1;
	char name_2[LOCAL_NAME_MAX];
	(void)state;
	assert_int_equal(local_listen(path, &listener, name, NULL), 0);
	assert_int_equal(local_listen(path, &second, name_2, &err), -EADDRINUSE);
	check_contains(err.text, "another server");
	assert_int_equal(second, -1);
	assert_int_equal(access(path, F_OK), 0);
	local_unlisten(&listener, name);
}

static int bound, folder;

static void *listen_later(void *arg)
{
	(void)arg;
	usleep(100000);
	if (listen(bound, 1) < 0)
		abort();
	close(folder); /* and its lock */
	return NULL;
}

/* It has bound its socket and does not listen yet. */
static void a_server_that_begins_is_not_replaced(void **state)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	pthread_t thread;
	(void)state;
	folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(folder, LOCK_EX), 0);
	bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	memcpy(a.sun_path, path, strlen(path));
	assert_int_equal(bind(bound, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(pthread_create(&thread, NULL, listen_later, NULL), 0);
	assert_int_equal(local_listen(path, &listener, name, NULL), -EADDRINUSE);
	pthread_join(thread, NULL);
	close(bound);
}

static void a_stranger_that_keeps_the_lock_stops_no_server(void **state)
{
	(void)state;
	folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(folder, LOCK_SH), 0);
	assert_int_equal(local_listen(path, &listener, name, NULL), 0);
	local_unlisten(&listener, name);
	close(folder);
}

static void a_file_is_not_replaced(void **state)
{
	struct kv_error err = {0};
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(local_listen(path, &listener, name, &err), -EADDRINUSE);
	check_contains(err.text, path);
	assert_int_equal(access(path, F_OK), 0);
}

static void bad_names_are_refused(void **state)
{
	char longest[LOCAL_NAME_MAX + 1];
	struct kv_error err = {0};
	(void)state;
	memset(longest, 'a', sizeof(longest));
	longest[LOCAL_NAME_MAX] = '\0';
	assert_int_equal(local_listen(longest, &listener, name, &err), -KV_EINVAL);
	check_contains(err.text, "1 to 107 bytes");
	assert_int_equal(local_listen("", &listener, name, &err), -KV_EINVAL);
	assert_int_equal(local_listen("@", &listener, name, &err), -KV_EINVAL);
	assert_int_equal(local_listen("/nowhere/at/all", &listener, name, &err), -ENOENT);
	check_contains(err.text, "directory does not exist");
	longest[0] = '@';
	longest[LOCAL_NAME_MAX - 1] = '\0';
	assert_int_equal(local_listen(longest, &listener, name, &err), 0);
	assert_string_equal(name, longest);
	local_unlisten(&listener, name);
}

static void nobody_listens(void *arg)
{
	int fd = -1;
	(void)arg;
	CHECK(local_connect_await("@kvrail-nobody-listens-here", nonce, &fd, soon()) == -ECONNREFUSED);
	CHECK(local_connect_await("/nowhere/at/all", nonce, &fd, soon()) == -ENOENT);
	CHECK(local_connect_await("", nonce, &fd, soon()) == -KV_EINVAL);
	CHECK(fd == -1);
}

static void a_client_without_a_server_gets_a_code(void **state)
{
	(void)state;
	assert_int_equal(co_spawn(loop, nobody_listens, NULL, "client"), 0);
	run();
}

/* ---- what strangers send ---- */

static int ends[2];

static void short_nonce(void *arg)
{
	uint8_t got[LOCAL_NONCE_LEN];
	(void)arg;
	CHECK(local_nonce_await(ends[1], got, soon()) == -KV_EPROTO);
	CHECK(local_nonce_await(ends[1], got, soon()) == -KV_EPROTO);
	CHECK(local_ready_await(ends[1], soon()) == -ECONNRESET);
}

static void silent_stranger(void *arg)
{
	uint8_t got[LOCAL_NONCE_LEN];
	struct local_shard s;
	(void)arg;
	CHECK(local_nonce_await(ends[1], got, loop_now(loop) + 10000000) == -KV_ETIMEOUT);
	CHECK(local_take_await(ends[1], &s, loop_now(loop) + 10000000) == -KV_ETIMEOUT);
	CHECK(local_ready_await(ends[1], loop_now(loop) + 10000000) == -KV_ETIMEOUT);
	CHECK(local_end_await(ends[1], loop_now(loop) + 10000000) == -KV_ETIMEOUT);
	CHECK(write(ends[0], "x", 1) == 1);
	CHECK(local_ready_await(ends[1], soon()) == -KV_EPROTO);
}

static void a_stranger_costs_its_time_and_no_more(void **state)
{
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(co_spawn(loop, silent_stranger, NULL, "silent"), 0);
	run();
	assert_int_equal(write(ends[0], "too short", 9), 9);
	close(ends[0]);
	assert_int_equal(co_spawn(loop, short_nonce, NULL, "short"), 0);
	run();
	close(ends[1]);
}

/* Nobody reads: the giver parks until its deadline. */
static void give_on(void *arg)
{
	struct local_shard s = shard_make(0);
	unsigned given = 0;
	int rc;
	(void)arg;
	while ((rc = local_give_await(ends[0], &s, loop_now(loop) + 20000000)) == 0 && given < 100000)
		given++;
	CHECK(rc == -KV_ETIMEOUT || rc == -ETOOMANYREFS);
	shutdown(ends[1], SHUT_RDWR);
	CHECK(local_give_await(ends[0], &s, soon()) == -EPIPE);
	shard_close(&s);
}

static void a_client_that_reads_nothing_holds_nobody(void **state)
{
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(co_spawn(loop, give_on, NULL, "give"), 0);
	run();
	close(ends[0]);
	close(ends[1]);
}

/* Send len bytes with n descriptors. */
static void send_odd(const void *bytes, size_t len, unsigned n)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(64 * sizeof(int))];
	} c;
	int fds[64];
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	for (unsigned i = 0; i < n; i++)
		fds[i] = ends[0];
	memset(&c, 0, sizeof(c));
	if (n) {
		c.header = (struct cmsghdr){CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&c.header), fds, n * sizeof(int));
		msg.msg_control = c.room;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	assert_int_equal(sendmsg(ends[0], &msg, MSG_NOSIGNAL), len);
}

static int taken;

static void take_odd(void *arg)
{
	struct local_shard s;
	memset(&s, 0x55, sizeof(s));
	(void)arg;
	taken = local_take_await(ends[1], &s, soon());
	if (taken == 0)
		shard_close(&s);
	else
		CHECK(s.shard == 0x55555555); /* written only on success */
}

static void odd(const void *bytes, size_t len, unsigned n, int wanted)
{
	unsigned open_before;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	open_before = open_files();
	if (len)
		send_odd(bytes, len, n);
	else
		shutdown(ends[0], SHUT_RDWR);
	assert_int_equal(co_spawn(loop, take_odd, NULL, "take"), 0);
	run();
	assert_int_equal(taken, wanted);
	assert_int_equal(open_files(), open_before);
	close(ends[0]);
	close(ends[1]);
}

/* The bytes of a true message, for variations. */
static void give_one(void *arg)
{
	struct local_shard s = shard_make(1);
	(void)arg;
	CHECK(local_give_await(ends[0], &s, soon()) == 0);
	shard_close(&s);
}

static void odd_messages_are_refused_and_their_descriptors_closed(void **state)
{
	struct kv_prng prng = check_seed();
	uint8_t good[MESSAGE + 1] = {0}, bad[MESSAGE + 1];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(co_spawn(loop, give_one, NULL, "give"), 0);
	run();
	assert_int_equal(recv(ends[1], good, sizeof(good), MSG_DONTWAIT), MESSAGE); /* its descriptors are dropped */
	close(ends[0]);
	close(ends[1]);

	odd(good, MESSAGE, LOCAL_FDS, 0);
	odd(good, MESSAGE, LOCAL_FDS - 1, -KV_EPROTO);
	odd(good, MESSAGE, LOCAL_FDS + 1, -KV_EPROTO);
	odd(good, MESSAGE, 1, -KV_EPROTO);
	odd(good, MESSAGE, 0, -KV_EPROTO);
	odd(good, MESSAGE, 60, -KV_EPROTO);
	odd(good, MESSAGE - 1, LOCAL_FDS, -KV_EPROTO);
	odd(good, 1, LOCAL_FDS, -KV_EPROTO);
	odd(good, 0, 0, -ECONNRESET);
	for (unsigned i = 0; i < 200; i++) {
		memcpy(bad, good, sizeof(bad));
		unsigned at = (unsigned)kv_prng_below(&prng, 16);
		bad[at] ^= (uint8_t)(1 + kv_prng_below(&prng, 255));
		/* Another number of this shard, or of all, can be true. */
		uint32_t shard, shards;
		memcpy(&shard, bad + 4, 4);
		memcpy(&shards, bad + 8, 4);
		bool fine = at >= 4 && at < 12 && shards <= KV_SHARDS_MAX && shard < shards;
		odd(bad, MESSAGE, LOCAL_FDS, fine ? 0 : -KV_EPROTO);
	}
}

static void descriptors_beyond_the_limit_of_open_files(void **state)
{
	struct rlimit was, low;
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (unsigned room = 0; room < LOCAL_FDS; room++) {
		int full[128], last;
		unsigned open_before, n = 0;
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		assert_int_equal(co_spawn(loop, give_one, NULL, "give"), 0);
		run();
		open_before = open_files();
		do
			full[n++] = last = dup(ends[0]);
		while (last >= 0 && last < 100); /* no number below is free */
		low = (struct rlimit){.rlim_cur = (rlim_t)last + 1 + room, .rlim_max = was.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		assert_int_equal(co_spawn(loop, take_odd, NULL, "take"), 0);
		run();
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_int_equal(taken, -KV_ELIMIT);
		while (n > 0)
			close(full[--n]);
		assert_int_equal(open_files(), open_before);
		close(ends[0]);
		close(ends[1]);
	}
}

#define WITH(test)     cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, with_dir, without_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(descriptors_arrive_at_a_chosen_name),
		WITH(descriptors_arrive_at_an_abstract_name),
		WITH_DIR(descriptors_arrive_at_a_path),
		WITH_DIR(every_user_may_connect_to_a_path),
		WITH_DIR(the_socket_of_a_killed_server_is_replaced),
		WITH_DIR(another_server_is_not_replaced),
		WITH_DIR(a_server_that_begins_is_not_replaced),
		WITH_DIR(a_stranger_that_keeps_the_lock_stops_no_server),
		WITH_DIR(a_file_is_not_replaced),
		WITH(bad_names_are_refused),
		WITH(a_client_without_a_server_gets_a_code),
		WITH(a_stranger_costs_its_time_and_no_more),
		WITH(a_client_that_reads_nothing_holds_nobody),
		WITH(descriptors_beyond_the_limit_of_open_files),
		WITH(odd_messages_are_refused_and_their_descriptors_closed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
