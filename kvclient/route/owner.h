/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h -- a key's owner, and the first server to ask. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_OWNER_H
#define KVRAIL_KVCLIENT_ROUTE_OWNER_H

#include "kvclient/core/client.h"
#include "kvclient/core/placement.h"

/* route_owner -- the server that the key is placed on. route_first -- the first server to ask: the owner, or the next
 * one in the key's order while it is down or draining. The owner, if all are down. */
struct kc_node *route_owner(struct kvc_client *c, struct kvc_key key);
struct kc_node *route_first(struct kvc_client *c, struct kvc_key key);

/* route_moved -- a request to *n ended with rc, with nothing left there. True: *n was down, and is now another server
 * to ask. False after the deadline. */
bool route_moved(struct kc_node **n, struct kvc_key key, int64_t rc, uint64_t deadline_ns);

/* route_count -- count a request to n, if n stands in for the owner. */
void route_stand_in(struct kc_node *n, struct kvc_key key);
static inline void route_count(struct kc_node *n, struct kvc_key key)
{
	if (KV_UNLIKELY(n->client->nodes.avoided.count > 0))
		route_stand_in(n, key);
}

/* route_down -- the caller's code for rc at n, the last server asked: a miss if n said goodbye, or if it is down and
 * the flags allow that. */
int64_t route_down(const struct kc_node *n, unsigned flags, int64_t rc);

#endif
