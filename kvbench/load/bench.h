/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- a run: its options, pool and results. */
#ifndef KVRAIL_KVBENCH_LOAD_BENCH_H
#define KVRAIL_KVBENCH_LOAD_BENCH_H

#include <stdio.h>

#include "base/base.h"
#include "host/host.h"
#include "kvbench/load/keys.h"
#include "kvbench/measure/breakdown.h"
#include "kvbench/setup/options.h"
#include "kvbench/measure/conditions.h"
#include "kvbench/measure/lives.h"
#include "kvbench/measure/outage.h"
#include "kvbench/measure/raw.h"
#include "kvbench/measure/series.h"
#include "kvbench/setup/server_child.h"
#include "kvbench/measure/runs.h"
#include "kvbench/measure/slo.h"
#include "kvbench/measure/steady.h"
#include "kvbench/measure/tally.h"
#include "kvbench/load/arrivals.h"
#include "kvbench/load/trace.h"
#include "kvclient/kvclient.h"

/* Exit statuses. */
enum { BENCH_OK = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_NO_START = 3 };

struct phase_result {
	bool ran;
	struct bench_tally tally;
	uint64_t elapsed_ns;
	uint64_t planned_ns;                    /* with a rate: in which time its operations were due */
	double cpu_seconds, server_cpu_seconds; /* server: of the own one, else 0 */
	int64_t faults, server_faults;          /* page faults, as cpu_seconds; below 0: not known */
	bool too_many_errors, server_died;      /* why it ended early */
	uint64_t duplicates; /* write: PUTs of bytes that the server had already; they did not travel */
	struct bench_series series;
	char cut[160]; /* why it did less than its option says; empty: it did not */
};

/* bench_per_second -- n of a phase; 0: it took no time. */
static inline double bench_per_second(double n, const struct phase_result *p)
{
	return p->elapsed_ns ? n * 1e9 / (double)p->elapsed_ns : 0;
}

/* With --keep-going: calls and outages of the read phase. */
struct keep_going_result {
	bool ran;
	uint64_t calls, overdue, longest_ns;
	uint64_t stored_again; /* missing keys */
	uint64_t outages;
	int64_t realtime_ns;          /* CLOCK_REALTIME less the clock of from_ns and to_ns */
	unsigned num_clients;         /* whose outages these are */
	struct bench_outages *outage; /* one per client */
};

struct roofline_result {
	bool ran;
	int code;
	bool server_died;
	unsigned rounds;                                   /* 1: with --roofline-file */
	double op_bytes_per_s, bytes_per_s;                /* medians over the rounds: of GET or PUT, of bare writes */
	double efficiency, efficiency_min, efficiency_max; /* GET or PUT / bare of a round: median, range */
	uint64_t p50_ns;                                   /* of one bare write: half of a round trip */
	uint64_t depth;                                    /* bare writes in flight */
};

/* With --mixed. The times of both are the same. */
struct mixed_result {
	struct phase_result read, write;
	double of_alone; /* operations per second of both together / mean of those of each phase alone */
};

/* A part of a replay, by the trace's time. */
struct replay_part {
	uint64_t requests, blocks, hits;
	uint64_t longest_ns;
	struct kv_hist read;
};

enum { REPLAY_BEFORE, REPLAY_SOON, REPLAY_LATER, REPLAY_PARTS, REPLAY_INTERVALS_MAX = 1000 };
#define REPLAY_INTERVAL_NS 60000000000ull  /* of the trace */
#define REPLAY_SOON_NS     300000000000ull /* after the first event */

struct replay_result {
	bool ran;
	uint64_t requests, blocks, block_hits;
	uint64_t expected_hits; /* of these requests with memory for everything, in file order */
	uint64_t lost;          /* found by the lookup, missed by the GET */
	uint64_t late_max_ns;   /* with --trace-speed: the latest start after its time */
	uint64_t never_started; /* ... and --duration: requests due in it that did not begin */
	bool complete;
	/* with --event: before the first, in the five minutes after it, later; and each minute */
	struct replay_part *part, *interval;
	unsigned intervals;
};

#define BENCH_RATE_KEPT 0.99 /* of --rate: with less the machine did not keep up */

enum { BENCH_RAILS_MAX = 32, BENCH_TIER_STATS_MAX = 48 };

struct bench_rail {
	char device[64];
	bool mixed; /* of clients with different NICs: device is the first one's */
	uint64_t sends, receives, immediates, errors, failures;
	uint64_t bytes; /* of values, both ways; UINT64_MAX: unknown (servers choose among several rails) */
	unsigned out;
};

/* With --model: loads of a prefix, layer by layer (load/prefix.c). */
struct prefix_result {
	unsigned loads;            /* counted ones; 0: none */
	uint64_t tokens;           /* of the prefix, as far as blocks are stored and fit into memory */
	uint64_t first_ns, all_ns; /* until the first layer of all blocks, and until all layers are there: medians */
	uint64_t missing, wrong;
	int code;
	char why[160]; /* why nothing was tried; "" */
};

/* Figures of the library, and of its servers. */
struct bench_library {
	struct kvc_info info;
	struct bench_rail rail[BENCH_RAILS_MAX];
	unsigned num_rails; /* 0: none were looked at */
	struct kvc_counters counters;
	struct kvc_stat_item tier[BENCH_TIER_STATS_MAX];
	unsigned num_tier;
	enum kvc_put_way put_way; /* of the first server; KVC_PUT_INLINE: of any */
	uint64_t pages_left;      /* bytes whose pages servers were still making when the run began */
};

/* Our own server, and whether the reads may miss. */
struct bench_memory {
	unsigned server_threads;
	uint64_t mb;
	bool is_short;                      /* it is smaller than the workload */
	bool expiring;                      /* the reads take as long as --ttl, or longer */
	bool misses_expected;               /* for one of these, or servers that go */
	uint64_t rss_peak, server_rss_peak; /* server: of our own ones, else 0 */
	uint64_t values_bytes;              /* of the memory that PUT sends from; 0: the run stores nothing */
};

/* With --slo. */
struct bench_trials {
	struct bench_slo_search search;
	uint64_t bad;
	struct phase_result read[3];
};

struct bench_results {
	struct bench_library library;
	struct bench_memory memory;
	int64_t started_s; /* since 1970 */
	struct bench_conditions conditions;
	struct bench_lives lives;
	int interrupted; /* the signal that ended the run before its end, or 0 */
	struct phase_result write, warmup, read;
	struct phase_result mix_put, mix_exists;
	struct bench_steady steady; /* with --warmup-steady */
	bool is_steady;
	struct bench_runs runs; /* of the read phase */
	struct bench_trials slo;
	struct bench_breakdown
		*breakdown; /* with --breakdown: one per client, the first has the sum after the reads; else NULL */
	struct bench_happening events;
	struct keep_going_result keep_going;
	struct roofline_result roofline, roofline_put; /* of GET, of PUT */
	struct mixed_result mixed;
	struct prefix_result prefix; /* with --model */
	struct trace_totals trace;
	struct replay_result replay;
	struct bench_raw_result raw;
};

/* bench_measured_due, bench_never_started -- with a rate: due operations of the read phase, of all kinds; and those of
 * them that never started. */
static inline uint64_t bench_measured_due(const struct bench_results *r)
{
	return r->read.tally.due + r->mix_put.tally.due + r->mix_exists.tally.due;
}

static inline uint64_t bench_never_started(const struct bench_results *r)
{
	return r->read.tally.never_started + r->mix_put.tally.never_started + r->mix_exists.tally.never_started;
}

/* bench_measured_ops -- of the read phase, of all kinds. */
static inline uint64_t bench_measured_ops(const struct bench_results *r)
{
	return r->read.tally.ops + r->mix_put.tally.ops + r->mix_exists.tally.ops;
}

/* Registered memory, with its pages made (values.h). */
struct bench_area {
	struct kv_area area;
	struct kvc_mem *mem;
};

struct batches;
struct roofline;

struct bench {
	const struct bench_options *opt;
	struct bench_draw draw;
	struct bench_names names;       /* of its keys */
	struct bench_recorded recorded; /* with --arrivals trace:FILE */
	struct kvc_pool *pool;
	unsigned num_clients;
	struct server_child *server;
	struct batches *batches;  /* with --batch, else NULL */
	struct bench_area values; /* that PUTs send from */
	struct bench_raw *raw;    /* with --raw, else NULL */
	struct roofline *roofline;
	FILE *out; /* the report; NULL with --quiet (then only the last line is printed, to `last`) */
	FILE *last;
	struct bench_results results;
};

#endif
