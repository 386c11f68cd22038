/* SPDX-License-Identifier: Apache-2.0 */
/* evict_policies.c -- the table of eviction policies: a new one gets a row here, a declaration in evict_policies.h, and
 * its name a place in kv_opt_eviction_names (base/opt_rows.c), in the same order.
 *
 * KV-cache blocks are long chains that are read from their start; three quarters of them are never read again, and what
 * is read again is read soon. SIEVE, which was the default, keeps each value that was hit once until its hand comes
 * round, which takes hours: with 5,859 blocks of memory it had 0.097 hits on an hour of real conversations, LRU 0.136,
 * clock2g 0.146. Hence clock2g is the default, and the others are there to compare with (docs/guide/benchmarking.md has
 * the table, tests/store/test_policy.c repeats it). */
#include "store/evict_policies.h"

const struct evict_policy *const evict_policies[] = {&evict_clock2g, &evict_clock, &evict_lru,
						     &evict_s3fifo,  &evict_sieve, NULL};
