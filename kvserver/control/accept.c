/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c -- accepting control connections: how many strangers have a place, which one loses it, and how often TLS
 * begins.
 *
 * Every connection is accepted at once, so that an honest client never waits in the kernel's backlog behind thousands
 * of connections that say nothing. A connection without a session costs a descriptor, a coroutine and a small struct;
 * TLS and its memory begin with the first byte, and at most HANDSHAKE_RATE times per second, because TLS costs CPU. All
 * handshakes together compute one step in some turns of the loop (bootstrap/gate.c), so heartbeats leave in between.
 *
 * There are places for 1024 connections without a session (HANDSHAKES_MAX; fewer when the limit of open files is low: a
 * quarter of it). When all are taken, a new connection takes the place of the oldest that has said nothing in
 * HANDSHAKE_SILENCE_NS: an honest client's first bytes follow its connection at once. When all of them talk, the oldest
 * that takes longer than HANDSHAKE_PATIENCE_NS goes. If none does, one goes whose source holds more than half of the
 * places, drawn by lot: an address that makes thousands of connections a second keeps only itself out. From many
 * addresses together it would take HANDSHAKES_MAX in each HANDSHAKE_PATIENCE_NS to keep others waiting.
 *
 * A client that has left again takes no turn of the HANDSHAKE_RATE and gives its place back at once. Otherwise
 * connections that are reset as soon as they are made, which cost their maker nothing, would keep all others waiting.
 * While places are free, a handshake ends by its own deadline only. hello.c decides later whether an authenticated
 * client is admitted, and can tell the client why not.
 *
 * Places, clients and a reserve fit the limit of open files together (files.c). If descriptors are short all the same,
 * other parts of this process have taken them. Then accept is tried again every PLACE_WAIT_NS, and one place is given
 * up for it each time.
 *
 * Rejected: few places and a backlog behind them, where ten thousand silent connections keep all clients out for
 * minutes. */
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

#include "kvserver/control/accept.h"
#include "kvserver/control/conn.h"
#include "kvserver/control/serve.h"

#define PLACE_WAIT_NS 10000000ull    /* between two looks for a place to take away, or two attempts to accept */
#define SAID_NS       60000000000ull /* between two log lines that say that accepting fails */

unsigned handshakes_allowed(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / KV_HANDSHAKES_SHARE >= HANDSHAKES_MAX)
		return HANDSHAKES_MAX;
	return KV_MAX((unsigned)files.rlim_cur / KV_HANDSHAKES_SHARE, (unsigned)KV_HANDSHAKES_MIN);
}

/* ---- places ---- */

/* The connection leaves the list, and gives its place back when its coroutine ends. */
static void place_take(struct conn *c)
{
	kv_list_del(&c->knock);
	c->cut = true;
	conn_cut(c);
}

/* The oldest of the connections that talk, or of those that do not, if it is older than `age_ns`. */
static bool handshake_cut(struct kvs_server *s, bool talking, uint64_t age_ns)
{
	uint64_t now_ns = loop_now(s->control);

	KV_LIST_EACH (n, &s->knocking) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, knock);
		if (now_ns - c->accepted_ns < age_ns)
			return false;
		if (c->talking != talking)
			continue;
		place_take(c);
		return true;
	}
	return false;
}

/* The only source that may hold more than half of the places: pair each connection of it with one of another source,
 * and it is left over (Boyer and Moore). *out: how many places it holds. */
static uint64_t crowd_find(const struct kvs_server *s, unsigned *out)
{
	uint64_t source = 0;
	unsigned lead = 0, held = 0;

	KV_LIST_EACH (n, &s->knocking) {
		uint64_t its = KV_LIST_ENTRY(n, struct conn, knock)->source;
		if (lead == 0)
			source = its;
		lead = its == source ? lead + 1 : lead - 1;
	}
	KV_LIST_EACH (n, &s->knocking)
		held += KV_LIST_ENTRY(n, struct conn, knock)->source == source;
	*out = held;
	return source;
}

/* A source that holds more than half of the places loses one of them. The lot decides which one: the oldest will be
 * done soonest, and the newest may be an honest client behind the same address. */
static void crowd_cut(struct kvs_server *s)
{
	unsigned held, drawn;
	uint64_t source = crowd_find(s, &held);

	if (held <= s->handshakes_max / 2)
		return;
	drawn = (unsigned)kv_prng_below(loop_prng(s->control), held);
	KV_LIST_EACH (n, &s->knocking) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, knock);
		if (c->source != source || drawn-- > 0)
			continue;
		place_take(c);
		return;
	}
}

/* Break the connection without a session that has the least claim to its place, if there is one. */
static void handshake_cut_one(struct kvs_server *s)
{
	if (!handshake_cut(s, false, HANDSHAKE_SILENCE_NS) && !handshake_cut(s, true, HANDSHAKE_PATIENCE_NS))
		crowd_cut(s);
}

/* No connection loses its place before another one wants it. */
static void place_await(struct kvs_server *server)
{
	if (server->handshakes >= server->handshakes_max && !server->stop_asked)
		io_poll_await(server->listen_fd, POLLIN, KV_NEVER);
	while (server->handshakes >= server->handshakes_max && !server->stop_asked) {
		handshake_cut_one(server);
		co_queue_wait_await(&server->handshake_free, loop_now(server->control) + PLACE_WAIT_NS);
	}
}

/* Descriptors or memory are short: the connection with the least claim to its place makes room, and the backlog is
 * looked at again soon. The log says so when it begins, once a minute at most, and when it is over. */
static void accept_failed_await(struct kvs_server *server, int rc)
{
	uint64_t now_ns = loop_now(server->control);

	control_count(server, WIRE_STAT_ACCEPTS_FAILED);
	if (!server->accept_failing && (!server->accept_said_ns || now_ns - server->accept_said_ns >= SAID_NS)) {
		kv_event(server->opt.log, KV_LOG_WARN, KV_EVENT("accept_failed", KV_FIELD("reason", kv_strerror(rc))),
			 "accepting a connection: %s%s; new clients wait", kv_strerror(rc),
			 rc == -EMFILE || rc == -ENFILE ? "; raise the limit of open files (ulimit -n)" : "");
		server->accept_said_ns = now_ns;
		server->accept_said = true;
	}
	server->accept_failing = true;
	handshake_cut_one(server);
	co_sleep_await(now_ns + PLACE_WAIT_NS);
}

static void accept_worked(struct kvs_server *server)
{
	if (server->accept_said)
		kv_event(server->opt.log, KV_LOG_INFO, KV_EVENT("accept_back"), "connections are accepted again");
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
