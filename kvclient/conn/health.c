/* SPDX-License-Identifier: Apache-2.0 */
/* health.c -- the working links of an attachment. A link is up, and carries requests, once it has answered a PING.
 * frames.c returns the nonce of the answer: then the server may send data over it.
 *
 * With one link per shard, all must answer. With several, an unanswering link is out, and every shard needs one that
 * works; it is pinged again after growing pauses. An up link that falls silent ends the attachment: transfers are
 * striped over all links, so it is unknown which requests have bytes on it (docs/internals/ownership.md, 16). Silence
 * is noticed soon where another link to the same shard answers, because a busy shard slows all of them; else after
 * twice the time of silence. */
#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/request/admission.h"
#include "kvclient/request/requests.h"
#include "kvclient/request/life.h"

/* SAME_BEATS: heartbeats that must report a stalled shard. Time alone is no proof: our own loop may have stalled while
 * news waited in a socket. */
enum { PINGS_AT_ONCE = 64, SAME_BEATS = 2 };

#define PONG_PATIENCE_NS 250000000ull /* before the control connection is read */
#define CONTROL_LOOK_NS  1000000ull
#define LINK_PATIENCE_NS 500000000ull /* for silent links, where others answer */
#define LINK_RETRY_MIN   1000000000ull
#define LINK_RETRY_MAX   30000000000ull

static bool several(const struct kc_attachment *s)
{
	return s->links_per_shard > 1;
}

/* ---- PINGs ---- */

static void ping(struct kc_link *l, struct kc_req *r, struct kc_wait *wait)
{
	struct loop *loop = l->attachment->node->client->loop;
	r->deadline_ns = KV_NEVER;
	r->wire.type = WIRE_PING;
	r->wire.ping.cookie = kv_prng_next(loop_prng(loop));
	kc_req_submit_first(l, r, wait);
}

static void probe(struct kc_link *l, struct kc_req *r, struct kc_wait *wait)
{
	l->probe.req = r;
	l->probe.begun_ns = loop_now(l->attachment->node->client->loop);
	l->probe.beats = 0;
	ping(l, r, wait);
}

static void probe_try(struct kc_node *n, struct kc_link *l)
{
	struct kc_req *r;
	if (kc_room_try(n->client, &(struct kc_need){.urgent = true, .node = n}, &r) < 0)
		return; /* next beat */
	l->probe.wait = (struct kc_wait){0};
	probe(l, r, &l->probe.wait);
}

static void probe_drop(struct kc_node *n, struct kc_link *l)
{
	kc_req_release(n->client, l->probe.req);
	l->probe.req = NULL;
}

static bool probe_done(const struct kc_link *l)
{
	return l->probe.req && l->probe.req->state == KC_REQ_DONE;
}

/* ---- in and out ---- */

static uint64_t *out_word(struct kc_node *n, const struct kc_link *l, uint64_t *out_bit)
{
	uint32_t i = l->shard * l->attachment->links_per_shard + l->index;
	*out_bit = (uint64_t)1 << (i % 64);
	return &n->own->links.out[i / 64];
}

static bool was_out(struct kc_node *n, const struct kc_link *l)
{
	uint64_t bit, *word = out_word(n, l, &bit);
	return *word & bit;
}

static void out_set(struct kc_node *n, const struct kc_link *l, bool out)
{
	uint64_t bit, *word = out_word(n, l, &bit);
	*word = out ? *word | bit : *word & ~bit;
}

/* It answered: use it. */
static void link_in(struct kc_node *n, struct kc_link *l)
{
	bool late = n->attachment->served;
	n->own->ping_ns = KV_MAX(n->own->ping_ns, l->probe.req->at.replied_ns - l->probe.req->at.sent_ns);
	probe_drop(n, l);
	out_set(n, l, false);
	if (l->up)
		return;
	l->up = true;
	l->backoff_ns = 0;
	te_peer_link_use(n->attachment->peer[l->shard], l->index, true);
	if (late)
		kv_event(kc_client_log(n->client), KV_LOG_INFO,
			 KV_EVENT("link_back", KV_NUMBER("client", n->client->index),
				  KV_FIELD("server", kc_node_name(n)), KV_NUMBER("shard", l->shard),
				  KV_NUMBER("link", l->index)),
			 "client %u, server %s: link %u to its shard %u answers again", n->client->index,
			 kc_node_name(n), l->index, l->shard);
}

/* Its PING failed: try again later. */
static void link_failed(struct kc_node *n, struct kc_link *l)
{
	probe_drop(n, l);
	l->backoff_ns = KV_MIN(KV_MAX(l->backoff_ns * 2, LINK_RETRY_MIN), LINK_RETRY_MAX);
	l->retry_ns = loop_now(n->client->loop) + l->backoff_ns;
}

/* ---- while connecting ---- */

static int control_look_await(struct kc_node *n)
{
	struct wire_ctrl_msg m;
	int rc = boot_recv_await(n->control.conn, &m, loop_now(n->client->loop) + CONTROL_LOOK_NS);
	if (rc < 0)
		return rc == -KV_ETIMEOUT
			       ? 0
			       : kv_fail(&n->error, rc, "the control connection is lost: %s", kv_strerror(rc));
	rc = kc_node_aside(n, &m);
	if (rc == -KV_ERESET)
		return kv_fail(&n->error, rc, "its endpoints were rebuilt while we connected");
	if (rc == -KV_ELEFT)
		return kv_fail(&n->error, rc, "it said goodbye while the client connected");
	return rc;
}

static int park_await(struct kc_node *n, struct kc_attachment *s, uint64_t until_ns)
{
	struct loop *loop = n->client->loop;
	int rc;
	if (co_park_await(KV_MIN(until_ns, loop_now(loop) + PONG_PATIENCE_NS)) == 0)
		return 0;
	s->setup.co = NULL; /* an answer must not wake us while we read */
	rc = control_look_await(n);
	s->setup.co = co_self();
	return rc;
}

/* Returns the number of links still awaited; formerly out ones count only if `all` is set. *status becomes the code of
 * a failed link. */
static unsigned answers_take(struct kc_node *n, unsigned first, unsigned count, bool all, int *status)
{
	struct kc_attachment *s = n->attachment;
	unsigned left = 0;
	for (unsigned i = first; i < first + count; i++) {
		struct kc_link *l = &s->link[i];
		if (l->up || !l->probe.req)
			continue;
		if (!probe_done(l)) {
			left += all || !was_out(n, l);
		} else if (l->probe.req->status == 0) {
			link_in(n, l);
		} else {
			*status = l->probe.req->status;
			link_failed(n, l);
		}
	}
	return left;
}

static int group_await(struct kc_node *n, unsigned first, unsigned count, uint64_t deadline_ns)
{
	struct kc_attachment *s = n->attachment;
	struct loop *loop = n->client->loop;
	uint64_t until;
	int rc = 0, status = 0;
	for (unsigned i = first; i < first + count; i++) {
		struct kc_req *r;
		rc = kc_room_await(n->client, &(struct kc_need){.urgent = true, .node = n}, deadline_ns, &r);
		if (rc < 0)
			return kv_fail(&n->error, rc, "no room for a PING: %s", kv_strerror(rc));
		probe(&s->link[i], r, &s->setup);
	}
	until = several(s) ? KV_MIN(deadline_ns, loop_now(loop) + LINK_PATIENCE_NS) : deadline_ns;
	while (rc == 0 && !n->redo && answers_take(n, first, count, !several(s), &status) > 0 && loop_now(loop) < until)
		rc = park_await(n, s, until);
	return rc;
}

static unsigned links_up(const struct kc_attachment *s, unsigned shard)
{
	unsigned up = 0;
	for (unsigned i = 0; i < s->links_per_shard; i++)
		up += s->link[shard * s->links_per_shard + i].up;
	return up;
}

/* Ping a failed link again, after growing pauses: its PING or the answer may be lost, and the server does not end an
 * attachment for a link never in use. */
static void ask_again(struct kc_node *n, struct kc_link *l, struct kc_wait *wait)
{
	uint64_t now = loop_now(n->client->loop);
	struct kc_req *r;
	if (!several(n->attachment))
		return;
	if (l->probe.req && !probe_done(l) && now - l->probe.begun_ns >= KV_MAX(l->backoff_ns, LINK_RETRY_MIN))
		kc_link_lost(l, -KV_ETIMEOUT); /* a late answer is dropped and counted */
	if (!l->probe.req && now >= l->retry_ns &&
	    kc_room_try(n->client, &(struct kc_need){.urgent = true, .node = n}, &r) == 0)
		probe(l, r, wait);
}

static bool same_host(const struct sockaddr_storage *a, const char *peer)
{
	char text[KV_HOST_MAX];
	size_t len;
	kv_sockaddr_format(a, text, sizeof(text));
	len = (size_t)(strrchr(text, ':') - text);
	return strncmp(text, peer, len) == 0 && peer[len] == ':';
}

static int unreachable(struct kc_node *n, unsigned shard, const struct kc_link *l, int status)
{
	const char *control = n->control.conn ? boot_peer_name(n->control.conn) : "";
	const struct te_peer *peer = n->attachment->peer[shard];
	struct sockaddr_storage at;
	char text[KV_HOST_MAX] = "";
	bool known = peer && te_peer_address(peer, l->index, &at);
	if (known)
		kv_sockaddr_format(&at, text, sizeof(text));
	return kv_fail(&n->error, status,
		       "the control connection%s%s works, but its shard %u "
		       "did not answer over the fabric%s%s (link %u): %s; %s",
		       control[0] ? " to " : "", control, shard, known ? " at " : "", text, l->index,
		       kv_strerror(status),
		       !known || !control[0] || same_host(&at, control)
			       ? "look at firewalls and security groups of the fabric"
			       : "its fabric address differs from that of its control port: if the fabric address "
				 "cannot be reached from here, start the server with --advertise, --nic or "
				 "--listen-addr and one that can; otherwise check firewalls and security groups of "
				 "the fabric");
}

static int shard_await(struct kc_node *n, unsigned shard, uint64_t deadline_ns)
{
	struct kc_attachment *s = n->attachment;
	struct loop *loop = n->client->loop;
	unsigned first = shard * s->links_per_shard;
	int rc = 0, status = -KV_ETIMEOUT;
	while (links_up(s, shard) == 0) {
		(void)answers_take(n, first, s->links_per_shard, true, &status);
		if (links_up(s, shard) > 0)
			break;
		if (n->redo)
			return -KV_ERESET;
		for (unsigned i = first; i < first + s->links_per_shard; i++)
			ask_again(n, &s->link[i], &s->setup);
		if (loop_now(loop) >= deadline_ns)
			return unreachable(n, shard, &s->link[first], status);
		rc = park_await(n, s, deadline_ns);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void out_tell(struct kc_node *n)
{
	struct kc_attachment *s = n->attachment;
	const struct kc_link *first = NULL;
	unsigned out = 0, news = 0;
	for (uint32_t i = 0; i < s->num_links; i++) {
		struct kc_link *l = &s->link[i];
		if (l->up)
			continue;
		out++;
		first = first ? first : l;
		news += !was_out(n, l);
		out_set(n, l, true);
	}
	if (out && (news || n->own->links.news))
		kv_event(kc_client_log(n->client), KV_LOG_WARN,
			 KV_EVENT("links_out", KV_NUMBER("client", n->client->index),
				  KV_FIELD("server", kc_node_name(n)), KV_NUMBER("out", out),
				  KV_NUMBER("links", s->num_links)),
			 "client %u, server %s: %u of %u links do not answer over the fabric (shard %u, link %u%s); "
			 "the client continues without them, and tries them again",
			 n->client->index, kc_node_name(n), out, s->num_links, first->shard, first->index,
			 out > 1 ? ", ..." : "");
	n->own->links.news = false;
}

int kc_links_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kc_attachment *s = n->attachment;
	int rc = 0;
	n->own->ping_ns = 0;
	if (n->own->links.known != s->num_links) {
		memset(n->own->links.out, 0, sizeof(n->own->links.out));
		n->own->links.known = s->num_links;
	}
	s->setup = (struct kc_wait){.co = co_self()};
	for (unsigned i = 0; i < s->num_links && rc == 0; i += PINGS_AT_ONCE)
		rc = group_await(n, i, KV_MIN(s->num_links - i, (unsigned)PINGS_AT_ONCE), deadline_ns);
	for (unsigned shard = 0; shard < s->shards && rc == 0; shard++)
		rc = shard_await(n, shard, deadline_ns);
	s->setup.co = NULL;
	if (rc == 0 && several(s))
		out_tell(n);
	return rc;
}

/* ---- while it is up ---- */

static bool others_answer(const struct kc_link *l)
{
	const struct kc_attachment *s = l->attachment;
	for (unsigned i = 0; i < s->links_per_shard; i++) {
		const struct kc_link *o = &s->link[l->shard * s->links_per_shard + i];
		if (o != l && o->up && o->heard_ns > l->probe.begun_ns)
			return true;
	}
	return false;
}

/* Send time of the oldest request to this shard over any link: its bytes may use another one. KV_NEVER: none is out. */
static uint64_t oldest_ns(const struct kc_link *l)
{
	const struct kc_attachment *s = l->attachment;
	uint64_t oldest = KV_NEVER;
	for (unsigned i = 0; i < s->links_per_shard; i++) {
		const struct kc_link *o = &s->link[l->shard * s->links_per_shard + i];
		if (o->up && !kv_list_empty(&o->sent))
			oldest = KV_MIN(oldest, KV_LIST_ENTRY(o->sent.next, const struct kc_req, node)->at.sent_ns);
	}
	return oldest;
}

static void out_check(struct kc_node *n, struct kc_link *l, uint64_t now)
{
	if (probe_done(l) && l->probe.req->status == 0)
		link_in(n, l);
	else if (probe_done(l))
		link_failed(n, l);
	else if (l->probe.req)
		ask_again(n, l, NULL);
	else if (now >= l->retry_ns)
		probe_try(n, l);
}

static int probe_check(struct kc_node *n, struct kc_link *l, uint64_t now, uint64_t silence_ns)
{
	uint64_t waited = now - l->probe.begun_ns;
	if (probe_done(l)) {
		probe_drop(n, l);
		return 0;
	}
	if (waited >= 2 * n->own->pulse.beat_ns && others_answer(l)) {
		out_set(n, l, true);
		n->own->links.news = true;
		return kv_fail(&n->error, -KV_ERESET, "link %u to its shard %u is silent while another one answers",
			       l->index, l->shard);
	}
	l->probe.beats++;
	if (waited < silence_ns || l->probe.beats < KV_MAX(silence_ns / n->own->pulse.beat_ns, 2ull) - 1)
		return 0;
	n->own->link_silent = true;
	return kv_fail(&n->error, -KV_ERESET, "the link to its shard %u is silent", l->shard);
}

int kc_link_check(struct kc_node *n, struct kc_link *l, uint64_t now, uint64_t silence_ns)
{
	uint64_t patience = several(l->attachment) ? KV_MIN(n->own->pulse.beat_ns, silence_ns) : silence_ns, oldest;
	if (!l->up) {
		if (l->probe.req || !l->attachment->local) /* a PING to a local server would not use the link */
			out_check(n, l, now);
		return 0;
	}
	if (l->probe.req)
		return probe_check(n, l, now, silence_ns);
	oldest = oldest_ns(l);
	if (oldest == KV_NEVER || now - oldest < patience || now - l->heard_ns < patience)
		return 0;
	if (now - n->attachment->shard_turns_ns[l->shard] > 2 * silence_ns &&
	    n->attachment->shard_turns_same[l->shard] >= SAME_BEATS)
		return kv_fail(&n->error, -KV_EPEERDOWN, "its shard %u stands still", l->shard);
	probe_try(n, l);
	return 0;
}
