/* SPDX-License-Identifier: Apache-2.0 */
/* test_handover.c -- the messages between a running server and the process that takes its place: which are believed at
 * which moment. The other side is a child process that speaks by hand. */
#include "tests/check.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvserver/handover.h"
#include "tests/provider.h"

enum { HELLO = 1, NONCE, PROOF, MEMORY, REFUSED, READY, DONE, SERVING };

#define MAGIC 0x31564f485256ull

struct message {
	uint64_t magic;
	uint32_t kind, zero;
	uint8_t secret[BOOT_OWNER];
	struct kvs_handed handed;
	char text[200];
};

static char dir[] = "/tmp/kvrail-handover-XXXXXX";
static char keep[64], place[72];
static const struct kv_log sink = {.level = KV_LOG_OFF};
static const struct boot_security no_key = {0};
static sigset_t ready;

static struct kvs_options options(void)
{
	return (struct kvs_options){.listen_addr = "127.0.0.1:0",
				    .shards = 1,
				    .memory_bytes = 16 << 20,
				    .max_clients = 4,
				    .provider = test_provider(),
				    .keep = keep,
				    .log = &sink};
}

/* ---- the child: it ends with a status other than 0 where this side does not act as expected ---- */

static struct sockaddr_un address(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", place);
	return a;
}

static int child_socket(void)
{
	const struct timeval patience = {.tv_sec = 20};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static int child_connect(void)
{
	const struct sockaddr_un a = address();
	int fd = child_socket();
	for (unsigned tries = 0; connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0; tries++) {
		if (tries == 2000)
			_exit(10);
		usleep(10000);
	}
	return fd;
}

static void child_say(int fd, uint32_t kind)
{
	struct message m = {.magic = MAGIC, .kind = kind, .text = "not today"};
	if (send(fd, &m, sizeof(m), MSG_NOSIGNAL) != (ssize_t)sizeof(m))
		_exit(11);
}

/* Descriptors that come along are the kernel's to close: there is no room for them. */
static void child_hear(int fd, uint32_t kind)
{
	struct message m;
	if (recv(fd, &m, sizeof(m), 0) != (ssize_t)sizeof(m) || m.magic != MAGIC || m.kind != kind)
		_exit(12);
}

static void child_closed(int fd)
{
	struct message m;
	if (recv(fd, &m, sizeof(m), 0) != 0)
		_exit(13);
}

/* A successor, up to the memory. */
static int child_asks(void)
{
	int fd = child_connect();
	child_say(fd, HELLO);
	child_hear(fd, NONCE);
	child_say(fd, PROOF);
	child_hear(fd, MEMORY);
	return fd;
}

static void refuses_the_memory(void)
{
	int fd = child_asks();
	child_say(fd, REFUSED);
	child_closed(fd);
}

static void refuses_to_serve(void)
{
	int fd = child_asks();
	child_say(fd, READY);
	child_hear(fd, DONE);
	child_say(fd, REFUSED);
}

static void serves(void)
{
	int fd = child_asks();
	child_say(fd, READY);
	child_hear(fd, DONE);
	child_say(fd, SERVING);
}

/* A running server: its socket is there before the test goes on. */
static int child_listener = -1;

static int child_accepts(void)
{
	int fd = accept(child_listener, NULL, NULL);
	const struct timeval patience = {.tv_sec = 20};
	if (fd < 0)
		_exit(14);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void refuses_at_the_end(void)
{
	int fd = child_accepts();
	child_hear(fd, READY);
	child_say(fd, REFUSED);
}

static void refuses_at_once(void)
{
	int fd = child_accepts();
	child_hear(fd, HELLO);
	child_say(fd, REFUSED);
	child_closed(fd);
}

static void refuses_the_key(void)
{
	int fd = child_accepts();
	child_hear(fd, HELLO);
	child_say(fd, NONCE);
	child_hear(fd, PROOF);
	child_say(fd, REFUSED);
	child_closed(fd);
}

static void is_done_too_early(void)
{
	int fd = child_accepts();
	child_hear(fd, HELLO);
	child_say(fd, DONE);
	child_closed(fd);
}

/* ---- this side ---- */

static void (*child_does)(void);

/* With `listens` the child's socket is made here, and listens there: so SO_PEERCRED names the child. */
static pid_t child_start(void (*does)(void), bool listens)
{
	const struct sockaddr_un a = address();
	int told[2];
	char byte;
	pid_t pid;
	child_does = does;
	unlink(place);
	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (listens) {
			child_listener = child_socket();
			if (bind(child_listener, (const struct sockaddr *)&a, sizeof(a)) || listen(child_listener, 1))
				_exit(15);
		}
		if (write(told[1], "", 1) != 1)
			_exit(16);
		child_does();
		_exit(0);
	}
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	close(told[1]);
	return pid;
}

static void child_done(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("the other side ended with %x", (unsigned)status);
}

struct running {
	struct kvs_options o;
	struct kvs_server *server;
	struct handover *handover;
};

static void running_up(struct running *r)
{
	struct kv_error err;
	r->o = options();
	if (kvs_kept_open(&r->o, &r->o.kept, &err) || kvs_server_create(&r->o, &r->server, &err) ||
	    handover_open(&r->o, &no_key, r->server, &r->handover, &err))
		fail_msg("%s", err.text);
}

static void running_down(struct running *r)
{
	handover_close(&r->handover);
	kvs_server_destroy(&r->server);
	kvs_kept_close(&r->o.kept);
}

static bool successor_is_ready(unsigned seconds)
{
	const struct timespec most = {.tv_sec = seconds};
	return sigtimedwait(&ready, NULL, &most) == HANDOVER_SIGNAL;
}

static void a_refusal_in_place_of_ready_ends_nobody(void **state)
{
	pid_t pid = child_start(refuses_the_memory, false);
	struct running r;
	(void)state;
	running_up(&r);
	child_done(pid);
	assert_false(successor_is_ready(0));
	running_down(&r);
}

static void only_serving_ends_the_running_server(void **state)
{
	void (*const does[])(void) = {refuses_to_serve, serves};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(does); i++) {
		pid_t pid = child_start(does[i], false);
		struct running r;
		running_up(&r);
		assert_true(successor_is_ready(20));
		assert_int_equal(handover_finish(r.handover), does[i] == serves);
		child_done(pid);
		running_down(&r);
	}
}

static void a_refusal_in_place_of_done_is_no_end_in_order(void **state)
{
	const struct sockaddr_un a = address();
	pid_t pid = child_start(refuses_at_the_end, true);
	int fd = child_socket();
	(void)state;
	assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_false(handover_await(fd));
	close(fd);
	child_done(pid);
}

static void a_successor_hears_why_it_is_refused(void **state)
{
	static const struct {
		void (*does)(void);
		const char *part;
	} of[] = {{refuses_at_once, "refuses: not today"},
		  {refuses_the_key, "refuses: not today"},
		  {is_done_too_early, "does not answer as expected"}};
	const struct kvs_options o = options();
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(of); i++) {
		pid_t pid = child_start(of[i].does, true);
		struct kvs_kept *kept = NULL;
		struct kv_error err = {0};
		int fd = -1;
		assert_true(handover_take(&o, &no_key, &kept, &fd, &err) < 0);
		assert_int_equal(fd, -1);
		check_contains(err.text, of[i].part);
		child_done(pid);
	}
}

static int up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(keep, sizeof(keep), "%s/index", dir);
	snprintf(place, sizeof(place), "%s.sock", keep);
	sigemptyset(&ready);
	sigaddset(&ready, HANDOVER_SIGNAL);
	return pthread_sigmask(SIG_BLOCK, &ready, NULL);
}

static int down(void **state)
{
	static const char *const names[] = {"", ".sock", ".lock"};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(names); i++) {
		char path[96];
		snprintf(path, sizeof(path), "%s%s", keep, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refusal_in_place_of_ready_ends_nobody),
		cmocka_unit_test(only_serving_ends_the_running_server),
		cmocka_unit_test(a_refusal_in_place_of_done_is_no_end_in_order),
		cmocka_unit_test(a_successor_hears_why_it_is_refused),
	};
	return cmocka_run_group_tests_name("kvserver/handover", tests, up, down);
}
