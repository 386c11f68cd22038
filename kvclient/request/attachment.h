/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- the memory of what one WELCOME gave us. Private to kvclient/. All of these on the client's loop; what
 * does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H
#define KVRAIL_KVCLIENT_REQUEST_ATTACHMENT_H

#include "kvclient/core/client.h"

/* kvc_session_create -- of a WELCOME, which is copied from; the first reference is the caller's. Its peers are still to
 * be opened. 0; -KV_ENOMEM; -KV_EPROTO (TLS has no secret for us). kvc_session_unref -- one reference less: the last
 * one frees it. */
int kvc_session_create(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
		       struct kvc_session **out);
void kvc_session_free(struct kvc_session *s); /* for kvc_session_unref alone */
static inline void kvc_session_unref(struct kvc_session *s)
{
	if (--s->refs == 0)
		kvc_session_free(s);
}

#endif
