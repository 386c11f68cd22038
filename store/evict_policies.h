/* SPDX-License-Identifier: Apache-2.0 */
/* evict_policies.h -- the eviction policies of a server. */
#ifndef KVRAIL_STORE_EVICT_POLICIES_H
#define KVRAIL_STORE_EVICT_POLICIES_H

#include "store/evict.h"

extern const struct evict_policy evict_clock2g, evict_clock, evict_lru, evict_s3fifo, evict_sieve;

/* evict_policies -- in the order of kv_opt_eviction_names, up to NULL. The first is the default. */
extern const struct evict_policy *const evict_policies[];

#endif
