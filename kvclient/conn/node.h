/* SPDX-License-Identifier: Apache-2.0 */
/* node.h -- a node: one client's side of one server. Private to kvclient/. All of these on the client's loop; what does
 * not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_NODE_H
#define KVRAIL_KVCLIENT_CONN_NODE_H

#include "kvclient/core/client.h"

/* What this room tells the rooms above it. The client fills it once (client->node_events). All are called on the
 * client's loop, and none parks. */
struct kvc_node_events {
	void (*up)(struct kvc_node *n);   /* it has a new attachment, which requests may use */
	void (*beat)(struct kvc_node *n); /* that attachment is still there, a beat later (serve.c) */
	void (*gone)(struct kvc_node *n); /* the attachment is dropped, and with it every session that was open in it */
	/* A message about sessions. 0, or -KV_EPROTO: nothing was asked that it could answer. */
	int (*message)(struct kvc_node *n, const struct wire_ctrl_msg *m);
	/* The server told its view, which the call may empty and keep, or what it announces of one, and whether it
	 * drains. Both may begin nodes, and retire this one. */
	void (*view)(struct kvc_node *n, struct kv_view *view, bool draining);
	void (*told)(struct kvc_node *n, const struct wire_view_news *news);
	bool (*asks)(struct kvc_node *n);  /* whether to ask this server for its view now */
	bool (*waits)(struct kvc_node *n); /* while it attaches: other servers are to say first which view counts */
	void (*ended)(struct kvc_node *n); /* a retired node has come to its end: its place may be given away */
};

enum { KVC_SILENCE_BEATS_MIN = 2 };

/* kvc_node_silence_ns -- a server that is silent for so long is down. */
static inline uint64_t kvc_node_silence_ns(const struct kvc_node *n)
{
	return KV_MAX(KVC_SILENCE_BEATS_MIN * n->pulse.beat_ns, n->client->pool->options.peer_timeout_ns);
}

/* kvc_node_running -- whether its coroutine was started and has not ended. */
static inline bool kvc_node_running(const struct kvc_node *n)
{
	return n->state != KVC_NODE_NEW && n->state != KVC_NODE_CLOSED;
}

/* kvc_node_answers_wait -- whether the server may leave our next message unanswered until transfers have ended, which
 * may be the trouble. */
static inline bool kvc_node_answers_wait(const struct kvc_node *n)
{
	return n->regions.revokes > 0 || kvc_sessions_parting(&n->sessions);
}

/* kvc_printable -- copy a server's text, and replace what a terminal would obey. */
void kvc_printable(char *out, size_t cap, const char *text);

/* kvc_node_init -- before any of the client's coroutines is started. */
void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index);

/* kvc_node_set -- change its state, and wake all coroutines that wait for that. */
void kvc_node_set(struct kvc_node *n, enum kvc_node_state state);

/* kvc_node_shun -- calls about keys pass it by from now on, or no longer do. Those that stood in for it count as such
 * for settle_ns more (route/former.c). */
void kvc_node_shun(struct kvc_node *n, bool shun);

/* kvc_node_redo -- drop the attachment and make a new one at once, while calls wait: on the same control connection, if
 * that is sound. For breaks that do not mean that the server is lost. why: a constant, for the log.
 * kvc_node_redial -- the same on a new control connection, because the present one is the trouble. */
void kvc_node_redo(struct kvc_node *n, const char *why);
void kvc_node_redial(struct kvc_node *n, const char *why);
/* kvc_node_send_await -- send a message on its control connection, which is not closed meanwhile. 0; -KV_EPEERDOWN:
 * there is none; -KV_ETIMEOUT; or why the connection broke. */
int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns);
/* kvc_node_quiet_take -- the server may be silent for so long from now on, or for a beat (0). */
void kvc_node_quiet_take(struct kvc_node *n, uint64_t quiet_ms);
/* kvc_node_aside -- a message came on the control connection while it attaches and waits for another one. What it tells
 * of the view, of a drain or of its silence is kept: the server tells it once. 0; -KV_EPROTO; -KV_ERESET: the
 * attachment is void already; -KV_ELEFT: the server said goodbye. */
int kvc_node_aside(struct kvc_node *n, const struct wire_ctrl_msg *m);
/* kvc_node_view_take -- the server told its view. Without memory for it: not, and the next news will do. */
void kvc_node_view_take(struct kvc_node *n, const struct wire_view *w);
/* kvc_node_drain_take -- the server says that it drains. 0; -KV_EPROTO: we did not ask for that. */
int kvc_node_drain_take(struct kvc_node *n, const struct wire_drain *w);

/* kvc_node_drained_take -- ... and what came of it. As kvc_node_drain_take. */
int kvc_node_drained_take(struct kvc_node *n, const struct kv_drained *d);
/* kvc_node_attempt_await -- of a node that is CONNECTING: wait until its state may have changed. One that has been
 * CONNECTING for the time of silence becomes DOWN where another server may stand in. 0; -KV_ETIMEOUT. */
int kvc_node_attempt_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_node_ready_await -- wait until the node is UP or DOWN. 0 with the attachment in *out; -KV_ELEFT: the server said
 * goodbye; n->refusal.code: it refuses us; -KV_EPEERDOWN; -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_attachment **out);
/* kvc_node_down -- whether rc, which a call to this server ended with, says that it cannot be reached. */
bool kvc_node_down(const struct kvc_node *n, int64_t rc);
#endif
