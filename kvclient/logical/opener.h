/* SPDX-License-Identifier: Apache-2.0 */
/* opener.h -- the coroutine that opens sessions at a server and says goodbye to them. Private to kvclient/. On the
 * client's loop; only _await functions park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_OPENER_H
#define KVRAIL_KVCLIENT_LOGICAL_OPENER_H

#include "kvclient/core/client.h"

/* kc_sessions_start -- start or wake the opener if sessions wait and the node is up. Without a coroutine the next call
 * tries again. */
void kc_sessions_start(struct kc_node *n);

/* kc_opener_wake -- an answer came, or the connection ended. */
void kc_opener_wake(struct kc_node *n);

/* kc_session_goodbye -- say goodbye about a granted session. Takes over one reference. */
void kc_session_goodbye(struct kc_session_at *at);

void kc_session_refuse(struct kc_session_at *at, int status);

/* kc_session_changed -- its state has changed: wake its calls. */
void kc_session_changed(struct kvc_session *session);

#endif
