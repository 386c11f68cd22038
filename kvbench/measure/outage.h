/* SPDX-License-Identifier: Apache-2.0 */
/* outage.h -- --keep-going: whether calls end by their deadline, and the times in which a server did not serve. One per
 * client, so nothing is locked. */
#ifndef KVRAIL_KVBENCH_MEASURE_OUTAGE_H
#define KVRAIL_KVBENCH_MEASURE_OUTAGE_H

#include "base/base.h"

enum { BENCH_OUTAGES_MAX = 1024 }; /* kept of each client; more are only counted */

/* Past its deadline by more than this, a call is overdue: the grace, and the time of a fence. */
#define BENCH_LATE_NS (KV_GRACE_DEFAULT_NS + 50000000ull)
#define BENCH_SLOW_NS 200000000ull /* a call of this length that succeeded has waited for a server */

struct bench_outage {
	uint64_t from_ns, to_ns; /* start of its first failed call, end of the first  served again */
	uint64_t failed;
};

struct bench_outages {
	uint64_t calls, overdue, longest_ns;
	uint64_t count, end_ns; /* outages that ended; end of the last */
	struct bench_outage row[BENCH_OUTAGES_MAX];
	bool open; /* one is not over: `now` is it */
	struct bench_outage now;
	uint32_t mark; /* its number */
	uint32_t *key; /* per key: the number of the outage in which a call on it failed */
	uint64_t num_keys;
};

/* bench_outages_init -- for keys 0 to num_keys - 1. Returns 0 or -KV_ENOMEM. */
int bench_outages_init(struct bench_outages *o, uint64_t num_keys);
void bench_outages_fini(struct bench_outages *o);

/* bench_outages_count -- a call whose key comes never again has ended, as the PUTs of --mix are: it says nothing of
 * when an outage is over. */
void bench_outages_count(struct bench_outages *o, uint64_t start_ns, uint64_t end_ns, uint64_t timeout_ns);

/* bench_outages_call -- a call on this key with this deadline (relative) has ended. */
void bench_outages_call(struct bench_outages *o, uint64_t key, uint64_t start_ns, uint64_t end_ns, uint64_t timeout_ns,
			bool failed);

#endif
