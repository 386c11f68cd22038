/* SPDX-License-Identifier: Apache-2.0 */
/* rdma.h -- what all processes together use of the RDMA devices of this machine. Part of host.h. */
#ifndef KVRAIL_HOST_RDMA_H
#define KVRAIL_HOST_RDMA_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Objects of one device. KV_UNKNOWN: the kernel does not tell. */
struct kv_rdma_used {
	char device[KV_NAME_MAX];
	uint64_t qps, cqs, mrs;
};

/* kv_rdma_used_each -- call fn for each RDMA device. Nothing is called where the kernel has no RDMA. Thread: any. Takes
 * half a second where the kernel does not answer. */
void kv_rdma_used_each(void (*fn)(const struct kv_rdma_used *used, void *arg), void *arg);

/* kv_rdma_used_parse -- what one netlink message of the kernel's answer says; for tests. */
void kv_rdma_used_parse(const void *payload, size_t len, struct kv_rdma_used *out);

#endif
