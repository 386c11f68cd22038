/* SPDX-License-Identifier: Apache-2.0 */
/* evict_policies.c -- the table of policies, in the order of kv_opt_eviction_names (base/opt_rows.c). The default is
 * the first: docs/internals/decisions/002-clock2g.md. */
#include "store/evict_policies.h"

const struct evict_policy *const evict_policies[] = {&evict_clock2g, &evict_clock, &evict_lru,
						     &evict_s3fifo,  &evict_sieve, NULL};
