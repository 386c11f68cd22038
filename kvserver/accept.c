/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c -- who may knock, and how often.
 *
 * A handshake costs CPU (TLS) and memory before anybody is known, so only HANDSHAKES_MAX are under way at a time, and
 * on average HANDSHAKE_RATE begin per second; the rest wait in the kernel's backlog. Silent connections cannot fill
 * those places for long: while somebody waits, the oldest handshake that took over a second is cut. Whether an
 * authenticated client is admitted is decided later, in conn.c, where it can be told why not. */
#include <errno.h>

#include "kvserver/server.h"

struct bucket {
	double tokens;
	uint64_t filled_ns;
};

static void rate_await(struct kvs_server *server, struct bucket *b)
{
	uint64_t now_ns = loop_now(server->control);

	b->tokens += (double)(now_ns - b->filled_ns) * HANDSHAKE_RATE / 1e9;
	if (b->tokens > HANDSHAKE_BURST)
		b->tokens = HANDSHAKE_BURST;
	b->filled_ns = now_ns;
	b->tokens -= 1;
	if (b->tokens < 0)
		co_sleep_await(now_ns + (uint64_t)(-b->tokens / HANDSHAKE_RATE * 1e9));
}

static void place_await(struct kvs_server *server)
{
	while (server->handshakes >= HANDSHAKES_MAX && !server->stop_asked)
		if (co_queue_wait_await(&server->handshake_free, loop_now(server->control) + HANDSHAKE_PATIENCE_NS))
			conns_cut_oldest_handshake(server);
}

void accept_await(struct kvs_server *server)
{
	struct bucket bucket = {.tokens = HANDSHAKE_BURST, .filled_ns = loop_now(server->control)};

	while (!server->stop_asked) {
		struct sockaddr_storage peer;
		int fd, rc;
		place_await(server);
		rate_await(server, &bucket);
		rc = io_accept_await(server->listen_fd, &fd, &peer, KV_NEVER);
		if (server->stop_asked) {
			if (rc == 0)
				io_close(server->control, fd);
			break;
		}
		if (rc == 0)
			rc = conn_spawn(server, fd, &peer);
		if (rc == 0 || rc == -ECONNABORTED)
			continue;
		kv_warn(server->opt.log, "accepting a connection: %s%s", kv_strerror(rc),
			rc == -EMFILE || rc == -ENFILE ? "; raise the limit of open files (ulimit -n)" : "");
		co_sleep_await(loop_now(server->control) + 100000000);
	}
}
