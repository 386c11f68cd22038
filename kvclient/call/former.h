/* SPDX-License-Identifier: Apache-2.0 */
/* former.h -- where a key may be from before the view of the cluster changed. Private to kvclient/. On the client's
 * loop; none parks. */
#ifndef KVRAIL_KVCLIENT_CALL_FORMER_H
#define KVRAIL_KVCLIENT_CALL_FORMER_H

#include "kvclient/core/client.h"

/* kvc_formers -- whether any key can have a former server: a few loads, for the hot path. */
static inline bool kvc_formers(const struct kvc_client *c)
{
	const struct kvc_cluster *k = &c->cluster;
	return KV_UNLIKELY((k->draining.count | k->joining.count | k->restarted.count | k->num_former) != 0);
}

/* kvc_former -- the k-th of the servers that may have a key which the server in charge of it does not have, the
 * likeliest first: the first KVC_FORMERS_ASKED of them are asked for it. It is up. twice: the second one in charge does
 * not have it, either (second.h). NULL: there is no such one. */
struct kvc_node *kvc_former(struct kvc_client *c, struct kvc_key key, bool twice, unsigned k);

/* kvc_former_drop -- the next server to delete the key at: those in charge of it now (twice: both), all its former
 * servers, since each may be asked when one before it has gone, and those that stood in for one that was absent. *told:
 * the servers that were told, also by the caller; the next one is told from now on. NULL: there is none left. */
struct kvc_node *kvc_former_drop(struct kvc_client *c, struct kvc_key key, bool twice, struct kvc_place_set *told);

/* kvc_former_absent -- whether others may have stood in for the server in charge of the key: a DELETE goes to them,
 * too.
 */
bool kvc_former_absent(struct kvc_client *c, struct kvc_key key);

/* kvc_former_missed -- whether rc is a miss about the key, and there is a k-th former server to be asked. */
static inline bool kvc_former_missed(struct kvc_client *c, struct kvc_key key, bool twice, int64_t rc, unsigned k)
{
	return rc == -KV_ENOTFOUND && kvc_formers(c) && k < KVC_FORMERS_ASKED && kvc_former(c, key, twice, k);
}

/* kvc_former_next -- *n was asked about the key and ended with rc. After a miss *n becomes the next former server, and
 * *k counts it: true. False: rc is no miss, or none is left. *k begins as 0. */
bool kvc_former_next(struct kvc_client *c, struct kvc_key key, bool twice, int64_t rc, unsigned *k,
		     struct kvc_node **n);

/* kvc_former_code -- what a call is told that asked k former servers and ended with rc: that one of them is lost or
 * late is a miss, since the server in charge has said that it has nothing. */
int64_t kvc_former_code(int64_t rc, unsigned k);

#endif
