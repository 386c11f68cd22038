/* SPDX-License-Identifier: Apache-2.0 */
/* cleared.h -- the generation that the pool's namespace has at each server, shared by its clients. Private to
 * kvclient/. Any thread; nothing parks. */
#ifndef KVRAIL_KVCLIENT_CORE_CLEARED_H
#define KVRAIL_KVCLIENT_CORE_CLEARED_H

#include "kvclient/core/pool.h"

/* kc_cleared_learn -- server i has this generation, since by_ns of our clock at the latest. */
void kc_cleared_learn(struct kvc_pool *p, unsigned i, uint64_t generation, uint64_t by_ns);

/* kc_cleared_to -- this pool has cleared the namespace to this generation. */
void kc_cleared_to(struct kvc_pool *p, uint64_t generation);

/* kc_cleared_put -- the generation to name in a PUT at server i whose call began at begun_ns: the present one, or 0
 * if it may have begun before the clear. */
static inline uint64_t kc_cleared_put(const struct kvc_pool *p, unsigned i, uint64_t begun_ns)
{
	uint64_t generation = atomic_load_explicit(&p->server[i].generation, memory_order_acquire);
	if (KV_LIKELY(generation == 0))
		return 0;
	return begun_ns >= atomic_load_explicit(&p->server[i].cleared_by_ns, memory_order_relaxed) ? generation : 0;
}

/* kc_cleared_least -- the least generation that a value of server i may have: what the server has announced, and what
 * this pool has cleared. */
static inline uint64_t kc_cleared_least(const struct kvc_pool *p, unsigned i)
{
	return KV_MAX(atomic_load_explicit(&p->server[i].generation, memory_order_relaxed),
		      atomic_load_explicit(&p->cleared.to, memory_order_relaxed));
}

#endif
