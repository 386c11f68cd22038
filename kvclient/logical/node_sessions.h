/* SPDX-License-Identifier: Apache-2.0 */
/* node_sessions.h -- the sessions of one server. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_NODE_SESSIONS_H
#define KVRAIL_KVCLIENT_LOGICAL_NODE_SESSIONS_H

#include "kvclient/core/client.h"

/* kc_sessions_start -- start or wake the opener if sessions wait and the node is up. Without a coroutine the next call
 * tries again. */
void kc_sessions_start(struct kc_node *n);

/* kc_session_goodbye -- say goodbye about a granted session. Takes over one reference. */
void kc_session_goodbye(struct kc_session_at *at);

/* kc_session_changed -- its state has changed: wake its calls. */
void kc_session_changed(struct kvc_session *session);

/* kc_sessions_message -- take a SESSION message. 0, or -KV_EPROTO: it answers no question of ours. */
int kc_sessions_message(struct kc_node *n, const struct wire_ctrl_msg *m);

/* kc_sessions_reset -- the connection has ended: open every session of the client again on the next one. */
void kc_sessions_reset(struct kc_node *n);

#endif
