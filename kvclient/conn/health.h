/* SPDX-License-Identifier: Apache-2.0 */
/* health.h -- the working links of an attachment. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_CONN_HEALTH_H
#define KVRAIL_KVCLIENT_CONN_HEALTH_H

#include "kvclient/core/client.h"

/* kvc_links_await -- a step of attaching: ping all links. 0: every shard has a working link, and the others had time to
 * answer; or a code with n->error. */
int kvc_links_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_link_check -- at every beat (serve.c). 0, or the reason to end the attachment, with n->error. */
int kvc_link_check(struct kvc_node *n, struct kvc_link *l, uint64_t now, uint64_t silence_ns);

#endif
