/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c -- from HELLO to WELCOME, the first time on a connection or again (docs/reference/protocol.md 2.1, 2.10).
 *
 *   HELLO -> the client's attachment is void -> checked, admitted -> [the named attachment has ended] -> a slot
 *         -> opened on every shard -> WELCOME
 *
 * An admitted connection keeps its place among the clients until it ends. If HELLO names an attachment of another
 * connection, this connection gets that place, and the other is cut.
 *
 * WELCOME waits until the named attachment has ended, since that may still write to an address in HELLO. After
 * PRIOR_HURRY_NS the shards cut the client's old connections, where the provider can do so for one peer alone. A
 * connection may have CONN_ENDING_MAX lingering attachments and CONN_HELLOS_RATE HELLOs per second; beyond that its
 * HELLO waits. */
#include "kvserver/conn/private.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/conn/conn.h"
#include "kvserver/conn/rights.h"

enum { HELLO_MAX = 16384 /* maximum bytes of a stranger's first message; our client's has 3 KiB */ };

#define PRIOR_HURRY_NS 1000000000ull
#define ENDING_NS      1000000000ull

static struct loop *loop_of(const struct conn *c)
{
	return c->server->control;
}

static int refusal_await(struct conn *c, int rc, const char *text)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REFUSE, .refuse.status = wire_error_status(rc)};
	snprintf(m.refuse.text, sizeof(m.refuse.text), "%s", text);
	conn_send_await(c, &m);
	return rc;
}

static int refuse_await(struct conn *c, int rc, const char *text)
{
	char name[KV_HOST_MAX];
	if (log_allowed(c->server))
		kv_event(c->server->opt.log, KV_LOG_WARN,
			 KV_EVENT("client_refused", KV_FIELD("client", name), KV_FIELD("reason", text)),
			 "client %s is refused: %s", conn_name(c, name, sizeof(name)), text);
	return refusal_await(c, rc, text);
}

/* ---- admission ---- */

static bool of_cluster(uint64_t client_id)
{
	return client_id - KV_CLUSTER_CLIENT < KV_CLUSTER_CLIENTS;
}

static int hello_check(const struct conn *c, const struct wire_hello *h, struct kv_error *err)
{
	struct boot_identity theirs = {.eager_bytes = h->eager_bytes};
	if (h->rails == 0 || h->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EPROTO, "hello with %u rails; a client has 1 to %d", h->rails, KV_RAILS_MAX);
	snprintf(theirs.provider, sizeof(theirs.provider), "%s", h->provider);
	snprintf(theirs.fabric, sizeof(theirs.fabric), "%s", h->fabric);
	return boot_hello_check(&c->server->identity, "server", &theirs, "client", err);
}

/* Cluster names keep a client misled by a list or an address from another cluster's values. */
static int cluster_check(const struct kvs_server *s, const struct wire_hello *h, struct kv_error *err)
{
	if (!h->cluster[0] || strcmp(h->cluster, s->opt.cluster) == 0)
		return 0;
	if (kv_node_id_check(h->cluster, NULL))
		return kv_fail(err, -KV_EPROTO, "the name of the client's cluster is invalid");
	return kv_fail(err, -KV_EINVAL,
		       "the client belongs to the cluster '%s', and this server to %s%s%s: give the client "
		       "servers of its cluster",
		       h->cluster, s->opt.cluster[0] ? "'" : "none (--cluster)", s->opt.cluster,
		       s->opt.cluster[0] ? "'" : "");
}

/* A client without a view would place keys by its own list: it would miss values here, and others the values it puts.
 * It learns the view from another server. kv-client and other servers may still inspect this one. */
static int view_check(const struct kvs_server *s, uint64_t client_id, struct kv_error *err)
{
	if (!s->opt.members || s->views.now.epoch || of_cluster(client_id))
		return 0;
	return kv_fail(err, -KV_EPEERDOWN,
		       "the server is not ready: it does not know the members of its cluster yet (--members)");
}

/* Before it takes a place. *audited: the log has the refusal. */
static int identity_check(const struct conn *c, const struct wire_hello *h, struct grant *out, bool *audited,
			  struct kv_error *err)
{
	if (grant_find(c->server, boot_peer_names(c->boot), h->space, 0, out) == 0)
		return 0;
	*audited = true;
	grant_refused(c, NULL, h->space, GRANT_UNKNOWN, WIRE_STAT_IDENTITIES_REFUSED);
	return kv_fail(err, -KV_EDENIED, GRANT_UNKNOWN);
}

static int closing_fail(struct kv_error *err)
{
	return kv_fail(err, -KV_ECLOSED, "the server is shutting down");
}

/* Members of the cluster have places besides --max-clients: a pushing server must reach its own view, and full servers
 * with the same clients; kv-client must inspect and end a full server. Among tenants, only those that may read all do:
 * anybody can call itself a member. */
static int room_check(const struct kvs_server *s, bool cluster, struct kv_error *err)
{
	if (s->clients.open >= s->opt.max_clients + (cluster ? CLUSTER_PLACES : 0))
		return kv_fail(err, -KV_EFULL, "the server has %u client%s, as many as --max-clients allows",
			       s->clients.open, s->clients.open == 1 ? "" : "s");
	if (s->clients.count >= s->clients.limit.clients + (cluster ? s->clients.limit.more : 0))
		return kv_fail(err, -KV_EFULL,
			       "the server has %u client%s, as many as its limit of %" PRIu64
			       " open files allows; --max-clients needs ulimit -n %" PRIu64,
			       s->clients.count, s->clients.count == 1 ? "" : "s", s->clients.limit.limit,
			       s->clients.limit.wanted);
	if (s->clients.count >= s->clients.max)
		return kv_fail(
			err, -KV_EFULL,
			"the server has %u client%s, as many as its address space allows: raise its limit (ulimit -v)",
			s->clients.count, s->clients.count == 1 ? "" : "s");
	return 0;
}

static void enter(struct conn *c, struct tenant_places *places)
{
	struct clients *all = &c->server->clients;
	c->admitted = true;
	c->places = places;
	all->open++;
	all->count++;
	places_take(places, PLACE_CONN);
	places_take(places, PLACE_SESSION);
}

void conn_leave(struct conn *c)
{
	struct kvs_server *s = c->server;
	struct tenant_places *places = c->places;
	c->admitted = false;
	c->places = NULL;
	s->clients.open--;
	s->clients.count--;
	places_give(&s->places, places, PLACE_SESSION);
	places_give(&s->places, places, PLACE_CONN);
}

/* A connection keeps its place unless it has become another tenant's. *audited: the log has the refusal. */
static int admit(struct conn *c, uint64_t client_id, const struct grant *g, struct conn *before, bool *audited,
		 struct kv_error *err)
{
	struct kvs_server *s = c->server;
	struct tenant_places *places = places_find(&s->places, g->tenant);
	bool cluster = of_cluster(client_id) && g->reads_all;
	int rc;
	if (s->life.stop_asked)
		return closing_fail(err);
	if (c->admitted && c->places == places)
		return 0;
	if (c->admitted)
		conn_leave(c);
	if (before && before->admitted && before->places == places) {
		conn_leave(before);
		enter(c, places);
		return 0;
	}
	rc = room_check(s, cluster, err);
	if (rc)
		return rc;
	rc = grant_room(c, NULL, g, true, err);
	*audited = rc != 0;
	if (rc == 0)
		enter(c, places);
	return rc;
}

/* ---- waiting ---- */

/* HELLOs are limited to CONN_HELLOS_RATE: the reader waits. */
static int turn_await(struct conn *c)
{
	uint64_t now_ns = loop_now(loop_of(c));
	uint64_t wait_ns = bucket_take(&c->hellos, now_ns, CONN_HELLOS_RATE, CONN_HELLOS_BURST);
	if (!wait_ns)
		return 0;
	while (!conn_over(c) && co_park_await(now_ns + wait_ns) == 0)
		continue;
	return conn_over(c) ? -KV_EPEERDOWN : 0;
}

/* -KV_EBUSY: more than `most` attachments of the connection are still ending. */
static int ending_await(struct conn *c, unsigned most, uint64_t deadline_ns)
{
	while (c->ending > most && !conn_over(c) && co_park_await(deadline_ns) == 0)
		continue;
	if (conn_over(c))
		return -KV_EPEERDOWN;
	return c->ending > most ? -KV_EBUSY : 0;
}

/* Wait until the attachment is freed or it is time to check again. The caller must not touch it afterwards. */
static void gone_await(struct attachment *a, uint64_t deadline_ns)
{
	struct attachment_watch w = {.co = co_self()};
	kv_list_add_tail(&a->watchers, &w.node);
	co_park_await(deadline_ns);
	kv_list_del(&w.node);
}

/* Wait until the attachment named by HELLO cannot reach the addresses in HELLO any more; or until the server ends,
 * without a WELCOME. */
static int prior_await(struct conn *c, const struct wire_hello *h)
{
	struct attachment *a = attachment_find(c->server, &h->prior);
	uint64_t hurry_ns = loop_now(loop_of(c)) + PRIOR_HURRY_NS;
	if (!a || !attachment_meets(a, h))
		return 0;
	conn_beats_begin(c);
	while (a && !conn_over(c) && !c->server->life.stop_asked) {
		gone_await(a, hurry_ns);
		a = attachment_find(c->server, &h->prior);
		if (!a || loop_now(loop_of(c)) < hurry_ns)
			continue;
		attachment_hurry(a);
		hurry_ns = loop_now(loop_of(c)) + PRIOR_HURRY_NS;
	}
	return conn_over(c) ? -KV_EPEERDOWN : 0;
}

/* ---- the attachment ---- */

static int make_await(struct conn *c, const struct wire_hello *h, struct kv_error *err)
{
	int rc;
	while ((rc = attachment_create(c, c->server, c->boot, h, &c->now, err)) == -KV_EFULL && c->ending)
		if (ending_await(c, c->ending - 1, KV_NEVER))
			return -KV_EPEERDOWN;
	c->attachments += rc == 0;
	return rc ? rc : attachment_open_await(c->now, err);
}

static int addresses_pack(const struct attachment *a, uint8_t *buf, size_t cap, uint32_t *len)
{
	int rc = 0;
	for (unsigned i = 0; i < a->server->opt.shards; i++)
		for (unsigned k = 0; rc == 0 && k < a->server->shard[i]->info.rails; k++)
			rc = wire_addr_pack(buf, cap, len, a->call[i].addr[k].data, a->call[i].addr[k].len);
	return rc;
}

static int welcome_await(struct conn *c)
{
	struct kvs_server *s = c->server;
	const struct shard *first = s->shard[0];
	bool all = c->now->own.reads_all;
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
	w->flags = (s->opt.allow_pull && all ? WIRE_WELCOME_PULL : 0) |
		   (first->info.reads_refused ? WIRE_WELCOME_INLINE_PUT : 0) | WIRE_WELCOME_SESSIONS |
		   WIRE_WELCOME_VIEWS | (landings_offered(first) ? WIRE_WELCOME_LANDING : 0) |
		   (s->opt.on_drain && all ? WIRE_WELCOME_DRAIN : 0) | (s->opt.members ? WIRE_WELCOME_MEMBERS : 0) |
		   (s->locals.on ? WIRE_WELCOME_LOCAL : 0) | (events_on(&s->events) ? WIRE_WELCOME_EVENTS : 0);
	w->session = c->now->number;
	w->chunk_bytes = first->info.chunk_bytes;
	w->credits = s->opt.credits;
	w->heartbeat_ms = s->opt.heartbeat_ms;
	w->eager_bytes = first->info.eager_bytes;
	w->incarnation = s->incarnation;
	w->shard_seed = s->shard_seed;
	w->value_max = s->opt.value_max;
	w->generation = c->now->grant.generation;
	w->cleared_ns = attachment_cleared(c->now);
	w->clock_ns = shard_clock(s->shard_seed, loop_now(loop_of(c)));
	w->addrs = addrs;
	memcpy(w->token, c->now->token, KV_TOKEN_LEN);
	memcpy(w->host_id, s->host_id, sizeof(w->host_id));
	snprintf(w->node_id, sizeof(w->node_id), "%s", s->node_id);
	snprintf(w->cluster, sizeof(w->cluster), "%s", s->opt.cluster);
	rc = addresses_pack(c->now, addrs, cap, &w->addrs_len);
	if (rc == 0)
		rc = conn_send_await(c, &m);
	explicit_bzero(w->token, KV_TOKEN_LEN);
	free(addrs);
	return rc;
}

static const char *id_text(uint64_t client_id, char *buf, size_t cap)
{
	if (of_cluster(client_id))
		return "kv-client, or a draining server";
	snprintf(buf, cap, "id %" PRIu64, client_id);
	return buf;
}

static int hello_await(struct conn *c, const struct wire_hello *h)
{
	struct attachment *prior = attachment_find(c->server, &h->prior);
	struct conn *before = prior && prior->conn != c ? prior->conn : NULL;
	struct grant g;
	struct kv_error err = {0};
	char name[KV_HOST_MAX], id[32];
	bool audited = false;
	int rc = hello_check(c, h, &err);
	if (rc == 0)
		rc = cluster_check(c->server, h, &err);
	if (rc == 0)
		rc = identity_check(c, h, &g, &audited, &err);
	if (rc == 0)
		rc = view_check(c->server, h->client_id, &err);
	if (rc == 0)
		rc = admit(c, h->client_id, &g, before, &audited, &err);
	if (rc)
		return audited ? refusal_await(c, rc, err.text) : refuse_await(c, rc, err.text);
	conn_knocked(c);
	if (before)
		conn_cut(before);
	if (prior_await(c, h))
		return -KV_EPEERDOWN;
	rc = c->server->life.stop_asked ? closing_fail(&err) : make_await(c, h, &err);
	if (rc == 0 && c->server->life.stop_asked)
		rc = closing_fail(&err); /* stopped during the wait */
	if (rc)
		return refuse_await(c, rc, err.text);
	boot_limit(c->boot, UINT_MAX);
	rc = welcome_await(c);
	if (rc) {
		kv_event(c->server->opt.log, KV_LOG_WARN,
			 KV_EVENT("client_broken", KV_FIELD("client", name), KV_FIELD("reason", boot_failure(c->boot))),
			 "client %s: no welcome could be sent: %s: %s", conn_name(c, name, sizeof(name)),
			 kv_strerror(rc), boot_failure(c->boot));
		return rc;
	}
	kv_event(c->server->opt.log, c->attachments > 1 ? KV_LOG_DEBUG : KV_LOG_INFO,
		 KV_EVENT("client_in", KV_FIELD("client", name), KV_FIELD("who", boot_peer_who(c->boot)),
			  KV_NUMBER("client_id", c->now->client_id), KV_NUMBER("session", c->now->number),
			  KV_NUMBER("rails", c->now->rails)),
		 "client %s (%s, %s, %u rail%s) is session %u", conn_name(c, name, sizeof(name)),
		 boot_peer_who(c->boot), id_text(c->now->client_id, id, sizeof(id)), c->now->rails,
		 c->now->rails == 1 ? "" : "s", c->now->number);
	grant_audit(c, NULL, &c->now->own);
	conn_welcomed(c);
	return 0;
}

int hello_first_await(struct conn *c)
{
	struct wire_ctrl_msg m;
	char name[KV_HOST_MAX];
	int rc;
	boot_limit(c->boot, HELLO_MAX); /* a place costs no more before authentication */
	rc = boot_recv_await(c->boot, &m, c->accepted_ns + HANDSHAKE_NS);
	if (rc == -KV_EVERSION)
		return refuse_await(
			c, rc,
			"client and server have no protocol version in common; run the same release on both sides");
	if (rc == 0 && m.type != WIRE_CTRL_HELLO)
		rc = -KV_EPROTO;
	if (rc == -KV_EPROTO && log_allowed(c->server))
		kv_event(c->server->opt.log, KV_LOG_WARN,
			 KV_EVENT("client_refused", KV_FIELD("client", name), KV_FIELD("reason", "no HELLO")),
			 "client %s is not admitted: its first message is not a HELLO; does it have a key or "
			 "certificates, and this server none (--psk-file, --cert)?",
			 conn_name(c, name, sizeof(name)));
	if (rc == 0)
		rc = hello_await(c, &m.hello);
	explicit_bzero(&m, sizeof(m)); /* holds a token */
	return rc;
}

int hello_again_await(struct conn *c, const struct wire_hello *h)
{
	int rc;
	conn_retire_await(c);
	rc = turn_await(c);
	if (rc == 0)
		rc = ending_await(c, CONN_ENDING_MAX, loop_now(loop_of(c)) + ENDING_NS);
	if (rc == -KV_EBUSY)
		return refuse_await(c, rc,
				    "transfers of its last attachments are still in "
				    "flight, perhaps over a dead rail: connect again");
	return rc ? rc : hello_await(c, h);
}
