/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_name.h -- the cluster a pool belongs to, unless its options name one. Private to kvclient/. Any thread. */
#ifndef KVRAIL_KVCLIENT_CORE_CLUSTER_NAME_H
#define KVRAIL_KVCLIENT_CORE_CLUSTER_NAME_H

#include "kvclient/core/pool.h"

#define KC_CLUSTER_NAME_OPENING_NS 1000000000ull /* from the first name: wait for other servers */
#define KC_CLUSTER_NAME_LOST_NS    30000000000ull

/* kc_cluster_name_hear -- server i's WELCOME names this cluster ("": none). kc_cluster_name_beat -- its attachment
 * lasts; called within beat_ns. kc_cluster_name_forget -- its place is free; under the pool's lock. */
void kc_cluster_name_hear(struct kvc_pool *p, unsigned i, const char *name, uint64_t now_ns);
void kc_cluster_name_beat(struct kvc_pool *p, unsigned i, uint64_t now_ns, uint64_t beat_ns);
void kc_cluster_name_forget(struct kvc_pool *p, unsigned i);

/* kc_cluster_name_look -- count again. pending: servers that may soon name one. Whether a name is in force: *out, else
 * "". out_former: the replaced name, or "". */
bool kc_cluster_name_look(struct kvc_pool *p, unsigned pending, uint64_t now_ns, char out[KV_NAME_MAX],
			  char out_former[KV_NAME_MAX]);

static inline uint32_t kc_cluster_name_number(const struct kvc_pool *p)
{
	return atomic_load_explicit(&p->naming.number, memory_order_relaxed);
}

#endif
