/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h -- a server's answers about sessions. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_ANSWERS_H
#define KVRAIL_KVCLIENT_LOGICAL_ANSWERS_H

#include "kvclient/core/client.h"

/* kc_sessions_message -- take a SESSION message. 0, or -KV_EPROTO: it answers no question of ours. */
int kc_sessions_message(struct kc_node *n, const struct wire_ctrl_msg *m);

/* kc_sessions_reset -- the connection has ended: open every session of the client again on the next one. */
void kc_sessions_reset(struct kc_node *n);

#endif
