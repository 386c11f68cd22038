/* SPDX-License-Identifier: Apache-2.0 */
/* owner.h -- the server that a key is placed on, and the first server that is asked for it. Private to kvclient/. On
 * the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_OWNER_H
#define KVRAIL_KVCLIENT_ROUTE_OWNER_H

#include "kvclient/core/client.h"
#include "kvclient/core/placement.h"

/* route_owner -- the server that the key is placed on.
 * route_first -- the first server to ask: the owner, or while that is down or draining the next one in the key's order.
 * The owner, if all servers are down. */
struct kvc_node *route_owner(struct kvc_client *c, struct kvc_key key);
struct kvc_node *route_first(struct kvc_client *c, struct kvc_key key);

/* route_moved -- a request to *n about the key ended with rc; nothing of it is under way there. True: *n is down and
 * another server is not; *n is now that server, which is to be asked. False after the deadline. */
bool route_moved(struct kvc_node **n, struct kvc_key key, int64_t rc, uint64_t deadline_ns);

/* route_count -- server n is about to be asked for the key: count it, if n stands in for the owner. */
void route_stand_in(struct kvc_node *n, struct kvc_key key);
static inline void route_count(struct kvc_node *n, struct kvc_key key)
{
	if (KV_UNLIKELY(n->client->avoided.count > 0))
		route_stand_in(n, key);
}

/* route_down -- the code that the caller of a call with these flags sees, which ended with rc at n when no server was
 * left to ask: a miss, if n is down and the flags ask for that, or if n has said goodbye. */
int64_t route_down(const struct kvc_node *n, unsigned flags, int64_t rc);

#endif
