/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c -- who may knock, and how often.
 *
 * Everybody is accepted at once, so that an honest client never waits in the kernel's backlog behind thousands of
 * connections that say nothing. A connection without a session costs a descriptor, a coroutine and a small struct; TLS
 * and what it allocates begin with its first byte, and at most HANDSHAKE_RATE times per second, since that costs CPU.
 * What is computed for all of them together is one step in some turns of the loop (bootstrap/gate.c): heartbeats leave
 * in between.
 *
 * There are places for 1024 of them (HANDSHAKES_MAX; fewer when the limit of open files is low: a quarter of it). When
 * all are taken, one more costs the oldest that has said nothing in HANDSHAKE_SILENCE_NS its place: an honest client's
 * first bytes follow its connection at once. When all of them talk, the oldest that takes longer than
 * HANDSHAKE_PATIENCE_NS goes; if none does, one of the source that holds more than half of the places, drawn by lot: an
 * address that makes thousands of connections a second keeps itself out, and nobody else. From many addresses together
 * it would take HANDSHAKES_MAX in each HANDSHAKE_PATIENCE_NS to keep others waiting.
 *
 * Whoever has left again takes no turn of the HANDSHAKE_RATE and gives its place back at once: else connections that
 * are reset as soon as they are made, which cost their maker nothing, would keep everybody else waiting. A handshake
 * that nobody presses ends by its own deadline. Whether an authenticated client is admitted is decided later, in
 * conn.c, where it can be told why not.
 *
 * Places, clients and a reserve fit the limit of open files together (files.c). If descriptors are short all the same,
 * other things of this process have taken them: accept is tried again every PLACE_WAIT_NS, and a place given up for it
 * each time.
 *
 * Rejected: few places and a backlog behind them, where ten thousand silent connections keep everybody out for minutes.
 */
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

#include "kvserver/control/server.h"

#define PLACE_WAIT_NS 10000000ull    /* between two looks for a place to take away, or two attempts to accept */
#define SAID_NS       60000000000ull /* between two sentences that it fails */

unsigned handshakes_allowed(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / KV_HANDSHAKES_SHARE >= HANDSHAKES_MAX)
		return HANDSHAKES_MAX;
	return KV_MAX((unsigned)files.rlim_cur / KV_HANDSHAKES_SHARE, (unsigned)KV_HANDSHAKES_MIN);
}

int handshake_rate_await(struct kvs_server *server, int fd)
{
	struct bucket *b = &server->bucket;
	uint64_t now_ns = loop_now(server->control);
	int rc;

	b->tokens += (double)(now_ns - b->filled_ns) * HANDSHAKE_RATE / 1e9;
	if (b->tokens > HANDSHAKE_BURST)
		b->tokens = HANDSHAKE_BURST;
	b->filled_ns = now_ns;
	b->tokens -= 1;
	if (b->tokens >= 0)
		return 0;
	control_count(server, WIRE_STAT_HANDSHAKES_DELAYED);
	rc = io_poll_await(fd, POLLRDHUP, now_ns + (uint64_t)(-b->tokens / HANDSHAKE_RATE * 1e9));
	if (rc == -KV_ETIMEOUT)
		return 0;
	b->tokens += 1;
	return rc < 0 ? rc : -KV_EPEERDOWN;
}

/* A place is taken from nobody before somebody wants it. */
static void place_await(struct kvs_server *server)
{
	if (server->handshakes >= server->handshakes_max && !server->stop_asked)
		io_poll_await(server->listen_fd, POLLIN, KV_NEVER);
	while (server->handshakes >= server->handshakes_max && !server->stop_asked) {
		conns_cut_handshake(server);
		co_queue_wait_await(&server->handshake_free, loop_now(server->control) + PLACE_WAIT_NS);
	}
}

/* Descriptors or memory are short: whoever has the least claim to a place makes room, and what waits in the backlog is
 * looked at again soon. Said when it begins, once a minute at most, and when it is over. */
static void accept_failed_await(struct kvs_server *server, int rc)
{
	uint64_t now_ns = loop_now(server->control);

	control_count(server, WIRE_STAT_ACCEPTS_FAILED);
	if (!server->accept_failing && (!server->accept_said_ns || now_ns - server->accept_said_ns >= SAID_NS)) {
		kv_warn(server->opt.log, "accepting a connection: %s%s; new clients wait", kv_strerror(rc),
			rc == -EMFILE || rc == -ENFILE ? "; raise the limit of open files (ulimit -n)" : "");
		server->accept_said_ns = now_ns;
		server->accept_said = true;
	}
	server->accept_failing = true;
	conns_cut_handshake(server);
	co_sleep_await(now_ns + PLACE_WAIT_NS);
}

static void accept_worked(struct kvs_server *server)
{
	if (server->accept_said)
		kv_info(server->opt.log, "connections are accepted again");
	server->accept_failing = server->accept_said = false;
}

void accept_await(struct kvs_server *server)
{
	server->bucket = (struct bucket){.tokens = HANDSHAKE_BURST, .filled_ns = loop_now(server->control)};
	while (!server->stop_asked) {
		struct sockaddr_storage peer;
		int fd, rc;
		place_await(server);
		rc = io_accept_await(server->listen_fd, &fd, &peer, KV_NEVER);
		if (server->stop_asked) {
			if (rc == 0)
				io_close(server->control, fd);
			break;
		}
		if (rc == 0) {
			control_count(server, WIRE_STAT_HANDSHAKES);
			rc = conn_spawn(server, fd, &peer);
		}
		if (rc == 0)
			accept_worked(server);
		else if (rc != -ECONNABORTED)
			accept_failed_await(server, rc);
	}
}
