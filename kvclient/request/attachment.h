/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- make and free an attachment (struct kvc_attachment), the result of one WELCOME. Private to kvclient/.
 * On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H
#define KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H

#include "kvclient/core/client.h"

/* kvc_attachment_create -- make it from a WELCOME, which is copied. The caller has the first reference, and opens its
 * peers. 0; -KV_ENOMEM; -KV_EPROTO (TLS has no secret). kvc_attachment_unref -- drop a reference; the last one frees
 * it. */
int kvc_attachment_create(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
			  struct kvc_attachment **out);
void kvc_attachment_free(struct kvc_attachment *s); /* for kvc_attachment_unref only */
static inline void kvc_attachment_unref(struct kvc_attachment *s)
{
	if (--s->refs == 0)
		kvc_attachment_free(s);
}

#endif
