/* SPDX-License-Identifier: Apache-2.0 */
/* node.c -- one client's view of one server: a coroutine that connects, serves the control connection, and begins
 * again.
 *
 *   CONNECTING --dial, hello, regions acknowledged, links answered a PING (health.c)--> UP --lost--> DOWN
 *       --back-off--> attempt ... --> UP
 *   UP --redo--> CONNECTING (calls wait) --hello, regions, links--> UP
 *
 * DOWN means that the server is gone: calls fail at once while attempts go on in the background. If it said goodbye
 * (`left`) its keys are misses instead, until it is back: what it held went with it. It is DOWN from its goodbye on,
 * and the session lives until all that was under way has come to its end; then we say goodbye, too. A break that is
 * ours (the endpoints were rebuilt, a frame could not be sent, a link stays silent) is a redo: the first new attempt
 * begins at once and calls wait for its outcome.
 *
 * A redo keeps the control connection, unless that is the trouble: HELLO is said again on it
 * (docs/reference/protocol.md 2.10), so that a fence because of one server costs the others a message each and no TLS.
 * The reader is interrupted, not the connection: what others are sending goes out before HELLO. A redo may overtake an
 * attempt that waits for its WELCOME; the next HELLO follows at once, and all WELCOMEs but the last are dropped
 * (`hellos`). When HELLO on the connection comes to nothing because the connection is broken, the same attempt dials.
 * The connection is given up when its server may keep our HELLO waiting behind something that takes long to answer: a
 * REVOKE, or the goodbye of a further session.
 *
 * The same coroutine reads the connection and sends heartbeats. A server that is not heard for the time of silence is
 * down, at that moment and not at the next beat; but only if beats of our own have gone by meanwhile, so that a process
 * that was stopped for a while does not take its own absence for the server's. Others (memory.c, the closer) may send;
 * the connection is closed only when none of them is inside.
 *
 * Dropping a session while requests are out: see attachment.c and kvc_client_fence_await. Pieces go to quarantine only
 * while another server would suffer from a fence; otherwise fencing is free. Where a fence is one of this server alone
 * nobody else suffers. */
#include <stdlib.h>

#include "host/host.h"
#include "kvclient/pool/client.h"

enum {
	HEARTBEAT_MS_DEFAULT = 500,
	HEARTBEAT_MS_MIN = 10,
	HEARTBEAT_MS_MAX = 60000,
	SILENCE_BEATS_MIN = 2,
	SESSION_BEATS = 2 /* times of silence until a question about a session is given up */
};

#define BACKOFF_MIN_NS  50000000ull
#define BACKOFF_MAX_NS  500000000ull /* with connecting: within a second after it is back */
#define SEND_TIMEOUT_NS 2000000000ull
#define ADDRESS_POLL_NS 10000000ull
#define LOOK_UP_MIN_NS  1000000ull /* between questions whether a name has been looked up, at first */
#define HELLOS_MAX      8u         /* without an answer: then the connection is given up */
#define PART_POLL_NS    5000000ull /* between two looks whether anything is under way at a server that ends */

static const char *node_name(const struct kvc_node *n)
{
	return n->client->pool->server[n->index].entry.text;
}

static const struct kv_log *node_log(const struct kvc_node *n)
{
	return kvc_client_log(n->client);
}

static void node_set(struct kvc_node *n, enum kvc_node_state state)
{
	n->state = state;
	co_queue_wake_all(&n->changed);
}

/* Text of a stranger's: it may end up on a terminal. */
static void printable(char *out, size_t cap, const char *text)
{
	snprintf(out, cap, "%s", text);
	for (char *t = out; *t; t++)
		if (*t < ' ' || *t > '~')
			*t = '?';
}

/* ---- for others on the loop ---- */

/* Whether the server may answer what we say next only when transfers have ended: those may be the trouble. */
static bool answers_may_wait(const struct kvc_node *n)
{
	return n->revokes > 0 || kvc_subs_parting(n);
}

static void redo(struct kvc_node *n, const char *why, bool redial)
{
	n->redial |= redial || n->client->closing || answers_may_wait(n);
	n->redo = true;
	n->redo_why = why;
	if (n->state == KVC_NODE_UP)
		node_set(n, KVC_NODE_CONNECTING);
	else if (n->session && n->session->open && !n->session->served)
		kvc_session_fail(n->session, -KV_ERESET, false); /* an attempt: only PINGs are out */
	if (n->conn && n->redial)
		boot_shutdown(n->conn);
	else if (n->conn)
		boot_interrupt(n->conn);
	else if (n->dialer && n->client->closing)
		io_interrupt(n->dialer, true); /* or closing would wait for the connect timeout */
	co_queue_wake_all(&n->kick);
}

void kvc_node_redo(struct kvc_node *n, const char *why)
{
	redo(n, why, false);
}

void kvc_node_redial(struct kvc_node *n, const char *why)
{
	redo(n, why, true);
}

int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_session **out)
{
	for (;;) {
		if (n->client->closing)
			return -KV_ECLOSED;
		if (n->state == KVC_NODE_UP) {
			*out = n->session;
			return 0;
		}
		if (n->state != KVC_NODE_CONNECTING && !n->left)
			return n->refusal ? n->refusal : -KV_EPEERDOWN;
		if (n->state != KVC_NODE_CONNECTING) {
			co_yield_await(); /* misses cost nothing: one who makes many leaves the loop to others */
			return -KV_ELEFT;
		}
		if (co_queue_wait_await(&n->changed, deadline_ns) < 0)
			return -KV_ETIMEOUT;
	}
}

bool kvc_node_down(const struct kvc_node *n, int64_t rc)
{
	return rc == -KV_EPEERDOWN || (rc < 0 && rc == n->refusal && n->state == KVC_NODE_DOWN);
}

int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	if (!n->conn)
		return -KV_EPEERDOWN;
	n->senders++;
	rc = boot_send_await(n->conn, m, deadline_ns);
	if (--n->senders == 0)
		co_queue_wake_all(&n->kick);
	return rc;
}

/* ---- regions ---- */

static int region_send_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REGION};
	struct te_remote remote;
	struct te_key *keys = NULL;
	uint8_t *packed = NULL;
	int rc = -KV_ENOMEM;
	te_region_announce(region, &remote, NULL);
	keys = calloc((size_t)remote.rails * remote.parts, sizeof(*keys));
	packed = calloc((size_t)remote.rails * remote.parts, 16);
	if (!keys || !packed)
		goto out;
	te_region_announce(region, &remote, keys);
	m.region.id = id;
	m.region.rails = remote.rails;
	m.region.parts = remote.parts;
	m.region.virt = remote.virt;
	m.region.len_bytes = remote.len_bytes;
	m.region.part_bytes = remote.part_bytes;
	m.region.keys = packed;
	for (unsigned rail = 0; rail < remote.rails; rail++) {
		for (uint32_t part = 0; part < remote.parts; part++) {
			const struct te_key *k = &keys[(size_t)rail * remote.parts + part];
			wire_region_put(packed, remote.parts, rail, part, k->base, k->key);
		}
	}
	rc = kvc_node_send_await(n, &m, deadline_ns);
out:
	free(keys);
	free(packed);
	return rc;
}

/* Wait until the server's word on region `id` of this slot is there (region_answer_take), or the session has gone. What
 * stands in the slot is that registration's alone: answers to others may be read in the same turn. */
static int answer_await(struct kvc_node *n, uint32_t slot, uint32_t id, bool known, uint64_t deadline_ns)
{
	struct kvc_session *s = n->session;
	while ((n->acked[slot] == id) != known) {
		if (n->refused[slot].id == id)
			return wire_status_error(n->refused[slot].status);
		if (n->client->closing)
			return -KV_ECLOSED;
		if (n->state != KVC_NODE_UP || n->session != s)
			return -KV_EPEERDOWN;
		if (co_queue_wait_await(&n->changed, deadline_ns) < 0)
			return -KV_ETIMEOUT;
	}
	return 0;
}

int kvc_node_region_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
			  uint64_t deadline_ns)
{
	int rc;
	if (n->state != KVC_NODE_UP || n->acked[slot] == id)
		return 0;
	rc = region_send_await(n, region, id, deadline_ns);
	if (rc == 0)
		rc = answer_await(n, slot, id, true, deadline_ns);
	/* A connection that was lost meanwhile announces all regions when it comes back. */
	return rc == -KV_EPEERDOWN ? 0 : rc;
}

int kvc_node_revoke_await(struct kvc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_REVOKE, .region_ok.id = id};
	int rc;
	if (n->state != KVC_NODE_UP || n->acked[slot] != id)
		return 0;
	n->revokes++;
	rc = kvc_node_send_await(n, &m, deadline_ns);
	if (rc == 0)
		rc = answer_await(n, slot, id, false, deadline_ns);
	n->revokes--;
	n->acked[slot] = 0;
	return rc == -KV_EPEERDOWN ? 0 : rc;
}

/* ---- connecting ---- */

/* Whether this attempt has been overtaken: by a rebuild of our endpoints, or by closing. */
static bool overtaken(const struct kvc_node *n)
{
	return n->redo || n->client->closing;
}

static int hello_send_await(struct kvc_node *n, uint64_t deadline_ns)
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
	for (unsigned i = 0; i < c->info.rails; i++) {
		struct te_address a;
		rc = te_address(c->te, i, &a);
		if (rc < 0)
			return kv_fail(&n->error, rc, "our own fabric address of rail %u is not to be had: %s", i,
				       kv_strerror(rc));
		h->addr[i].len = a.len;
		memcpy(h->addr[i].data, a.data, a.len);
	}
	h->prior = n->prior;
	rc = boot_send_await(n->conn, &m, deadline_ns);
	n->hellos += rc == 0;
	explicit_bzero(h->prior.token, sizeof(h->prior.token));
	return rc;
}

static int welcome_check(struct kvc_node *n, const struct wire_welcome_msg *w)
{
	if (w->version != WIRE_VERSION)
		return kv_fail(&n->error, -KV_EVERSION, "it speaks protocol version %u, we speak %u", w->version,
			       WIRE_VERSION);
	if (w->shards == 0 || w->shards > KV_SHARDS_MAX || w->rails == 0 || w->rails > KV_RAILS_MAX ||
	    w->credits == 0 || w->chunk_bytes == 0)
		return kv_fail(&n->error, -KV_EPROTO,
			       "its welcome makes no sense: %u shards, %u rails, %u credits, chunks of %u bytes",
			       w->shards, w->rails, w->credits, w->chunk_bytes);
	if (w->eager_bytes != n->client->info.eager_bytes)
		return kv_fail(&n->error, -KV_EVERSION,
			       "its eager size is %u bytes, ours %u; make FI_OFI_RXM_BUFFER_SIZE equal on both sides",
			       w->eager_bytes, n->client->info.eager_bytes);
	return 0;
}

static int refused(struct kvc_node *n, const struct wire_refuse *r)
{
	int rc = wire_status_error(r->status);
	char text[sizeof(r->text)];
	n->redial = true; /* it closes the connection */
	printable(text, sizeof(text), r->text);
	/* It keeps the addresses of endpoints that it had to rebuild to itself for a moment: it is there, and is waited
	 * for. */
	if (rc == -KV_EBUSY)
		rc = -KV_ERESET;
	return kv_fail(&n->error, rc == 0 ? -KV_EPROTO : rc, "it refused us: %s", text);
}

struct open_peers {
	struct kvc_node *node;
	const struct wire_welcome_msg *welcome;
	int rc;
};

static int peer_open(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned shard)
{
	struct kvc_session *s = n->session;
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
	/* Until they have answered (health.c). */
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

/* Keys are placed by the names in our list, and every client finds them only if all of them give the same server the
 * same name: what the server calls itself must not contradict, and no server may be there under two names. */
static int identity_check(struct kvc_node *n, const struct wire_welcome_msg *w)
{
	const struct kv_server_entry *e = &n->client->pool->server[n->index].entry;
	char at[KV_HOST_MAX + 16];
	printable(n->node_id, sizeof(n->node_id), w->node_id);
	if (w->node_id[0] && strcmp(w->node_id, e->id) != 0)
		return kv_fail(&n->error, -KV_EINVAL,
			       "its node id is %s, but the list of servers calls it %s; write %s=%s there, or start it "
			       "with --node-id %s or none",
			       n->node_id, e->id, n->node_id, kv_hostport_format(&e->at, at, sizeof(at)), e->id);
	for (unsigned i = 0; i < n->client->pool->num_servers; i++) {
		const struct kvc_node *other = &n->client->node[i];
		if (other != n && other->session && other->incarnation == w->incarnation)
			return kv_fail(&n->error, -KV_EINVAL,
				       "it is the same server as %s of the list; take one of the two out of it",
				       node_name(other));
	}
	return 0;
}

static uint64_t silence_ns(const struct kvc_node *n)
{
	return KV_MAX(SILENCE_BEATS_MIN * n->heartbeat_ns, n->client->pool->options.peer_timeout_ns);
}

static void heartbeat_set(struct kvc_node *n, uint32_t ms)
{
	uint64_t before = n->heartbeat_ns, limit = n->client->pool->options.peer_timeout_ns;
	n->heartbeat_ns = KV_MIN(KV_MAX(ms, (uint32_t)HEARTBEAT_MS_MIN), (uint32_t)HEARTBEAT_MS_MAX) * 1000000ull;
	if (silence_ns(n) > limit && n->heartbeat_ns != before)
		kv_warn(node_log(n),
			"client %u: server %s sends a heartbeat every %u ms: it is taken for dead after %.1f s, not "
			"%.1f s; lower its --heartbeat-ms",
			n->client->index, node_name(n), ms, (double)silence_ns(n) / 1e9, (double)limit / 1e9);
}

/* Take what the server says about itself. w points into the connection's buffer: nothing is received meanwhile. */
static int welcome_take_await(struct kvc_node *n, const struct wire_welcome_msg *w)
{
	struct kvc_client *c = n->client;
	struct open_peers o = {n, w, 0};
	int rc = welcome_check(n, w);
	if (rc == 0)
		rc = identity_check(n, w);
	if (rc < 0)
		return rc;
	rc = kvc_session_create(n, w, KV_MAX(c->info.rails, (unsigned)w->rails), &n->session);
	if (rc < 0)
		return kv_fail(&n->error, rc, "no memory or no keys for a session of %u shards: %s", w->shards,
			       kv_strerror(rc));
	if (n->incarnation && n->incarnation != w->incarnation)
		kv_info(node_log(n), "client %u: server %s was restarted", c->index, node_name(n));
	n->incarnation = w->incarnation; /* before anything parks: another node may be about to meet the same server */
	kvc_main_await(c, peers_open, &o);
	if (o.rc < 0)
		return o.rc;
	n->session->open = true;
	heartbeat_set(n, w->heartbeat_ms ? w->heartbeat_ms : HEARTBEAT_MS_DEFAULT);
	return 0;
}

/* What speaks TLS alone does not understand a client that has no key, and the other way round: neither can say so. */
static int unanswered(struct kvc_node *n, int rc)
{
	if (rc == -KV_EPROTO && boot_context_mode(n->client->boot) == BOOT_PLAIN)
		return kv_fail(&n->error, rc,
			       "it did not understand us: it is a kv-server that wants a key or a certificate, which "
			       "this client does "
			       "not give (--psk-file, or --cert, --key and --ca), or it is no kv-server");
	return kv_fail(&n->error, rc, "no answer to our hello: %s", kv_strerror(rc));
}

/* Between HELLO and WELCOME all else is about an earlier attachment; but on a connection that had none there are only
 * heartbeats. */
static bool about_earlier(const struct kvc_node *n, enum wire_ctrl type)
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
		return n->welcomed;
	default:
		return false;
	}
}

/* The answer to the last HELLO: those to earlier ones, which were overtaken, are of use to nobody. But the server has
 * an attachment for each of them, and no longer the one before it. */
static int answer_to_hello_await(struct kvc_node *n, struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	for (;;) {
		int rc = boot_recv_await(n->conn, m, deadline_ns);
		if (rc < 0)
			return rc;
		if (m->type == WIRE_CTRL_WELCOME) {
			n->welcomed = true;
			n->prior.session = m->welcome.session;
			memcpy(n->prior.token, m->welcome.token, sizeof(n->prior.token));
			if (--n->hellos == 0)
				return 0;
		} else if (!about_earlier(n, m->type)) {
			return 0;
		}
		n->heard_ns = loop_turn_now(n->client->loop);
	}
}

static int hello_await(struct kvc_node *n, uint64_t deadline_ns)
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
		return kv_fail(&n->error, -KV_EPROTO, "it answered our hello with message %d", (int)m.type);
	rc = welcome_take_await(n, &m.welcome);
	explicit_bzero(m.welcome.token, sizeof(m.welcome.token));
	return rc;
}

/* The next region that this session has not acknowledged. */
static bool region_missing(const struct kvc_node *n, struct te_region **out, uint32_t *out_id, uint32_t *out_slot)
{
	const struct kvc_client *c = n->client;
	if (n->acked[0] != KVC_REGION_BUFFER) {
		*out = c->region;
		*out_id = KVC_REGION_BUFFER;
		*out_slot = 0;
		return true;
	}
	for (unsigned i = 0; i < c->num_mems; i++) {
		const struct kvc_client_mem *m = c->mem[i];
		if (m->closing || n->acked[m->slot] == m->id)
			continue;
		*out = m->region;
		*out_id = m->id;
		*out_slot = m->slot;
		return true;
	}
	return false;
}

static int region_announce_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
				 uint64_t deadline_ns)
{
	struct wire_ctrl_msg m;
	int rc = region_send_await(n, region, id, deadline_ns);
	while (rc == 0) {
		rc = boot_recv_await(n->conn, &m, deadline_ns);
		if (rc == 0 && m.type == WIRE_CTRL_REGION_OK && m.region_ok.id == id)
			break;
		if (rc == 0 && m.type == WIRE_CTRL_ADDRESS)
			rc = -KV_ERESET; /* the session is void already */
		if (rc == 0 && m.type == WIRE_CTRL_GOODBYE)
			rc = -KV_ELEFT;
	}
	if (rc == 0)
		rc = wire_status_error(m.region_ok.status);
	if (rc < 0)
		return kv_fail(&n->error, rc, "announcing memory region %u: %s", id, kv_strerror(rc));
	n->acked[slot] = id;
	return 0;
}

static int regions_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct te_region *region;
	uint32_t id, slot;
	int rc = 0;
	while (rc == 0 && !overtaken(n) && region_missing(n, &region, &id, &slot))
		rc = region_announce_await(n, region, id, slot, deadline_ns);
	return rc;
}

/* After many fences the engine keeps its new addresses to itself for a while. */
static void address_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct loop *loop = n->client->loop;
	struct te_address a;
	while (te_address(n->client->te, 0, &a) == -KV_EBUSY && !n->client->closing && loop_now(loop) < deadline_ns)
		co_sleep_await(KV_MIN(deadline_ns, loop_now(loop) + ADDRESS_POLL_NS));
}

/* The pool waits for the first attempt. Those that are overtaken share its time with those that follow. */
static uint64_t attempt_deadline(struct kvc_node *n)
{
	uint64_t deadline = kv_deadline(loop_now(n->client->loop), n->client->pool->options.connect_timeout_ns);
	if (n->attempted)
		return deadline;
	n->first_ns = n->first_ns ? n->first_ns : deadline;
	return KV_MIN(n->first_ns, deadline);
}

/* The server's addresses, as of now: it may have moved since the last connection. */
static int addresses_await(struct kvc_node *n, uint64_t deadline_ns, struct kv_addresses *out)
{
	struct kvc_pool *p = n->client->pool;
	const struct kv_hostport *at = &p->server[n->index].entry.at;
	struct loop *loop = n->client->loop;
	uint64_t pause = LOOK_UP_MIN_NS;
	int rc;
	while ((rc = boot_resolve(p->resolver, n->index, at, out, &n->error)) == 1 && !overtaken(n)) {
		if (loop_now(loop) >= deadline_ns)
			return kv_fail(&n->error, -KV_ETIMEOUT,
				       "host '%.100s' could not be looked up by the deadline: do the name servers of "
				       "this machine answer?",
				       at->host);
		co_queue_wait_await(&n->kick, KV_MIN(deadline_ns, loop_now(loop) + pause));
		pause = KV_MIN(2 * pause, BOOT_RESOLVE_AGAIN_NS);
	}
	return rc == 1 ? -KV_ERESET : rc;
}

/* Each address in turn: of the time that is left one of those that are left gets its share. What is told of them all is
 * what the first one said, unless another one is there and does not let us in. */
static int dial_await(struct kvc_node *n, const struct kv_addresses *to, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	const char *host = c->pool->server[n->index].entry.at.host;
	int rc = -KV_EPEERDOWN, told = 0;
	n->dialer = co_self();
	for (unsigned i = 0; i < to->count && rc < 0 && !overtaken(n); i++) {
		const struct boot_server server = {.addr = &to->addr[i], .addr_len = to->len[i], .name = host};
		uint64_t now = loop_now(c->loop), left = deadline_ns > now ? deadline_ns - now : 0;
		struct kv_error err = {0};
		/* TCP gives up bytes that nobody acknowledges when we give up a server that says nothing. */
		rc = boot_connect_await(c->boot, &server, (unsigned)(c->pool->options.peer_timeout_ns / 1000000),
					now + left / (to->count - i), &n->conn, &err);
		if (rc < 0 && (told == 0 || rc == -KV_EDENIED))
			told = kv_fail(&n->error, rc, "%s%s", err.text,
				       to->count > 1 && rc != -KV_EDENIED ? " (nor do its other addresses)" : "");
	}
	n->dialer = NULL;
	io_interrupt(co_self(), false);
	if (rc == 0) /* what another address said is not what the hello fails with */
		n->error = (struct kv_error){0};
	return rc == 0 ? 0 : told < 0 ? told : -KV_ERESET;
}

/* Nobody is inside it any more when it is closed. */
static void conn_close_await(struct kvc_node *n)
{
	if (!n->conn)
		return;
	boot_shutdown(n->conn);
	while (n->senders > 0)
		co_queue_wait_await(&n->kick, KV_NEVER);
	boot_close(&n->conn);
}

static int dial_and_hello_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct kv_addresses addresses;
	int rc = addresses_await(n, deadline_ns, &addresses);
	if (rc == 0)
		rc = dial_await(n, &addresses, deadline_ns);
	if (rc < 0)
		return rc;
	n->fresh = true;
	n->welcomed = false;
	n->hellos = 0;
	return overtaken(n) ? -KV_ERESET : hello_await(n, deadline_ns);
}

/* On the connection that is there; on a new one if there is none, or if it turns out to be broken. */
static int welcomed_await(struct kvc_node *n, uint64_t deadline_ns)
{
	int rc;
	if (n->conn) {
		rc = hello_await(n, deadline_ns);
		if (rc == 0 || overtaken(n) || boot_sound(n->conn))
			return rc;
		conn_close_await(n);
		n->error = (struct kv_error){0};
	}
	return dial_and_hello_await(n, deadline_ns);
}

static int connect_await(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	uint64_t deadline = attempt_deadline(n);
	int rc;
	address_await(n, deadline);
	if (n->redial || (n->conn && (!boot_sound(n->conn) || n->hellos >= HELLOS_MAX)))
		conn_close_await(n);
	n->redo = n->redial = false;
	n->error = (struct kv_error){0};
	memset(n->acked, 0, sizeof(n->acked));
	if (c->closing)
		return kv_fail(&n->error, -KV_ERESET, "the connection was interrupted");
	rc = welcomed_await(n, deadline);
	if (rc < 0 && !overtaken(n))
		return rc;
	if (!overtaken(n))
		rc = kvc_arenas_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = regions_await(n, deadline);
	if (rc == 0 && !overtaken(n))
		rc = kvc_links_await(n, deadline);
	/* Memory registered while the links were pinged. */
	if (rc == 0 && !overtaken(n))
		rc = regions_await(n, deadline);
	/* Being overtaken interrupts the attempt, and what stood at it then has failed for no reason of the server's.
	 */
	if (overtaken(n))
		return kv_fail(&n->error, -KV_ERESET, "the connection was interrupted");
	/* Nor does it say that the server is gone when the connection that we had breaks: the next attempt dials. */
	if (rc < 0 && !n->fresh && !boot_sound(n->conn))
		return kv_fail(&n->error, -KV_ERESET, "the control connection broke while a session was made on it");
	return rc;
}

/* ---- being up ---- */

static void heartbeat_take(struct kvc_node *n, const struct wire_heartbeat *h)
{
	struct kvc_session *s = n->session;
	uint64_t now = loop_turn_now(n->client->loop);
	for (unsigned i = 0; i < s->shards && i < h->shards; i++) {
		if (s->turns[i] == h->turns[i]) {
			s->turns_same[i]++;
			continue;
		}
		s->turns[i] = h->turns[i];
		s->turns_same[i] = 0;
		s->turns_ns[i] = now;
	}
}

/* The server knows a region (REGION_OK), does not (another status), or has forgotten it (REVOKE_OK). */
static void region_answer_take(struct kvc_node *n, uint32_t id, int32_t status, bool known)
{
	struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->num_mems; i++) {
		uint32_t slot = c->mem[i]->slot;
		if (c->mem[i]->id != id)
			continue;
		if (status != WIRE_OK)
			n->refused[slot] = (struct kvc_refusal){id, status};
		else if (known)
			n->acked[slot] = id;
		else if (n->acked[slot] == id)
			n->acked[slot] = 0;
	}
	co_queue_wake_all(&n->changed);
}

/* The server ends. No new call goes there; what is under way comes to its end (part_await). */
static void leave(struct kvc_node *n)
{
	if (n->left || n->client->closing)
		return;
	n->left = true;
	snprintf(n->why, sizeof(n->why), "it said goodbye");
	kv_info(node_log(n), "client %u: server %s ends: its keys are misses until it is back", n->client->index,
		node_name(n));
	node_set(n, KVC_NODE_DOWN);
}

static bool anything_out(const struct kvc_session *s)
{
	for (uint32_t i = 0; i < s->num_links; i++)
		if (!kv_list_empty(&s->link[i].sent) || !kv_list_empty(&s->link[i].queue))
			return true;
	return false;
}

/* Say goodbye to a server that did, once nothing of ours is under way there. */
static int part_await(struct kvc_node *n)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	if (!n->left || n->parting || anything_out(n->session))
		return 0;
	n->parting = true;
	return kvc_node_send_await(n, &m, loop_now(n->client->loop) + SEND_TIMEOUT_NS);
}

/* 1: we have parted. */
static int control_take_await(struct kvc_node *n, const struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg done = {.type = WIRE_CTRL_GOODBYE_DONE};
	char text[sizeof(m->refuse.text)];
	switch (m->type) {
	case WIRE_CTRL_HEARTBEAT:
		heartbeat_take(n, &m->heartbeat);
		return 0;
	case WIRE_CTRL_REGION_OK:
		region_answer_take(n, m->region_ok.id, m->region_ok.status, true);
		return 0;
	case WIRE_CTRL_REVOKE_OK:
		region_answer_take(n, m->region_ok.id, WIRE_OK, false);
		return 0;
	case WIRE_CTRL_ADDRESS:
		/* The server rebuilt its endpoints: our requests there are void like after a restart. */
		kvc_node_redo(n, "its endpoints were rebuilt");
		return 0;
	case WIRE_CTRL_GOODBYE_OK:
		explicit_bzero(&n->prior, sizeof(n->prior)); /* nothing of ours is left there */
		kvc_node_send_await(n, &done, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
		return 1;
	case WIRE_CTRL_SESSION_CHALLENGE:
	case WIRE_CTRL_SESSION_OK:
	case WIRE_CTRL_SESSION_REFUSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
		if (kvc_subs_message(n, m) == 0)
			return 0;
		return kv_fail(&n->error, -KV_EPROTO, "it answered a question about a session that was not asked");
	case WIRE_CTRL_GOODBYE:
		leave(n);
		return 0;
	case WIRE_CTRL_REFUSE:
		printable(text, sizeof(text), m->refuse.text);
		return kv_fail(&n->error, -KV_EPEERDOWN, "it closes the session: %s", text);
	default:
		return kv_fail(&n->error, -KV_EPROTO, "it sent control message %d, which makes no sense here",
			       (int)m->type);
	}
}

/* When the server is given up if nothing comes. Not before some beats of our own have gone by since it was heard. */
static uint64_t silence_end(const struct kvc_node *n)
{
	uint64_t beats = silence_ns(n) / n->heartbeat_ns - 1;
	return n->silent_beats >= beats ? n->heard_ns + silence_ns(n) : KV_NEVER;
}

/* What is done at every beat. */
static int beat_await(struct kvc_node *n)
{
	struct kvc_session *s = n->session;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HEARTBEAT};
	uint64_t now = loop_now(n->client->loop);
	struct te_stats stats;
	int rc = 0;
	te_stats(n->client->te, &stats);
	kvc_set(&n->client->count.eagain, stats.eagain);
	kvc_set(&n->client->count.door_let_in, stats.door_let_in);
	kvc_set(&n->client->count.door_turned,
		stats.door_strangers + stats.door_claims + stats.door_twice + stats.door_silent + stats.door_full);
	kvc_set(&n->client->count.door_aliens, stats.door_aliens);
	m.heartbeat.sequence = ++n->beat_sequence;
	rc = kvc_node_send_await(n, &m, now + SEND_TIMEOUT_NS);
	if (rc < 0)
		return kv_fail(&n->error, -KV_EPEERDOWN, "the heartbeat cannot be sent: %s", kv_strerror(rc));
	n->silent_beats++;
	for (unsigned i = 0; i < s->num_links && rc == 0 && s->open; i++)
		rc = kvc_link_check(n, &s->link[i], now, silence_ns(n));
	if (rc == 0 && kvc_subs_late(n, now, SESSION_BEATS * silence_ns(n)))
		kvc_node_redial(n, "it does not answer questions about sessions");
	kvc_pins_start(n);
	if (rc == 0 && s->open && !n->redo)
		kvc_client_reclaim_await(n->client, s);
	return rc;
}

/* To wait for a message until then. That the last call for a server that ends is over, nobody says. */
static uint64_t serve_until(const struct kvc_node *n, uint64_t beat)
{
	uint64_t until = KV_MIN(beat, silence_end(n));
	return n->left && !n->parting ? KV_MIN(until, loop_now(n->client->loop) + PART_POLL_NS) : until;
}

/* A server ends a connection that was used to guess keys, and says no more than it said to each guess. */
static void lost_describe(struct kvc_node *n, int rc)
{
	if (n->denied)
		kv_fail(&n->error, rc,
			"the control connection has ended; %u sessions of logical clients were refused on it, since "
			"their key or identity is not the server's: it ends a "
			"connection with several of them (kv-server --session-keys)",
			n->denied);
	else
		kv_fail(&n->error, rc, "the control connection is lost: %s", kv_strerror(rc));
}

/* Serve the control connection. Returns why it ended: 1 after a goodbye, or a code. */
static int serve_await(struct kvc_node *n)
{
	struct loop *loop = n->client->loop;
	uint64_t beat = loop_now(loop) + n->heartbeat_ns;
	struct wire_ctrl_msg m;
	int rc = 0;
	n->heard_ns = loop_now(loop);
	n->silent_beats = 0;
	n->denied = 0;
	for (unsigned i = 0; i < n->session->shards; i++) {
		n->session->turns_ns[i] = n->heard_ns;
		n->session->turns_same[i] = 0;
	}
	while (rc == 0 && !n->redo) {
		rc = boot_recv_await(n->conn, &m, serve_until(n, beat));
		if (rc == 0 && n->redo)
			break; /* it is about a session that is given up */
		if (rc == 0) {
			n->heard_ns = loop_turn_now(loop);
			n->silent_beats = 0;
			rc = control_take_await(n, &m);
		} else if (rc == -KV_ETIMEOUT) {
			rc = 0;
		} else if (!n->redo) {
			lost_describe(n, rc);
		}
		if (rc == 0 && !n->redo)
			rc = part_await(n);
		if (rc == 0 && !n->redo && loop_now(loop) >= beat) {
			beat = loop_now(loop) + n->heartbeat_ns;
			rc = beat_await(n);
		}
		if (rc == 0 && !n->redo && loop_now(loop) >= silence_end(n))
			rc = kv_fail(&n->error, -KV_EPEERDOWN, "no heartbeat of it for %.1f s",
				     (double)(loop_now(loop) - n->heard_ns) / 1e9);
	}
	return rc;
}

/* ---- going down ---- */

static bool others_connected(const struct kvc_node *n)
{
	const struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->pool->num_servers; i++)
		if (&c->node[i] != n && c->node[i].session)
			return true;
	return false;
}

static unsigned first_unsafe_shard(const struct kvc_session *s)
{
	for (uint32_t i = 0; i < s->num_links; i++)
		if (!kv_list_empty(&s->link[i].sent))
			return s->link[i].shard;
	return 0;
}

/* End the session's requests; memory is safe or in quarantine afterwards. */
static void requests_end_await(struct kvc_node *n, int status)
{
	struct kvc_client *c = n->client;
	struct kvc_session *s = n->session;
	uint64_t bytes;
	bool caller, any = kvc_session_unsafe(s, &bytes, &caller);
	bool fence = caller || c->info.peer_fence || !others_connected(n) || kvc_client_quarantine_full(c, bytes) ||
		     c->num_zombies + s->shards > KVC_ZOMBIES_MAX;
	/* A fence ends the requests with -KV_ERESET; their calls look at the state of the node, which tells them more.
	 * A client that closes leaves its own memory to the end of the engine, but a caller has his back before that.
	 */
	if (any && (caller || (fence && !c->closing)))
		kvc_client_fence_await(c, s, first_unsafe_shard(s));
	if (!s->open)
		return;
	any = kvc_session_unsafe(s, &bytes, &caller);
	/* What it may still write is in quarantine until a fence: we need not know when it has ended, and waiting for
	 * that may take long, as its way to us may be what is broken. */
	if (any)
		explicit_bzero(&n->prior, sizeof(n->prior));
	kvc_session_fail(s, status, false);
	for (unsigned i = 0; i < s->shards && any && !c->closing; i++) {
		c->zombie[c->num_zombies++] = s->peer[i];
		s->peer[i] = NULL;
	}
}

static void peers_close(void *arg)
{
	struct kvc_session *s = arg;
	for (unsigned i = 0; i < s->shards; i++)
		te_peer_close(&s->peer[i]);
}

static void session_drop_await(struct kvc_node *n, int status)
{
	struct kvc_session *s = n->session;
	if (s) {
		for (uint32_t i = 0; i < s->num_links; i++) {
			if (s->link[i].probe)
				kvc_req_release(n->client, s->link[i].probe);
			s->link[i].probe = NULL;
		}
		if (s->open)
			requests_end_await(n, status);
		kvc_main_await(n->client, peers_close, s);
		n->session = NULL;
		kvc_session_unref(s);
	}
	kvc_subs_reset(n);
}

static void backoff_await(struct kvc_node *n)
{
	struct loop *loop = n->client->loop;
	uint64_t ns = BACKOFF_MIN_NS << KV_MIN(n->failures, 6u);
	ns = KV_MIN(ns, BACKOFF_MAX_NS);
	/* Half of it is random: clients of a server that comes back shall not all arrive at once. */
	ns = ns / 2 + kv_prng_below(loop_prng(loop), ns / 2 + 1);
	n->failures++;
	if (!n->client->closing)
		co_queue_wait_await(&n->kick, loop_now(loop) + ns);
}

/* What kvc_info shows. */
static void links_count(struct kvc_client *c)
{
	uint64_t links = 0, pull_links = 0, credits = 0;
	for (unsigned i = 0; i < c->pool->num_servers; i++) {
		const struct kvc_session *s = c->node[i].state == KVC_NODE_UP ? c->node[i].session : NULL;
		if (!s)
			continue;
		links += s->num_links;
		pull_links += s->pull ? s->num_links : 0;
		credits = credits ? KV_MIN(credits, s->credits) : s->credits;
	}
	kvc_set(&c->count.links, links);
	kvc_set(&c->count.pull_links, pull_links);
	kvc_set(&c->count.credits, credits);
}

/* Which server it was; its address is not said twice where the sentence begins with it. */
static void server_name_add(struct kvc_node *n)
{
	const char *name = node_name(n), *address = strchr(name, '=') ? strchr(name, '=') + 1 : name;
	size_t len = strlen(address);
	if (strncmp(n->error.text, address, len) == 0 && n->error.text[len] == ':')
		memmove(n->error.text, n->error.text + len + 2, strlen(n->error.text + len + 1));
	kv_fail_more(&n->error, "server %s", name);
}

/* Whether the server is there and will not take us before somebody changes something. (-KV_EINVAL: it is another one
 * than the list says. -KV_EFULL is none: room comes by itself.) */
static bool is_refusal(int rc)
{
	return rc == -KV_EDENIED || rc == -KV_EVERSION || rc == -KV_EINVAL;
}

/* That is another thing than a server that is gone: calls are told while it lasts, and it is no longer the one that
 * said goodbye. */
static void refusal_note(struct kvc_node *n, int rc)
{
	n->refusal = is_refusal(rc) && rc != -KV_EINVAL ? rc : 0; /* for a call that would mean its arguments */
	if (is_refusal(rc))
		n->left = false;
}

/* One line for the first attempt of a row that failed, and one for each new reason why a server that is there again
 * does not take us. */
static void failure_log(struct kvc_node *n, int rc)
{
	if (n->left || (n->failures > 0 && (!is_refusal(rc) || rc == n->refusal_told)))
		return;
	n->refusal_told = rc;
	kv_warn(node_log(n), "client %u: %s", n->client->index, n->error.text);
}

static void up_count(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	n->failures = 0;
	n->refusal_told = 0;
	n->attaches++;
	n->connects += n->fresh;
	if (n->attempted) {
		kvc_add(&c->count.reattaches, 1);
		kvc_add(&c->count.reconnects, n->fresh);
	}
	n->fresh = false;
}

/* An attempt has failed, and no other one overtook it. Nothing that we do hangs on the end of what the server had under
 * way for us, unless our engine has cut off this server alone: a server that cannot bring that end about is asked to
 * welcome us without it. */
static void failed_count(struct kvc_node *n)
{
	struct te_info info;
	te_info(n->client->te, &info);
	if (!info.peer_fence)
		explicit_bzero(&n->prior, sizeof(n->prior));
}

/* One session, from the first packet to the last. */
static void session_await(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	int rc = connect_await(n);
	bool ours, served = rc == 0;
	n->left |= rc == -KV_ELEFT;
	if (rc != -KV_ERESET)
		refusal_note(n, rc);
	if (rc < 0 && rc != -KV_ERESET) {
		server_name_add(n);
		memcpy(n->why, n->error.text, sizeof(n->why));
		failed_count(n);
	}
	if (rc == 0) {
		up_count(n);
		if (n->attaches > 1)
			kv_info(node_log(n), "client %u: server %s is back", c->index, node_name(n));
		n->session->served = true;
		n->left = n->parting = false;
		node_set(n, KVC_NODE_UP);
		kvc_subs_start(n);
		kvc_pins_start(n);
		links_count(c);
	}
	/* An attempt that was overtaken is not decided, while there is time for another one. */
	if (!n->attempted && (rc != -KV_ERESET || c->closing || loop_now(c->loop) >= n->first_ns)) {
		n->attempted = true;
		kvc_pool_tell_attempt(c->pool, c->index, rc == -KV_ERESET ? -KV_ETIMEOUT : rc, &n->error);
	}
	if (rc == 0) {
		rc = serve_await(n);
		n->redial |= answers_may_wait(n);
		if (!c->closing && !n->left && rc == -KV_EPEERDOWN && c->info.death_fatal)
			kv_error_log(
				node_log(n),
				"client %u: server %s is lost; if its process died, provider %s cannot promise to "
				"go on, because locks are shared with it: should calls stand still now, start this "
				"process again, and use provider tcp where servers may die",
				c->index, node_name(n), c->info.provider);
		if (!c->closing && !n->left && (n->redo || rc < 0)) {
			kvc_add(&c->count.lost_connections, 1);
			snprintf(n->why, sizeof(n->why), "%s", n->redo ? n->redo_why : n->error.text);
			kv_warn(node_log(n), "client %u, server %s: %s: connecting again", c->index, node_name(n),
				n->why);
		}
	} else if (rc != -KV_ERESET) {
		failure_log(n, rc);
	}
	ours = !n->left && (n->redo || rc == -KV_ERESET);
	node_set(n, ours && !c->closing ? KVC_NODE_CONNECTING : KVC_NODE_DOWN);
	session_drop_await(n, c->closing ? -KV_ECLOSED : ours ? -KV_ERESET : n->left ? -KV_ELEFT : -KV_EPEERDOWN);
	links_count(c);
	if (!ours || c->closing) /* else connect_await looks whether it is of any use */
		conn_close_await(n);
	if (!served || !ours)
		backoff_await(n);
}

static void node_main(void *arg)
{
	struct kvc_node *n = arg;
	struct kvc_client *c = n->client;
	while (!c->closing)
		session_await(n);
	conn_close_await(n);
	node_set(n, KVC_NODE_CLOSED);
	n->running = false;
	c->coroutines--;
	if (c->closer)
		co_wake(c->closer);
}

void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index)
{
	n->client = c;
	n->index = index;
	co_queue_init(&n->changed);
	co_queue_init(&n->kick);
	kvc_subs_init(n);
	kv_list_init(&n->pins.all);
}

int kvc_node_start(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	int rc;
	n->state = KVC_NODE_CONNECTING;
	rc = co_spawn(c->loop, node_main, n, "kvc node");
	if (rc == 0) {
		n->running = true;
		c->coroutines++;
	}
	return rc;
}

void kvc_node_part_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	if (n->state != KVC_NODE_UP || kvc_node_send_await(n, &m, deadline_ns) < 0)
		kvc_node_redo(n, "we are closing");
}
