/* SPDX-License-Identifier: Apache-2.0 */
/* lives.h -- servers that shut down or were restarted during a run: values in their memory are lost without a fault of
 * eviction or --ttl. Thread: none that runs a loop. */
#ifndef KVRAIL_KVBENCH_MEASURE_LIVES_H
#define KVRAIL_KVBENCH_MEASURE_LIVES_H

#include <stdint.h>

struct kvc_pool;
struct kvc_server_info;

enum { BENCH_LIVES_MAX = 64 }; /* servers; further ones are not watched */

enum bench_life { BENCH_LIFE_SAME, BENCH_LIFE_ENDED, BENCH_LIFE_RESTARTED };

struct bench_lives {
	uint64_t incarnation[BENCH_LIVES_MAX]; /* at the start; 0: it was not up */
	enum bench_life changed;               /* of the first server with another life at the end */
	char server[336];                      /* its name */
};

/* bench_life_of -- the life of a server with this incarnation at the start and this state now. */
enum bench_life bench_life_of(uint64_t incarnation, const struct kvc_server_info *now);

/* bench_lives_begin, bench_lives_end -- note the servers that the pool's first client has up; find the first of them
 * that ended or was restarted since. */
void bench_lives_begin(struct kvc_pool *pool, struct bench_lives *lives);
void bench_lives_end(struct kvc_pool *pool, struct bench_lives *lives);

#endif
