/* SPDX-License-Identifier: Apache-2.0 */
/* health.h -- which links of a session work. Private to kvclient/. All of these on the client's loop; what does not end
 * in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_HEALTH_H
#define KVRAIL_KVCLIENT_CONN_HEALTH_H

#include "kvclient/core/client.h"

/* kvc_links_await -- ping all links of a session that is being set up: 0 when every shard has one that answered, and
 * all others had time to. Or a code with n->error. */
int kvc_links_await(struct kvc_node *n, uint64_t deadline_ns);
/* kvc_link_check -- at every beat: bring in a link that was out and answers; ask one that should have been heard. 0, or
 * why the session is to end, with n->error. */
int kvc_link_check(struct kvc_node *n, struct kvc_link *l, uint64_t now, uint64_t silence_ns);

#endif
