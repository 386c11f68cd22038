/* SPDX-License-Identifier: Apache-2.0 */
/* versus.h -- kv-bench versus: the same load on several targets, in alternating rounds. This side has the options,
 * makes the plan and loads the other targets than KVRail; kvlab/versus.py runs the rounds. */
#ifndef KVRAIL_KVBENCH_VERSUS_VERSUS_H
#define KVRAIL_KVBENCH_VERSUS_VERSUS_H

#include "base/base.h"
#include "kvbench/setup/options.h"

enum {
	VERSUS_TARGETS_MAX = 8,
	VERSUS_ROUNDS_MAX = 101,
	VERSUS_CONNS_MAX = 4096, /* workers, each with a connection to a target other than KVRail */
	VERSUS_BATCH_MAX = 1024
};

enum versus_kind { VERSUS_KVRAIL, VERSUS_REDIS, VERSUS_MEMCACHED, VERSUS_PROGRAM };

struct versus_target {
	enum versus_kind kind;
	char name[256];    /* as it was given */
	char label[20];    /* in tables and charts: redis, or a program's name, with a number where there are more */
	char address[256]; /* HOST:PORT, or the path of a unix socket or a program; "": kv-bench starts a kv-server */
};

struct versus_options {
	const char *target_list;
	uint32_t rounds;
	/* load */
	uint32_t num_workers, num_clients, batch;
	uint64_t num_keys, value_size, duration_ns, warmup, seed;
	double rate;
	int arrivals; /* enum bench_arrivals_kind */
	const char *keys_pattern;
	bool verify, no_checksum, mixed;
	/* output */
	const char *json, *report;
	bool config;
	/* of these */
	struct bench_pattern pattern;
	struct versus_target target[VERSUS_TARGETS_MAX];
	unsigned num_targets;
	struct kv_opt_strings own;
};

extern const struct kv_opt versus_options_table[];

/* versus_options_parse -- as bench_options_parse. */
int versus_options_parse(int argc, char **argv, struct versus_options *out, struct kv_error *err);

/* versus_targets_parse -- the list of --targets. 0, or -KV_EINVAL with a sentence. */
int versus_targets_parse(struct versus_options *o, struct kv_error *err);

/* versus_drive -- one round of a target other than KVRail, in a process of its own: its report goes to standard output
 * as JSON, and its trouble to standard error. congestion: the congestion control of its connections, NULL and "": the
 * system's. versus_drive_main -- the process: kv-bench-drive. Each returns the exit status. */
int versus_drive(const struct versus_options *o, const char *congestion);
int versus_drive_main(int argc, char **argv);

/* versus_main -- the sub-command. The exit status. */
int versus_main(int argc, char **argv);

#endif
