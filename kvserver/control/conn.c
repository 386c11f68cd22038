/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a client's control connection, from accept to the last shard's goodbye.
 *
 * HANDSHAKE --HELLO, WELCOME (hello.c)--> SERVING [--HELLO, WELCOME--> SERVING ...] --> freed
 *
 * What WELCOME gives is an attachment (attachment.c), which the next HELLO ends; the connection outlives it. When the
 * connection ends, for whatever reason, so does the attachment in use, and the connection's memory stays until all that
 * it had are gone.
 *
 * One coroutine reads it, from the TLS handshake on. Heartbeats have a timer, and a coroutine only while one is sent: a
 * connection that is admitted costs one coroutine, so that twenty thousand of them fit (server.c: loops_make), also
 * where a stack and its guard are two mappings of the 65,530 that a process may have. A beat for which there is no
 * coroutine is made up for a moment later, and an attachment that ends with none to be had is waited for by the reader.
 *
 * A shard answers REVOKE and GOODBYE when transfers are over, and those of a client that died then may never be. While
 * the reader waits it does not see that the client is gone; the heartbeats do, and have the shards stop the session
 * (attachment_stop_await), so that the quarantine budget ends the transfers, and with them the wait. Every other wait
 * of the reader looks at conn_over.
 *
 * Further sessions are logical.c's.
 * An attachment that has become void without the client's doing (an endpoint was rebuilt; a write or a reply to the
 * client failed, which it waits for) ends with ADDRESS: the client says HELLO again and makes its calls again. One that
 * does not is cut. The server judges a client by its TCP connection (TCP_USER_TIMEOUT), not by its heartbeats: a
 * host may be busy. */
#include "kvserver/control/conn.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#define BEAT_AGAIN_NS 10000000ull /* after no coroutine was to be had for a beat */

static struct loop *loop_of(const struct conn *c)
{
	return c->server->control;
}

const char *conn_name(const struct conn *c, char *buf, size_t cap)
{
	return kv_sockaddr_format(&c->peer, buf, cap);
}

/* ---- what shards are asked ---- */

static struct attachment_call *of(struct call *call)
{
	return KV_CONTAINER(call, struct attachment_call, call);
}

static void run_idle(struct call *call)
{
	session_when_idle(of(call)->session, call);
}

static void run_readdress(struct call *call)
{
	struct attachment *a = of(call)->attachment;

	call_finish(call, session_readdress(of(call)->session, a->addr, a->rails, &of(call)->error));
}

static void run_region(struct call *call)
{
	call_finish(call, session_region_add(of(call)->session, of(call)->attachment->region));
}

static void run_revoke(struct call *call)
{
	session_region_revoke(of(call)->session, of(call)->attachment->region_id, call);
}

static void run_arena(struct call *call)
{
	call_finish(call, shard_arena_keys(call->shard, &of(call)->arena_keys));
}

/* ---- messages ---- */

bool log_allowed(struct kvs_server *s)
{
	uint64_t now_ns = loop_now(s->control);

	if (now_ns - s->logs_from_ns >= 1000000000ull) {
		if (s->logs_dropped)
			kv_warn(s->opt.log,
				"%" PRIu64 " more sentences about clients that were not let in are left out",
				s->logs_dropped);
		s->logs_from_ns = now_ns;
		s->logs = 0;
		s->logs_dropped = 0;
	}
	if (s->logs < LOGS_PER_SECOND) {
		s->logs++;
		return true;
	}
	s->logs_dropped++;
	return false;
}

/* A client that does not read its control connection is known by a send that does not end. */
static int sent(struct conn *c, int rc)
{
	if (rc == -KV_ETIMEOUT)
		control_count(c->server, WIRE_STAT_SILENT_CLIENTS);
	return rc;
}

int conn_send_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	return sent(c, boot_send_await(c->boot, m, loop_now(loop_of(c)) + HANDSHAKE_NS));
}

static int send_status_await(struct conn *c, enum wire_ctrl type, uint32_t id, int rc)
{
	struct wire_ctrl_msg m = {.type = type,
				  .region_ok = {.id = id, .status = rc ? wire_error_status(rc) : WIRE_OK}};

	return conn_send_await(c, &m);
}

/* ---- an open connection ---- */

static int on_region_await(struct conn *c, const struct wire_region *w)
{
	struct attachment *a = c->now;
	struct region *r = NULL;
	uint32_t id = w->id;
	int rc = -KV_EEXIST;

	if (!attachment_region_find(a, id))
		rc = region_create(w, a->rails, &r);
	if (rc == 0 && (a->region_count == REGIONS_MAX || a->region_keys + r->keys > REGION_KEYS_MAX)) {
		free(r);
		rc = -KV_ELIMIT;
	}
	if (rc && rc != -KV_ENOMEM)
		control_count(c->server, WIRE_STAT_BAD_CONTROL);
	if (rc)
		return send_status_await(c, WIRE_CTRL_REGION_OK, id, rc);
	attachment_region_add(a, r);
	a->region = r;
	rc = attachment_all_await(a, run_region, NULL);
	if (rc) {
		a->region_id = id;
		attachment_all_await(a, run_revoke, NULL);
		attachment_region_forget(a, r);
	}
	return send_status_await(c, WIRE_CTRL_REGION_OK, id, rc);
}

static int on_revoke_await(struct conn *c, uint32_t id)
{
	struct attachment *a = c->now;
	struct region *r = attachment_region_find(a, id);

	if (r) {
		a->region_id = id;
		attachment_all_await(a, run_revoke, NULL);
		attachment_region_forget(a, r);
	}
	return send_status_await(c, WIRE_CTRL_REVOKE_OK, id, 0);
}

static int on_address_await(struct conn *c, const struct wire_address *w)
{
	struct attachment *a = c->now;
	uint32_t epoch = w->epoch;
	int rc = -KV_EINVAL;

	if (w->rails == a->rails) {
		attachment_addresses(a, w->addr, w->rails);
		rc = attachment_all_await(a, run_readdress, NULL);
	}
	if (rc == -KV_EINVAL)
		control_count(c->server, WIRE_STAT_BAD_CONTROL);
	return send_status_await(c, WIRE_CTRL_ADDRESS_OK, epoch, rc);
}

static int arenas_send_await(struct conn *c)
{
	const struct kvs_server *s = c->server;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		const struct te_remote *a = &shard->arena;
		struct wire_ctrl_msg m = {.type = WIRE_CTRL_ARENA,
					  .region = {.id = i,
						     .rails = a->rails,
						     .parts = a->parts,
						     .virt = a->virt,
						     .write_emulated = shard->info.write_emulated,
						     .read_emulated = shard->info.read_emulated,
						     .len_bytes = a->len_bytes,
						     .part_bytes = a->part_bytes,
						     .keys = c->now->call[i].arena_keys}};
		rc = conn_send_await(c, &m);
	}
	return rc;
}

/* What the client needs to read our memory. */
static int on_arenas_await(struct conn *c)
{
	int rc = c->server->opt.allow_pull ? attachment_all_await(c->now, run_arena, NULL) : -KV_EPROTO;

	if (rc == 0)
		rc = arenas_send_await(c);
	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		free(c->now->call[i].arena_keys);
		c->now->call[i].arena_keys = NULL;
	}
	return rc;
}

static int on_goodbye_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE_OK};

	c->parting = true;
	attachment_all_await(c->now, run_idle, NULL);
	return conn_send_await(c, &m);
}

/* One message. Returns 0, 1 when the client is done, or why the connection ends. */
static int message_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
	case WIRE_CTRL_HELLO:
		return c->parting ? -KV_EPROTO : hello_again_await(c, &m->hello);
	case WIRE_CTRL_REGION:
		return on_region_await(c, &m->region);
	case WIRE_CTRL_REVOKE:
		return on_revoke_await(c, m->region_ok.id);
	case WIRE_CTRL_ADDRESS:
		return on_address_await(c, &m->address);
	case WIRE_CTRL_HEARTBEAT:
		return 0;
	case WIRE_CTRL_GOODBYE:
		return on_goodbye_await(c);
	case WIRE_CTRL_ARENAS:
		return on_arenas_await(c);
	case WIRE_CTRL_GOODBYE_DONE:
		return 1;
	case WIRE_CTRL_SESSION_BEGIN:
	case WIRE_CTRL_SESSION_OPEN:
	case WIRE_CTRL_SESSION_CLOSE:
		return further_message_await(c, m);
	default:
		return -KV_EPROTO;
	}
}

static int serve_await(struct conn *c)
{
	struct wire_ctrl_msg m = {0};
	int rc;

	do {
		rc = boot_recv_await(c->boot, &m, KV_NEVER);
		if (rc == 0)
			rc = message_await(c, &m);
		if (m.type == WIRE_CTRL_HELLO)
			explicit_bzero(m.hello.prior.token, sizeof(m.hello.prior.token));
	} while (rc == 0 && !c->closing);
	return rc;
}

/* ---- heartbeats ---- */

static int beat_await(struct conn *c, uint64_t sequence)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HEARTBEAT,
				  .heartbeat = {.sequence = sequence, .shards = (uint16_t)c->server->opt.shards}};

	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		if (c->now)
			m.heartbeat.received += atomic_load_explicit(&c->now->call[i].received, memory_order_relaxed);
		m.heartbeat.turns[i] = loop_turns(c->server->shard_loop[i]);
	}
	return sent(c, boot_send_await(c->boot, &m, loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull));
}

/* Tell the client that its attachment is void, and give it time to say HELLO again, or to go. */
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
	kv_info(c->server->opt.log, "client %s shall begin a new session", conn_name(c, name, sizeof(name)));
	deadline_ns = loop_now(loop_of(c)) + ANEW_NS;
	rc = boot_send_await(c->boot, &m, deadline_ns);
	while (rc == 0 && !c->closing && c->welcome && c->attachments == attachments)
		if (co_park_await(deadline_ns))
			rc = -KV_ETIMEOUT;
	return rc;
}

/* What is to be said: that the server ends, once; that the session is void; or a beat. Of an attachment whose client
 * has no WELCOME yet nothing is said but beats: it would take the rest for its last one's. */
static int say_await(struct conn *c, uint64_t sequence)
{
	const struct wire_ctrl_msg goodbye = {.type = WIRE_CTRL_GOODBYE};
	int rc = 0;

	if (c->welcome && c->server->stop_asked && !c->told) {
		c->told = true;
		rc = sent(c, boot_send_await(c->boot, &goodbye, loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull));
	}
	if (rc)
		return rc;
	return c->welcome && atomic_load(&c->now->anew) ? anew_await(c) : beat_await(c, sequence);
}

/* Whether something is to be said that cannot wait for the next beat. */
static bool news(const struct conn *c)
{
	return c->welcome && ((c->server->stop_asked && !c->told) || atomic_load(&c->now->anew));
}

static void beat_run(void *arg)
{
	struct conn *c = arg;
	bool failed = false;

	c->beater = co_self();
	do
		failed = !c->closing && say_await(c, ++c->beats) != 0;
	while (!failed && !c->closing && news(c));
	c->lost |= failed;
	if (failed)
		boot_shutdown(c->boot); /* the reader ends */
	if (conn_over(c) && c->now && c->now->pending)
		attachment_stop_await(c->now);
	c->beater = NULL;
	c->beating = false;
	if (conn_over(c)) {
		co_wake(c->reader);
		return;
	}
	c->due_ns = loop_now(loop_of(c)) + c->server->opt.heartbeat_ms * 1000000ull;
	loop_timer_arm(loop_of(c), &c->timer, c->due_ns);
}

/* Have it said now what is to be said, unless it is being said. */
static void beat_now(struct conn *c)
{
	if (c->beating)
		return;
	loop_timer_cancel(loop_of(c), &c->timer);
	c->beating = true;
	if (co_spawn(loop_of(c), beat_run, c, "heartbeat") == 0)
		return;
	c->beating = false;
	loop_timer_arm(loop_of(c), &c->timer, loop_now(loop_of(c)) + BEAT_AGAIN_NS);
}

void conn_beats_begin(struct conn *c)
{
	if (c->serving)
		return;
	c->due_ns = loop_now(loop_of(c));
	c->serving = true;
	beat_now(c);
}

void conn_welcomed(struct conn *c)
{
	c->welcome = true;
	if (!c->serving)
		conn_beats_begin(c);
	else if (news(c))
		beat_now(c);
}

/* A beat is due. How late this loop is then is what all who wait for it share. */
static void beat_due(struct loop_timer *t)
{
	struct conn *c = KV_CONTAINER(t, struct conn, timer);

	control_max(c->server, WIRE_STAT_HEARTBEAT_LATE_MAX_NS, loop_now(loop_of(c)) - c->due_ns);
	beat_now(c);
}

/* No further one begins. */
static void beats_end_await(struct conn *c)
{
	c->serving = false;
	loop_timer_cancel(loop_of(c), &c->timer);
	while (c->beating) {
		if (c->beater)
			co_wake(c->beater);
		co_park_await(KV_NEVER);
	}
}

/* ---- the end ---- */

/* Beside the connection, which stays until this has ended. */
static void end_run(void *arg)
{
	struct attachment *a = arg;
	struct conn *c = a->conn;

	attachment_end_await(a);
	c->ending--;
	co_wake(c->reader);
}

void conn_retire_await(struct conn *c)
{
	struct attachment *a = c->now;

	c->now = NULL;
	c->welcome = false;
	if (c->beater)
		co_wake(c->beater); /* it may wait for this */
	if (!a)
		return;
	further_fini(a);
	c->ending++;
	if (c->closing || co_spawn(loop_of(c), end_run, a, "attachment end") != 0)
		end_run(a);
}

/* Everything stops using the connection, then it goes. */
static void close_await(struct conn *c)
{
	struct kvs_server *s = c->server;

	c->closing = true;
	if (c->boot)
		boot_shutdown(c->boot);
	beats_end_await(c);
	if (c->admitted) {
		s->open--;
		s->clients--;
		c->admitted = false;
		server_changed(s);
	}
	conn_retire_await(c);
	while (c->ending)
		co_park_await(KV_NEVER);
	boot_close(&c->boot);
	kv_list_del(&c->node);
	free(c);
	server_changed(s);
}

static void handshakes_show(struct kvs_server *s)
{
	control_set(s, WIRE_STAT_HANDSHAKES_NOW, s->handshakes);
}

void conn_knocked(struct conn *c)
{
	struct kvs_server *s = c->server;

	if (!c->knocking)
		return;
	c->knocking = false;
	kv_list_del(&c->knock);
	s->handshakes--;
	handshakes_show(s);
	co_queue_wake_one(&s->handshake_free);
}

/* How it went, for the counters. */
static void handshake_over(struct conn *c, int rc)
{
	struct kvs_server *s = c->server;

	conn_knocked(c);
	if (c->cut)
		control_count(s, WIRE_STAT_HANDSHAKES_CUT);
	else if (rc == -KV_ETIMEOUT)
		control_count(s, WIRE_STAT_HANDSHAKES_TIMED_OUT);
	else if (rc && !s->stop_asked)
		control_count(s, WIRE_STAT_HANDSHAKES_REFUSED);
	if (rc == -KV_EPROTO)
		control_count(s, WIRE_STAT_BAD_CONTROL);
}

/* Until the client says something: nothing is spent on it before. */
static int first_bytes_await(struct conn *c)
{
	int rc = io_poll_await(c->fd, POLLIN | POLLRDHUP, c->accepted_ns + HANDSHAKE_NS);

	if (rc < 0)
		return rc;
	if (c->closing) /* cut: nothing is begun, so it takes nobody's turn */
		return -KV_ECANCELED;
	if (rc & (POLLERR | POLLHUP | POLLRDHUP)) /* nor does one that has left */
		return -KV_EPEERDOWN;
	c->talking = true;
	rc = handshake_rate_await(c->server, c->fd);
	return c->closing ? -KV_ECANCELED : rc;
}

/* TLS and hello. */
static int open_await(struct conn *c)
{
	struct kvs_server *s = c->server;
	struct kv_error err = {0};
	char name[KV_HOST_MAX];
	int rc = first_bytes_await(c);

	if (rc) {
		io_close(s->control, c->fd);
		c->fd = -1;
		return rc;
	}
	rc = boot_accept_await(s->boot, c->fd, &c->peer, USER_TIMEOUT_MS, c->accepted_ns + HANDSHAKE_NS, &c->boot,
			       &err);
	c->fd = -1;
	if (rc && !c->cut && log_allowed(s))
		kv_warn(s->opt.log, "client %s is not let in: %s", conn_name(c, name, sizeof(name)), err.text);
	return rc ? rc : hello_first_await(c);
}

static void conn_run(void *arg)
{
	struct conn *c = arg;
	char name[KV_HOST_MAX];
	int rc;

	c->reader = co_self();
	rc = open_await(c);
	handshake_over(c, rc);
	if (rc == 0 && !c->closing) {
		rc = serve_await(c);
		if (rc == -KV_EPROTO)
			control_count(c->server, WIRE_STAT_BAD_CONTROL);
		if (rc < 0 && rc != -KV_EPEERDOWN)
			kv_warn(c->server->opt.log, "client %s: control connection: %s",
				conn_name(c, name, sizeof(name)), kv_strerror(rc));
		kv_info(c->server->opt.log, "client %s left%s", conn_name(c, name, sizeof(name)),
			rc == 1 ? "" : " without a goodbye");
	}
	close_await(c);
}

int conn_spawn(struct kvs_server *s, int fd, const struct sockaddr_storage *peer)
{
	struct conn *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		io_close(s->control, fd);
		return -KV_ENOMEM;
	}
	c->server = s;
	c->fd = fd;
	c->peer = *peer;
	c->source = kv_sockaddr_source(peer);
	c->accepted_ns = loop_now(s->control);
	c->timer.fire = beat_due;
	c->hellos = (struct bucket){.tokens = CONN_HELLOS_BURST, .filled_ns = c->accepted_ns};
	kv_list_add_tail(&s->conns, &c->node);
	kv_list_add_tail(&s->knocking, &c->knock);
	c->knocking = true;
	s->handshakes++;
	handshakes_show(s);
	rc = co_spawn(s->control, conn_run, c, "connection");
	if (rc) {
		s->handshakes--;
		handshakes_show(s);
		kv_list_del(&c->node);
		kv_list_del(&c->knock);
		io_close(s->control, fd);
		free(c);
	}
	return rc;
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
	if (c->beater)
		co_wake(c->beater); /* it may give the client time */
	if (c->serving)
		beat_now(c); /* the reader may wait for the shards, or for an attachment's end */
}

void conns_cut(struct kvs_server *s)
{
	KV_LIST_EACH (n, &s->conns)
		conn_cut(KV_LIST_ENTRY(n, struct conn, node));
}

/* It leaves the list, and gives its place back when its coroutine ends. */
static void place_take(struct conn *c)
{
	kv_list_del(&c->knock);
	c->cut = true;
	conn_cut(c);
}

/* The oldest of those who talk, or of those who do not, if it is older than `age_ns`. */
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

/* The only source that may hold more than half of the places: each of it and one of another leave together, and it is
 * left over (Boyer and Moore). *out: how many it holds. */
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

/* A source that holds more than half of the places loses one of them. Which one is drawn by lot: the oldest are those
 * that will be done soonest, and the newest may be an honest client behind the same address. */
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

void conns_cut_handshake(struct kvs_server *s)
{
	if (!handshake_cut(s, false, HANDSHAKE_SILENCE_NS) && !handshake_cut(s, true, HANDSHAKE_PATIENCE_NS))
		crowd_cut(s);
}

void conns_goodbye(struct kvs_server *s)
{
	KV_LIST_EACH (n, &s->conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (c->serving && !c->closing)
			beat_now(c);
	}
}

void conns_anew(struct kvs_server *s, bool all)
{
	KV_LIST_EACH (n, &s->conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (!c->now || c->closing)
			continue;
		if (all)
			atomic_store(&c->now->anew, true);
		if (c->welcome && atomic_load(&c->now->anew)) /* else it is seen with the first beat */
			beat_now(c);
	}
}
