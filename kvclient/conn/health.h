/* SPDX-License-Identifier: Apache-2.0 */
/* health.h -- which links of an attachment work. Private to kvclient/. All of these on the client's loop; what does not
 * end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_HEALTH_H
#define KVRAIL_KVCLIENT_CONN_HEALTH_H

#include "kvclient/core/client.h"

/* kvc_links_await -- a step of attaching: ping all links. 0 when every shard has a link that answered, and all others
 * had time to; or a code with n->error. */
int kvc_links_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_link_check -- at every beat (serve.c): use a link that was out and answers; ping one that should have been heard.
 * 0, or why the attachment is to end, with n->error. */
int kvc_link_check(struct kvc_node *n, struct kvc_link *l, uint64_t now, uint64_t silence_ns);

#endif
