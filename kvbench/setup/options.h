/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the options of kv-bench: one table row per option, and the struct that the rows fill. */
#ifndef KVRAIL_KVBENCH_SETUP_OPTIONS_H
#define KVRAIL_KVBENCH_SETUP_OPTIONS_H

#include <stdbool.h>

#include "base/base.h"
#include "kvbench/model/model.h"
#include "kvbench/setup/events.h"
#include "kvbench/setup/loadspec.h"

enum bench_order { BENCH_ORDER_STRICT, BENCH_ORDER_RELAXED };

enum bench_copies { BENCH_COPIES_ONE, BENCH_COPIES_TWO, BENCH_COPIES_HOT };

enum { BENCH_VALUE_SIZE = 65536 };

enum {
	BENCH_BATCH_MAX = 1024,
	BENCH_SLICES_MAX = 1024,
	BENCH_DEPTH_MAX = 256,
	BENCH_SUBMITTERS = 2,
	BENCH_SUBMITTERS_MAX = 64,
	BENCH_WARMUP = 100,
	BENCH_TTL = 300,
	BENCH_RUNS_MAX = 1000
};

struct bench_load {
	uint32_t num_workers, num_clients, num_threads;
	uint64_t num_keys, value_size; /* value_size: with value_sizes the largest */
	const char *value_sizes, *keys_pattern;
	struct bench_sizes sizes; /* parsed from these two */
	struct bench_pattern pattern;
	const char *mix_text;
	struct bench_mix mix;
	uint32_t slices;
	uint32_t batch; /* keys per operation; 0: single PUTs, and single GETs into borrowed pieces */
	uint32_t submitters;
	uint32_t ttl;
	uint64_t seed;
	bool verify, no_checksum, mixed, background_puts, keep_going, no_write, async, no_threads;
};

struct bench_pace {
	double rate;
	const char *arrivals_text, *arrivals_file; /* the file: of recorded ones */
	enum bench_arrivals_kind arrivals;         /* parsed from it */
	uint64_t ramp_ns;
	const char *slo;
	struct bench_slo aim; /* parsed from it */
	uint64_t duration_ns; /* 0: repeat_reads decides */
	uint32_t repeat_reads, repeat_runs;
	uint64_t warmup;
	double warmup_steady; /* percent; 0: warmup decides */
};

struct bench_roofline {
	bool run;
	uint32_t depth;
	const char *file;
};

struct bench_replay {
	const char *trace;
	double speed; /* times real time; 0: as fast as possible */
	int order;    /* enum bench_order */
};

/* A model sets value_size. */
struct bench_model {
	const char *name;
	struct model_layout layout;
	uint64_t prefix_tokens;
	double prefill_rate;      /* tokens per second; 0: unknown */
	struct model dimensions;  /* name "": there is none */
	struct model_bytes bytes; /* on one rank */
};

struct bench_own {
	uint64_t memory_mb;         /* 0: sized to the workload */
	uint32_t num_servers;       /* alike */
	struct kv_opt_strings tier; /* "PATH[:SIZE],..." each, unread here */
	struct kv_opt_strings event_text;
	struct bench_events events; /* parsed from it */
	int eviction;
	uint32_t server_threads; /* 0: half of the cores, 1 to 4 */
};

struct bench_client {
	uint64_t buffer_mb;
	int copies; /* enum bench_copies */
	uint32_t slow_ms;
	uint64_t timeout_ns, peer_timeout_ns, settle_ns, repair_mb;
};

struct bench_output {
	const char *json, *hdr, *csv, *report, *raw; /* files, or NULL */
	uint64_t interval_ns;
	bool progress, quiet, config, breakdown;
	int log_level; /* enum kv_log_level */
	int argc;      /* as given */
	char **argv;
};

struct bench_options {
	struct kv_opt_target target; /* servers empty: kv-bench starts a kv-server of its own, with this door */
	struct bench_load load;
	struct bench_pace pace;
	struct bench_roofline roofline;
	struct bench_replay replay;
	struct bench_model model;
	struct bench_own server;
	struct bench_client client;
	struct kv_opt_security security;
	struct kv_opt_seal seal;
	struct bench_output out;
};

extern const struct kv_opt bench_options_table[];
extern const char *const bench_copies_names[]; /* by enum bench_copies */
extern const struct kv_opt_program bench_options_program;

/* bench_name_among -- whether this name of an option is in a list with blanks around each. bench_options_pick -- copy
 * the rows of kv-bench that are among these, or are not; a heading moves to the first row that is left of its group.
 * Returns how many, less than cap, with an empty row behind them. */
bool bench_name_among(const char *names, const char *name);
unsigned bench_options_pick(const char *names, bool among, struct kv_opt *out, unsigned cap);

/* bench_options_parse -- defaults, argv, and the checks that concern more than one option.
 * Returns 0; 1 when --help or --version was printed; -KV_EINVAL with one sentence in *err. */
int bench_options_parse(int argc, char **argv, struct bench_options *out, struct kv_error *err);

/* bench_piece_bytes -- bytes of a client's buffer that a borrowed value takes: a power of two. */
uint64_t bench_piece_bytes(uint64_t value_size);

#endif
