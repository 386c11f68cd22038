/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h -- kv-bench sweep: the same load with every combination of workers, value size and clients.
 *
 * A combination is a cell. Each run of a cell is a process of its own (cell.c): this program again, as somebody would
 * have typed it. What the sweep knows is a JSON document (store.c), written anew after every run. */
#ifndef KVRAIL_KVBENCH_SWEEP_SWEEP_H
#define KVRAIL_KVBENCH_SWEEP_SWEEP_H

#include <jansson.h>
#include <stdbool.h>

#include "kvbench/setup/again.h"
#include "kvbench/setup/list.h"
#include "kvbench/setup/options.h"

enum {
	SWEEP_CELLS_MAX = 4096, /* combinations */
	SWEEP_RUNS_MAX = 99999, /* of all cells together */
	SWEEP_REASON_MAX = 520
};

/* What varies, in the order in which cells are listed. */
enum sweep_axis_name { SWEEP_SIZE, SWEEP_CLIENTS, SWEEP_WORKERS, SWEEP_AXES };

struct sweep_options {
	struct bench_options bench; /* first: the rows of its table keep their offsets */
	const char *list[SWEEP_AXES];
	struct bench_list axis[SWEEP_AXES]; /* of list; of SWEEP_SIZE none with a model or --value-sizes */
	const char *resume;
	uint64_t order_seed; /* 0: from the clock */
	uint64_t cell_timeout_ns;
};

/* sweep_options_table -- the rows of kv-bench itself that fit a sweep, and those of the sweep. Thread: main. */
const struct kv_opt *sweep_options_table(void);

/* sweep_options_parse -- like bench_options_parse. */
int sweep_options_parse(int argc, char **argv, struct sweep_options *out, struct kv_error *err);

/* ---- cells ---- */

enum sweep_state { SWEEP_PENDING, SWEEP_PARTIAL, SWEEP_DONE, SWEEP_FAILED, SWEEP_SKIPPED, SWEEP_STATES };
const char *sweep_state_name(enum sweep_state state);

struct sweep_cell {
	uint64_t at[SWEEP_AXES]; /* SWEEP_SIZE 0: the load says it */
	enum sweep_state state;
	char reason[SWEEP_REASON_MAX]; /* why it failed or was skipped */
	json_t *runs;                  /* array of objects: what each run measured */
};

struct sweep {
	struct sweep_options opt;
	unsigned num_cells;
	struct sweep_cell *cell;
	uint64_t order_seed, started_s;
	json_t *settings;        /* array: the options of the runs, but for what varies */
	json_t *host, *provider; /* of the first run; the others must have the same; NULL: there was none */
	json_t *conditions;      /* likewise: what the provider and the machine are */
	int interrupted;         /* the signal */
	unsigned kept;           /* runs that --resume found */
};

/* sweep_plan -- make the cells, and skip those that make no sense, each with its reason. Returns 0, -KV_ENOMEM, or
 * -KV_EINVAL when none is left. Owner: sweep_free, also after an error. */
int sweep_plan(struct sweep *s, struct kv_error *err);
void sweep_free(struct sweep *s);

/* sweep_order -- the cells that lack run `round` (from 0), shuffled; out has room for all. Returns how many. */
unsigned sweep_order(const struct sweep *s, unsigned round, unsigned *out);

/* sweep_cell_state -- bring the state up to date with the runs. */
void sweep_cell_state(const struct sweep *s, struct sweep_cell *cell);

/* sweep_figure -- median, range and spread of one member of a cell's runs. False: no run has it; or, of a latency, one
 * has too few samples for it. */
struct bench_spread;
bool sweep_figure(const struct sweep_cell *cell, const char *member, struct bench_spread *out);

/* sweep_settings -- append the options that all cells have in common. identity: leave out those about output alone.
 * sweep_cell_args -- append those of one cell. seed: of keys. */
void sweep_settings(const struct sweep_options *o, bool identity, struct again_args *args);
void sweep_cell_args(const struct sweep_cell *cell, uint64_t seed, struct again_args *args);

/* ---- a run of a cell (cell.c) ---- */

/* sweep_cell_run -- start it, wait for it, and add its figures to the cell, or make the cell failed. After a signal
 * nothing is added. Thread: main, which must outlive it. */
void sweep_cell_run(struct sweep *s, struct sweep_cell *cell, unsigned round);

/* sweep_take -- take a run's report into the cell. Returns 0, or a code with *err: it measured nothing, or under other
 * conditions than the runs before. */
int sweep_take(struct sweep *s, struct sweep_cell *cell, const json_t *doc, uint64_t seed, struct kv_error *err);

/* sweep_cell_begin -- in the process of a run: end with the parent, whose id is the text. False: it has gone. */
bool sweep_cell_begin(const char *parent);

/* ---- what is kept (store.c) ---- */

/* sweep_document -- all of it, schema kvbench-sweep/1; the caller's reference. NULL: no memory. */
json_t *sweep_document(const struct sweep *s);

/* sweep_resume -- take the runs of an earlier sweep. Returns 0, or a code with a sentence: it cannot be read, is of
 * other settings, or has cells that this one lacks. A file that is not there is a sweep that has not begun: 0. */
int sweep_resume(struct sweep *s, const char *path, struct kv_error *err);

/* ---- text (text.c); no line is wider than KV_COLUMNS ---- */

void sweep_print_head(const struct sweep *s, unsigned runs, FILE *out);
void sweep_print_run(const struct sweep_cell *cell, unsigned done, unsigned all, uint64_t left_ns, FILE *out);
void sweep_print_table(const struct sweep *s, FILE *out);

/* sweep_main -- the sub-command. The exit status. */
int sweep_main(int argc, char **argv);

#endif
