/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h -- what a server knows of the client's memory. Private to kvclient/. All of these on the client's loop;
 * what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_REGIONS_H
#define KVRAIL_KVCLIENT_CONN_REGIONS_H

#include "kvclient/core/client.h"

/* kvc_node_region_await -- announce a region. 0 when the server knows it, or when the node is not up: the next
 * attachment announces it. Or the server's refusal, -KV_ETIMEOUT, -KV_ECLOSED, -KV_ENOMEM. */
int kvc_node_region_await(struct kvc_node *n, struct te_region *region, uint32_t id, uint32_t slot,
			  uint64_t deadline_ns);
/* kvc_node_revoke_await -- have the server forget a region. 0 when it has, or when the node is not up: then the server
 * does not know it, or is told while the attachment is made. Or -KV_ETIMEOUT, -KV_ECLOSED. */
int kvc_node_revoke_await(struct kvc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns);

/* kvc_regions_await -- a step of attaching: announce all regions that the server has not acknowledged in this
 * attachment. 0, or a code with n->error. Returns early when the attempt is overtaken. */
int kvc_regions_await(struct kvc_node *n, uint64_t deadline_ns);

/* kvc_region_answer -- an answer of the server: it knows the region (REGION_OK), refuses it (another status), or has
 * forgotten it (REVOKE_OK: known is false). */
void kvc_region_answer(struct kvc_node *n, uint32_t id, int32_t status, bool known);

#endif
