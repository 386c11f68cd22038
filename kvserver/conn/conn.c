/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a control connection: unrequested messages (heartbeats, goodbye, ADDRESS), and its end. reader.c reads it.
 *
 * The connection outlives its attachments in use, and its memory stays until all of them are freed. Unrequested
 * heartbeats show that the server lives, and detect gone clients: QUIET_BEATS a second over all clients, each
 * announcing the latest time of the next; every heartbeat_ms while the reader is busy and sees no question. View news
 * travel with heartbeats. Beats use a timer, and a coroutine only while sending.
 *
 * A client with a void attachment (a rebuilt endpoint, a failed write or reply) gets ADDRESS and says HELLO again, or
 * is cut. */
#include "kvserver/conn/conn.h"

#include <inttypes.h>

enum {
	QUIET_BEATS = 500,   /* heartbeats per second to all clients that do not ask */
	QUIET_MS_MAX = 10000 /* ... but at least one to each in this time */
};

#define BEAT_AGAIN_NS 10000000ull
#define TOGETHER_NS   100000000ull

static struct loop *loop_of(const struct conn *c)
{
	return c->server->control;
}

const char *conn_name(const struct conn *c, char *buf, size_t cap)
{
	return kv_sockaddr_format(&c->peer, buf, cap);
}

/* ---- messages ---- */

/* A send that does not end shows that the client does not read its control connection. */
static int silence_count(struct conn *c, int rc)
{
	if (rc == -KV_ETIMEOUT)
		control_count(c->server, WIRE_STAT_SILENT_CLIENTS);
	return rc;
}

int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	return silence_count(c, boot_send_await(c->boot, m, loop_now(loop_of(c)) + HANDSHAKE_NS));
}

/* ---- heartbeats ---- */

static uint64_t beat_ns(const struct conn *c)
{
	return c->server->opt.heartbeat_ms * 1000000ull;
}

static bool view_is_news(const struct conn *c)
{
	return c->view_asked && c->welcome && c->view_announced != c->server->views.number;
}

/* Maximum delay of the next heartbeat without a question from the client. */
static uint64_t quiet_ms(const struct conn *c)
{
	uint64_t spaced = KV_MIN(c->server->clients.count * 1000ull / QUIET_BEATS, (uint64_t)QUIET_MS_MAX);
	if (view_is_news(c))
		spaced = c->server->opt.heartbeat_ms; /* clients count the servers' announcements, and wait for more
							 than half */
	return c->busy ? c->server->opt.heartbeat_ms : KV_MAX(spaced, c->server->opt.heartbeat_ms);
}

/* The time of the next heartbeat: no later than last announced. Spaced heartbeats leave at whole tenths of a second,
 * those of many clients in one turn of the loop; but never within heartbeat_ms. */
static uint64_t quiet_end(const struct conn *c)
{
	uint64_t now_ns = loop_now(loop_of(c));
	uint64_t end_ns = now_ns + KV_MIN(quiet_ms(c), c->beats.quiet_ms) * 1000000;
	return KV_MAX(end_ns - end_ns % TOGETHER_NS, now_ns + beat_ns(c));
}

static void beat_by(struct conn *c, uint64_t due_ns)
{
	loop_timer_cancel(loop_of(c), &c->beats.timer);
	c->beats.due_ns = due_ns;
	loop_timer_arm(loop_of(c), &c->beats.timer, due_ns);
}

static void beat_sooner(struct conn *c, uint64_t due_ns)
{
	if (c->beats.on && !c->beats.sending && due_ns < c->beats.due_ns)
		beat_by(c, due_ns);
}

/* Whether the client should hear of another view of the cluster; *m announces it. */
static bool view_news(struct conn *c, struct wire_ctrl_msg *m)
{
	if (!view_is_news(c))
		return false;
	c->view_announced = c->server->views.number;
	*m = (struct wire_ctrl_msg){.type = WIRE_CTRL_VIEW_NEWS, .view_news = views_announced(&c->server->views)};
	return true;
}

/* A heartbeat with the view's news in the same write: thousands of clients hear of a change almost for free. */
static int beat_await(struct conn *c)
{
	struct wire_ctrl_msg beat = {
		.type = WIRE_CTRL_HEARTBEAT,
		.heartbeat = {.sequence = ++c->beats.count, .shards = (uint16_t)c->server->opt.shards}};
	uint64_t deadline_ns = loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull;
	struct wire_ctrl_msg m;
	bool told = view_news(c, &m);
	c->beats.quiet_ms = beat.heartbeat.quiet_ms = quiet_ms(c);
	beat.heartbeat.clock_ns = shard_clock(c->server->shard_seed, loop_now(loop_of(c)));
	for (unsigned i = 0; i < c->server->opt.shards; i++)
		beat.heartbeat.turns[i] = loop_turns(c->server->shard_loop[i]);
	return silence_count(c, told ? boot_send_both_await(c->boot, &beat, &m, deadline_ns)
				     : boot_send_await(c->boot, &beat, deadline_ns));
}

static int anew_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_ADDRESS};
	const struct shard *first = c->server->shard[0];
	const struct te_address *addr = c->now->call[0].addr;
	uint32_t attachments = c->attachments;
	uint64_t deadline_ns;
	char name[KV_HOST_MAX];
	int rc;
	m.address.epoch = 1;
	m.address.rails = (uint16_t)first->info.rails;
	for (unsigned i = 0; i < first->info.rails; i++) {
		m.address.addr[i].len = addr[i].len;
		memcpy(m.address.addr[i].data, addr[i].data, addr[i].len);
	}
	kv_event(c->server->opt.log, KV_LOG_INFO, KV_EVENT("client_anew", KV_FIELD("client", name)),
		 "client %s must begin a new session", conn_name(c, name, sizeof(name)));
	deadline_ns = loop_now(loop_of(c)) + ANEW_NS;
	rc = boot_send_await(c->boot, &m, deadline_ns);
	while (rc == 0 && !c->closing && c->welcome && c->attachments == attachments)
		if (co_park_await(deadline_ns))
			rc = -KV_ETIMEOUT;
	return rc;
}

static bool drained_read(struct kvs_server *s, struct kv_drained *out)
{
	bool known;
	pthread_mutex_lock(&s->lock);
	*out = s->life.drained;
	known = s->life.drained_known;
	pthread_mutex_unlock(&s->lock);
	return known;
}

static int goodbye_await(struct conn *c)
{
	const struct wire_ctrl_msg goodbye = {.type = WIRE_CTRL_GOODBYE};
	struct wire_ctrl_msg done = {.type = WIRE_CTRL_DRAIN_DONE};
	uint64_t deadline_ns = loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull;
	int rc = 0;
	c->goodbye_sent = true;
	if (c->drain_asked && drained_read(c->server, &done.drained))
		rc = boot_send_await(c->boot, &done, deadline_ns);
	return rc ? rc : boot_send_await(c->boot, &goodbye, deadline_ns);
}

/* Send the due message: the server's end, once; the void attachment; or a beat. A client without WELCOME gets beats
 * only: it would relate other messages to its last attachment. */
static int say_await(struct conn *c)
{
	int rc = 0;
	if (c->welcome && c->server->life.stop_asked && !c->goodbye_sent)
		rc = silence_count(c, goodbye_await(c));
	if (rc)
		return rc;
	if (c->welcome && atomic_load(&c->now->anew))
		return anew_await(c);
	if (c->welcome && c->follow.due)
		return c->follow.answer_await(c);
	return beat_await(c);
}

static bool news(const struct conn *c)
{
	return c->welcome &&
	       ((c->server->life.stop_asked && !c->goodbye_sent) || atomic_load(&c->now->anew) || c->follow.due);
}

static void beat_run(void *arg)
{
	struct conn *c = arg;
	bool failed = false;
	c->beats.co = co_self();
	do
		failed = !c->closing && say_await(c) != 0;
	while (!failed && !c->closing && news(c));
	c->lost |= failed;
	if (failed)
		boot_shutdown(c->boot); /* the reader ends */
	if (conn_over(c) && c->now && c->now->pending)
		attachment_stop_await(c->now);
	c->beats.co = NULL;
	c->beats.sending = false;
	if (conn_over(c)) {
		co_wake(c->reader);
		return;
	}
	beat_by(c, quiet_end(c));
}

static void beat_now(struct conn *c)
{
	if (c->beats.sending)
		return;
	loop_timer_cancel(loop_of(c), &c->beats.timer);
	c->beats.sending = true;
	if (co_spawn(loop_of(c), beat_run, c, "heartbeat") == 0)
		return;
	c->beats.sending = false;
	loop_timer_arm(loop_of(c), &c->beats.timer, loop_now(loop_of(c)) + BEAT_AGAIN_NS);
}

void conn_say(struct conn *c)
{
	if (c->beats.on)
		beat_now(c);
}

/* A beat is due. If the loop is late for it, all its clients wait that long. */
static void beat_due(struct loop_timer *t)
{
	struct conn *c = KV_CONTAINER(t, struct conn, beats.timer);
	control_max(c->server, WIRE_STAT_HEARTBEAT_LATE_MAX_NS, loop_now(loop_of(c)) - c->beats.due_ns);
	beat_now(c);
}

void conn_beats_begin(struct conn *c)
{
	if (c->beats.on)
		return;
	c->beats.due_ns = loop_now(loop_of(c));
	c->beats.on = true;
	beat_now(c);
}

void conn_busy(struct conn *c, bool busy)
{
	c->busy = busy;
	if (busy)
		beat_sooner(c, loop_now(loop_of(c)) + beat_ns(c));
}

int conn_answer_await(struct conn *c)
{
	int rc;
	if (!c->beats.on || c->beats.sending) /* the message being sent is enough */
		return 0;
	rc = beat_await(c);
	if (!c->beats.sending)
		beat_by(c, quiet_end(c));
	return rc;
}

void conns_news(struct kvs_server *s)
{
	uint64_t now_ns = loop_now(s->control);
	KV_LIST_EACH (n, &s->clients.conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (view_is_news(c)) /* spread over several turns, and so are the questions */
			beat_sooner(c, now_ns + kv_prng_below(loop_prng(s->control), beat_ns(c)));
	}
}

void conn_welcomed(struct conn *c)
{
	c->welcome = true;
	c->beats.quiet_ms = 0; /* heartbeat_ms applies again, until a heartbeat announces another time */
	if (!c->beats.on)
		conn_beats_begin(c);
	else if (news(c))
		beat_now(c);
}

void conn_beats_init(struct conn *c)
{
	c->beats.timer.fire = beat_due;
}

void conn_beats_end_await(struct conn *c)
{
	c->beats.on = false;
	loop_timer_cancel(loop_of(c), &c->beats.timer);
	while (c->beats.sending) {
		if (c->beats.co)
			co_wake(c->beats.co);
		co_park_await(KV_NEVER);
	}
}

/* ---- the end ---- */

/* Ends an attachment while the connection lives on, and keeps the connection until then. */
static void end_run(void *arg)
{
	struct attachment *a = arg;
	struct conn *c = a->conn;
	a->client_gone = c->closing;
	attachment_end_await(a);
	c->ending--;
	co_wake(c->reader);
}

void conn_retire_await(struct conn *c)
{
	struct attachment *a = c->now;
	c->now = NULL;
	c->welcome = false;
	if (c->beats.co)
		co_wake(c->beats.co); /* it may wait for this */
	if (!a)
		return;
	further_fini(a);
	local_withdraw(&a->offer);
	c->ending++;
	if (c->closing || co_spawn(loop_of(c), end_run, a, "attachment end") != 0)
		end_run(a);
}

void conn_knocked(struct conn *c)
{
	struct kvs_server *s = c->server;
	if (!c->knocking)
		return;
	c->knocking = false;
	kv_list_del(&c->knock);
	strangers_change(s, -1);
	co_queue_wake_one(&s->strangers.place_free);
}

void conn_cut(struct conn *c)
{
	c->closing = true;
	if (c->boot)
		boot_shutdown(c->boot);
	else if (c->fd >= 0)
		io_shutdown(loop_of(c), c->fd);
	if (!c->boot && c->talking && c->reader)
		co_wake(c->reader); /* it may wait for its turn to compute */
	if (c->beats.co)
		co_wake(c->beats.co); /* it may be giving the client time */
	if (c->beats.on)
		beat_now(c); /* the reader may wait for the shards, or for an attachment's end */
}

void conns_cut(struct kvs_server *s)
{
	KV_LIST_EACH (n, &s->clients.conns)
		conn_cut(KV_LIST_ENTRY(n, struct conn, node));
}

void conns_goodbye(struct kvs_server *s)
{
	KV_LIST_EACH (n, &s->clients.conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (c->beats.on && !c->closing)
			beat_now(c);
	}
}

static void anew_say(struct conn *c)
{
	if (c->welcome && atomic_load(&c->now->anew)) /* else the first beat notices it */
		beat_now(c);
}

void conn_anew(struct conn *c)
{
	atomic_store(&c->now->anew, true);
	anew_say(c);
}

void conns_anew(struct kvs_server *s, bool all)
{
	KV_LIST_EACH (n, &s->clients.conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (!c->now || c->closing)
			continue;
		if (all)
			atomic_store(&c->now->anew, true);
		anew_say(c);
	}
}
