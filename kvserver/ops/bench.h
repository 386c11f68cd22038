/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- BENCH: writes of resident blocks, and nothing else per write. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_BENCH_H
#define KVRAIL_KVSERVER_OPS_BENCH_H

#include <stdint.h>

struct link;
struct shard;
struct wire_request;

/* bench_begin -- begin_fn of BENCH. */
void bench_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* bench_turn -- start the writes that are due (work.benches), in bursts: once a turn. */
void bench_turn(struct shard *s);

#endif
