/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h -- what a server answers about sessions. Private to kvclient/. All of these on the client's loop; what does
 * not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_ANSWERS_H
#define KVRAIL_KVCLIENT_LOGICAL_ANSWERS_H

#include "kvclient/core/client.h"

/* kvc_sessions_message -- take one of the server's SESSION messages. 0, or -KV_EPROTO: nothing was asked that it could
 * answer. */
int kvc_sessions_message(struct kvc_node *n, const struct wire_ctrl_msg *m);

/* kvc_sessions_reset -- the connection has ended: every session of the client is to be opened again on the next one. */
void kvc_sessions_reset(struct kvc_node *n);

#endif
