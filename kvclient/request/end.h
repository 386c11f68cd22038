/* SPDX-License-Identifier: Apache-2.0 */
/* end.h -- end all requests of an attachment at once. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_END_H
#define KVRAIL_KVCLIENT_REQUEST_END_H

#include "kvclient/core/client.h"

/* kc_attachment_fail -- end every request of the attachment with status. safe: its peer cannot touch memory. */
void kc_attachment_fail(struct kc_attachment *s, int status, bool safe);

/* kc_attachment_limbo -- the same, while its endpoint is still closing (te_fencing); requests into reachable memory of
 * callers end afterwards. kc_limbo_end -- end such a request, already out of client.unsafe.limbo. */
void kc_attachment_limbo(struct kc_attachment *s, int status);
void kc_limbo_end(struct kvc_client *c, struct kc_req *r);

/* kc_attachment_unsafe -- whether the peer may touch memory of requests. *out_caller: some of it is a caller's. */
bool kc_attachment_unsafe(const struct kc_attachment *s, uint64_t *out_bytes, bool *out_caller);

#endif
