/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- sessions of logical clients: opened, used by calls, closed. Private to kvclient/. All of these on the
 * client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H
#define KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H

#include "kvclient/core/client.h"

/* kvc_session_begin_await -- open a session at every server that is up; at the others it is opened when they are. 0,
 * and *out is the caller's until kvc_session_end_await; or a code with *err: it is open nowhere (kvc_session_open_await
 * lists them).
 */
int kvc_session_begin_await(struct kvc_client *c, const struct kvc_session_options *o, uint64_t deadline_ns,
			    struct kvc_session **out, struct kv_error *err);

/* kvc_session_end_await -- the handle is given back: say goodbye to the servers. No call uses the session, and its pins
 * are forgotten. 0, or -KV_ETIMEOUT: some server has not confirmed. The session is no longer the caller's in any case.
 */
int kvc_session_end_await(struct kvc_session *session, uint64_t deadline_ns);

/* kvc_session_ready_await -- wait until the session is open in this attachment of the node (kvc_node_uses). 0; 1: that
 * is not in use any more; the server's refusal; -KV_ENOMEM, -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_session_ready_await(struct kvc_session *session, struct kvc_node *n, uint64_t attaches, uint64_t deadline_ns);

/* kvc_session_of -- the session of a call, as the caller gave it; NULL: the client's own. call: NULL too. */
struct kvc_session *kvc_session_of(const struct kvc_call *call);

/* kvc_sessions_free -- the client's engine is closed: free the sessions that the host has not given back. */
void kvc_sessions_free(struct kvc_client *c);

#endif
