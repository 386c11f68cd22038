/* SPDX-License-Identifier: Apache-2.0 */
/* former.h -- servers that may have a key from before a change of the view. Private to kvclient/. On the client's loop;
 * none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_FORMER_H
#define KVRAIL_KVCLIENT_ROUTE_FORMER_H

#include "kvclient/core/client.h"

enum { KC_FORMERS_ASKED = 2 };

/* route_formers -- whether any key can have a former server: a few loads, for the hot path. */
static inline bool route_formers(const struct kvc_client *c)
{
	const struct kc_cluster *k = &c->cluster;
	return KV_UNLIKELY((k->draining.count | k->joining.count | k->restarted.count | k->num_former) != 0);
}

/* route_former -- former server k of a key, the likeliest first, and up; a miss asks the first KC_FORMERS_ASKED.
 * twice: two servers are in charge. NULL: none. */
struct kc_node *route_former(struct kvc_client *c, struct kvc_key key, bool twice, unsigned k);

/* route_every -- the next server that may have the key, for calls that must reach all: those in charge (twice: both),
 * former servers, and stand-ins of absent ones. *told: servers asked before; adds this one. NULL: none left. */
struct kc_node *route_every(struct kvc_client *c, struct kvc_key key, bool twice, struct kc_place_set *told);

/* route_absent -- whether other servers may have stood in for the key's owner. */
bool route_absent(struct kvc_client *c, struct kvc_key key);

#endif
