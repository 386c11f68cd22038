/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c -- a client's control connection, from accept to the last shard's goodbye.
 *
 * One coroutine reads it, from the TLS handshake on. Heartbeats have a timer, and a coroutine only while one is sent: a
 * connection that is admitted costs one coroutine, so that twenty thousand of them fit (server.c: loops_make), also where a
 * stack and its guard are two mappings of the 65,530 that a process may have. A beat for which there is no coroutine is made
 * up for a moment later. HANDSHAKE -> OPEN -> freed:
 * hello, checked; a session on every shard; WELCOME only when all shards have inserted the client's addresses; then
 * regions, addresses, goodbye; when the connection ends, for whatever reason, the session ends on every shard, and the
 * connection's memory stays until each has said that nothing is left.
 *
 * Work for the shards goes out to all of them at once and the reader waits for all answers (conn_all_await), so a client
 * sees its messages answered in order, and no two pieces of control work of one client ever overlap. What a call needs
 * is in the connection and is not touched while calls are pending.
 *
 * A shard answers REVOKE and GOODBYE when transfers are over, and those of a client that died then may never be. While
 * the reader waits it does not see that the client is gone; the heartbeats do, and have the shards stop the session
 * (stop_await), so that the quarantine budget ends the transfers, and with them the wait.
 *
 * Further sessions on the connection are further.c's.
 * Regions are made here once, shared read-only by the shards, and freed here after all shards have let go.
 * A session that has become void without the client's doing (an endpoint was rebuilt; a write or a reply to the
 * client failed, which it waits for) ends with ADDRESS: the client makes a new one and its calls again. One that
 * does not go is cut. The server judges a client by its TCP connection (TCP_USER_TIMEOUT), not by its heartbeats: a
 * host may be busy. */
#include "kvserver/conn.h"

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

/* ---- calls to all shards ---- */

static struct conn_call *of(struct call *call)
{
	return KV_CONTAINER(call, struct conn_call, call);
}

static void answered(struct call *call)
{
	struct conn *c = of(call)->conn;

	if (--c->pending == 0)
		co_wake(c->reader);
}

int conn_all_await(struct conn *c, void (*run)(struct call *call), struct kv_error *err)
{
	unsigned shards = c->server->opt.shards;

	c->pending = shards;
	for (unsigned i = 0; i < shards; i++) {
		struct call *call = &c->call[i].call;
		*call = (struct call){.shard = c->server->shard[i], .run = run, .done = answered};
		c->call[i].error.text[0] = 0;
		while (call_make(call, loop_of(c)) != 0)
			co_sleep_await(loop_now(loop_of(c)) + 1000000);
	}
	while (c->pending)
		co_park_await(KV_NEVER);
	for (unsigned i = 0; i < shards; i++)
		if (c->call[i].call.status)
			return kv_fail(err, c->call[i].call.status, "shard %u: %s", i,
				       c->call[i].error.text[0] ? c->call[i].error.text
								: kv_strerror(c->call[i].call.status));
	return 0;
}

static void run_open(struct call *call)
{
	struct conn_call *cc = of(call);
	struct conn *c = cc->conn;
	struct session_args args = {.number = c->number,
				    .mark = c->mark,
				    .frame_secret = c->frame_secret,
				    .client_id = c->client_id,
				    .addrs = c->addr,
				    .rails = c->rails,
				    .received = &cc->received,
				    .anew = &c->anew};
	int rc;

	rc = session_open(call->shard, &args, &cc->session, &cc->error);
	for (unsigned i = 0; rc == 0 && i < call->shard->info.rails; i++)
		rc = te_address(call->shard->te, i, &cc->addr[i]);
	call_finish(call, rc);
}

static void run_close(struct call *call)
{
	struct session *session = of(call)->session;

	of(call)->session = NULL;
	if (session)
		session_end(session, call);
	else
		call_finish(call, 0);
}

/* The session is written by its shard only, so it is asked for there. */
static void run_stop(struct call *call)
{
	struct session *session = KV_CONTAINER(call, struct conn_call, stop)->session;

	if (session)
		session_stop(session);
	call_finish(call, 0);
}

static void run_idle(struct call *call)
{
	session_when_idle(of(call)->session, call);
}

static void run_readdress(struct call *call)
{
	struct conn *c = of(call)->conn;

	call_finish(call, session_readdress(of(call)->session, c->addr, c->rails, &of(call)->error));
}

static void run_region(struct call *call)
{
	call_finish(call, session_region_add(of(call)->session, of(call)->conn->region));
}

static void run_revoke(struct call *call)
{
	session_region_revoke(of(call)->session, of(call)->conn->region_id, call);
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
			kv_warn(s->opt.log, "%" PRIu64 " more sentences about clients that were not let in are left out",
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

static void refuse_await(struct conn *c, int rc, const char *text)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REFUSE, .refuse.status = wire_error_status(rc)};
	char name[KV_HOST_MAX];

	if (log_allowed(c->server))
		kv_warn(c->server->opt.log, "client %s is refused: %s", conn_name(c, name, sizeof(name)), text);
	snprintf(m.refuse.text, sizeof(m.refuse.text), "%s", text);
	conn_send_await(c, &m);
}

/* ---- hello ---- */

static int slot_take(struct kvs_server *s, uint32_t *out_number)
{
	for (unsigned i = 0; i < s->slot_count; i++) {
		unsigned at = (s->slot_next + i) % s->slot_count;
		struct slot *slot = &s->slots[at];
		if (slot->used)
			continue;
		slot->used = true;
		slot->generation = slot->generation == UINT16_MAX ? 1 : slot->generation + 1;
		s->slot_next = at + 1;
		*out_number = (uint32_t)slot->generation << 16 | at;
		return (int)at;
	}
	return -1;
}

static int hello_check(const struct conn *c, const struct wire_hello *h, struct kv_error *err)
{
	struct boot_identity theirs = {.eager_bytes = h->eager_bytes};

	if (h->rails == 0 || h->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EPROTO, "hello with %u rails; there are 1 to %d", h->rails, KV_RAILS_MAX);
	snprintf(theirs.provider, sizeof(theirs.provider), "%s", h->provider);
	snprintf(theirs.fabric, sizeof(theirs.fabric), "%s", h->fabric);
	return boot_hello_check(&c->server->identity, "server", &theirs, "client", err);
}

static int admit(struct conn *c, struct kv_error *err)
{
	struct kvs_server *s = c->server;
	int rc;

	if (s->stop_asked)
		return kv_fail(err, -KV_ECLOSED, "the server is shutting down");
	if (s->open >= s->opt.max_clients)
		return kv_fail(err, -KV_EFULL, "the server has %u clients, as many as --max-clients allows", s->open);
	if (s->clients >= s->files.clients)
		return kv_fail(err, -KV_EFULL,
			       "the server has %u clients, as many as its limit of %" PRIu64 " open files has room for; for "
			       "--max-clients it takes ulimit -n %" PRIu64,
			       s->clients, s->files.limit, s->files.wanted);
	if (s->clients >= s->clients_max)
		return kv_fail(err, -KV_EFULL,
			       "the server has %u clients, as many as its address space has room for: raise its limit (ulimit -v)", s->clients);
	c->call = calloc(s->opt.shards, sizeof(c->call[0]));
	if (!c->call)
		return kv_fail(err, -KV_ENOMEM, "the server has no memory for another client");
	for (unsigned i = 0; i < s->opt.shards; i++)
		c->call[i].conn = c;
	rc = kv_entropy_fill(s->opt.entropy, c->token, sizeof(c->token));
	if (rc)
		return kv_fail(err, rc, "no entropy for a session token: %s", kv_strerror(rc));
	rc = boot_frame_secret(c->boot, c->token, c->frame_secret);
	if (rc)
		return kv_fail(err, rc, "no keys for the frames of a session: %s", kv_strerror(rc));
	c->slot = slot_take(s, &c->number);
	if (c->slot < 0)
		return kv_fail(err, -KV_EFULL, "sessions of earlier clients still have transfers in flight; try again");
	c->admitted = true;
	s->open++;
	s->clients++;
	return 0;
}

static void addresses_copy(struct conn *c, const struct wire_blob_addr *addr, unsigned rails)
{
	c->rails = rails;
	for (unsigned i = 0; i < rails; i++) {
		c->addr[i].len = addr[i].len;
		memcpy(c->addr[i].data, addr[i].data, addr[i].len);
	}
}

static int addresses_pack(const struct conn *c, uint8_t *buf, size_t cap, uint32_t *len)
{
	int rc = 0;

	for (unsigned i = 0; i < c->server->opt.shards; i++)
		for (unsigned k = 0; rc == 0 && k < c->server->shard[i]->info.rails; k++)
			rc = wire_addr_pack(buf, cap, len, c->call[i].addr[k].data, c->call[i].addr[k].len);
	return rc;
}

static int welcome_await(struct conn *c)
{
	struct kvs_server *s = c->server;
	const struct shard *first = s->shard[0];
	size_t cap = (size_t)s->opt.shards * first->info.rails * (KV_ADDR_MAX + 2);
	uint8_t *addrs = malloc(cap);
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_WELCOME};
	struct wire_welcome_msg *w = &m.welcome;
	int rc;

	if (!addrs)
		return -KV_ENOMEM;
	w->version = WIRE_VERSION;
	w->shards = w->loops = (uint16_t)s->opt.shards;
	w->rails = (uint16_t)first->info.rails;
	w->flags = (s->opt.allow_bench ? WIRE_WELCOME_BENCH : 0) | (s->opt.allow_pull ? WIRE_WELCOME_PULL : 0) |
		   (first->info.reads_refused ? WIRE_WELCOME_INLINE_PUT : 0) | WIRE_WELCOME_SESSIONS;
	w->session = c->number;
	w->chunk_bytes = first->info.chunk_bytes;
	w->credits = s->opt.credits;
	w->heartbeat_ms = s->opt.heartbeat_ms;
	w->eager_bytes = first->info.eager_bytes;
	w->incarnation = s->incarnation;
	w->shard_seed = s->shard_seed;
	w->value_max = s->opt.value_max;
	w->addrs = addrs;
	memcpy(w->token, c->token, KV_TOKEN_LEN);
	memcpy(w->host_id, s->host_id, sizeof(w->host_id));
	snprintf(w->node_id, sizeof(w->node_id), "%s", s->node_id);
	rc = addresses_pack(c, addrs, cap, &w->addrs_len);
	if (rc == 0)
		rc = conn_send_await(c, &m);
	explicit_bzero(w->token, KV_TOKEN_LEN);
	free(addrs);
	return rc;
}

/* From the first message to the WELCOME. */
static int hello_await(struct conn *c)
{
	struct wire_ctrl_msg m;
	struct kv_error err = {0};
	char name[KV_HOST_MAX];
	int rc;

	boot_limit(c->boot, HELLO_MAX); /* a place costs no more than that, until we know whose it is */
	rc = boot_recv_await(c->boot, &m, c->accepted_ns + HANDSHAKE_NS);
	if (rc == -KV_EVERSION) {
		refuse_await(
			c, rc,
			"client and server have no protocol version in common; run the same release on both sides");
		return rc;
	}
	if (rc == 0 && m.type != WIRE_CTRL_HELLO)
		rc = -KV_EPROTO;
	if (rc == -KV_EPROTO && log_allowed(c->server))
		kv_warn(c->server->opt.log,
			"client %s is not let in: what it says first is no HELLO; does it have a key or certificates, and this server none (--psk-file, --cert)?",
			conn_name(c, name, sizeof(name)));
	if (rc)
		return rc;
	rc = hello_check(c, &m.hello, &err);
	if (rc == 0)
		rc = admit(c, &err);
	if (rc == 0) {
		c->client_id = m.hello.client_id;
		c->mark = m.hello.mark;
		addresses_copy(c, m.hello.addr, m.hello.rails);
		rc = conn_all_await(c, run_open, &err);
	}
	explicit_bzero(c->frame_secret, sizeof(c->frame_secret));
	if (rc) {
		refuse_await(c, rc, err.text);
		return rc;
	}
	boot_limit(c->boot, UINT_MAX);
	rc = welcome_await(c);
	if (rc) {
		kv_warn(c->server->opt.log, "client %s: no welcome could be sent: %s: %s", conn_name(c, name, sizeof(name)), kv_strerror(rc),
			boot_failure(c->boot));
		return rc;
	}
	kv_info(c->server->opt.log, "client %s (%s, id %" PRIu64 ", %u rails) is session %u",
		conn_name(c, name, sizeof(name)), boot_peer_who(c->boot), c->client_id, c->rails, c->number);
	return rc;
}

/* ---- an open connection ---- */

static struct region *region_find(const struct conn *c, uint32_t id)
{
	KV_LIST_EACH (n, &c->regions) {
		struct region *r = KV_LIST_ENTRY(n, struct region, node);
		if (r->id == id)
			return r;
	}
	return NULL;
}

static void region_forget(struct conn *c, struct region *r)
{
	kv_list_del(&r->node);
	c->region_count--;
	c->region_keys -= r->keys;
	free(r);
}

static int on_region_await(struct conn *c, const struct wire_region *w)
{
	struct region *r = NULL;
	uint32_t id = w->id;
	int rc = -KV_EEXIST;

	if (!region_find(c, id))
		rc = region_create(w, c->rails, &r);
	if (rc == 0 && (c->region_count == REGIONS_MAX || c->region_keys + r->keys > REGION_KEYS_MAX)) {
		free(r);
		rc = -KV_ELIMIT;
	}
	if (rc && rc != -KV_ENOMEM)
		control_count(c->server, WIRE_STAT_BAD_CONTROL);
	if (rc)
		return send_status_await(c, WIRE_CTRL_REGION_OK, id, rc);
	kv_list_add_tail(&c->regions, &r->node);
	c->region_count++;
	c->region_keys += r->keys;
	c->region = r;
	rc = conn_all_await(c, run_region, NULL);
	if (rc) {
		c->region_id = id;
		conn_all_await(c, run_revoke, NULL);
		region_forget(c, r);
	}
	return send_status_await(c, WIRE_CTRL_REGION_OK, id, rc);
}

static int on_revoke_await(struct conn *c, uint32_t id)
{
	struct region *r = region_find(c, id);

	if (r) {
		c->region_id = id;
		conn_all_await(c, run_revoke, NULL);
		region_forget(c, r);
	}
	return send_status_await(c, WIRE_CTRL_REVOKE_OK, id, 0);
}

static int on_address_await(struct conn *c, const struct wire_address *a)
{
	uint32_t epoch = a->epoch;
	int rc = -KV_EINVAL;

	if (a->rails == c->rails) {
		addresses_copy(c, a->addr, a->rails);
		rc = conn_all_await(c, run_readdress, NULL);
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
						     .keys = c->call[i].arena_keys}};
		rc = conn_send_await(c, &m);
	}
	return rc;
}

/* What the client needs to read our memory. */
static int on_arenas_await(struct conn *c)
{
	int rc = c->server->opt.allow_pull ? conn_all_await(c, run_arena, NULL) : -KV_EPROTO;

	if (rc == 0)
		rc = arenas_send_await(c);
	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		free(c->call[i].arena_keys);
		c->call[i].arena_keys = NULL;
	}
	return rc;
}

static int on_goodbye_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE_OK};

	conn_all_await(c, run_idle, NULL);
	return conn_send_await(c, &m);
}

/* One message. Returns 0, 1 when the client is done, or why the connection ends. */
static int message_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
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
	struct wire_ctrl_msg m;
	int rc;

	do {
		rc = boot_recv_await(c->boot, &m, KV_NEVER);
		if (rc == 0)
			rc = message_await(c, &m);
	} while (rc == 0 && !c->closing);
	return rc;
}

/* ---- heartbeats ---- */

static int beat_await(struct conn *c, uint64_t sequence)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HEARTBEAT,
				  .heartbeat = {.sequence = sequence, .shards = (uint16_t)c->server->opt.shards}};

	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		m.heartbeat.received += atomic_load_explicit(&c->call[i].received, memory_order_relaxed);
		m.heartbeat.turns[i] = loop_turns(c->server->shard_loop[i]);
	}
	return sent(c, boot_send_await(c->boot, &m, loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull));
}

/* Tell the client that the session is void, and give it time to go. */
static int anew_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_ADDRESS};
	const struct shard *first = c->server->shard[0];
	uint64_t deadline_ns;
	char name[KV_HOST_MAX];
	int rc;

	m.address.epoch = 1;
	m.address.rails = (uint16_t)first->info.rails;
	for (unsigned i = 0; i < first->info.rails; i++) {
		m.address.addr[i].len = c->call[0].addr[i].len;
		memcpy(m.address.addr[i].data, c->call[0].addr[i].data, c->call[0].addr[i].len);
	}
	kv_info(c->server->opt.log, "client %s shall begin a new session", conn_name(c, name, sizeof(name)));
	deadline_ns = loop_now(loop_of(c)) + ANEW_NS;
	rc = boot_send_await(c->boot, &m, deadline_ns);
	while (rc == 0 && !c->closing)
		if (co_park_await(deadline_ns))
			break;
	return rc ? rc : -KV_ETIMEOUT;
}

static void stopped(struct call *call)
{
	struct conn *c = KV_CONTAINER(call, struct conn_call, stop)->conn;

	if (--c->stopping == 0)
		co_wake(c->beater);
}

/* The client is gone and the reader waits for the shards, who may wait for what the client left in flight. */
static void stop_await(struct conn *c)
{
	unsigned shards = c->server->opt.shards;

	c->stopping = shards;
	for (unsigned i = 0; i < shards; i++) {
		struct call *call = &c->call[i].stop;
		*call = (struct call){.shard = c->server->shard[i], .run = run_stop, .done = stopped};
		while (call_make(call, loop_of(c)) != 0)
			co_sleep_await(loop_now(loop_of(c)) + 1000000);
	}
	while (c->stopping)
		co_park_await(KV_NEVER);
}

/* What is to be said: that the server ends, once; that the session is void; or a beat. */
static int say_await(struct conn *c, uint64_t sequence)
{
	const struct wire_ctrl_msg goodbye = {.type = WIRE_CTRL_GOODBYE};
	int rc = 0;

	if (c->server->stop_asked && !c->told) {
		c->told = true;
		rc = sent(c, boot_send_await(c->boot, &goodbye, loop_now(loop_of(c)) + USER_TIMEOUT_MS * 1000000ull));
	}
	if (rc)
		return rc;
	return atomic_load(&c->anew) ? anew_await(c) : beat_await(c, sequence);
}

/* Whether something is to be said that cannot wait for the next beat. */
static bool news(const struct conn *c)
{
	return (c->server->stop_asked && !c->told) || atomic_load(&c->anew);
}

static void beat_run(void *arg)
{
	struct conn *c = arg;
	bool failed = false;

	c->beater = co_self();
	do
		failed = !c->closing && say_await(c, ++c->beats) != 0;
	while (!failed && !c->closing && news(c));
	if (failed)
		boot_shutdown(c->boot); /* the reader ends */
	if ((failed || c->closing) && c->pending)
		stop_await(c);
	c->beater = NULL;
	c->beating = false;
	if (failed || c->closing) {
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
	loop_timer_cancel(loop_of(c), &c->timer);
	while (c->beating) {
		if (c->beater)
			co_wake(c->beater);
		co_park_await(KV_NEVER);
	}
}

/* ---- the end ---- */

static void regions_free(struct conn *c)
{
	while (!kv_list_empty(&c->regions))
		region_forget(c, KV_LIST_ENTRY(c->regions.next, struct region, node));
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
		server_changed(s);
		conn_all_await(c, run_close, NULL);
	}
	further_fini(c);
	regions_free(c);
	if (c->slot >= 0)
		s->slots[c->slot].used = false;
	boot_close(&c->boot);
	kv_list_del(&c->node);
	free(c->call);
	explicit_bzero(c->token, KV_TOKEN_LEN);
	free(c);
	server_changed(s);
}

static void handshakes_show(struct kvs_server *s)
{
	control_set(s, WIRE_STAT_HANDSHAKES_NOW, s->handshakes);
}

/* How it went, for the counters. */
static void handshake_over(struct conn *c, int rc)
{
	struct kvs_server *s = c->server;

	kv_list_del(&c->knock);
	s->handshakes--;
	handshakes_show(s);
	co_queue_wake_one(&s->handshake_free);
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
	return rc ? rc : hello_await(c);
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
		c->due_ns = loop_now(loop_of(c));
		c->serving = true;
		beat_now(c);
		rc = serve_await(c);
		if (rc == -KV_EPROTO)
			control_count(c->server, WIRE_STAT_BAD_CONTROL);
		if (rc < 0 && rc != -KV_EPEERDOWN)
			kv_warn(c->server->opt.log, "client %s: control connection: %s", conn_name(c, name, sizeof(name)),
				kv_strerror(rc));
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
	c->slot = -1;
	c->peer = *peer;
	c->source = kv_sockaddr_source(peer);
	c->accepted_ns = loop_now(s->control);
	c->timer.fire = beat_due;
	kv_list_init(&c->regions);
	kv_list_add_tail(&s->conns, &c->node);
	kv_list_add_tail(&s->knocking, &c->knock);
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

static void cut(struct conn *c)
{
	c->closing = true;
	if (c->boot)
		boot_shutdown(c->boot);
	else if (c->fd >= 0)
		io_shutdown(loop_of(c), c->fd);
	if (!c->boot && c->talking && c->reader)
		co_wake(c->reader); /* it may wait for its turn to compute */
}

void conns_cut(struct kvs_server *s)
{
	KV_LIST_EACH (n, &s->conns)
		cut(KV_LIST_ENTRY(n, struct conn, node));
}

/* It leaves the list, and gives its place back when its coroutine ends. */
static void place_take(struct conn *c)
{
	kv_list_del(&c->knock);
	c->cut = true;
	cut(c);
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

/* The only source that may hold more than half of the places: each of it and one of another leave together, and it is left over (Boyer and
 * Moore). *out: how many it holds. */
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

/* A source that holds more than half of the places loses one of them. Which one is drawn by lot: the oldest are those that
 * will be done soonest, and the newest may be an honest client behind the same address. */
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
		if (!c->admitted || c->closing)
			continue;
		if (all)
			atomic_store(&c->anew, true);
		if (!atomic_load(&c->anew))
			continue;
		if (c->serving) /* else it is seen with the first beat */
			beat_now(c);
	}
}
