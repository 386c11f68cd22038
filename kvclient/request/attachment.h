/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- making and freeing an attachment (struct kvc_attachment): what one WELCOME gave us. Private to
 * kvclient/. All functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H
#define KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H

#include "kvclient/core/client.h"

/* kvc_attachment_create -- make it of a WELCOME, which is copied from. The first reference is the caller's. Its peers
 * are still to be opened. 0; -KV_ENOMEM; -KV_EPROTO (TLS has no secret for us). kvc_attachment_unref -- one reference
 * less; the last one frees it. */
int kvc_attachment_create(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
			  struct kvc_attachment **out);
void kvc_attachment_free(struct kvc_attachment *s); /* for kvc_attachment_unref alone */
static inline void kvc_attachment_unref(struct kvc_attachment *s)
{
	if (--s->refs == 0)
		kvc_attachment_free(s);
}

#endif
