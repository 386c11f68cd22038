/* SPDX-License-Identifier: Apache-2.0 */
/* node.h -- a node: one client's side of one server. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_CONN_NODE_H
#define KVRAIL_KVCLIENT_CONN_NODE_H

#include "kvclient/core/client.h"

/* Calls of the rooms above, set once (client->node_events). None parks. */
struct kvc_node_events {
	void (*up)(struct kvc_node *n);
	void (*beat)(struct kvc_node *n);
	void (*gone)(struct kvc_node *n); /* with its sessions */
	/* A message about sessions. 0, or -KV_EPROTO: it answers no question of ours. */
	int (*message)(struct kvc_node *n, const struct wire_ctrl_msg *m);
	/* The server's view (the call may keep it) and whether it drains, or its announcement of one. Both may begin
	 * nodes and retire this one. */
	void (*view)(struct kvc_node *n, struct kv_view *view, bool draining);
	void (*told)(struct kvc_node *n, const struct wire_view_news *news);
	bool (*asks)(struct kvc_node *n);  /* whether to ask for its view now */
	bool (*waits)(struct kvc_node *n); /* while attaching: other servers decide first */
	void (*ended)(struct kvc_node *n); /* its place is free */
};

enum { KVC_SILENCE_BEATS_MIN = 2 };

/* kvc_node_silence_ns -- a server silent for this time is down. */
static inline uint64_t kvc_node_silence_ns(const struct kvc_node *n)
{
	return KV_MAX(KVC_SILENCE_BEATS_MIN * n->pulse.beat_ns, n->client->pool->options.peer_timeout_ns);
}

static inline bool kvc_node_running(const struct kvc_node *n)
{
	return n->state != KVC_NODE_NEW && n->state != KVC_NODE_CLOSED;
}

/* kvc_node_answers_wait -- whether the server may delay its next answer until transfers have ended, which may be the
 * trouble. */
static inline bool kvc_node_answers_wait(const struct kvc_node *n)
{
	return n->regions.revokes > 0 || kvc_sessions_parting(&n->sessions);
}

void kvc_printable(char *out, size_t cap, const char *text);

void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index);

void kvc_node_set(struct kvc_node *n, enum kvc_node_state state);

/* kvc_node_shun -- set or end that calls about keys pass it by. Its stand-ins count as such for settle_ns more
 * (route/former.c). */
void kvc_node_shun(struct kvc_node *n, bool shun);

/* kvc_node_redo -- attach anew at once while calls wait, on the same control connection if sound. why: a constant, for
 * the log. kvc_node_redial -- on a new control connection. */
void kvc_node_redo(struct kvc_node *n, const char *why);
void kvc_node_redial(struct kvc_node *n, const char *why);
/* kvc_node_send_await -- send on its control connection. 0; -KV_EPEERDOWN: there is none; -KV_ETIMEOUT; or why the
 * connection broke. */
int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns);
/* kvc_node_quiet_take -- the time the server may be silent from now on; 0: a beat. */
void kvc_node_quiet_take(struct kvc_node *n, uint64_t quiet_ms);
/* kvc_node_aside -- take an unexpected message while attaching; the server sends news of view, drain or silence once.
 * 0; -KV_EPROTO; -KV_ERESET: the attachment is void; -KV_ELEFT: a goodbye. */
int kvc_node_aside(struct kvc_node *n, const struct wire_ctrl_msg *m);
/* kvc_node_view_take -- without memory the view is skipped until the next news. */
void kvc_node_view_take(struct kvc_node *n, const struct wire_view *w);
/* kvc_node_drain_take -- the server drains. 0; -KV_EPROTO: we did not ask. */
int kvc_node_drain_take(struct kvc_node *n, const struct wire_drain *w);

int kvc_node_drained_take(struct kvc_node *n, const struct kv_drained *d);
/* kvc_node_attempt_await -- wait until a CONNECTING node's state may have changed. After the time of silence it becomes
 * DOWN if another server may stand in. 0; -KV_ETIMEOUT. */
int kvc_node_attempt_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_node_ready_await -- wait until UP or DOWN. 0 and *out; -KV_ELEFT: a goodbye; n->refusal.code; -KV_EPEERDOWN;
 * -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_attachment **out);
/* kvc_node_down -- whether rc of a call means that the server cannot be reached. */
bool kvc_node_down(const struct kvc_node *n, int64_t rc);
#endif
