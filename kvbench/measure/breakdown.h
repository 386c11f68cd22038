/* SPDX-License-Identifier: Apache-2.0 */
/* breakdown.h -- where the time of GETs went, by phase: a histogram of each. One set per client, as tallies are. */
#ifndef KVRAIL_KVBENCH_MEASURE_BREAKDOWN_H
#define KVRAIL_KVBENCH_MEASURE_BREAKDOWN_H

#include "base/base.h"
#include "kvclient/kvclient.h"

/* In the order in which they come in a GET; the total last. */
enum bench_part {
	BENCH_PART_ROOM,
	BENCH_PART_QUEUE,
	BENCH_PART_POST, /* in the server, until the data was posted */
	BENCH_PART_REPLY,
	BENCH_PART_WIRE,
	BENCH_PART_DATA,
	BENCH_PART_WAKE,
	BENCH_PART_CHECK,
	BENCH_PART_OTHER,
	BENCH_PART_TOTAL,
	BENCH_PARTS
};

struct bench_breakdown {
	struct kv_hist part[BENCH_PARTS];
};

void bench_breakdown_init(struct bench_breakdown *b);
/* bench_breakdown_add -- one GET that succeeded. */
void bench_breakdown_add(struct bench_breakdown *b, const struct kvc_phases *p);
void bench_breakdown_merge(struct bench_breakdown *into, const struct bench_breakdown *from);

/* bench_part_name -- as in the report and its JSON. bench_part_what -- from when until when. */
const char *bench_part_name(enum bench_part part);
const char *bench_part_what(enum bench_part part);

#endif
