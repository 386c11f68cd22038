/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- ending all requests of an attachment at once. Private to kvclient/. All functions run on the client's loop;
 * one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_END_H
#define KVRAIL_KVCLIENT_REQUEST_END_H

#include "kvclient/core/client.h"

/* kvc_attachment_fail -- end every request of the attachment with status. safe: its peer can touch no memory any more.
 */
void kvc_attachment_fail(struct kvc_attachment *s, int status, bool safe);

/* kvc_attachment_limbo -- the same, while the endpoint that they went over is given up and not closed (te_fencing).
 * Requests with which the peer may still reach memory of callers end when it is closed.
 * kvc_limbo_end -- it is closed: end this request, which has left client.unsafe.limbo. */
void kvc_attachment_limbo(struct kvc_attachment *s, int status);
void kvc_limbo_end(struct kvc_client *c, struct kvc_req *r);

/* kvc_attachment_unsafe -- whether requests are out whose memory the peer may touch. *out_caller: some of it is a
 * caller's. */
bool kvc_attachment_unsafe(const struct kvc_attachment *s, uint64_t *out_bytes, bool *out_caller);

#endif
