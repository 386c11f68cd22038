/* SPDX-License-Identifier: Apache-2.0 */
/* alias.h -- maps servers of the user's list to members of the view. Private to kvclient/. On the client's loop. */
#ifndef KVRAIL_KVCLIENT_CONN_ALIAS_H
#define KVRAIL_KVCLIENT_CONN_ALIAS_H

#include "kvclient/core/client.h"

/* kc_alias_looked_up -- the addresses of a node's server were looked up. */
void kc_alias_looked_up(struct kc_node *n, const struct kv_addresses *found);

/* kc_alias_node -- the node of server number `server`. For a resting one of the user's list, the member known to be
 * the same server, else the resting node. kc_alias_node_await -- the same; waits while that may soon be known. */
struct kc_node *kc_alias_node(struct kvc_client *c, unsigned server);
struct kc_node *kc_alias_node_await(struct kvc_client *c, unsigned server, uint64_t deadline_ns);

#endif
