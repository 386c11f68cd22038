/* SPDX-License-Identifier: Apache-2.0 */
/* node.h -- one client's view of one server. Private to kvclient/. All of these on the client's loop; what does not end
 * in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_NODE_H
#define KVRAIL_KVCLIENT_CONN_NODE_H

#include "kvclient/core/client.h"

/* What the room tells those above it, who hang on a connection. The client fills it once (client->node_events). All are
 * called on the client's loop, and none parks. */
struct kvc_node_events {
	void (*up)(struct kvc_node *n);   /* it has a new session, which requests may use */
	void (*beat)(struct kvc_node *n); /* that session is still there, at its next beat */
	void (*gone)(struct kvc_node *n); /* the session is dropped, and what was open on its connection with it */
	/* A message about further sessions. 0 or -KV_EPROTO: nobody asked. */
	int (*message)(struct kvc_node *n, const struct wire_ctrl_msg *m);
};

enum { KVC_SILENCE_BEATS_MIN = 2 };

/* kvc_node_silence_ns -- without a word for so long, the server is down. */
static inline uint64_t kvc_node_silence_ns(const struct kvc_node *n)
{
	return KV_MAX(KVC_SILENCE_BEATS_MIN * n->heartbeat_ns, n->client->pool->options.peer_timeout_ns);
}

/* kvc_node_answers_wait -- whether the server may answer what we say next only when transfers have ended: those may be
 * the trouble. */
static inline bool kvc_node_answers_wait(const struct kvc_node *n)
{
	return n->revokes > 0 || kvc_subs_parting(&n->subs);
}

/* kvc_printable -- a copy of a stranger's text that may end up on a terminal. */
void kvc_printable(char *out, size_t cap, const char *text);

/* kvc_node_init -- before any of the client's coroutines is started. */
void kvc_node_init(struct kvc_node *n, struct kvc_client *c, unsigned index);

/* kvc_node_set -- its state changes: all who wait for it look. */
void kvc_node_set(struct kvc_node *n, enum kvc_node_state state);

/* kvc_node_redo -- the break is ours: drop the session and make a new one at once, while calls wait: on the same
 * control connection, if that is sound. Not for a server that is lost. why: for the log. kvc_node_redial -- the same
 * when the control connection is the trouble: a new one is made. */
void kvc_node_redo(struct kvc_node *n, const char *why);
void kvc_node_redial(struct kvc_node *n, const char *why);
/* kvc_node_send_await -- say something on its control connection, which is not closed meanwhile. 0; -KV_EPEERDOWN:
 * there is none; -KV_ETIMEOUT; or why the connection broke. */
int kvc_node_send_await(struct kvc_node *n, const struct wire_ctrl_msg *m, uint64_t deadline_ns);
/* kvc_node_ready_await -- 0 with the open session; -KV_ELEFT; -KV_EPEERDOWN, or n->refusal instead; -KV_ETIMEOUT,
 * -KV_ECLOSED. */
int kvc_node_ready_await(struct kvc_node *n, uint64_t deadline_ns, struct kvc_session **out);
/* kvc_node_down -- whether rc, which a call of this node ended with, says that it cannot be reached. */
bool kvc_node_down(const struct kvc_node *n, int64_t rc);
#endif
