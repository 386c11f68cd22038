/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.h -- use of this machine's RDMA devices by all processes. Part of host.h. */
#ifndef KVRAIL_HOST_RDMA_H
#define KVRAIL_HOST_RDMA_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Objects of one device. KV_UNKNOWN: not reported. */
struct kv_rdma_used {
	char device[KV_NAME_MAX];
	uint64_t qps, cqs, mrs;
};

/* kv_rdma_used_each -- call fn for each RDMA device, if the kernel has any. Thread: any. Takes half a second without an
 * answer. */
void kv_rdma_used_each(void (*fn)(const struct kv_rdma_used *used, void *arg), void *arg);

/* kv_rdma_used_parse -- read one netlink message; for tests. */
void kv_rdma_used_parse(const void *payload, size_t len, struct kv_rdma_used *out);

#endif
