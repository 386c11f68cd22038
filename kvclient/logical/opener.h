/* SPDX-License-Identifier: Apache-2.0 */
/* opener.h -- the coroutine that opens sessions at a server and says goodbye to them. Private to kvclient/. All of
 * these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_LOGICAL_OPENER_H
#define KVRAIL_KVCLIENT_LOGICAL_OPENER_H

#include "kvclient/core/client.h"

/* kvc_sessions_start -- open what waits in the node's list, and say the goodbyes that are due: start the opener, or
 * wake it. Does nothing while the node is not up. If no coroutine can be had, the next call that needs a session tries
 * again. */
void kvc_sessions_start(struct kvc_node *n);

/* kvc_opener_wake -- what the opener may wait for has changed: an answer came, or the connection ended. */
void kvc_opener_wake(struct kvc_node *n);

/* kvc_session_goodbye -- say goodbye to the server about a session that it granted. It takes one reference of the
 * session.
 */
void kvc_session_goodbye(struct kvc_session_at *at);

/* kvc_session_refuse -- it is not opened, for this reason: calls that wait for it are told. */
void kvc_session_refuse(struct kvc_session_at *at, int status);

/* kvc_session_changed -- its state at some server has changed: calls that wait for it look again. */
void kvc_session_changed(struct kvc_session *session);

#endif
