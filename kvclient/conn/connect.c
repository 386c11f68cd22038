/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c -- one attempt to attach to a server: dial, HELLO, arenas, regions, links.
 *
 * A redo sends HELLO again on a sound control connection (docs/reference/protocol.md 2.10), so a fence because of one
 * server costs the others no TLS handshake. It interrupts the reader alone: other coroutines finish sending before
 * HELLO. A redo may overtake an attempt that waits for its WELCOME: all WELCOMEs but the last are dropped
 * (control.hellos). If HELLO shows the connection broken, the same attempt dials; so it does where the answer may be
 * delayed (kc_node_answers_wait). */
#include "host/host.h"
#include "kvclient/conn/alias.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/deletes_owed.h"
#include "kvclient/conn/private.h"
#include "kvclient/conn/regions.h"
#include "kvclient/conn/where.h"
#include "kvclient/core/cleared.h"
#include "kvclient/core/cluster_name.h"
#include "kvclient/request/attachment.h"

enum { HEARTBEAT_MS_DEFAULT = 500, HEARTBEAT_MS_MIN = 10, HEARTBEAT_MS_MAX = 60000 };

#define ADDRESS_POLL_NS 10000000ull
#define VIEW_POLL_NS    50000000ull
#define DIAL_QUICK_NS   2000000000ull /* for each of several addresses in the first round */
#define LOOK_UP_MIN_NS  1000000ull
#define HELLOS_MAX      8u /* without an answer: then dial again */

static bool overtaken(const struct kc_node *n)
{
	return n->redo || n->client->closing;
}

static int hello_send_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HELLO};
	struct wire_hello *h = &m.hello;
	int rc;
	h->version_min = h->version_max = WIRE_VERSION;
	h->loops = (uint16_t)c->pool->num_loops;
	h->rails = (uint16_t)c->info.rails;
	h->eager_bytes = c->info.eager_bytes;
	h->chunk_bytes = c->info.chunk_bytes;
	h->mark = n->index;
	h->client_id = c->pool->options.base_client_id + c->index;
	loop_random(c->loop, &h->incarnation, sizeof(h->incarnation));
	kv_host_id(h->host_id);
	snprintf(h->provider, sizeof(h->provider), "%s", c->info.provider);
	snprintf(h->fabric, sizeof(h->fabric), "%s", c->info.fabric);
	snprintf(h->cluster, sizeof(h->cluster), "%s", c->pool->options.cluster ? c->pool->options.cluster : "");
	snprintf(h->space, sizeof(h->space), "%s", c->pool->options.namespace_name);
	h->generation = atomic_load_explicit(&c->pool->cleared.to, memory_order_relaxed);
	for (unsigned i = 0; i < c->info.rails; i++) {
		struct te_address a;
		rc = te_address(c->te, i, &a);
		if (rc < 0)
			return kv_fail(&n->error, rc, "this client's fabric address of rail %u is not available: %s", i,
				       kv_strerror(rc));
		h->addr[i].len = a.len;
		memcpy(h->addr[i].data, a.data, a.len);
	}
	h->prior = n->own->attempt.prior;
	rc = boot_send_await(n->control.conn, &m, deadline_ns);
	n->control.hellos += rc == 0;
	explicit_bzero(h->prior.token, sizeof(h->prior.token));
	return rc;
}

static int welcome_check(struct kc_node *n, const struct wire_welcome_msg *w)
{
	if (w->version != WIRE_VERSION)
		return kv_fail(&n->error, -KV_EVERSION, "it speaks protocol version %u, we speak %u", w->version,
			       WIRE_VERSION);
	if (w->shards == 0 || w->shards > KV_SHARDS_MAX || w->rails == 0 || w->rails > KV_RAILS_MAX ||
	    w->credits == 0 || w->chunk_bytes == 0)
		return kv_fail(&n->error, -KV_EPROTO,
			       "its welcome is not valid: %u shards, %u rails, %u credits, chunks of %u bytes",
			       w->shards, w->rails, w->credits, w->chunk_bytes);
	if (w->eager_bytes != n->client->info.eager_bytes)
		return kv_fail(&n->error, -KV_EVERSION,
			       "its eager size is %u bytes, ours %u; make FI_OFI_RXM_BUFFER_SIZE equal on both sides",
			       w->eager_bytes, n->client->info.eager_bytes);
	return 0;
}

static int refused(struct kc_node *n, const struct wire_refuse *r)
{
	int rc = wire_status_error(r->status);
	char text[sizeof(r->text)];
	n->control.spent = true; /* it closes the connection */
	kc_printable(text, sizeof(text), r->text);
	/* A server that rebuilt its endpoints: calls wait for it. */
	if (rc == -KV_EBUSY)
		rc = -KV_ERESET;
	return kv_fail(&n->error, rc == 0 ? -KV_EPROTO : rc, "it refused us: %s", text);
}

struct open_peers {
	struct kc_node *node;
	const struct wire_welcome_msg *welcome;
	int rc;
};

static int peer_open(struct kc_node *n, const struct wire_welcome_msg *w, unsigned shard)
{
	struct kc_attachment *s = n->attachment;
	struct te_address addr[KV_RAILS_MAX];
	struct kv_error err = {0};
	int rc;
	for (unsigned rail = 0; rail < w->rails; rail++) {
		struct wire_blob_addr blob;
		rc = wire_welcome_addr(w, shard, rail, &blob);
		if (rc < 0)
			return kv_fail(&n->error, rc, "its welcome lacks the address of shard %u, rail %u", shard,
				       rail);
		addr[rail].len = blob.len;
		memcpy(addr[rail].data, blob.data, blob.len);
	}
	rc = te_peer_open(n->client->te, addr, w->rails, &s->peer[shard], &err);
	if (rc < 0)
		return kv_fail(&n->error, rc, "shard %u: %s", shard, err.text);
	if (te_peer_links(s->peer[shard]) != s->links_per_shard)
		return kv_fail(&n->error, -KV_EINTERNAL, "shard %u has %u links instead of %u", shard,
			       te_peer_links(s->peer[shard]), s->links_per_shard);
	/* Until they answer (health.c). */
	for (unsigned i = 0; i < s->links_per_shard && s->links_per_shard > 1; i++)
		te_peer_link_use(s->peer[shard], i, false);
	return 0;
}

static void peers_open(void *arg)
{
	struct open_peers *o = arg;
	o->rc = 0;
	for (unsigned shard = 0; shard < o->welcome->shards && o->rc == 0; shard++)
		o->rc = peer_open(o->node, o->welcome, shard);
}

static int name_check(struct kc_node *n, const char *node_id)
{
	const struct kv_server_entry *e = &n->client->pool->server[n->index].entry;
	const char *at = kc_where_text(n);
	if (node_id[0] == '\0' || strcmp(node_id, n->member_id[0] ? n->member_id : e->id) == 0)
		return 0;
	if (n->member_id[0])
		return kv_fail(&n->error, -KV_EINVAL, "its node id is %s, but the view of the cluster has %s at %s",
			       n->node_id, n->member_id, at);
	return kv_fail(&n->error, -KV_EINVAL,
		       "its node id is %s, but the list of servers calls it %s; "
		       "write %s=%s there, or start it with --node-id %s or none",
		       n->node_id, e->id, n->node_id, at, e->id);
}

/* The view names both, or their node ids differ. An incarnation can be copied. */
static bool are_two(const struct kc_node *n, const struct kc_node *other)
{
	if (n->member_id[0] && other->member_id[0] && n->node_id[0])
		return strcmp(n->member_id, other->member_id) != 0;
	return n->node_id[0] && other->node_id[0] && strcmp(n->node_id, other->node_id) != 0;
}

/* No server may be listed under two names. settled: of two that attach at the same time, refuse one. */
static int twin_check(struct kc_node *n, uint64_t incarnation, bool settled)
{
	for (unsigned i = 0; i < n->client->num_nodes; i++) {
		const struct kc_node *other = &n->client->node[i];
		if (other == n || n->retired || other->retired || !other->attachment ||
		    other->incarnation != incarnation || are_two(n, other))
			continue;
		if (!settled || other->state == KC_NODE_UP || other->index < n->index)
			return kv_fail(&n->error, -KV_EINVAL,
				       "it is the same server as %s of the list; remove one of the two from the list",
				       kc_node_name(other));
	}
	return 0;
}

/* Clients find each other's values only if they agree on a server's name, so its node id must not contradict the list.
 */
static int identity_check(struct kc_node *n, const struct wire_welcome_msg *w)
{
	const struct kv_server_entry *e = &n->client->pool->server[n->index].entry;
	bool seed = !e->named && n->member_id[0] == '\0'; /* the view may name it */
	int rc;
	kc_printable(n->node_id, sizeof(n->node_id), w->node_id);
	kc_printable(n->cluster, sizeof(n->cluster), w->cluster);
	n->own->welcomed = true;
	kc_cluster_name_hear(n->client->pool, n->index, n->cluster, loop_now(n->client->loop));
	if (seed && (w->flags & WIRE_WELCOME_VIEWS))
		return 0;
	rc = name_check(n, w->node_id);
	return rc < 0 ? rc : twin_check(n, w->incarnation, false);
}

static void heartbeat_set(struct kc_node *n, uint32_t ms)
{
	uint64_t before = n->own->pulse.beat_ns, limit = n->client->pool->options.peer_timeout_ns;
	n->own->pulse.beat_ns = KV_MIN(KV_MAX(ms, (uint32_t)HEARTBEAT_MS_MIN), (uint32_t)HEARTBEAT_MS_MAX) * 1000000ull;
	kc_node_quiet_take(n, 0);
	if (kc_node_silence_ns(n) > limit && n->own->pulse.beat_ns != before &&
	    atomic_exchange(&n->client->pool->server[n->index].troubles.beat_ms, ms) != ms)
		kv_warn(kc_node_log(n),
			"client %u: server %s sends a heartbeat every %u ms: it is taken for dead after %.1f s, not "
			"%.1f s; lower its --heartbeat-ms",
			n->client->index, kc_node_name(n), ms, (double)kc_node_silence_ns(n) / 1e9,
			(double)limit / 1e9);
}

static uint64_t cleared_by(const struct kvc_client *c, const struct wire_welcome_msg *w)
{
	uint64_t now_ns = loop_now(c->loop), ago_ns = w->cleared_ns ? w->clock_ns - w->cleared_ns : 0;
	return now_ns - KV_MIN(now_ns, ago_ns);
}

/* w points into the connection's buffer: receive nothing until done. */
static int welcome_take_await(struct kc_node *n, const struct wire_welcome_msg *w)
{
	struct kvc_client *c = n->client;
	struct open_peers o = {n, w, 0};
	int rc = welcome_check(n, w);
	if (rc == 0)
		rc = identity_check(n, w);
	if (rc < 0)
		return rc;
	KV_ASSERT(!n->attachment); /* rule 22 */
	rc = kc_attachment_create(n, w, KV_MAX(c->info.rails, (unsigned)w->rails), &n->attachment);
	if (rc < 0)
		return kv_fail(&n->error, rc, "no memory or no keys for an attachment of %u shards: %s", w->shards,
			       kv_strerror(rc));
	n->restarted |= n->incarnation && n->incarnation != w->incarnation;
	if (atomic_exchange(&c->pool->server[n->index].troubles.incarnation, w->incarnation) != w->incarnation &&
	    n->incarnation && n->incarnation != w->incarnation)
		kv_event(kc_node_log(n), KV_LOG_INFO,
			 KV_EVENT("server_restarted", KV_NUMBER("client", c->index),
				  KV_FIELD("server", kc_node_name(n))),
			 "client %u: server %s was restarted", c->index, kc_node_name(n));
	n->clock = (struct kc_clock){0};
	kc_clock_take(&n->clock, w->clock_ns, loop_now(c->loop));
	kc_cleared_learn(c->pool, n->index, w->generation, cleared_by(c, w));
	n->incarnation = w->incarnation; /* before parking: another node may meet the same server */
	kc_main_await(c, peers_open, &o);
	if (o.rc < 0)
		return o.rc;
	n->attachment->open = true;
	heartbeat_set(n, w->heartbeat_ms ? w->heartbeat_ms : HEARTBEAT_MS_DEFAULT);
	return 0;
}

/* A TLS server and a client without a key do not understand each other; neither can report it. */
static int unanswered(struct kc_node *n, int rc)
{
	if (rc == -KV_EPROTO && boot_context_mode(n->client->boot) == BOOT_PLAIN)
		return kv_fail(
			&n->error, rc,
			"it did not understand this client. It is not a kv-server, or it requires a key or a "
			"certificate, which this client does not have: give the client one (kvc_options.psk_file, "
			"--psk-file; or cert_file, key_file and ca_file, --cert, --key and --ca)");
	return kv_fail(&n->error, rc, "no answer to our hello: %s", kv_strerror(rc));
}

/* Whether the message belongs to an earlier attachment. On a new connection only heartbeats may. */
static bool about_earlier(const struct kc_node *n, enum wire_ctrl type)
{
	switch (type) {
	case WIRE_CTRL_HEARTBEAT:
		return true;
	case WIRE_CTRL_REGION_OK:
	case WIRE_CTRL_REVOKE_OK:
	case WIRE_CTRL_ADDRESS:
	case WIRE_CTRL_ADDRESS_OK:
	case WIRE_CTRL_GOODBYE:
	case WIRE_CTRL_SESSION_CHALLENGE:
	case WIRE_CTRL_SESSION_OK:
	case WIRE_CTRL_SESSION_REFUSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
	case WIRE_CTRL_ARENA:
	case WIRE_CTRL_LANDING:
	case WIRE_CTRL_VIEW:
	case WIRE_CTRL_VIEW_NEWS:
	case WIRE_CTRL_DRAIN_OK:
	case WIRE_CTRL_DRAIN_DONE:
	case WIRE_CTRL_LOCAL:
		return n->control.stage != KC_CONTROL_DIALLED;
	default:
		return false;
	}
}

/* Answers to overtaken HELLOs are dropped. The server has made an attachment for each and ended the one before, so each
 * is the prior one of the next HELLO. */
static int answer_to_hello_await(struct kc_node *n, struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	for (;;) {
		int rc = boot_recv_await(n->control.conn, m, deadline_ns);
		if (rc < 0)
			return rc;
		if (m->type == WIRE_CTRL_WELCOME) {
			if (n->control.stage == KC_CONTROL_DIALLED)
				n->control.stage = KC_CONTROL_WELCOMED;
			n->own->attempt.prior.session = m->welcome.session;
			memcpy(n->own->attempt.prior.token, m->welcome.token, sizeof(n->own->attempt.prior.token));
			if (--n->control.hellos == 0)
				return 0;
		} else if (!about_earlier(n, m->type)) {
			return 0;
		} else if (m->type == WIRE_CTRL_DRAIN_OK) {
			rc = kc_node_drain_take(n, &m->drain);
			if (rc < 0)
				return rc;
		} else if (m->type == WIRE_CTRL_DRAIN_DONE) {
			rc = kc_node_drained_take(n, &m->drained);
			if (rc < 0)
				return rc;
		}
		n->own->pulse.heard_ns = loop_turn_now(n->client->loop);
	}
}

static int hello_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m;
	int rc = hello_send_await(n, deadline_ns);
	if (rc == 0)
		rc = answer_to_hello_await(n, &m, deadline_ns);
	if (rc < 0)
		return n->error.text[0] ? rc : unanswered(n, rc);
	if (m.type == WIRE_CTRL_REFUSE)
		return refused(n, &m.refuse);
	if (m.type != WIRE_CTRL_WELCOME)
		return kv_fail(
			&n->error, -KV_EPROTO,
			"it answered our hello with message %d: another program than kv-server has this port, or "
			"a server of another release",
			(int)m.type);
	rc = welcome_take_await(n, &m.welcome);
	explicit_bzero(m.welcome.token, sizeof(m.welcome.token));
	return rc;
}

/* The list has only an address, and the view names the member. A new server, or one without its source, has no view
 * yet. */
static int member_check(struct kc_node *n)
{
	const struct kv_server_entry *e = &n->client->pool->server[n->index].entry;
	const struct kc_cluster *k = &n->client->cluster;
	int rc = name_check(n, n->node_id);
	if (rc == 0 && k->view.epoch == 0 && !e->named)
		return twin_check(n, n->incarnation, true);
	if (rc == 0 || e->named || !(n->attachment->flags & WIRE_WELCOME_MEMBERS) || k->view.epoch)
		return rc;
	if (k->votes.vote[n->index].digest)
		return kv_fail(&n->error, -KV_EPEERDOWN,
			       "servers announce %u views of the cluster that differ, and none has a majority: compare "
			       "their --members. (The list could call it %s=%s.)",
			       kc_votes_views(&k->votes, loop_now(n->client->loop)), n->node_id, e->text);
	return kv_fail(&n->error, -KV_EPEERDOWN,
		       "it knows no members of the cluster yet: "
		       "does the source of its --members answer? (The list could call it %s=%s.)",
		       n->node_id, e->text);
}

static unsigned unwelcomed(const struct kvc_client *c)
{
	unsigned count = 0;
	for (unsigned i = 0; i < c->num_nodes; i++)
		count += c->node[i].state == KC_NODE_CONNECTING && !c->node[i].retired && !c->node[i].own->welcomed;
	return count;
}

static void renamed_log(const struct kc_node *n, const char *name, const char *former)
{
	kv_event(kc_node_log(n), KV_LOG_WARN,
		 KV_EVENT("cluster_name", KV_NUMBER("client", n->client->index), KV_FIELD("name", name),
			  KV_FIELD("former", former)),
		 "client %u: most servers are of the cluster '%s', and no longer of '%s': compare their --cluster",
		 n->client->index, name, former);
}

/* Our cluster is the one in the options, else that of most servers (core/cluster_name.c). Others have no vote about
 * views. */
static int cluster_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	const char *wanted = c->pool->options.cluster ? c->pool->options.cluster : "";
	char ours[KV_NAME_MAX], former[KV_NAME_MAX];
	snprintf(ours, sizeof(ours), "%s", wanted);
	while (!wanted[0] && n->cluster[0]) {
		bool known = kc_cluster_name_look(c->pool, unwelcomed(c), loop_now(c->loop), ours, former);
		if (former[0])
			renamed_log(n, ours, former);
		if (known || overtaken(n) || loop_now(c->loop) >= deadline_ns)
			break;
		co_queue_wait_await(&n->kick, loop_now(c->loop) + VIEW_POLL_NS);
	}
	if (strcmp(n->cluster, ours) == 0 || (!n->cluster[0] && !wanted[0]) || overtaken(n))
		return 0;
	kc_votes_drop(&c->cluster.votes, n->index);
	return kv_fail(&n->error, -KV_EINVAL,
		       "it is of the cluster '%s', and this client of '%s': "
		       "give the client servers of one cluster, and its name",
		       n->cluster, ours);
}

static int view_ask_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	const kv_u128 ours = c->cluster.digest ? c->cluster.digest : c->cluster.held_digest;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_VIEW_ASK, .view_news.digest = ours};
	struct kv_view view;
	int rc = kc_node_send_await(n, &m, deadline_ns);
	while (rc == 0) {
		rc = boot_recv_await(n->control.conn, &m, deadline_ns);
		if (rc == 0 && m.type == WIRE_CTRL_VIEW)
			rc = wire_view_take(&m.view, &view) < 0 ? -KV_ENOMEM : 1;
		if (rc == 1) {
			c->hooks->view_came(n, &view, m.view.draining);
		} else if (rc == 0 && m.type == WIRE_CTRL_VIEW_NEWS && m.view_news.digest == ours) {
			c->hooks->view_announced(n, &m.view_news);
			rc = 1;
		} else if (rc == 0) { /* news sent with a heartbeat is no answer */
			rc = kc_node_aside(n, &m);
		}
	}
	return KV_MIN(rc, 0);
}

/* Ask for the view before any call: the server may be another member than listed, or none. The fastest server does not
 * decide alone. -KV_ERESET: it is no member. */
static int view_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	int rc = 0;
	if (n->attachment->flags & WIRE_WELCOME_VIEWS)
		do {
			rc = view_ask_await(n, deadline_ns);
			while (rc == 0 && !overtaken(n) && loop_now(c->loop) < deadline_ns && c->hooks->view_awaited(n))
				co_queue_wait_await(&n->kick, loop_now(c->loop) + VIEW_POLL_NS);
		} while (rc == 0 && !overtaken(n) && c->hooks->view_asked(n));
	if (rc < 0)
		return kv_fail(&n->error, rc, "asking for the view of the cluster: %s", kv_strerror(rc));
	return n->retired ? kv_fail(&n->error, -KV_ERESET, "it is no member of the cluster") : member_check(n);
}

/* After many fences the engine withholds its addresses for a while. */
static void address_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct loop *loop = n->client->loop;
	struct te_address a;
	while (te_address(n->client->te, 0, &a) == -KV_EBUSY && !n->client->closing && loop_now(loop) < deadline_ns)
		co_sleep_await(KV_MIN(deadline_ns, loop_now(loop) + ADDRESS_POLL_NS));
}

/* The pool waits for the first attempt; those that overtake it share its time. */
static uint64_t attempt_deadline(struct kc_node *n)
{
	uint64_t deadline = kv_deadline(loop_now(n->client->loop), n->client->pool->options.connect_timeout_ns);
	if (n->own->attempt.first_told)
		return deadline;
	n->own->attempt.first_ns = n->own->attempt.first_ns ? n->own->attempt.first_ns : deadline;
	return KV_MIN(n->own->attempt.first_ns, deadline);
}

/* The server may have moved. Once some addresses are known, wait at most a quarter of the time for other names. */
static int addresses_await(struct kc_node *n, uint64_t deadline_ns, struct kc_where *out)
{
	struct loop *loop = n->client->loop;
	uint64_t begun = loop_now(loop), patience = begun + (deadline_ns > begun ? (deadline_ns - begun) / 4 : 0);
	uint64_t pause = LOOK_UP_MIN_NS;
	int rc;
	while ((rc = kc_where_look(n, out, &n->error)) >= 0 && out->pending && !overtaken(n)) {
		if (rc == 0 && loop_now(loop) >= patience)
			break;
		if (loop_now(loop) >= deadline_ns)
			return kv_fail(&n->error, -KV_ETIMEOUT,
				       "host '%.100s' could not be looked up by the deadline: "
				       "do the name servers of this machine answer?",
				       kc_where_text(n));
		co_queue_wait_await(&n->kick, KV_MIN(deadline_ns, loop_now(loop) + pause));
		pause = KV_MIN(2 * pause, BOOT_RESOLVE_AGAIN_NS);
	}
	if (rc == 0) /* another host may have failed */
		n->error = (struct kv_error){0};
	if (rc == 0)
		kc_alias_looked_up(n, &out->to);
	return rc == 1 ? -KV_ERESET : rc;
}

/* If this machine has lost our endpoints' address, use the one that routes to the server. */
static void dialled(struct kc_node *n, const struct kc_where *w, unsigned i)
{
	struct sockaddr_storage local;
	struct te_address a;
	kc_where_dialled(n, w, i);
	if (te_address(n->client->te, 0, &a) == -KV_EPROVIDER &&
	    kv_sockaddr_route(&w->to.addr[i], w->to.len[i], &local))
		te_local_set(n->client->te, &local);
}

/* *told becomes the first error, or a later -KV_EDENIED. */
static int dial_one_await(struct kc_node *n, const struct kc_where *w, unsigned i, uint64_t deadline_ns, int *told)
{
	struct kvc_client *c = n->client;
	struct kv_hostport host = {.port = 0};
	const struct boot_server server = {.addr = &w->to.addr[i], .addr_len = w->to.len[i], .name = host.host};
	struct kv_error err = {0};
	int rc;
	(void)kv_where_at(w->text, w->host[i], &host);
	/* TCP gives up unacknowledged bytes when we give up a silent server. */
	rc = boot_connect_await(c->boot, &server, (unsigned)(c->pool->options.peer_timeout_ns / 1000000), deadline_ns,
				&n->control.conn, &err);
	if (rc == 0)
		dialled(n, w, i);
	else if (*told == 0 || rc == -KV_EDENIED)
		*told = kv_fail(&n->error, rc, "%s%s", err.text,
				w->to.count > 1 && rc != -KV_EDENIED ? " (nor do its other addresses)" : "");
	return rc;
}

/* Several addresses first get a short time each, so that a silent one delays no other; then the silent ones share the
 * rest. */
static int dial_await(struct kc_node *n, const struct kc_where *w, uint64_t deadline_ns)
{
	struct loop *loop = n->client->loop;
	bool silent[KV_ADDRESSES_MAX], quick = w->to.count > 1;
	unsigned todo = w->to.count, next = 0;
	int rc = -KV_EPEERDOWN, told = 0;
	memset(silent, 1, sizeof(silent));
	n->own->attempt.dialer = co_self();
	for (unsigned round = quick ? 0 : 1; round < 2 && rc < 0; round++, todo = next, next = 0)
		for (unsigned i = 0; i < w->to.count && rc < 0 && !overtaken(n); i++) {
			uint64_t now = loop_now(loop), left = deadline_ns > now ? deadline_ns - now : 0;
			uint64_t share = todo ? left / todo : 0;
			if (!silent[i])
				continue;
			rc = dial_one_await(n, w, i, now + (round == 0 ? KV_MIN(share, DIAL_QUICK_NS) : share), &told);
			silent[i] = rc == -KV_ETIMEOUT;
			next += silent[i];
			todo--;
		}
	n->own->attempt.dialer = NULL;
	io_interrupt(co_self(), false);
	if (rc < 0)
		return told < 0 ? told : -KV_ERESET;
	n->error = (struct kv_error){0}; /* of another address */
	return 0;
}

void kc_conn_close_await(struct kc_node *n)
{
	if (!n->control.conn)
		return;
	boot_shutdown(n->control.conn);
	while (n->control.senders > 0)
		co_queue_wait_await(&n->kick, KV_NEVER);
	boot_close(&n->control.conn);
}

static int dial_and_hello_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kc_where addresses;
	int rc = addresses_await(n, deadline_ns, &addresses);
	if (rc == 0)
		rc = dial_await(n, &addresses, deadline_ns);
	if (rc < 0)
		return rc;
	n->control.stage = KC_CONTROL_DIALLED;
	n->control.hellos = 0;
	n->drain.asked = 0;
	n->drain.answered = false;
	return overtaken(n) ? -KV_ERESET : hello_await(n, deadline_ns);
}

static int welcomed_await(struct kc_node *n, uint64_t deadline_ns)
{
	int rc;
	if (n->control.conn) {
		rc = hello_await(n, deadline_ns);
		if (rc == 0 || overtaken(n) || boot_sound(n->control.conn))
			return rc;
		kc_conn_close_await(n);
		n->error = (struct kv_error){0};
	}
	return dial_and_hello_await(n, deadline_ns);
}

/* Regions and deletes may come up while others are announced: repeat until none is left. */
static int last_await(struct kc_node *n, uint64_t deadline)
{
	uint64_t noted;
	int rc;
	do {
		rc = kc_owed_await(n, deadline);
		noted = kc_owed_noted(n->client);
		if (rc == 0 && !overtaken(n))
			rc = kc_regions_await(n, deadline);
	} while (rc == 0 && !overtaken(n) && kc_owed_noted(n->client) != noted);
	return rc;
}

static int attach_await(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	uint64_t deadline = attempt_deadline(n);
	int rc;
	address_await(n, deadline);
	if (n->control.spent || (n->control.conn && (!boot_sound(n->control.conn) || n->control.hellos >= HELLOS_MAX)))
		kc_conn_close_await(n);
	n->redo = NULL;
	n->control.spent = false;
	n->error = (struct kv_error){0};
	memset(n->own->regions.acked, 0, sizeof(n->own->regions.acked));
	if (c->closing)
		return kv_fail(&n->error, -KV_ERESET, "the connection was interrupted");
	rc = welcomed_await(n, deadline);
	if (rc < 0 && !overtaken(n))
		return rc;
	if (!overtaken(n))
		rc = cluster_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = view_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kc_arenas_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kc_regions_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kc_links_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kc_local_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kc_landings_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = last_await(n, deadline);
	/* The failure of an overtaken attempt says nothing about the server. */
	if (overtaken(n))
		return kv_fail(&n->error, -KV_ERESET, "the connection was interrupted");
	/* Nor does a used connection that breaks now: the next attempt dials. */
	if (rc < 0 && n->control.stage == KC_CONTROL_USED && !boot_sound(n->control.conn))
		return kv_fail(&n->error, -KV_ERESET, "the control connection broke while we attached over it");
	return rc;
}

int kc_connect_await(struct kc_node *n)
{
	int rc = attach_await(n);
	if (rc == 0 || !overtaken(n))
		kc_where_judge(n, rc == 0);
	return rc;
}
