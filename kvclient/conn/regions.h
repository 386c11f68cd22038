/* SPDX-License-Identifier: Apache-2.0 */
/* regions.h -- the client's memory as known to a server. Private to kvclient/. On the client's loop; only _await
 * functions park. */
#ifndef KVRAIL_KVCLIENT_CONN_REGIONS_H
#define KVRAIL_KVCLIENT_CONN_REGIONS_H

#include "kvclient/core/client.h"

/* kc_node_region_await -- announce a region. 0: the server knows it, or the node is not up and the next attachment
 * announces it. Or the server's refusal, -KV_ETIMEOUT, -KV_ECLOSED, -KV_ENOMEM. */
int kc_node_region_await(struct kc_node *n, struct te_region *region, uint32_t id, uint32_t slot, uint64_t deadline_ns);
/* kc_node_knows -- whether the server has acknowledged the registration in this attachment. */
bool kc_node_knows(const struct kc_node *n, const struct kc_client_mem *m);
/* kc_node_revoke_await -- have the server forget a region. 0: it has, or the node is not up. Or -KV_ETIMEOUT,
 * -KV_ECLOSED. */
int kc_node_revoke_await(struct kc_node *n, uint32_t id, uint32_t slot, uint64_t deadline_ns);

/* kc_regions_await -- a step of attaching: announce all regions. 0, or a code with n->error. Returns early when
 * overtaken. */
int kc_regions_await(struct kc_node *n, uint64_t deadline_ns);

/* kc_region_answer -- REGION_OK, a refusal (another status), or REVOKE_OK (known is false). */
void kc_region_answer(struct kc_node *n, uint32_t id, int32_t status, bool known);

#endif
