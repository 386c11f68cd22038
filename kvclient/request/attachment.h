/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- make and free an attachment (struct kc_attachment), the result of one WELCOME. Private to kvclient/.
 * On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H
#define KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H

#include "kvclient/core/client.h"

/* kc_attachment_create -- make it from a WELCOME, which is copied. The caller has the first reference, and opens its
 * peers. 0; -KV_ENOMEM; -KV_EPROTO (TLS has no secret). kc_attachment_unref -- drop a reference; the last one frees
 * it. */
int kc_attachment_create(struct kc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
			 struct kc_attachment **out);
void kc_attachment_free(struct kc_attachment *s); /* for kc_attachment_unref only */
static inline void kc_attachment_unref(struct kc_attachment *s)
{
	if (--s->refs == 0)
		kc_attachment_free(s);
}

/* ---- end.c ---- */

/* kc_attachment_fail -- end every request of the attachment with status. safe: its peer cannot touch memory. */
void kc_attachment_fail(struct kc_attachment *s, int status, bool safe);

/* kc_attachment_limbo -- the same, while its endpoint is still closing (te_fencing); requests into reachable memory of
 * callers end afterwards. kc_limbo_end -- end such a request, already out of client.unsafe.limbo. */
void kc_attachment_limbo(struct kc_attachment *s, int status);
void kc_limbo_end(struct kvc_client *c, struct kc_req *r);

/* kc_attachment_unsafe -- whether the peer may touch memory of requests. *out_caller: some of it is a caller's. */
bool kc_attachment_unsafe(const struct kc_attachment *s, uint64_t *out_bytes, bool *out_caller);

#endif
