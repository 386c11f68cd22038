/* SPDX-License-Identifier: Apache-2.0 */
/* versus.h -- kv-bench versus: the same load on several targets, in alternating rounds. What its files share. */
#ifndef KVRAIL_KVBENCH_VERSUS_VERSUS_H
#define KVRAIL_KVBENCH_VERSUS_VERSUS_H

#include <jansson.h>

#include "base/base.h"
#include "kvbench/measure/conditions.h"
#include "kvbench/setup/options.h"

enum {
	VERSUS_TARGETS_MAX = 8,
	VERSUS_ROUNDS_MAX = 101,
	VERSUS_TRIES = 3,        /* rounds at most for each that counts */
	VERSUS_CONNS_MAX = 4096, /* workers, each with a connection to a target that is not KVRail */
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
	bool drive;             /* how kv-bench starts itself for a round of a target that is not KVRail */
	const char *congestion; /* ... and what its connections are to have */
	/* of these */
	struct bench_pattern pattern;
	struct versus_target target[VERSUS_TARGETS_MAX];
	unsigned num_targets;
	struct kv_opt_strings own; /* further options of kv-bench, for KVRail alone */
};

/* What is compared. */
enum versus_figure { VERSUS_PUT, VERSUS_GET, VERSUS_MIXED, VERSUS_FIGURES };

struct versus_measure {
	double ops_per_s, bytes_per_s; /* 0: not measured */
	double p50_ns, p99_ns;         /* of GETs where both are mixed; p99_ns 0: of too few */
	double seconds;                /* that it took */
	double cpu_ns;                 /* of an operation, of client and server together; 0: not known */
	double faults;                 /* page faults of an operation, of both; below 0: not known */
};

/* A target in one round. */
struct versus_run {
	bool ran;
	struct versus_measure figure[VERSUS_FIGURES];
	double cpu_seconds; /* of the client in its read phase */
};

/* Why a round does not count. */
enum versus_why { VERSUS_COUNTS, VERSUS_FAILED, VERSUS_MOVED, VERSUS_COSTLY, VERSUS_FEW_CORES };

/* Of a target in one round beside the best of its rounds: an operation that takes so much more processor time, or cores
 * used that are so many fewer, are the machine's: threads that share a processor, or caches that are far apart. Rounds
 * of either kind say nothing of the target, whichever it is. */
#define VERSUS_COSTLY_FACTOR 1.3
#define VERSUS_FEW_FACTOR    0.75

struct versus_round {
	struct versus_run run[VERSUS_TARGETS_MAX];
	double distance_ns[VERSUS_TARGETS_MAX + 1]; /* between CPUs, before each target and after the last */
	unsigned distances;
	bool complete; /* every target that had not failed before ran */
	enum versus_why why;
	bool counts; /* there is no reason against it; or no round is without one */
	unsigned by; /* the target that is the reason */
	uint64_t seed;
};

/* What is known of a target beside its figures. */
struct versus_server {
	char version[64];                           /* "": it does not say */
	int64_t threads, client_threads;            /* below 0: it does not say */
	char provider[64], wait[16], libfabric[64]; /* of KVRail */
	char congestion[32]; /* of its connections over loopback, as the server sends; "": not known, or none */
};

struct versus {
	struct versus_options opt;
	struct versus_server server[VERSUS_TARGETS_MAX];
	char failed[VERSUS_TARGETS_MAX][600]; /* why a target is out; "": it is not */
	struct versus_round round[VERSUS_TRIES * VERSUS_ROUNDS_MAX];
	unsigned rounds, counted;
	struct bench_conditions conditions;
	bool unsteady; /* no round counts: figures are of all of them */
	int64_t started_s;
	FILE *out;
	int argc;
	char **argv;
};

/* The spread of a ratio over the rounds that count. */
struct versus_spread {
	unsigned count; /* 0: there is none */
	double median, low, high;
	double ci_low, ci_high; /* of the median, with 95 % at least; 0: of too few rounds for that */
};

extern const struct kv_opt versus_options_table[];
extern const char *const versus_figure_names[VERSUS_FIGURES];

/* versus_options_parse -- as bench_options_parse. */
int versus_options_parse(int argc, char **argv, struct versus_options *out, struct kv_error *err);

/* versus_targets_parse -- the list of --targets. 0, or -KV_EINVAL with a sentence. */
int versus_targets_parse(struct versus_options *o, struct kv_error *err);

/* versus_drive -- one round of a target that is not KVRail, in a process of its own: its report goes to standard
 * output as JSON, what went wrong to standard error. Returns the exit status. */
int versus_drive(const struct versus_options *o);

/* versus_run_target -- one round of a target: start this program again, and read its report. 0, or a code with a
 * sentence; -KV_ECANCELED: interrupted. */
int versus_run_target(struct versus *v, unsigned target, uint64_t seed, struct versus_run *out, struct kv_error *err);

/* versus_run_read -- the figures of a report; -KV_EINVAL when it lacks some. */
int versus_run_read(const json_t *doc, bool mixed, struct versus_run *out, struct versus_server *server,
		    struct kv_error *err);

/* versus_round_state -- "near", "mid", "far", "one CPU", or "changed": then the round does not count. */
const char *versus_round_state(const struct versus_round *round);

/* versus_rounds_judge -- which of the rounds count, now that there is one more. Returns how many. */
unsigned versus_rounds_judge(struct versus *v);

/* versus_why_name -- as in the JSON report. versus_spread_text -- a ratio with its interval of confidence in square
 * brackets, or its range in round ones where rounds are too few for one. Returns buf. */
const char *versus_why_name(enum versus_why why);
char *versus_spread_text(struct versus_spread spread, char *buf, size_t cap);

/* versus_cores -- processors that both sides of a target kept busy; 0: not known. */
double versus_cores(const struct versus_measure *m);

/* versus_congestion_differs -- whether targets send with another congestion control than the first that is known. */
bool versus_congestion_differs(const struct versus *v);

/* A rate of less time than this says little: caches are cold, and the others' turns on the processors decide. */
#define VERSUS_SHORT_S 0.5

/* versus_ratio -- rate of the first target / rate of this one, over the rounds that count. versus_median -- of a
 * target's own figure. */
struct versus_spread versus_ratio(const struct versus *v, unsigned target, enum versus_figure figure);

/* versus_cpu_ratio -- the same of operations by processor time: what a shared machine changes less. */
struct versus_spread versus_cpu_ratio(const struct versus *v, unsigned target, enum versus_figure figure);
struct versus_measure versus_median(const struct versus *v, unsigned target, enum versus_figure figure);

/* versus_load_text -- the load of all targets, in words. Returns buf. */
char *versus_load_text(const struct versus_options *o, char *buf, size_t cap);

/* versus_target_text -- which server a target is, and its threads. Returns buf. */
char *versus_target_text(const struct versus *v, unsigned target, char *buf, size_t cap);

void versus_print_round(const struct versus *v, const struct versus_round *round);
void versus_print_summary(const struct versus *v);
json_t *versus_document(const struct versus *v);

int versus_main(int argc, char **argv);

#endif
