/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_conn.c -- a control connection fed with bytes: the accepting side of bootstrap/, from the first byte to the end.
 *
 * The first byte chooses plain or TLS with a key, and into how many pieces the rest is cut. Plain bytes go through
 * framing and decoding to the comparison of the hello; with TLS they are a handshake that OpenSSL has to refuse. Every
 * end is one of the codes that boot_recv_await promises. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"

enum { INPUT_MAX = 16384 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static struct boot_context *contexts[2];
static const struct kv_log silent = {.level = KV_LOG_OFF};

static struct feed {
	const uint8_t *data;
	size_t size, step;
	int fd[2]; /* ours, theirs */
	bool tls;
	unsigned running;
} feed;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_conn: %s\n", what);
	abort();
}

/* Nothing waits for so long, on a machine however busy; what hangs is libFuzzer's to find (-timeout). */
static uint64_t soon(void)
{
	return loop_now(loop) + 600000000000ull;
}

static void receive(struct boot_conn *conn)
{
	static struct wire_ctrl_msg m;
	static const struct boot_identity mine = {.provider = "tcp;ofi_rxm", .fabric = "net"};
	struct kv_error err = {0};
	int rc;
	while ((rc = boot_recv_await(conn, &m, soon())) == 0 || rc == -KV_EVERSION)
		if (m.type == WIRE_CTRL_HELLO && rc == 0) {
			struct boot_identity theirs = {.eager_bytes = m.hello.eager_bytes};
			int same;
			snprintf(theirs.provider, sizeof(theirs.provider), "%s", m.hello.provider);
			snprintf(theirs.fabric, sizeof(theirs.fabric), "%s", m.hello.fabric);
			same = boot_hello_check(&mine, "server", &theirs, "client", &err);
			check(same == 0 || err.text[0], "a refusal without a sentence");
		}
	check(rc == -KV_EPEERDOWN || rc == -KV_EPROTO || rc == -KV_ENOMEM, "a code that is not promised");
	check(boot_failure(conn)[0], "no sentence about the end");
}

static void acceptor(void *arg)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNIX};
	struct boot_conn *conn = NULL;
	struct kv_error err = {0};
	int rc = boot_accept_await(contexts[feed.tls], feed.fd[1], &peer, 0, soon(), &conn, &err);
	(void)arg;
	check(rc == 0 || (err.code == rc && err.text[0]), "an accept that fails without a sentence");
	if (rc == 0)
		receive(conn);
	boot_close(&conn);
	feed.running--;
}

static void feeder(void *arg)
{
	(void)arg;
	for (size_t at = 0; at < feed.size; at += feed.step) {
		if (io_write_all_await(feed.fd[0], feed.data + at, KV_MIN(feed.step, feed.size - at), soon()) < 0)
			break;
		co_yield_await();
	}
	shutdown(feed.fd[0], SHUT_WR);
	feed.running--;
}

static void start(void)
{
	static const struct boot_security key = {.psk = "fuzz:00112233445566778899aabbccddeeff"};
	struct loop_options options = {.name = "fuzz", .log = &silent};
	struct kv_error err = {0};
	check(loop_create(&options, &loop, &err) == 0, err.text);
	check(boot_context_create(&(struct boot_security){0}, true, &silent, &contexts[0], &err) == 0, err.text);
	check(boot_context_create(&key, true, &silent, &contexts[1], &err) == 0, err.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > INPUT_MAX)
		return 0;
	if (!loop)
		start();
	feed = (struct feed){.data = data + 1, .size = size - 1, .tls = data[0] & 1, .running = 2};
	feed.step = data[0] >> 1 ? data[0] >> 1 : feed.size;
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, feed.fd) == 0, "no sockets");
	check(co_spawn(loop, acceptor, NULL, "acceptor") == 0 && co_spawn(loop, feeder, NULL, "feeder") == 0,
	      "no coroutine");
	while (feed.running)
		loop_turn(loop, 10000000);
	close(feed.fd[0]);
	return 0;
}
