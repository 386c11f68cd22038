/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- end all requests of an attachment at once. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_END_H
#define KVRAIL_KVCLIENT_REQUEST_END_H

#include "kvclient/core/client.h"

/* kvc_attachment_fail -- end every request of the attachment with status. safe: its peer cannot touch memory. */
void kvc_attachment_fail(struct kvc_attachment *s, int status, bool safe);

/* kvc_attachment_limbo -- the same, while its endpoint is still closing (te_fencing); requests into reachable memory of
 * callers end afterwards. kvc_limbo_end -- end such a request, already out of client.unsafe.limbo. */
void kvc_attachment_limbo(struct kvc_attachment *s, int status);
void kvc_limbo_end(struct kvc_client *c, struct kvc_req *r);

/* kvc_attachment_unsafe -- whether the peer may touch memory of requests. *out_caller: some of it is a caller's. */
bool kvc_attachment_unsafe(const struct kvc_attachment *s, uint64_t *out_bytes, bool *out_caller);

#endif
