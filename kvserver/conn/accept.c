/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c -- accepting control connections: the places of strangers, who loses one, and the rate of TLS handshakes.
 *
 * Every connection is accepted at once, so that honest clients never wait in the backlog behind silent ones. TLS begins
 * with the first byte, at most HANDSHAKE_RATE times per second, and all handshakes together compute one step in some
 * turns (bootstrap/gate.c), so heartbeats get through.
 *
 * HANDSHAKES_MAX connections may lack an attachment (less with a low limit of open files). When all places are taken, a
 * new connection replaces the oldest silent for SILENCE_NS, else the oldest that takes longer than PATIENCE_NS, else a
 * random one of the source with more than half of the places. If descriptors still run short, accept is retried every
 * PLACE_WAIT_NS, and each time one place is freed. */
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

#include "kvserver/conn/clients.h"
#include "kvserver/conn/conn.h"
#include "kvserver/conn/private.h"

#define SILENCE_NS    100000000ull   /* with all places taken, a silent connection is cut after this time ... */
#define PATIENCE_NS   500000000ull   /* ... and, when all of them talk, a slow one after this time */
#define PLACE_WAIT_NS 10000000ull    /* between two searches for a place to free, or two attempts to accept */
#define SAID_NS       60000000000ull /* between two log lines about failing accepts */

unsigned handshakes_allowed(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / KV_HANDSHAKES_SHARE >= HANDSHAKES_MAX)
		return HANDSHAKES_MAX;
	return KV_MAX((unsigned)files.rlim_cur / KV_HANDSHAKES_SHARE, (unsigned)KV_HANDSHAKES_MIN);
}

/* ---- places ---- */

static void place_take(struct conn *c)
{
	kv_list_del(&c->knock);
	c->cut = true;
	conn_cut(c);
}

/* Cut the oldest connection that talks, or is silent, if it is older than `age_ns`. */
static bool handshake_cut(struct kvs_server *s, bool talking, uint64_t age_ns)
{
	uint64_t now_ns = loop_now(s->control);
	KV_LIST_EACH (n, &s->strangers.knocking) {
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

/* The only source that may hold more than half of the places: after pairing connections of different sources, its are
 * left over (Boyer and Moore). *out: its number of places. */
static uint64_t crowd_find(const struct kvs_server *s, unsigned *out)
{
	uint64_t source = 0;
	unsigned lead = 0, held = 0;
	KV_LIST_EACH (n, &s->strangers.knocking) {
		uint64_t its = KV_LIST_ENTRY(n, struct conn, knock)->source;
		if (lead == 0)
			source = its;
		lead = its == source ? lead + 1 : lead - 1;
	}
	KV_LIST_EACH (n, &s->strangers.knocking)
		held += KV_LIST_ENTRY(n, struct conn, knock)->source == source;
	*out = held;
	return source;
}

/* A source with more than half of the places loses a random one: the oldest will finish soonest, and the newest may be
 * an honest client at the same address. */
static void crowd_cut(struct kvs_server *s)
{
	unsigned held, drawn;
	uint64_t source = crowd_find(s, &held);
	if (held <= s->strangers.max / 2)
		return;
	drawn = (unsigned)kv_prng_below(loop_prng(s->control), held);
	KV_LIST_EACH (n, &s->strangers.knocking) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, knock);
		if (c->source != source || drawn-- > 0)
			continue;
		place_take(c);
		return;
	}
}

/* Cut the connection without an attachment that has the least claim to its place, if any. */
static void handshake_cut_one(struct kvs_server *s)
{
	if (!handshake_cut(s, false, SILENCE_NS) && !handshake_cut(s, true, PATIENCE_NS))
		crowd_cut(s);
}

/* No connection loses its place before another one needs it. */
static void place_await(struct kvs_server *server)
{
	if (server->strangers.count >= server->strangers.max && !server->life.stop_asked)
		io_poll_await(server->strangers.listen_fd, POLLIN, KV_NEVER);
	while (server->strangers.count >= server->strangers.max && !server->life.stop_asked) {
		handshake_cut_one(server);
		co_queue_wait_await(&server->strangers.place_free, loop_now(server->control) + PLACE_WAIT_NS);
	}
}

/* Descriptors or memory are short: cut the connection with the least claim to its place, and retry soon. The log
 * reports the beginning, once a minute at most, and the end. */
static void accept_failed_await(struct kvs_server *server, int rc)
{
	uint64_t now_ns = loop_now(server->control);
	control_count(server, WIRE_STAT_ACCEPTS_FAILED);
	if (!server->strangers.failing &&
	    (!server->strangers.logged_ns || now_ns - server->strangers.logged_ns >= SAID_NS)) {
		kv_event(server->opt.log, KV_LOG_WARN, KV_EVENT("accept_failed", KV_FIELD("reason", kv_strerror(rc))),
			 "accepting a connection: %s%s; new clients wait", kv_strerror(rc),
			 rc == -EMFILE || rc == -ENFILE ? "; raise the limit of open files (ulimit -n)" : "");
		server->strangers.logged_ns = now_ns;
		server->strangers.said = true;
	}
	server->strangers.failing = true;
	handshake_cut_one(server);
	co_sleep_await(now_ns + PLACE_WAIT_NS);
}

static void accept_worked(struct kvs_server *server)
{
	if (server->strangers.said)
		kv_event(server->opt.log, KV_LOG_INFO, KV_EVENT("accept_back"), "connections are accepted again");
	server->strangers.failing = server->strangers.said = false;
}

void accept_await(struct kvs_server *server)
{
	server->strangers.bucket = (struct bucket){.tokens = HANDSHAKE_BURST, .filled_ns = loop_now(server->control)};
	while (!server->life.stop_asked) {
		struct sockaddr_storage peer;
		int fd, rc;
		place_await(server);
		rc = io_accept_await(server->strangers.listen_fd, &fd, &peer, KV_NEVER);
		if (server->life.stop_asked) {
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
