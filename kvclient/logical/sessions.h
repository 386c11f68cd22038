/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- further sessions of a client: opening and closing them at its servers. Private to kvclient/. All of
 * these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H
#define KVRAIL_KVCLIENT_LOGICAL_SESSIONS_H

#include "kvclient/core/client.h"

/* ---- at a server ---- */

/* kvc_subs_start -- the node is up: open what is to be opened there. */
void kvc_subs_start(struct kvc_node *n);

/* kvc_subs_message -- one of the SESSION messages of the server. 0 or -KV_EPROTO. */
int kvc_subs_message(struct kvc_node *n, const struct wire_ctrl_msg *m);

/* kvc_subs_reset -- the connection is over: sessions are to be opened anew at the next. */
void kvc_subs_reset(struct kvc_node *n);

/* kvc_subs_free -- the client's engine is closed: free what the host has not given back. */
void kvc_subs_free(struct kvc_client *c);

/* kvc_sub_ready_await -- until it is open at the node's session `s`, by the deadline. 0; 1: `s` is not the session any
 * more; the server's refusal; -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_sub_ready_await(struct kvc_sub *sub, struct kvc_node *n, const struct kvc_session *s, uint64_t deadline_ns);

/* kvc_sub_of -- of a call as it was given, NULL too. */
struct kvc_sub *kvc_sub_of(const struct kvc_call *call);

#endif
