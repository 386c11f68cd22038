/* SPDX-License-Identifier: Apache-2.0 */
/* naming.h -- the cluster a pool belongs to, unless its options name one. Private to kvclient/. Any thread. */
#ifndef KVRAIL_KVCLIENT_CORE_NAMING_H
#define KVRAIL_KVCLIENT_CORE_NAMING_H

#include "kvclient/core/pool.h"

#define KC_NAMING_OPENING_NS 1000000000ull  /* from the first name: wait for other servers */
#define KC_NAMING_LOST_NS    30000000000ull /* a lost server counts for this time */

/* kc_naming_hear -- server i's WELCOME names this cluster ("": none). kc_naming_beat -- its attachment lasts; called
 * within beat_ns. kc_naming_forget -- its place is free; under the pool's lock. */
void kc_naming_hear(struct kvc_pool *p, unsigned i, const char *name, uint64_t now_ns);
void kc_naming_beat(struct kvc_pool *p, unsigned i, uint64_t now_ns, uint64_t beat_ns);
void kc_naming_forget(struct kvc_pool *p, unsigned i);

/* kc_naming_look -- count again. pending: servers that may soon name one. Whether a name is in force: *out, else "".
 * out_former: the replaced name, or "". */
bool kc_naming_look(struct kvc_pool *p, unsigned pending, uint64_t now_ns, char out[KV_NAME_MAX],
		    char out_former[KV_NAME_MAX]);

static inline uint32_t kc_naming_number(const struct kvc_pool *p)
{
	return atomic_load_explicit(&p->naming_number, memory_order_relaxed);
}

#endif
