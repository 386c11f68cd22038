/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h -- what a server knows of our memory. Private to kvclient/. All of these on the client's loop; what does
 * not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_REGIONS_H
#define KVRAIL_KVCLIENT_CONN_REGIONS_H

#include "kvclient/core/client.h"

/* kvc_node_region_await -- announce a region (0 when the node is not up: it will be at the next connection). */
int kvc_node_region_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
			  uint64_t deadline_ns);
/* kvc_node_revoke_await -- the server shall forget it. 0 when it has, or when the node is not up. */
int kvc_node_revoke_await(struct kvc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns);

/* kvc_regions_await -- of the connection being set up: announce all regions that this session has not acknowledged. 0,
 * or a code with n->error. Returns early when the attempt is overtaken. */
int kvc_regions_await(struct kvc_node *n, uint64_t deadline_ns);

/* kvc_region_answer -- the server knows a region (REGION_OK), does not (another status), or has forgotten it
 * (REVOKE_OK). Does not park. */
void kvc_region_answer(struct kvc_node *n, uint32_t id, int32_t status, bool known);

#endif
