/* SPDX-License-Identifier: Apache-2.0 */
/* result.h -- what the load tools of `make bench` share: a result as one line of JSON, and the processor time used. */
#ifndef KVRAIL_TESTS_BENCH_RESULT_H
#define KVRAIL_TESTS_BENCH_RESULT_H

#include "base/base.h"

struct result {
	uint64_t gets, bytes, elapsed_ns; /* gets: operations; kvreplay also has PUTs */
	double cpu_seconds;
	struct kv_hist latency; /* of one request, or of one batch of them */
};

void result_init(struct result *r);

/* result_print -- {"gets_per_s": ..., "bytes_per_s": ..., "p50_ns": ..., ...} on stdout. Returns 0, or -1 when it could
 * not be written. */
int result_print(const struct result *r);

double cpu_seconds_now(void); /* of this process so far */
uint64_t now_ns(void);

#endif
