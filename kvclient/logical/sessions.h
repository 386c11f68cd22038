/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- sessions of logical clients. Private to kvclient/. On the client's loop; only _await functions park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H
#define KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H

#include "kvclient/core/client.h"

/* kc_session_begin_await -- open a session at every server that is up, at the others later. space: its namespace, NULL:
 * the pool's; it must live as long as the session. 0, and *out is the
 * caller's until kc_session_end_await; or a code of kvc_session_open_await with *err. */
int kc_session_begin_await(struct kvc_client *c, const struct kvc_session_options *o, const char *space,
			   uint64_t deadline_ns, struct kvc_session **out, struct kv_error *err);

/* kc_session_end_await -- say goodbye. No call uses the session, and its pins are forgotten. 0, or -KV_ETIMEOUT: a
 * server has not confirmed; the session is gone in any case. */
int kc_session_end_await(struct kvc_session *session, uint64_t deadline_ns);

/* kc_session_ready_await -- wait until it is open in this attachment of the node. 0; 1: the attachment has ended; the
 * server's refusal; -KV_ENOMEM, -KV_ETIMEOUT, -KV_ECLOSED. */
int kc_session_ready_await(struct kvc_session *session, struct kc_node *n, uint64_t attaches, uint64_t deadline_ns);

/* kc_session_of -- the session of a call (NULL allowed), or NULL. */
struct kvc_session *kc_session_of(const struct kvc_call *call);

/* kc_sessions_free -- after the engine has closed. */
void kc_sessions_free(struct kvc_client *c);

#endif
