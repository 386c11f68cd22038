/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- how all requests of a session end at once. Private to kvclient/. All of these on the client's loop; what
 * does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_END_H
#define KVRAIL_KVCLIENT_REQUEST_END_H

#include "kvclient/core/client.h"

/* kvc_session_fail -- end every request of the session with status. safe: nothing of the peer can touch memory any
 * more. */
void kvc_session_fail(struct kvc_session *s, int status, bool safe);

/* kvc_session_limbo -- the same, while the endpoint that they went over is given up and not closed (te_fencing):
 * requests that it may still move memory of callers for end when it is closed. kvc_limbo_end -- it is closed: end
 * this one of client.unsafe.limbo, which it has left. */
void kvc_session_limbo(struct kvc_session *s, int status);
void kvc_limbo_end(struct kvc_client *c, struct kvc_req *r);

/* kvc_session_unsafe -- whether requests are out whose memory the peer may touch; *out_caller: some of it is the
 * caller's. */
bool kvc_session_unsafe(const struct kvc_session *s, uint64_t *out_bytes, bool *out_caller);

#endif
