/* SPDX-License-Identifier: Apache-2.0 */
/* local_socket.c -- clients on this host, from LOCAL_ASK until their Unix socket closes.
 *
 *   LOCAL_ASK --> a nonce, in LOCAL, is offered for OFFER_NS
 *   the Unix socket: STRANGER --its nonce is on offer--> a part on every shard, passed shard by shard --> TAKING
 *                       +--anything else: closed
 *                    TAKING --its byte: it reads the channels--> the shards use them --> CLIENT
 *                       +--it closes, or is silent: freed, and its attachment uses the fabric
 *                    CLIENT --it closes--> the shards end its leases --> freed
 *
 * The key is the credential: a nonce, learnt over the authenticated control connection, joins one socket to one
 * attachment. Everybody in this network namespace, or near the path, may connect. When all places are taken the oldest
 * loses its place.
 *
 * A client's connection outlives its attachment, because the socket holds the leases (shard/local_client.c). The server
 * closes no socket with leases or an attachment before its own end: the client may be reading. So their number is
 * limited at LOCAL_ASK; sockets with neither make room for others. */
#include "kvserver/conn/local_socket.h"

#include <errno.h>
#include <stdlib.h>

#include "kvserver/conn/conn.h"
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/local_client.h"

#define OFFER_NS    5000000000ull
#define STRANGER_NS 2000000000ull
#define GIVE_NS     2000000000ull
#define AGAIN_NS    10000000ull

struct local_call {
	struct call call;
	struct local_conn *conn;
	struct shard_local *on_shard; /* NULL: none */
	struct kv_error error;
};

struct local_conn {
	struct kv_list node;
	struct kvs_server *server;
	int fd;
	bool cut;
	bool serving; /* its parts on the shards stay until its socket closes */
	struct co *co;
	/* a client: */
	uint32_t number;
	struct local_who who;
	enum kv_log_level level; /* of its lines: debug if its client only attached again */
	uint64_t client_id;
	uint8_t proof[LOCAL_NONCE_LEN];
	unsigned pending;
	struct local_call *call; /* one per shard */
};

static void conn_cut_off(struct local_conn *c)
{
	if (!c->cut)
		io_shutdown(c->server->control, c->fd);
	c->cut = true;
}

/* ---- places ---- */

static bool client_spent(const struct local_conn *c)
{
	bool spent = c->serving;
	for (unsigned i = 0; spent && i < c->server->opt.shards; i++)
		spent = atomic_load_explicit(&c->call[i].on_shard->spent, memory_order_relaxed);
	return spent;
}

static bool place_find(struct local_clients *l)
{
	unsigned n = 0;
	if (l->count < l->max)
		return true;
	KV_LIST_EACH (at, &l->clients) {
		struct local_conn *c = KV_LIST_ENTRY(at, struct local_conn, node);
		if (client_spent(c))
			conn_cut_off(c);
		n += !c->cut;
	}
	return n < l->max;
}

/* ---- offers ---- */

static int answer_await(struct conn *c, int32_t status, const char *text)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_LOCAL, .local.status = status};
	struct local_clients *l = &c->server->locals;
	int rc;
	snprintf(m.local.text, sizeof(m.local.text), "%s", text);
	if (status == WIRE_OK) {
		snprintf(m.local.name, sizeof(m.local.name), "%s", l->name);
		memcpy(m.local.nonce, c->now->offer.nonce, sizeof(m.local.nonce));
		memcpy(m.local.proof, c->now->offer.proof, sizeof(m.local.proof));
	}
	rc = conn_send_await(c, &m);
	explicit_bzero(m.local.nonce, sizeof(m.local.nonce));
	explicit_bzero(m.local.proof, sizeof(m.local.proof));
	return rc;
}

int local_answer_await(struct conn *c, const uint8_t boot_id[16])
{
	struct local_clients *l = &c->server->locals;
	struct local_offer *o = &c->now->offer;
	if (!l->on || o->asked)
		return -KV_EPROTO;
	o->asked = true;
	if (!c->now->own.reads_all)
		return answer_await(c, WIRE_NOTSUP,
				    "the client's tenant may not read all namespaces of the server (--tenants)");
	if (!kv_equal_secret(boot_id, l->boot_id, sizeof(l->boot_id)))
		return answer_await(c, WIRE_DENIED, "the client runs under another kernel than the server");
	if (!place_find(l))
		return answer_await(c, WIRE_BUSY,
				    "the server has as many local clients as its limit of open files allows");
	if (kv_entropy_fill(c->server->opt.entropy, o->nonce, sizeof(o->nonce)) ||
	    kv_entropy_fill(c->server->opt.entropy, o->proof, sizeof(o->proof)))
		return answer_await(c, WIRE_BUSY, "the server has no entropy for a nonce");
	o->until_ns = loop_now(c->server->control) + OFFER_NS;
	kv_list_add_tail(&l->offers, &o->node);
	return answer_await(c, WIRE_OK, "");
}

/* The attachment with this nonce on offer, which it spends; or NULL. All are compared, in constant time. *proof is the
 * answer to that nonce. */
static struct attachment *offer_take(struct kvs_server *s, const uint8_t *nonce, uint8_t proof[LOCAL_NONCE_LEN])
{
	uint64_t now_ns = loop_now(s->control);
	struct local_offer *found = NULL;
	KV_LIST_EACH (n, &s->locals.offers) {
		struct local_offer *o = KV_LIST_ENTRY(n, struct local_offer, node);
		if (kv_equal_secret(o->nonce, nonce, sizeof(o->nonce)) && now_ns < o->until_ns)
			found = o;
	}
	if (!found)
		return NULL;
	memcpy(proof, found->proof, LOCAL_NONCE_LEN);
	local_withdraw(found);
	return KV_CONTAINER(found, struct attachment, offer);
}

/* ---- the shards ---- */

static struct local_call *local_call_of(struct call *call)
{
	return KV_CONTAINER(call, struct local_call, call);
}

static void call_answered(struct call *call)
{
	struct local_conn *c = local_call_of(call)->conn;
	if (--c->pending == 0)
		co_wake(c->co);
}

/* The attachment may have ended: nothing here keeps it. */
static void run_open(struct call *call)
{
	struct local_call *c = local_call_of(call);
	struct shard_attachment *s = shard_attachment_find(call->shard, c->conn->number);
	int rc = s ? shard_local_open(s, &c->on_shard, &c->error)
		   : kv_fail(&c->error, -KV_ECLOSED, "the session has ended");
	if (rc == 0)
		c->on_shard->who = &c->conn->who;
	call_finish(call, rc);
}

static void run_begin(struct call *call)
{
	struct local_call *c = local_call_of(call);
	call_finish(call, shard_local_begin(c->on_shard, &c->error));
}

static void run_close(struct call *call)
{
	struct local_call *c = local_call_of(call);
	struct shard_local *l = c->on_shard;
	c->on_shard = NULL;
	if (l)
		shard_local_close(l, call);
	else
		call_finish(call, 0);
}

/* Run this on the shards from `first` on, and wait for all. */
static int some_await(struct local_conn *c, unsigned first, unsigned count, void (*run)(struct call *call),
		      struct kv_error *err)
{
	struct loop *loop = c->server->control;
	c->pending = count;
	for (unsigned i = first; i < first + count; i++) {
		struct call *call = &c->call[i].call;
		*call = (struct call){.shard = c->server->shard[i], .run = run, .done = call_answered};
		while (call_make(call, loop) != 0)
			co_sleep_await(loop_now(loop) + AGAIN_NS);
	}
	while (c->pending)
		co_park_await(KV_NEVER);
	for (unsigned i = first; i < first + count; i++)
		if (c->call[i].call.status)
			return kv_fail(err, c->call[i].call.status, "shard %u: %s", i, c->call[i].error.text);
	return 0;
}

static int shards_await(struct local_conn *c, void (*run)(struct call *call), struct kv_error *err)
{
	return some_await(c, 0, c->server->opt.shards, run, err);
}

/* ---- a client ---- */

/* Shard by shard: each has several descriptors open until they are passed, and many clients may come at a time. */
static int give_await(struct local_conn *c, struct kv_error *err)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < c->server->opt.shards; i++) {
		struct local_shard part;
		rc = some_await(c, i, 1, run_open, err);
		if (rc)
			return rc;
		shard_local_fds(c->call[i].on_shard, &part);
		memcpy(part.proof, c->proof, sizeof(part.proof));
		rc = local_give_await(c->fd, &part, loop_now(c->server->control) + GIVE_NS);
		if (rc)
			kv_fail(err, rc, "passing the memory of shard %u: %s", i, kv_strerror(rc));
		else
			shard_local_passed(c->call[i].on_shard);
	}
	return rc;
}

/* The client says that it reads its channels. If one fails to begin, the client must attach again: it sends there. */
static int begin_await(struct local_conn *c, struct kv_error *err)
{
	int rc = local_ready_await(c->fd, loop_now(c->server->control) + GIVE_NS);
	if (rc == -ECONNRESET)
		return kv_fail(err, rc, "it closed its socket before it had mapped all of it");
	if (rc)
		return kv_fail(err, rc, "it does not say that it has mapped all of it: %s", kv_strerror(rc));
	return shards_await(c, run_begin, err);
}

static int calls_make(struct local_conn *c)
{
	c->call = calloc(c->server->opt.shards, sizeof(c->call[0]));
	for (unsigned i = 0; c->call && i < c->server->opt.shards; i++)
		c->call[i].conn = c;
	return c->call ? 0 : -KV_ENOMEM;
}

static void client_await(struct local_conn *c)
{
	struct kvs_server *s = c->server;
	struct kv_error err = {0};
	int rc = calls_make(c) ? kv_fail(&err, -KV_ENOMEM, "no memory for a local client") : give_await(c, &err);
	if (rc == 0)
		rc = begin_await(c, &err);
	if (rc && log_allowed(s))
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("local_failed", KV_NUMBER("client_id", c->client_id), KV_NUMBER("session", c->number),
				  KV_FIELD("reason", err.text)),
			 "client %llu on this host gets no shared memory, and uses the fabric: %s",
			 (unsigned long long)c->client_id, err.text);
	else if (rc == 0)
		kv_event(s->opt.log, c->level,
			 KV_EVENT("local_in", KV_NUMBER("client_id", c->client_id), KV_NUMBER("session", c->number)),
			 "client %llu (session %u) is on this host: it reads values in place",
			 (unsigned long long)c->client_id, c->number);
	c->serving = rc == 0;
	if (rc == 0 && !c->cut)
		(void)local_end_await(c->fd, KV_NEVER);
	c->serving = false;
	if (c->call)
		shards_await(c, run_close, NULL);
	if (rc == 0)
		kv_event(s->opt.log, c->level,
			 KV_EVENT("local_left", KV_NUMBER("client_id", c->client_id), KV_NUMBER("session", c->number)),
			 "client %llu (session %u) has closed its local connection: its leases have ended",
			 (unsigned long long)c->client_id, c->number);
}

/* ---- a connection ---- */

static void who_note(struct local_conn *c, const struct attachment *a)
{
	const char *name = boot_peer_names(a->conn->boot);
	size_t len = strnlen(name, KV_SPACE_MAX);
	while (len > 0 && !kv_space_check(name, len)) /* do not cut a character */
		len--;
	memcpy(c->who.identity, name, len);
	c->who.session = a->number;
	c->who.pid = local_peer_pid(c->fd);
}

/* A stranger's place is free. */
static void stranger_leave(struct local_conn *c)
{
	struct local_clients *l = &c->server->locals;
	kv_list_del(&c->node);
	l->stranger_count--;
	if (l->co)
		co_wake(l->co);
}

static void conn_run(void *arg)
{
	struct local_conn *c = arg;
	struct kvs_server *s = c->server;
	uint8_t nonce[LOCAL_NONCE_LEN];
	struct attachment *a = NULL;
	int rc;
	c->co = co_self();
	rc = local_nonce_await(c->fd, nonce, loop_now(s->control) + STRANGER_NS);
	if (rc == 0 && !c->cut)
		a = offer_take(s, nonce, c->proof);
	explicit_bzero(nonce, sizeof(nonce));
	stranger_leave(c);
	if (a && place_find(&s->locals)) {
		c->number = a->number;
		c->client_id = a->client_id;
		who_note(c, a);
		c->level = a->conn->attachments > 1 ? KV_LOG_DEBUG : KV_LOG_INFO;
		kv_list_add_tail(&s->locals.clients, &c->node);
		s->locals.count++;
		client_await(c);
		kv_list_del(&c->node);
		s->locals.count--;
	} else {
		control_count(s, WIRE_STAT_LOCAL_STRANGERS);
	}
	io_close(s->control, c->fd);
	free(c->call);
	free(c);
	server_changed(s);
}

/* The descriptor is the connection's, even on failure. */
static int conn_begin(struct kvs_server *s, int fd)
{
	struct local_conn *c = calloc(1, sizeof(*c));
	int rc = -KV_ENOMEM;
	if (c) {
		c->server = s;
		c->fd = fd;
		kv_list_add_tail(&s->locals.strangers, &c->node);
		s->locals.stranger_count++;
		rc = co_spawn(s->control, conn_run, c, "local connection");
	}
	if (rc == 0)
		return 0;
	if (c)
		stranger_leave(c);
	io_close(s->control, fd);
	free(c);
	return rc;
}

/* ---- accepting ---- */

/* Wait for a stranger's place: the oldest one loses its own. */
static void place_await(struct kvs_server *s)
{
	struct local_clients *l = &s->locals;
	while (l->stranger_count >= LOCAL_STRANGERS_MAX && !s->life.stop_asked) {
		conn_cut_off(KV_LIST_ENTRY(l->strangers.next, struct local_conn, node));
		co_park_await(loop_now(s->control) + AGAIN_NS);
	}
}

static void accept_run(void *arg)
{
	struct kvs_server *s = arg;
	struct local_clients *l = &s->locals;
	l->co = co_self();
	while (!s->life.stop_asked && l->listen_fd >= 0) {
		int fd, rc = local_accept_await(l->listen_fd, &fd, KV_NEVER);
		if (rc == 0)
			rc = conn_begin(s, fd);
		if (rc && !s->life.stop_asked && rc != -ECONNABORTED) {
			control_count(s, WIRE_STAT_ACCEPTS_FAILED);
			co_sleep_await(loop_now(s->control) + AGAIN_NS);
		}
		place_await(s);
	}
	l->co = NULL;
	server_changed(s);
}

void local_clients_init(struct kvs_server *s)
{
	struct local_clients *l = &s->locals;
	l->listen_fd = -1;
	kv_list_init(&l->offers);
	kv_list_init(&l->strangers);
	kv_list_init(&l->clients);
	kv_boot_id(l->boot_id);
}

/* Descriptors of a local client: its socket, and a bell on each shard; for a moment three more. Each shard's engine has
 * an epoll descriptor for the bells. */
void local_clients_plan(struct kvs_server *s, uint64_t files)
{
	uint64_t each = 1 + s->opt.shards, room = files - KV_MIN(files, (uint64_t)s->opt.shards);
	s->locals.on = !s->opt.local_off;
	for (unsigned i = 0; i < s->opt.shards; i++)
		s->locals.on &= s->shard[i]->area.shared;
	s->locals.max = (unsigned)KV_MIN(room / each, (uint64_t)s->clients.slots);
}

int local_clients_listen(struct kvs_server *s, struct kv_error *err)
{
	struct local_clients *l = &s->locals;
	struct kv_error why = {0};
	int rc;
	if (!l->on)
		return 0;
	rc = local_listen(s->opt.local_socket, &l->listen_fd, l->name, &why);
	if (rc)
		return kv_fail(err, rc, "the socket for clients on this host: %s; --local off does without it",
			       why.text);
	rc = co_spawn(s->control, accept_run, s, "local accept");
	return rc ? kv_fail(err, rc, "cannot accept clients on this host: %s", kv_strerror(rc)) : 0;
}

void local_clients_quit_await(struct kvs_server *s)
{
	struct local_clients *l = &s->locals;
	if (l->listen_fd >= 0)
		local_unlisten(&l->listen_fd, l->name);
	while (l->co) {
		co_wake(l->co);
		co_park_await(loop_now(s->control) + AGAIN_NS);
	}
	KV_LIST_EACH (n, &l->strangers)
		conn_cut_off(KV_LIST_ENTRY(n, struct local_conn, node));
}

void local_clients_end_await(struct kvs_server *s)
{
	struct local_clients *l = &s->locals;
	KV_LIST_EACH (n, &l->clients)
		conn_cut_off(KV_LIST_ENTRY(n, struct local_conn, node));
	while (l->stranger_count || l->count)
		co_park_await(KV_NEVER);
}
