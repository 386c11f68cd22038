/* SPDX-License-Identifier: Apache-2.0 */
/* former.h -- the servers that may have a key from before the view of the cluster changed. Private to kvclient/route/.
 * On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_FORMER_H
#define KVRAIL_KVCLIENT_ROUTE_FORMER_H

#include "kvclient/core/client.h"

/* route_formers -- whether any key can have a former server: a few loads, for the hot path. */
static inline bool route_formers(const struct kvc_client *c)
{
	const struct kvc_cluster *k = &c->cluster;
	return KV_UNLIKELY((k->draining.count | k->joining.count | k->restarted.count | k->num_former) != 0);
}

/* route_former -- former server k of a key, the likeliest one first; a miss asks the first KVC_FORMERS_ASKED of them.
 * It is up. twice: the value is kept twice, and neither of its two servers is a former one. NULL: there is no such
 * server. */
struct kvc_node *route_former(struct kvc_client *c, struct kvc_key key, bool twice, unsigned k);

/* route_every -- the next server that may have a value of the key, for calls that must reach all of them: the servers
 * in charge of it now (twice: both), all former servers, and those that stood in for an absent one. *told: the servers
 * that were asked before; the next one is added. NULL: none is left. */
struct kvc_node *route_every(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told);

/* route_absent -- whether other servers may have stood in for the key's owner. */
bool route_absent(struct kvc_client *c, struct kvc_key key);

#endif
