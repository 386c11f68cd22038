/* SPDX-License-Identifier: Apache-2.0 */
/* breakdown.c -- phases of GETs as histograms.
 *
 * The parts of one GET add up to its total, so their means add up to the mean of the total; medians do not. A mean
 * contains GETs that waited for a processor, a median hides them. So both are reported. */
#include "kvbench/measure/breakdown.h"

static const struct {
	const char *name, *what;
} parts[BENCH_PARTS] = {
	[BENCH_PART_ROOM] = {"room", "called -> has a connection and room for its request"},
	[BENCH_PART_QUEUE] = {"queue", "-> its frame passed to the engine"},
	[BENCH_PART_POST] = {"post", "server: request taken -> data posted"},
	[BENCH_PART_REPLY] = {"reply", "server: data posted -> reply made"},
	[BENCH_PART_WIRE] = {"wire", "passed to the engine -> reply taken, less the server's"},
	[BENCH_PART_DATA] = {"data", "reply taken -> last data arrived"},
	[BENCH_PART_WAKE] = {"wake", "all there -> the worker runs"},
	[BENCH_PART_CHECK] = {"check", "-> the call returns: checksum"},
	[BENCH_PART_OTHER] = {"other", "the call's other requests, pauses before it was tried again"},
	[BENCH_PART_TOTAL] = {"total", "the call"},
};

void bench_breakdown_init(struct bench_breakdown *b)
{
	for (unsigned i = 0; i < BENCH_PARTS; i++)
		kv_hist_init(&b->part[i]);
}

void bench_breakdown_add(struct bench_breakdown *b, const struct kvc_phases *p)
{
	const uint64_t ns[BENCH_PARTS] = {
		[BENCH_PART_ROOM] = p->room_ns,   [BENCH_PART_QUEUE] = p->queue_ns,
		[BENCH_PART_POST] = p->post_ns,   [BENCH_PART_REPLY] = p->server_ns - p->post_ns,
		[BENCH_PART_WIRE] = p->wire_ns,   [BENCH_PART_DATA] = p->data_ns,
		[BENCH_PART_WAKE] = p->wake_ns,   [BENCH_PART_CHECK] = p->check_ns,
		[BENCH_PART_OTHER] = p->other_ns, [BENCH_PART_TOTAL] = p->total_ns,
	};
	for (unsigned i = 0; i < BENCH_PARTS; i++)
		kv_hist_add(&b->part[i], ns[i]);
}

void bench_breakdown_merge(struct bench_breakdown *into, const struct bench_breakdown *from)
{
	for (unsigned i = 0; i < BENCH_PARTS; i++)
		kv_hist_merge(&into->part[i], &from->part[i]);
}

const char *bench_part_name(enum bench_part part)
{
	return parts[part].name;
}

const char *bench_part_what(enum bench_part part)
{
	return parts[part].what;
}
