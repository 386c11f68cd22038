/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c -- the reader of a control connection, from accept, TLS and the first HELLO to the last message.
 *
 *   HANDSHAKE --HELLO, WELCOME (hello.c)--> SERVING [--HELLO, WELCOME--> SERVING ...] --> freed
 *
 * One coroutine reads a connection from the TLS handshake on, and ends it: it waits for heartbeats (conn.c) and
 * attachments (attachment.c), and frees it last.
 *
 * A shard answers REVOKE and GOODBYE when transfers are over. If the client died, that may take forever, and the
 * waiting reader does not notice. The heartbeats do, and stop the attachment on the shards (attachment_stop_await).
 * Then the quarantine budget ends the transfers, and with them the wait. Every other wait of the reader checks
 * conn_over. */
#include "kvserver/conn/private.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "kvserver/conn/conn.h"
#include "kvserver/conn/view.h"
#include "kvserver/shard/attachment.h"

enum { DRAIN_MS_MAX = 86400000 };

/* ---- calls to the shards ---- */

static void run_idle(struct call *call)
{
	shard_attachment_when_idle(attachment_call_of(call)->on_shard, call);
}

static void run_readdress(struct call *call)
{
	struct attachment *a = attachment_call_of(call)->attachment;
	call_finish(call, shard_attachment_readdress(attachment_call_of(call)->on_shard, a->addr, a->rails,
						     &attachment_call_of(call)->error));
}

static void run_region(struct call *call)
{
	call_finish(call, regions_add(&attachment_call_of(call)->on_shard->regions,
				      attachment_call_of(call)->attachment->region));
}

static void run_revoke(struct call *call)
{
	regions_revoke(&attachment_call_of(call)->on_shard->regions, attachment_call_of(call)->attachment->region_id,
		       call);
}

static void run_arena(struct call *call)
{
	call_finish(call, shard_arena_keys(call->shard, &attachment_call_of(call)->arena_keys));
}

static void run_landing(struct call *call)
{
	struct attachment_call *c = attachment_call_of(call);
	int rc = landing_open(c->on_shard);
	if (rc == 0)
		rc = landing_announce(c->on_shard, &c->landing, &c->arena_keys);
	call_finish(call, rc);
}

/* ---- messages ---- */

static int send_status_await(struct conn *c, enum wire_ctrl type, uint32_t id, int rc)
{
	struct wire_ctrl_msg m = {.type = type,
				  .region_ok = {.id = id, .status = rc ? wire_error_status(rc) : WIRE_OK}};
	return conn_send_await(c, &m);
}

static int on_region_await(struct conn *c, const struct wire_region *w)
{
	struct attachment *a = c->now;
	struct region *r = NULL;
	uint32_t id = w->id;
	int rc = -KV_EEXIST;
	if (!attachment_region_find(a, id))
		rc = region_create(w, a->rails, &r);
	if (rc == 0 && (a->regions.count == REGIONS_MAX || a->regions.keys + r->keys > REGION_KEYS_MAX)) {
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

/* Send ARENA: it lets the client read our memory. */
static int on_arenas_await(struct conn *c)
{
	bool may = c->server->opt.allow_pull && c->now->own.reads_all;
	int rc = may ? attachment_all_await(c->now, run_arena, NULL) : -KV_EPROTO;
	if (rc == 0)
		rc = arenas_send_await(c);
	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		free(c->now->call[i].arena_keys);
		c->now->call[i].arena_keys = NULL;
	}
	return rc;
}

/* Send LANDING: it lets the client write its PUTs. */
static int on_landings_await(struct conn *c)
{
	int rc = landings_offered(c->server->shard[0]) ? attachment_all_await(c->now, run_landing, NULL) : -KV_EPROTO;
	for (unsigned i = 0; i < c->server->opt.shards; i++) {
		struct attachment_call *call = &c->now->call[i];
		struct wire_ctrl_msg m = {.type = WIRE_CTRL_LANDING, .region = call->landing};
		if (rc == 0)
			rc = conn_send_await(c, &m);
		free(call->arena_keys);
		call->arena_keys = NULL;
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

/* The program drains and stops us. */
static int on_drain_await(struct conn *c, const struct wire_drain *asked)
{
	const struct kvs_options *o = &c->server->opt;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_DRAIN_OK};
	struct kvs_drain bounds = {.time_ns = KV_MIN(asked->time_ms, (uint64_t)DRAIN_MS_MAX) * 1000000,
				   .bytes_s = asked->bytes_s};
	char name[KV_HOST_MAX];
	if (!o->on_drain || !c->now->own.reads_all)
		return -KV_EPROTO;
	c->drain_asked = true;
	m.drain.time_ms = o->on_drain(o->on_drain_arg, &bounds, conn_name(c, name, sizeof(name))) / 1000000 + 1;
	return conn_send_await(c, &m);
}

/* Handle one message. */
static int message_await(struct conn *c, const struct wire_ctrl_msg *m)
{
	switch (m->type) {
	case WIRE_CTRL_HELLO:
		follow_end(c);
		return c->parting ? -KV_EPROTO : hello_again_await(c, &m->hello);
	case WIRE_CTRL_REGION:
		return on_region_await(c, &m->region);
	case WIRE_CTRL_REVOKE:
		return on_revoke_await(c, m->region_ok.id);
	case WIRE_CTRL_ADDRESS:
		return on_address_await(c, &m->address);
	case WIRE_CTRL_HEARTBEAT:
		return conn_answer_await(c);
	case WIRE_CTRL_GOODBYE:
		return on_goodbye_await(c);
	case WIRE_CTRL_ARENAS:
		return on_arenas_await(c);
	case WIRE_CTRL_LANDINGS:
		return on_landings_await(c);
	case WIRE_CTRL_LOCAL_ASK:
		return local_answer_await(c, m->local.boot_id);
	case WIRE_CTRL_VIEW_ASK:
		return view_answer_await(c, m->view_news.digest);
	case WIRE_CTRL_DRAIN:
		return on_drain_await(c, &m->drain);
	case WIRE_CTRL_EVENTS_ASK:
		return follow_await(c, &m->events);
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

/* When the client's certificate expires, by the loop's clock; KV_NEVER: not within a day (checked again then: the
 * machine's clock may be set). *out_over: it has expired. */
static uint64_t expiry_ns(const struct conn *c, bool *out_over)
{
	enum { DAY_S = 86400 };
	int64_t expiry_s = boot_peer_expiry(c->boot), left_s = expiry_s - (int64_t)time(NULL);
	*out_over = expiry_s != INT64_MAX && left_s < 0;
	if (expiry_s == INT64_MAX)
		return KV_NEVER;
	return loop_now(c->server->control) + (uint64_t)KV_MIN(KV_MAX(left_s + 1, 1), (int64_t)DAY_S) * 1000000000;
}

/* The next message. -KV_EPEERDOWN: the client's certificate has expired, so its connection ends. */
static int next_await(struct conn *c, struct wire_ctrl_msg *m)
{
	char name[KV_HOST_MAX];
	bool over;
	int rc;
	do {
		uint64_t deadline_ns = expiry_ns(c, &over);

		rc = over ? -KV_EPEERDOWN : boot_recv_await(c->boot, m, deadline_ns);
	} while (rc == -KV_ETIMEOUT && !c->closing);
	if (over)
		kv_event(c->server->opt.log, KV_LOG_WARN, KV_EVENT("client_expired", KV_FIELD("client", name)),
			 "client %s: its certificate, or its CA's, has expired: the connection ends",
			 conn_name(c, name, sizeof(name)));
	return rc;
}

static int serve_await(struct conn *c)
{
	struct wire_ctrl_msg m = {0};
	int rc;
	do {
		conn_busy(c, false);
		rc = next_await(c, &m);
		conn_busy(c, rc == 0 && m.type != WIRE_CTRL_HEARTBEAT);
		if (rc == 0)
			rc = message_await(c, &m);
		if (m.type == WIRE_CTRL_HELLO)
			explicit_bzero(m.hello.prior.token, sizeof(m.hello.prior.token));
	} while (rc == 0 && !c->closing);
	return rc;
}

/* ---- the handshake ---- */

/* Wait for this handshake's turn. */
static int handshake_rate_await(struct kvs_server *server, int fd)
{
	struct bucket *b = &server->strangers.bucket;
	uint64_t now_ns = loop_now(server->control), wait_ns = bucket_take(b, now_ns, HANDSHAKE_RATE, HANDSHAKE_BURST);
	int rc;
	if (!wait_ns)
		return 0;
	control_count(server, WIRE_STAT_HANDSHAKES_DELAYED);
	rc = io_poll_await(fd, POLLRDHUP, now_ns + wait_ns);
	if (rc == -KV_ETIMEOUT)
		return 0;
	b->tokens += 1;
	return rc < 0 ? rc : -KV_EPEERDOWN;
}

/* Count the result of the handshake. */
static void handshake_over(struct conn *c, int rc)
{
	struct kvs_server *s = c->server;
	conn_knocked(c);
	if (c->cut)
		control_count(s, WIRE_STAT_HANDSHAKES_CUT);
	else if (rc == -KV_ETIMEOUT)
		control_count(s, WIRE_STAT_HANDSHAKES_TIMED_OUT);
	else if (rc && !s->life.stop_asked)
		control_count(s, WIRE_STAT_HANDSHAKES_REFUSED);
	if (rc == -KV_EPROTO)
		control_count(s, WIRE_STAT_BAD_CONTROL);
}

/* Wait for the client's first bytes: nothing is spent on it before. */
static int first_bytes_await(struct conn *c)
{
	int rc = io_poll_await(c->fd, POLLIN | POLLRDHUP, c->accepted_ns + HANDSHAKE_NS);
	if (rc < 0)
		return rc;
	if (c->closing) /* cut: nothing has begun, so it uses no turn */
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
	rc = boot_accept_await(s->keys.boot, c->fd, &c->peer, USER_TIMEOUT_MS, c->accepted_ns + HANDSHAKE_NS, &c->boot,
			       &err);
	c->fd = -1;
	if (rc && !c->cut && log_allowed(s))
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("client_refused", KV_FIELD("client", name), KV_FIELD("reason", err.text)),
			 "client %s is not admitted: %s", conn_name(c, name, sizeof(name)), err.text);
	return rc ? rc : hello_first_await(c);
}

/* ---- the end ---- */

static void close_await(struct conn *c)
{
	struct kvs_server *s = c->server;
	c->closing = true;
	follow_end(c);
	if (c->boot)
		boot_shutdown(c->boot);
	conn_beats_end_await(c);
	if (c->admitted) {
		conn_leave(c);
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

/* ---- the connection's coroutine ---- */

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
			kv_event(c->server->opt.log, KV_LOG_WARN,
				 KV_EVENT("client_broken", KV_FIELD("client", name),
					  KV_FIELD("reason", kv_strerror(rc))),
				 "client %s: control connection: %s", conn_name(c, name, sizeof(name)),
				 kv_strerror(rc));
		kv_event(c->server->opt.log, KV_LOG_INFO,
			 KV_EVENT("client_left", KV_FIELD("client", name), KV_FIELD("goodbye", rc == 1 ? "yes" : "no")),
			 "client %s left%s", conn_name(c, name, sizeof(name)), rc == 1 ? "" : " without a goodbye");
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
	conn_beats_init(c);
	c->busy = true; /* until it is admitted: nobody reads a question before */
	c->hellos = (struct bucket){.tokens = CONN_HELLOS_BURST, .filled_ns = c->accepted_ns};
	kv_list_add_tail(&s->clients.conns, &c->node);
	kv_list_add_tail(&s->strangers.knocking, &c->knock);
	c->knocking = true;
	strangers_change(s, 1);
	rc = co_spawn(s->control, conn_run, c, "connection");
	if (rc) {
		strangers_change(s, -1);
		kv_list_del(&c->node);
		kv_list_del(&c->knock);
		io_close(s->control, fd);
		free(c);
	}
	return rc;
}
