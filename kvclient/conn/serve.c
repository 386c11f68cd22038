/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c -- the coroutine of a node: attach (connect.c), serve, drop the attachment, begin again: at once after a
 * redo, else after a pause.
 *
 * The server owes an answer while something of ours waits for it, or when its heartbeat is overdue (quiet_ns, announced
 * by it). Then we send a heartbeat, which it answers; for an overdue one after half the time of silence. So an idle
 * client sends nothing. After kc_node_silence_ns the server is down, if we have looked several times since: a stopped
 * client must not mistake its own absence for the server's. The connection is closed only when no coroutine sends on
 * it. */
#include "kvclient/conn/serve.h"

#include "kvclient/conn/node.h"
#include "kvclient/conn/private.h"
#include "kvclient/conn/regions.h"
#include "kvclient/core/cluster_name.h"
#include "kvclient/core/local_server.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/life.h"

enum { SESSION_PATIENCE = 2 };

#define BACKOFF_MIN_NS  50000000ull
#define BACKOFF_MAX_NS  500000000ull
#define SEND_TIMEOUT_NS 2000000000ull
#define REST_NS         500000000ull   /* between checks of a resting server */
#define REST_VOTE_NS    15000000000ull /* between two votes of it; half is random */
#define PART_POLL_NS    5000000ull     /* between checks of a leaving server */

static void heartbeat_take(struct kc_node *n, const struct wire_heartbeat *h)
{
	struct kc_attachment *s = n->attachment;
	uint64_t now = loop_turn_now(n->client->loop);
	kc_node_quiet_take(n, h->quiet_ms);
	kc_clock_take(&n->clock, h->clock_ns, loop_now(n->client->loop));
	for (unsigned i = 0; i < s->shards && i < h->shards; i++) {
		if (s->shard_turns[i] == h->turns[i]) {
			s->shard_turns_same[i]++;
			continue;
		}
		s->shard_turns[i] = h->turns[i];
		s->shard_turns_same[i] = 0;
		s->shard_turns_ns[i] = now;
	}
}

static void heard(struct kc_node *n, uint64_t now)
{
	n->own->pulse.heard_ns = now;
	n->own->pulse.asked_ns = 0;
	n->own->pulse.silent = 0;
}

static struct kc_troubles *troubles(const struct kc_node *n)
{
	return &n->client->pool->server[n->index].troubles;
}

static enum kv_log_level trouble_level(struct kc_node *n, enum kc_trouble trouble, enum kv_log_level level)
{
	return kc_trouble_begin(troubles(n), n->own->trouble, trouble) ? level : KV_LOG_DEBUG;
}

static bool left(const struct kc_node *n)
{
	return n->goodbye != KC_GOODBYE_NONE;
}

static void leave(struct kc_node *n)
{
	if (left(n) || n->client->closing)
		return;
	n->goodbye = KC_GOODBYE_HEARD;
	snprintf(n->why, sizeof(n->why), "it said goodbye");
	kv_event(kc_node_log(n), trouble_level(n, KC_TROUBLE_PARTED, KV_LOG_INFO),
		 KV_EVENT("server_ends", KV_NUMBER("client", n->client->index), KV_FIELD("server", kc_node_name(n))),
		 "client %u: server %s ends: %s until it is back", n->client->index, kc_node_name(n),
		 n->client->num_nodes > 1 ? "other servers stand in for it" : "its keys are misses");
	kc_node_set(n, KC_NODE_DOWN);
}

/* A request in a lane counts: its lane stands in the link's turns, or the session's credits are all out. */
bool kc_serve_idle(const struct kc_attachment *s)
{
	for (uint32_t i = 0; i < s->num_links; i++) {
		const struct kc_link *l = &s->link[i];
		if (!kv_list_empty(&l->sent) || !kv_list_empty(&l->queue) || !kv_list_empty(&l->turns))
			return false;
	}
	return true;
}

static int part_await(struct kc_node *n)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	if (n->goodbye != KC_GOODBYE_HEARD || !kc_serve_idle(n->attachment))
		return 0;
	n->goodbye = KC_GOODBYE_SAID;
	return kc_node_send_await(n, &m, loop_now(n->client->loop) + SEND_TIMEOUT_NS);
}

static int view_ask_await(struct kc_node *n)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_VIEW_ASK, .view_news.digest = n->client->cluster.digest};
	if (!n->client->hooks->view_asked(n))
		return 0;
	return kc_node_send_await(n, &m, loop_now(n->client->loop) + SEND_TIMEOUT_NS);
}

static int control_take_await(struct kc_node *n, const struct wire_ctrl_msg *m)
{
	struct wire_ctrl_msg done = {.type = WIRE_CTRL_GOODBYE_DONE};
	char text[sizeof(m->refuse.text)];
	switch (m->type) {
	case WIRE_CTRL_HEARTBEAT:
		heartbeat_take(n, &m->heartbeat);
		return 0;
	case WIRE_CTRL_REGION_OK:
		kc_region_answer(n, m->region_ok.id, m->region_ok.status, true);
		return 0;
	case WIRE_CTRL_REVOKE_OK:
		kc_region_answer(n, m->region_ok.id, WIRE_OK, false);
		return 0;
	case WIRE_CTRL_ADDRESS:
		kc_node_redo(n, "its endpoints were rebuilt");
		return 0;
	case WIRE_CTRL_GOODBYE_OK:
		explicit_bzero(&n->own->attempt.prior,
			       sizeof(n->own->attempt.prior)); /* nothing of ours is left there */
		kc_node_send_await(n, &done, kv_deadline(loop_now(n->client->loop), SEND_TIMEOUT_NS));
		return 1;
	case WIRE_CTRL_SESSION_CHALLENGE:
	case WIRE_CTRL_SESSION_OK:
	case WIRE_CTRL_SESSION_REFUSE:
	case WIRE_CTRL_SESSION_CLOSE_OK:
		if (n->client->hooks->session_message(n, m) == 0)
			return 0;
		return kv_fail(&n->error, -KV_EPROTO,
			       "it answered a question about a session that this client did not send");
	case WIRE_CTRL_GOODBYE:
		leave(n);
		return 0;
	case WIRE_CTRL_VIEW:
		kc_node_view_take(n, &m->view);
		return 0;
	case WIRE_CTRL_VIEW_NEWS:
		n->client->hooks->view_announced(n, &m->view_news);
		return view_ask_await(n);
	case WIRE_CTRL_DRAIN_OK:
		return kc_node_drain_take(n, &m->drain);
	case WIRE_CTRL_DRAIN_DONE:
		return kc_node_drained_take(n, &m->drained);
	case WIRE_CTRL_EVENTS:
		n->client->hooks->events_came(n, &m->events);
		return 0;
	case WIRE_CTRL_LOCAL:
		if (n->attachment->local_asked)
			return 0; /* too late */
		return kv_fail(&n->error, -KV_EPROTO, "it offers its memory, and this client did not ask for it");
	case WIRE_CTRL_REFUSE:
		kc_printable(text, sizeof(text), m->refuse.text);
		return kv_fail(&n->error, -KV_EPEERDOWN, "it ends the attachment: %s", text);
	default:
		return kv_fail(&n->error, -KV_EPROTO, "it sent control message %d, which is not valid here",
			       (int)m->type);
	}
}

/* A due heartbeat is owed from one beat before: without quiet_ns, since the server was last heard. */
static uint64_t beat_owed_since(const struct kc_node *n)
{
	return n->own->pulse.heard_ns + n->own->pulse.quiet_ns - n->own->pulse.beat_ns;
}

static uint64_t owed_since(const struct kc_node *n)
{
	return n->own->pulse.asked_ns ? KV_MIN(beat_owed_since(n), n->own->pulse.wait_ns) : beat_owed_since(n);
}

/* When a silent server becomes down: not before several looks, nor within a beat of our question. */
static uint64_t silence_end(const struct kc_node *n)
{
	uint64_t beats = kc_node_silence_ns(n) / n->own->pulse.beat_ns - 1;
	uint64_t end = owed_since(n) + kc_node_silence_ns(n);
	if (n->own->pulse.asked_ns)
		end = KV_MAX(end, n->own->pulse.asked_ns + n->own->pulse.beat_ns);
	return n->own->pulse.silent >= beats ? end : KV_NEVER;
}

/* Since when requests wait for a silent server; KV_NEVER: none, or heard within half a beat. */
static uint64_t requests_wait(const struct kc_node *n, uint64_t now)
{
	const struct kc_attachment *s = n->attachment;
	uint64_t heard = n->own->pulse.heard_ns, sent = now;
	if (kc_serve_idle(s))
		return KV_NEVER;
	for (uint32_t i = 0; i < s->num_links; i++) {
		const struct kc_link *l = &s->link[i];
		heard = KV_MAX(heard, l->heard_ns);
		if (!kv_list_empty(&l->sent))
			sent = KV_MIN(sent, KV_LIST_ENTRY(l->sent.next, const struct kc_req, node)->at.sent_ns);
	}
	return now - heard < n->own->pulse.beat_ns / 2 ? KV_NEVER : KV_MAX(heard, sent);
}

static uint64_t waits_since(const struct kc_node *n, uint64_t now)
{
	uint64_t since = requests_wait(n, now), beat = beat_owed_since(n);
	if (n->own->pulse.said_ns > n->own->pulse.heard_ns)
		since = KV_MIN(since, n->own->pulse.said_ns);
	return now >= beat + kc_node_silence_ns(n) / 2 ? KV_MIN(since, beat) : since;
}

static int ask_await(struct kc_node *n, uint64_t now)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HEARTBEAT, .heartbeat.sequence = n->own->pulse.sequence + 1};
	uint64_t since = n->own->pulse.asked_ns ? KV_NEVER : waits_since(n, now);
	int rc;
	if (since == KV_NEVER)
		return 0;
	n->own->pulse.sequence++;
	n->own->pulse.asked_ns = now;
	n->own->pulse.wait_ns = since;
	rc = kc_node_send_await(n, &m, now + SEND_TIMEOUT_NS);
	return rc < 0 ? kv_fail(&n->error, -KV_EPEERDOWN, "the heartbeat cannot be sent: %s", kv_strerror(rc)) : 0;
}

static int beat_await(struct kc_node *n)
{
	struct kc_attachment *s = n->attachment;
	uint64_t now = loop_now(n->client->loop);
	bool answers = !n->own->pulse.asked_ns;
	struct te_stats stats;
	int rc = 0;
	te_stats(n->client->te, &stats);
	kc_set(&n->client->count.eagain, stats.eagain);
	kc_set(&n->client->count.door_let_in, stats.door_let_in);
	kc_set(&n->client->count.door_turned,
	       stats.door_strangers + stats.door_claims + stats.door_twice + stats.door_silent + stats.door_full);
	kc_set(&n->client->count.door_aliens, stats.door_aliens);
	rc = ask_await(n, now);
	n->own->pulse.silent += now >= owed_since(n);
	for (unsigned i = 0; i < s->num_links && rc == 0 && s->open; i++)
		rc = kc_link_check(n, &s->link[i], now, kc_node_silence_ns(n));
	if (rc == 0 && kc_sessions_late(&n->sessions, now, SESSION_PATIENCE * kc_node_silence_ns(n)))
		kc_node_redial(n, "it does not answer questions about sessions");
	kc_cluster_name_beat(n->client->pool, n->index, now, n->own->pulse.beat_ns);
	kc_home_drain(n->client->pool->home);
	n->client->hooks->node_beat(n);
	if (rc == 0 && s->open && !n->redo)
		kc_client_reclaim_await(n->client, s);
	if (rc == 0 && s->open && !n->redo && kc_local_ended_await(n))
		kc_node_redo(n, "it closed the Unix socket");
	return rc == 0 && !n->redo && answers ? view_ask_await(n) : rc;
}

/* No event reports the last call to a leaving server: poll. */
static uint64_t serve_until(const struct kc_node *n, uint64_t beat)
{
	uint64_t until = KV_MIN(beat, silence_end(n));
	return n->goodbye == KC_GOODBYE_HEARD ? KV_MIN(until, loop_now(n->client->loop) + PART_POLL_NS) : until;
}

/* After guessed keys the server ends the connection without a reason, so report the refusals. */
static void lost_describe(struct kc_node *n, int rc)
{
	if (n->control.denied)
		kv_fail(&n->error, rc,
			"the control connection has ended; %u sessions of logical clients were refused on it, since "
			"their key or identity is not the server's: it ends a connection after several of them "
			"(kv-server --session-keys)",
			n->control.denied);
	else
		kv_fail(&n->error, rc, "the control connection is lost: %s", kv_strerror(rc));
}

/* 1: after a goodbye; 0: a redo; or a code with n->error. */
static int serve_await(struct kc_node *n)
{
	struct loop *loop = n->client->loop;
	uint64_t beat = loop_now(loop) + n->own->pulse.beat_ns;
	struct wire_ctrl_msg m;
	int rc = 0;
	heard(n, loop_now(loop));
	n->control.denied = 0;
	for (unsigned i = 0; i < n->attachment->shards; i++) {
		n->attachment->shard_turns_ns[i] = n->own->pulse.heard_ns;
		n->attachment->shard_turns_same[i] = 0;
	}
	while (rc == 0 && !n->redo) {
		rc = boot_recv_await(n->control.conn, &m, serve_until(n, beat));
		if (rc == 0 && n->redo)
			break;
		if (rc == 0) {
			heard(n, loop_turn_now(loop));
			rc = control_take_await(n, &m);
		} else if (rc == -KV_ETIMEOUT) {
			rc = 0;
		} else if (!n->redo) {
			lost_describe(n, rc);
		}
		if (rc == 0 && !n->redo)
			rc = part_await(n);
		if (rc == 0 && !n->redo && loop_now(loop) >= beat) {
			beat = loop_now(loop) + n->own->pulse.beat_ns;
			rc = beat_await(n);
		}
		if (rc == 0 && !n->redo && loop_now(loop) >= silence_end(n))
			rc = kv_fail(&n->error, -KV_EPEERDOWN, "no heartbeat from it for %.1f s",
				     (double)(loop_now(loop) - n->own->pulse.heard_ns) / 1e9);
	}
	return rc;
}

static bool others_connected(const struct kc_node *n)
{
	const struct kvc_client *c = n->client;
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (&c->node[i] != n && c->node[i].attachment)
			return true;
	return false;
}

static unsigned first_unsafe_shard(const struct kc_attachment *s)
{
	for (uint32_t i = 0; i < s->num_links; i++)
		if (!kv_list_empty(&s->link[i].sent))
			return s->link[i].shard;
	return 0;
}

/* Afterwards the memory of each request is safe or in quarantine. */
static void requests_end_await(struct kc_node *n, int status)
{
	struct kvc_client *c = n->client;
	struct kc_attachment *s = n->attachment;
	uint64_t bytes;
	bool caller, any = kc_attachment_unsafe(s, &bytes, &caller);
	bool fence = caller || c->info.peer_fence || !others_connected(n) || kc_client_quarantine_full(c, bytes) ||
		     !kc_zombies_room(c, s->shards);
	/* Calls look at the node's state after -KV_ERESET. A closing client leaves its own memory to the end of the
	 * engine; a caller's must be safe before. */
	if (any && (caller || (fence && !c->closing)))
		kc_client_fence_await(c, s, first_unsafe_shard(s));
	if (!s->open)
		return;
	any = kc_attachment_unsafe(s, &bytes, &caller);
	/* Quarantine holds the memory the server may still write to, so the next WELCOME need not wait for its
	 * transfers, which may hang. */
	if (any)
		explicit_bzero(&n->own->attempt.prior, sizeof(n->own->attempt.prior));
	kc_attachment_fail(s, status, false);
	for (unsigned i = 0; i < s->shards && any && !c->closing; i++) {
		kc_zombie_keep(c, s->peer[i]);
		s->peer[i] = NULL;
	}
}

static void peers_close(void *arg)
{
	struct kc_attachment *s = arg;
	for (unsigned i = 0; i < s->shards; i++)
		te_peer_close(&s->peer[i]);
}

static void attachment_drop_await(struct kc_node *n, int status)
{
	struct kc_attachment *s = n->attachment;
	if (s) {
		for (uint32_t i = 0; i < s->num_links; i++) {
			if (s->link[i].probe.req)
				kc_req_release(n->client, s->link[i].probe.req);
			s->link[i].probe.req = NULL;
		}
		if (s->open)
			requests_end_await(n, status);
		kc_local_leave(s);
		kc_main_await(n->client, peers_close, s);
		n->attachment = NULL;
		kc_attachment_unref(s);
	}
	n->client->hooks->attachment_gone(n);
}

static void backoff_await(struct kc_node *n)
{
	struct loop *loop = n->client->loop;
	uint64_t ns = BACKOFF_MIN_NS << KV_MIN(n->own->attempt.failures, 6u);
	ns = KV_MIN(ns, BACKOFF_MAX_NS);
	/* Half of it is random: clients of a returning server must not arrive at once. */
	ns = ns / 2 + kv_prng_below(loop_prng(loop), ns / 2 + 1);
	n->own->attempt.failures++;
	kc_home_drain(n->client->pool->home);
	if (!n->client->closing)
		co_queue_wait_await(&n->kick, loop_now(loop) + ns);
}

static void links_count(struct kvc_client *c)
{
	uint64_t links = 0, pull_links = 0, local_links = 0, credits = 0;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		const struct kc_attachment *s = c->node[i].state == KC_NODE_UP ? c->node[i].attachment : NULL;
		if (!s)
			continue;
		links += s->num_links;
		pull_links += s->pull && !s->local ? s->num_links : 0;
		local_links += s->local ? s->num_links : 0;
		credits = credits ? KV_MIN(credits, s->credits) : s->credits;
	}
	kc_set(&c->count.links, links);
	kc_set(&c->count.pull_links, pull_links);
	kc_set(&c->count.local_links, local_links);
	kc_set(&c->count.credits, credits);
}

/* Put the server's name before the error, without repeating its address. */
static void server_name_add(struct kc_node *n)
{
	const char *name = kc_node_name(n), *address = strchr(name, '=') ? strchr(name, '=') + 1 : name;
	size_t len = strlen(address);
	if (strncmp(n->error.text, address, len) == 0 && n->error.text[len] == ':')
		memmove(n->error.text, n->error.text + len + 2, strlen(n->error.text + len + 1));
	kv_fail_more(&n->error, "server %s", name);
}

/* Refused until a person changes something. -KV_EINVAL: another server than listed. -KV_EFULL passes by itself. */
static bool is_refusal(int rc)
{
	return rc == -KV_EDENIED || rc == -KV_EVERSION || rc == -KV_EINVAL;
}

/* A refusing server is not gone: its keys are no misses, and calls get the reason. */
static void refusal_note(struct kc_node *n, int rc)
{
	n->refusal = is_refusal(rc) && rc != -KV_EINVAL ? rc : 0; /* to a call -KV_EINVAL means its arguments */
	if (is_refusal(rc))
		n->goodbye = KC_GOODBYE_NONE;
}

/* Log the first of several failures, and each new reason of a refusal, once per pool. */
static void failure_log(struct kc_node *n, int rc)
{
	bool other;
	if (left(n) || n->retired || (n->own->attempt.failures > 0 && !is_refusal(rc)))
		return;
	other = is_refusal(rc) && atomic_exchange(&troubles(n)->refusal, rc) != rc;
	if (kc_trouble_begin(troubles(n), n->own->trouble, KC_TROUBLE_FAILING) || other)
		kv_event(kc_node_log(n), KV_LOG_WARN,
			 KV_EVENT("server_failed", KV_NUMBER("client", n->client->index),
				  KV_FIELD("server", kc_node_name(n)), KV_FIELD("reason", n->error.text)),
			 "client %u: %s", n->client->index, n->error.text);
}

static void up_count(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	bool first = n->control.stage != KC_CONTROL_USED; /* attachment of this connection */
	n->own->attempt.failures = 0;
	n->attaches++;
	n->own->connects += first;
	if (n->own->attempt.first_told && !(n->joined && n->attaches == 1)) {
		kc_add(&c->count.reattaches, 1);
		kc_add(&c->count.reconnects, first);
	}
	n->control.stage = KC_CONTROL_USED;
}

/* The server may be unable to end its transfers of the last attachment, and so to welcome us. Unless our engine has
 * fenced this server alone, omit that attachment from the next HELLO. */
static void prior_forget(struct kc_node *n)
{
	struct te_info info;
	te_info(n->client->te, &info);
	if (!info.peer_fence)
		explicit_bzero(&n->own->attempt.prior, sizeof(n->own->attempt.prior));
}

/* An overtaken attempt is undecided while time is left. */
static void first_tell(struct kc_node *n, int rc)
{
	struct kvc_client *c = n->client;
	if (n->own->attempt.first_told ||
	    (rc == -KV_ERESET && !c->closing && loop_now(c->loop) < n->own->attempt.first_ns))
		return;
	n->own->attempt.first_told = true;
	kc_pool_tell_attempt(c->pool, &c->attempts, rc == -KV_ERESET ? -KV_ETIMEOUT : rc, &n->error);
}

/* A listed server that sent a view without itself has served its purpose. */
static void first_parted(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	if (n->own->attempt.first_told)
		return;
	n->own->attempt.first_told = true;
	kc_pool_tell_attempt(c->pool, &c->attempts, 0, &n->error);
}

/* An attachment ended without a goodbye. */
static void lost_tell(struct kc_node *n, int rc)
{
	struct kvc_client *c = n->client;
	if (c->closing || left(n))
		return;
	if (rc == -KV_EPEERDOWN && c->info.death_fatal)
		kv_log(kc_node_log(n),
		       atomic_load(&troubles(n)->clients[KC_TROUBLE_LOST]) ? KV_LOG_DEBUG : KV_LOG_ERROR,
		       "client %u: server %s is lost; if its process died, provider %s may hang, "
		       "because it shares locks with that process: if calls hang now, restart this "
		       "process, and use provider tcp where servers may die",
		       c->index, kc_node_name(n), c->info.provider);
	if (!n->redo && rc >= 0)
		return;
	kc_add(&c->count.lost_connections, 1);
	snprintf(n->why, sizeof(n->why), "%s", n->redo ? n->redo : n->error.text);
	kv_event(kc_node_log(n), trouble_level(n, KC_TROUBLE_LOST, KV_LOG_WARN),
		 KV_EVENT("server_lost", KV_NUMBER("client", c->index), KV_FIELD("server", kc_node_name(n)),
			  KV_FIELD("reason", n->why)),
		 "client %u, server %s: %s: connecting again", c->index, kc_node_name(n), n->why);
}

static void back_tell(struct kc_node *n)
{
	bool lost = kc_trouble_end(troubles(n), n->own->trouble, KC_TROUBLE_LOST);
	bool parted = kc_trouble_end(troubles(n), n->own->trouble, KC_TROUBLE_PARTED);
	if (kc_trouble_end(troubles(n), n->own->trouble, KC_TROUBLE_FAILING))
		atomic_store(&troubles(n)->refusal, 0);
	if (n->attaches > 1)
		kv_event(kc_node_log(n), lost || parted ? KV_LOG_INFO : KV_LOG_DEBUG,
			 KV_EVENT("server_back", KV_NUMBER("client", n->client->index),
				  KV_FIELD("server", kc_node_name(n))),
			 "client %u: server %s is back", n->client->index, kc_node_name(n));
}

static void attachment_up(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	up_count(n);
	back_tell(n);
	n->attachment->served = true;
	n->goodbye = KC_GOODBYE_NONE;
	n->why[0] = '\0';
	kc_node_set(n, KC_NODE_UP);
	c->hooks->node_up(n);
	links_count(c);
}

/* The code for requests of an attachment that ended. ours: by our own break. */
static int end_code(const struct kc_node *n, bool ours)
{
	if (n->client->closing)
		return -KV_ECLOSED;
	if (ours)
		return -KV_ERESET;
	return left(n) ? -KV_ELEFT : -KV_EPEERDOWN;
}

static void attachment_await(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	bool ours, served, down;
	int rc = kc_connect_await(n);
	served = rc == 0;
	down = n->state == KC_NODE_DOWN; /* perhaps only since calls waited too long for this attempt */
	if (rc == -KV_ELEFT && !left(n))
		n->goodbye = KC_GOODBYE_HEARD;
	if (rc != -KV_ERESET)
		refusal_note(n, rc);
	if (rc < 0 && rc != -KV_ERESET) {
		server_name_add(n);
		memcpy(n->why, n->error.text, sizeof(n->why));
		prior_forget(n);
	}
	if (served)
		attachment_up(n);
	first_tell(n, rc);
	if (served) {
		rc = serve_await(n);
		n->control.spent |= kc_node_answers_wait(n);
		lost_tell(n, rc);
	} else if (rc != -KV_ERESET) {
		failure_log(n, rc);
	}
	if (n->retired)
		first_parted(n);
	ours = !n->retired && !left(n) && (n->redo || rc == -KV_ERESET);
	kc_node_set(n, ours && !c->closing && (served || !down) ? KC_NODE_CONNECTING : KC_NODE_DOWN);
	attachment_drop_await(n, end_code(n, ours));
	links_count(c);
	if (!ours || c->closing) /* else kc_connect_await decides */
		kc_conn_close_await(n);
	if (!served || !ours)
		backoff_await(n);
}

static bool all_down(const struct kvc_client *c)
{
	for (unsigned i = 0; i < c->num_nodes; i++)
		if (!c->node[i].retired && (c->node[i].state == KC_NODE_UP || c->node[i].state == KC_NODE_CONNECTING))
			return false;
	return true;
}

/* A listed server outside the view is asked for the view when no other can be, and now and then for its vote; else a
 * server alone for a moment could keep clients forever. */
static void rest_await(struct kc_node *n)
{
	struct loop *loop = n->client->loop;
	uint64_t until = loop_now(loop) + REST_VOTE_NS / 2 + kv_prng_below(loop_prng(loop), REST_VOTE_NS / 2);
	kc_conn_close_await(n);
	while (n->retired && !n->client->closing && !all_down(n->client) && loop_now(loop) < until)
		co_queue_wait_await(&n->kick, loop_now(loop) + REST_NS);
}

static void node_main(void *arg)
{
	struct kc_node *n = arg;
	struct kvc_client *c = n->client;
	while (!c->closing && !(n->retired && n->joined)) {
		if (n->retired)
			rest_await(n);
		if (!c->closing)
			attachment_await(n);
	}
	n->ending = true;
	kc_conn_close_await(n);
	if (n->retired)
		c->hooks->node_ended(n);
	kc_troubles_forget(troubles(n), n->own->trouble);
	kc_node_set(n, KC_NODE_CLOSED);
	kc_client_ended(c);
}

void kc_node_open(struct kc_node *n)
{
	n->own->attempt.first_told = true;
	n->unstarted = kc_node_start(n) < 0;
	if (n->unstarted)
		kc_node_set(n, KC_NODE_DOWN);
}

/* An attachment stays until nothing of ours is under way there, as after a goodbye. */
void kc_node_retire(struct kc_node *n)
{
	n->retired = true;
	kc_votes_drop(&n->client->cluster.votes, n->index);
	if (n->unstarted) { /* no coroutine that could end */
		n->unstarted = false;
		n->client->hooks->node_ended(n);
		kc_troubles_forget(troubles(n), n->own->trouble);
		kc_node_set(n, KC_NODE_CLOSED);
		return;
	}
	snprintf(n->why, sizeof(n->why), "the view of the cluster does not name it");
	if (n->state == KC_NODE_UP) {
		n->goodbye = KC_GOODBYE_HEARD;
		kc_node_set(n, KC_NODE_DOWN);
		return;
	}
	kc_node_set(n, KC_NODE_DOWN);
	kc_node_redial(n, "it is no member of the cluster any more");
}

int kc_node_start(struct kc_node *n)
{
	struct kvc_client *c = n->client;
	int rc = co_spawn(c->loop, node_main, n, "kvc node");
	if (rc < 0)
		return rc;
	kc_node_set(n, KC_NODE_CONNECTING);
	kc_client_began(c);
	return 0;
}

void kc_node_part_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	if (n->state != KC_NODE_UP || kc_node_send_await(n, &m, deadline_ns) < 0)
		kc_node_redo(n, "we are closing");
}
