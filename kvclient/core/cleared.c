/* SPDX-License-Identifier: Apache-2.0 */
/* cleared.c -- what the pool knows of clears of its namespace.
 *
 * A PUT whose call began before a clear must not be stored after it. So a PUT names the generation that its server had
 * when the call began, and the server drops values of earlier ones. A call may begin on a thread of the host, and reach
 * its loop later: its time decides (kvc_client.begun_ns).
 *
 * Each server's number comes from that server alone: one that lies about clears costs its own share of the keys. Only
 * the generation to which this pool has cleared is told to all servers, when they attach. */
#include "kvclient/core/cleared.h"

static void raise_to(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t was = atomic_load_explicit(at, memory_order_relaxed);
	while (was < value &&
	       !atomic_compare_exchange_weak_explicit(at, &was, value, memory_order_release, memory_order_relaxed))
		;
}

/* The time first: who reads the generation finds a time no earlier than its clear. */
void kc_cleared_learn(struct kvc_pool *p, unsigned i, uint64_t generation, uint64_t by_ns)
{
	struct kc_server *s = &p->server[i];
	if (generation <= atomic_load_explicit(&s->generation, memory_order_relaxed))
		return;
	raise_to(&s->cleared_by_ns, by_ns);
	raise_to(&s->generation, generation);
	atomic_store_explicit(&p->cleared.any, true, memory_order_relaxed);
}

void kc_cleared_to(struct kvc_pool *p, uint64_t generation)
{
	raise_to(&p->cleared.to, generation);
}
