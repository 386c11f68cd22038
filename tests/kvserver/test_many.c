/* SPDX-License-Identifier: Apache-2.0 */
/* test_many.c -- as many clients as --max-clients may promise: each has its connection, and stays; one more is told.
 *
 * The server is a process of its own, since each connection has a descriptor at both ends. 20,000 of them, or what the
 * hard limit of open files has room for. */
#include "tests/check.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "kvserver/server/server.h"
#include "loop/sanitize.h"
#include "tests/kvserver/hello.h"

enum { CLIENTS = 20000, OTHERS = 1100, DIALERS = 32, WORTH_IT = 9000, BEYOND = 20 };

#define PATIENCE_NS 300000000000ull

static const struct kv_log sink = {.level = KV_LOG_OFF, .write = kv_log_stderr};

/* In front of the C library's, for client and server: no keepalives. On real connections heartbeats make them needless;
 * here nobody says anything for a minute, and those of thousands of connections fall due together. The loopback device
 * drops what is beyond net.core.netdev_max_backlog packets (1,000), and after three that were lost the kernel ends an
 * honest client's connection: so it was at a load of 17, hundreds of times. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && option == SO_KEEPALIVE)
		return 0;
	return (int)syscall(SYS_setsockopt, fd, level, option, value, len);
}

static struct {
	struct loop *loop;
	struct te *te; /* gives an address and an identity; never polled */
	struct boot_context *ctx;
	struct sockaddr_in server;
	pid_t pid;
	int stop; /* the server ends when this is closed */
	struct boot_conn *conn[CLIENTS];
	unsigned clients, next, welcome, refused, running;
	bool dialing;
	char said[256];
} t;

/* In front of the C library's: clients have an address of their own, so that 20,000 connections leave the ports of
 * 127.0.0.1 to whatever runs beside this. A connection leaves its port taken for a minute. */
int socket(int family, int type, int protocol)
{
	const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f4d0001)};
	int fd = (int)syscall(SYS_socket, family, type, protocol), on = 1;
	if (fd < 0 || family != AF_INET || !t.dialing)
		return fd;
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0)
		return fd;
	close(fd);
	return -1;
}

static unsigned clients_possible(void)
{
	struct rlimit files;
	if (KV_TSAN || getrlimit(RLIMIT_NOFILE, &files) != 0)
		return 0;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max >= CLIENTS + OTHERS)
		return CLIENTS;
	return files.rlim_max > OTHERS ? (unsigned)files.rlim_max - OTHERS : 0;
}

/* The child: a server that believes to have files for all, as the clients take none of the fabric here. */
static int serve(int out, int stop)
{
	struct kvs_options o = {.listen_addr = "127.0.0.1:0",
				.shards = 1,
				.memory_bytes = 16 << 20,
				.max_clients = t.clients,
				.heartbeat_ms = 60000,
				.provider = "tcp",
				.door = TE_DOOR_OFF,
				.log = &sink};
	struct kv_error err = {0};
	struct kvs_server *s;
	uint16_t port;
	char end;
	if (kvs_server_create(&o, &s, &err)) {
		fprintf(stderr, "# %s\n", err.text);
		return 1;
	}
	atomic_store(&s->clients.limit.clients, t.clients);
	if (kvs_server_start(s, &err))
		return 1;
	port = kvs_server_port(s);
	if (write(out, &port, sizeof(port)) != sizeof(port))
		return 1;
	while (read(stop, &end, 1) > 0)
		;
	kvs_server_stop(s, 0);
	kvs_server_destroy(&s);
	return 0;
}

static int server_up(void **state)
{
	int out[2], stop[2];
	uint16_t port = 0;
	(void)state;
	t.clients = clients_possible();
	if (t.clients < WORTH_IT)
		return 0;
	assert_int_equal(pipe(out) | pipe(stop), 0);
	t.pid = fork();
	if (t.pid == 0) {
		close(out[0]);
		close(stop[1]);
		_exit(serve(out[1], stop[0]));
	}
	close(out[1]);
	close(stop[0]);
	t.stop = stop[1];
	assert_int_equal(read(out[0], &port, sizeof(port)), sizeof(port));
	close(out[0]);
	t.server = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return 0;
}

static int server_down(void **state)
{
	int status = 0;
	(void)state;
	if (!t.pid)
		return 0;
	close(t.stop);
	assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
	assert_int_equal(status, 0);
	return 0;
}

/* Dial and say hello; *m is the answer. */
static int greet_await(struct boot_conn **out, struct wire_ctrl_msg *m)
{
	struct sockaddr_storage a = {0};
	const struct boot_server to = {.addr = &a, .addr_len = sizeof(t.server)};
	uint64_t until = loop_now(t.loop) + PATIENCE_NS;
	struct wire_ctrl_msg h = hello_make(t.te);
	struct kv_error err = {0};
	int rc;
	memcpy(&a, &t.server, sizeof(t.server));
	rc = boot_connect_await(t.ctx, &to, 60000, until, out, &err);
	if (rc == 0)
		rc = boot_send_await(*out, &h, until);
	if (rc == 0)
		rc = boot_recv_await(*out, m, until);
	if (rc && !t.said[0])
		snprintf(t.said, sizeof(t.said), "client %u: %s: %.100s", t.welcome, kv_errname(rc), err.text);
	return rc;
}

static void answered_wrongly(unsigned client, const struct wire_ctrl_msg *m)
{
	if (!t.said[0])
		snprintf(t.said, sizeof(t.said), "client %u of %u was answered with message %u: %.150s", client,
			 t.clients, m->type, m->type == WIRE_CTRL_REFUSE ? m->refuse.text : "");
}

static void dialer(void *arg)
{
	struct wire_ctrl_msg m;
	(void)arg;
	while (t.next < t.clients && !t.said[0]) {
		unsigned i = t.next++;
		if (greet_await(&t.conn[i], &m) != 0)
			break;
		if (m.type != WIRE_CTRL_WELCOME)
			answered_wrongly(i, &m);
		t.welcome += m.type == WIRE_CTRL_WELCOME;
	}
	t.running--;
}

/* A client that was dropped has an end of its stream; the others have a heartbeat at most. */
static void looker(void *arg)
{
	struct wire_ctrl_msg m;
	(void)arg;
	for (unsigned i = 0; i < t.clients && !t.said[0]; i++) {
		int rc = boot_recv_await(t.conn[i], &m, loop_now(t.loop));
		if (rc != -KV_ETIMEOUT && !(rc == 0 && m.type == WIRE_CTRL_HEARTBEAT))
			snprintf(t.said, sizeof(t.said), "client %u was welcome and is gone: %s", i, kv_errname(rc));
	}
	t.running--;
}

static void one_more(void *arg)
{
	struct wire_ctrl_msg m = {0};
	struct boot_conn *c = NULL;
	(void)arg;
	for (unsigned i = 0; i < BEYOND && !t.said[0]; i++) {
		int rc = greet_await(&c, &m);
		if (rc == 0 && m.type == WIRE_CTRL_REFUSE && m.refuse.status == WIRE_FULL &&
		    strstr(m.refuse.text, "as many as"))
			t.refused++;
		else if (rc == 0)
			answered_wrongly(t.clients + i, &m);
		if (c)
			boot_close(&c);
	}
	t.running--;
}

static void run(void (*fn)(void *arg), unsigned n)
{
	uint64_t until = loop_now(t.loop) + PATIENCE_NS;
	t.running = n;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(co_spawn(t.loop, fn, NULL, "test"), 0);
	while (t.running > 0) {
		assert_true(loop_now(t.loop) < until);
		loop_turn(t.loop, 10000000);
	}
}

static void client_up(void)
{
	struct te_options o = {.provider = "tcp",
			       .local = {.ss_family = AF_INET},
			       .door = TE_DOOR_OFF,
			       .messages = 16,
			       .receives = 16};
	const struct te_handlers handlers = {0};
	struct loop_options lo = {.name = "clients", .log = &sink};
	struct boot_security none = {0};
	struct kv_error err = {0};
	((struct sockaddr_in *)&o.local)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(loop_create(&lo, &t.loop, &err), 0);
	assert_int_equal(boot_context_create(&none, false, &sink, &t.ctx, &err), 0);
	assert_int_equal(te_open(&o, &handlers, NULL, &t.te, &err), 0);
}

static void every_client_that_is_promised_a_place_has_one(void **state)
{
	(void)state;
	if (!t.pid) {
		print_message("%s\n",
			      KV_TSAN ? "ThreadSanitizer has room for 8,000 coroutines, and these are more"
				      : "the hard limit of open files (ulimit -Hn) has no room for 9,000 clients");
		skip();
	}
	print_message("%u clients of %d; the hard limit of open files decides\n", t.clients, CLIENTS);
	client_up();
	t.dialing = true;
	run(dialer, DIALERS);
	if (!t.said[0])
		run(looker, 1);
	if (!t.said[0])
		run(one_more, 1);
	if (t.said[0])
		fail_msg("%s", t.said);
	assert_int_equal(t.welcome, t.clients);
	assert_int_equal(t.refused, BEYOND);
	for (unsigned i = 0; i < t.clients; i++)
		boot_close(&t.conn[i]);
	te_close(&t.te);
	boot_context_destroy(&t.ctx);
	loop_destroy(&t.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_client_that_is_promised_a_place_has_one)};
	te_env_for_programs();
	return cmocka_run_group_tests(tests, server_up, server_down);
}
