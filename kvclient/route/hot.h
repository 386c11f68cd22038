/* SPDX-License-Identifier: Apache-2.0 */
/* hot.h -- hot values that this client reads from two servers (KVC_HOT_COPIES). Private to kvclient/. On the client's
 * loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_HOT_H
#define KVRAIL_KVCLIENT_ROUTE_HOT_H

#include "kvclient/core/client.h"
#include "kvclient/route/owner.h"
#include "kvclient/route/second.h"

/* route_hot_ready -- make the client's table at opening, if the pool has the flag. 0 or -KV_ENOMEM. route_hot_fini --
 * free it. */
int route_hot_ready(struct kvc_client *c);
void route_hot_fini(struct kvc_client *c);

/* route_hot_any -- whether any key was ever hot: a load, for the hot path. */
bool route_hot_used(const struct kvc_client *c);
static inline bool route_hot_any(const struct kvc_client *c)
{
	return KV_UNLIKELY(c->hot != NULL) && route_hot_used(c);
}

/* route_hot_read -- whether a GET may ask both servers of this key; route_hot_fresh -- whether it may begin with the
 * second one, which ends earlier. */
bool route_hot_read(const struct kvc_client *c, struct kvc_key key);
bool route_hot_fresh(const struct kvc_client *c, struct kvc_key key);

/* route_hot_reported -- server n reports its value as hot: copy it to the key's second server in the background, unless
 * it is there. */
void route_hot_reported(struct kvc_client *c, struct kvc_key key, const struct kc_node *n);

/* route_hot_copied -- that copy ended with rc. route_hot_lost -- the second server lost it, and the repair failed: GETs
 * ask only the first one until a later copy. */
void route_hot_copied(struct kvc_client *c, struct kvc_key key, int64_t rc);
void route_hot_lost(struct kvc_client *c, struct kvc_key key);

/* route_twice -- whether a GET with these flags has two servers. */
static inline bool route_twice(const struct kvc_client *c, unsigned flags, struct kvc_key key)
{
	return route_two_copies(c, flags) || (route_hot_any(c) && route_hot_read(c, key));
}

/* route_read_first -- the first server of such a GET. */
static inline struct kc_node *route_read_first(struct kvc_client *c, unsigned flags, struct kvc_key key)
{
	bool hot = route_hot_any(c) && route_hot_fresh(c, key);
	return hot || route_two_copies(c, flags) ? route_reader(c, key, hot) : route_first(c, key);
}

#endif
