/* SPDX-License-Identifier: Apache-2.0 */
/* naming.h -- which cluster a pool belongs to, where its options do not name one. Private to kvclient/. Any thread. */
#ifndef KVRAIL_KVCLIENT_CORE_NAMING_H
#define KVRAIL_KVCLIENT_CORE_NAMING_H

#include "kvclient/core/pool.h"

#define KVC_NAMING_OPENING_NS 1000000000ull  /* how long the first server that names a cluster waits for the others */
#define KVC_NAMING_LOST_NS    30000000000ull /* a server that was lost counts for this time */

/* kvc_naming_hear -- server number i says in WELCOME that its cluster has this name ("": none). kvc_naming_beat -- its
 * attachment lasts; the next call comes within beat_ns. kvc_naming_forget -- its place is free, under the pool's lock.
 */
void kvc_naming_hear(struct kvc_pool *p, unsigned i, const char *name, uint64_t now_ns);
void kvc_naming_beat(struct kvc_pool *p, unsigned i, uint64_t now_ns, uint64_t beat_ns);
void kvc_naming_forget(struct kvc_pool *p, unsigned i);

/* kvc_naming_look -- count the names again. pending: servers that may name one soon. Whether a name is in force; out:
 * that name, "" if none is. out_former: the one before it, where this call has replaced one by another; else "". */
bool kvc_naming_look(struct kvc_pool *p, unsigned pending, uint64_t now_ns, char out[KV_NAME_MAX],
		     char out_former[KV_NAME_MAX]);

/* kvc_naming_number -- how often the name has changed. */
static inline uint32_t kvc_naming_number(const struct kvc_pool *p)
{
	return atomic_load_explicit(&p->naming_number, memory_order_relaxed);
}

#endif
