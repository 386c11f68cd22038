/* SPDX-License-Identifier: Apache-2.0 */
/* health.h -- the working links of an attachment. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_CONN_HEALTH_H
#define KVRAIL_KVCLIENT_CONN_HEALTH_H

#include "kvclient/core/client.h"

/* kc_links_await -- a step of attaching: ping all links. 0: every shard has a working link, and the others had time to
 * answer; or a code with n->error. */
int kc_links_await(struct kc_node *n, uint64_t deadline_ns);
/* kc_link_check -- at every beat (serve.c). 0, or the reason to end the attachment, with n->error. */
int kc_link_check(struct kc_node *n, struct kc_link *l, uint64_t now, uint64_t silence_ns);

#endif
