/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c -- the coroutine of a node: a session is made (connect.c), served until it ends, and dropped; and again.
 *
 * It reads the connection and sends heartbeats. A server that is not heard for the time of silence is down, at that
 * moment and not at the next beat; but only if beats of our own have gone by meanwhile, so that a process that was
 * stopped for a while does not take its own absence for the server's. Others (memory.c, the closer) may send; the
 * connection is closed only when none of them is inside.
 *
 * Dropping a session while requests are out: see end.c and kvc_client_fence_await. Pieces go to quarantine only while
 * another server would suffer from a fence; otherwise fencing is free. Where a fence is one of this server alone nobody
 * else suffers. */
#include "kvclient/conn/serve.h"

#include "kvclient/conn/connect.h"
#include "kvclient/conn/health.h"
#include "kvclient/conn/node.h"
#include "kvclient/conn/regions.h"
#include "kvclient/request/attachment.h"
#include "kvclient/request/end.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/life.h"
#include "kvclient/request/quarantine.h"

enum { SESSION_BEATS = 2 /* times of silence until a question about a session is given up */ };

#define BACKOFF_MIN_NS  50000000ull
#define BACKOFF_MAX_NS  500000000ull /* with connecting: within a second after it is back */
#define SEND_TIMEOUT_NS 2000000000ull
#define PART_POLL_NS    5000000ull /* between two looks whether anything is under way at a server that ends */

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

/* The server ends. No new call goes there; what is under way comes to its end (part_await). */
static void leave(struct kvc_node *n)
{
	if (n->left || n->client->closing)
		return;
	n->left = true;
	snprintf(n->why, sizeof(n->why), "it said goodbye");
	kv_info(kvc_node_log(n), "client %u: server %s ends: its keys are misses until it is back", n->client->index,
		kvc_node_name(n));
	kvc_node_set(n, KVC_NODE_DOWN);
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
		kvc_region_answer(n, m->region_ok.id, m->region_ok.status, true);
		return 0;
	case WIRE_CTRL_REVOKE_OK:
		kvc_region_answer(n, m->region_ok.id, WIRE_OK, false);
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
		if (n->client->node_events->message(n, m) == 0)
			return 0;
		return kv_fail(&n->error, -KV_EPROTO, "it answered a question about a session that was not asked");
	case WIRE_CTRL_GOODBYE:
		leave(n);
		return 0;
	case WIRE_CTRL_REFUSE:
		kvc_printable(text, sizeof(text), m->refuse.text);
		return kv_fail(&n->error, -KV_EPEERDOWN, "it closes the session: %s", text);
	default:
		return kv_fail(&n->error, -KV_EPROTO, "it sent control message %d, which makes no sense here",
			       (int)m->type);
	}
}

/* When the server is given up if nothing comes. Not before some beats of our own have gone by since it was heard. */
static uint64_t silence_end(const struct kvc_node *n)
{
	uint64_t beats = kvc_node_silence_ns(n) / n->heartbeat_ns - 1;
	return n->silent_beats >= beats ? n->heard_ns + kvc_node_silence_ns(n) : KV_NEVER;
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
		rc = kvc_link_check(n, &s->link[i], now, kvc_node_silence_ns(n));
	if (rc == 0 && kvc_subs_late(&n->subs, now, SESSION_BEATS * kvc_node_silence_ns(n)))
		kvc_node_redial(n, "it does not answer questions about sessions");
	n->client->node_events->beat(n);
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
		     c->unsafe.num_zombies + s->shards > KVC_ZOMBIES_MAX;
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
		c->unsafe.zombie[c->unsafe.num_zombies++] = s->peer[i];
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
	n->client->node_events->gone(n);
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
	const char *name = kvc_node_name(n), *address = strchr(name, '=') ? strchr(name, '=') + 1 : name;
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
	kv_warn(kvc_node_log(n), "client %u: %s", n->client->index, n->error.text);
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
	int rc = kvc_connect_await(n);
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
			kv_info(kvc_node_log(n), "client %u: server %s is back", c->index, kvc_node_name(n));
		n->session->served = true;
		n->left = n->parting = false;
		kvc_node_set(n, KVC_NODE_UP);
		c->node_events->up(n);
		links_count(c);
	}
	/* An attempt that was overtaken is not decided, while there is time for another one. */
	if (!n->attempted && (rc != -KV_ERESET || c->closing || loop_now(c->loop) >= n->first_ns)) {
		n->attempted = true;
		kvc_pool_tell_attempt(c->pool, &c->servers_up, rc == -KV_ERESET ? -KV_ETIMEOUT : rc, &n->error);
	}
	if (rc == 0) {
		rc = serve_await(n);
		n->redial |= kvc_node_answers_wait(n);
		if (!c->closing && !n->left && rc == -KV_EPEERDOWN && c->info.death_fatal)
			kv_error_log(
				kvc_node_log(n),
				"client %u: server %s is lost; if its process died, provider %s cannot promise to "
				"go on, because locks are shared with it: should calls stand still now, start this "
				"process again, and use provider tcp where servers may die",
				c->index, kvc_node_name(n), c->info.provider);
		if (!c->closing && !n->left && (n->redo || rc < 0)) {
			kvc_add(&c->count.lost_connections, 1);
			snprintf(n->why, sizeof(n->why), "%s", n->redo ? n->redo_why : n->error.text);
			kv_warn(kvc_node_log(n), "client %u, server %s: %s: connecting again", c->index,
				kvc_node_name(n), n->why);
		}
	} else if (rc != -KV_ERESET) {
		failure_log(n, rc);
	}
	ours = !n->left && (n->redo || rc == -KV_ERESET);
	kvc_node_set(n, ours && !c->closing ? KVC_NODE_CONNECTING : KVC_NODE_DOWN);
	session_drop_await(n, c->closing ? -KV_ECLOSED : ours ? -KV_ERESET : n->left ? -KV_ELEFT : -KV_EPEERDOWN);
	links_count(c);
	if (!ours || c->closing) /* else kvc_connect_await looks whether it is of any use */
		kvc_conn_close_await(n);
	if (!served || !ours)
		backoff_await(n);
}

static void node_main(void *arg)
{
	struct kvc_node *n = arg;
	struct kvc_client *c = n->client;
	while (!c->closing)
		session_await(n);
	kvc_conn_close_await(n);
	kvc_node_set(n, KVC_NODE_CLOSED);
	n->running = false;
	kvc_client_ended(c);
}

int kvc_node_start(struct kvc_node *n)
{
	struct kvc_client *c = n->client;
	int rc;
	n->state = KVC_NODE_CONNECTING;
	rc = co_spawn(c->loop, node_main, n, "kvc node");
	if (rc == 0) {
		n->running = true;
		kvc_client_began(c);
	}
	return rc;
}

void kvc_node_part_await(struct kvc_node *n, uint64_t deadline_ns)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_GOODBYE};
	if (n->state != KVC_NODE_UP || kvc_node_send_await(n, &m, deadline_ns) < 0)
		kvc_node_redo(n, "we are closing");
}
