/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c -- which cells there are, which make no sense, in which order they run, and what their runs came to.
 *
 * A round runs every cell once, in an order of its own. So what drifts (heat, neighbours, a filling disk) meets all
 * cells alike, and the spread of a cell contains it. */
#include <math.h>
#include <stdlib.h>

#include "kvbench/measure/runs.h"
#include "kvbench/sweep/sweep.h"

const char *sweep_state_name(enum sweep_state state)
{
	static const char *const names[SWEEP_STATES] = {"pending", "partial", "done", "failed", "skipped"};
	return (unsigned)state < SWEEP_STATES ? names[state] : "?";
}

static void skip(struct sweep_cell *c, const char *reason)
{
	c->state = SWEEP_SKIPPED;
	snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

/* kv-bench itself is asked: what it would refuse is skipped, with its sentence. */
static int judge(const struct sweep *s, struct sweep_cell *c, struct again_args *args, struct kv_error *err)
{
	static struct bench_options parsed;
	struct kv_error why = {0};
	int rc;
	if (c->at[SWEEP_CLIENTS] > c->at[SWEEP_WORKERS]) {
		skip(c, "more clients than workers: some would have no worker");
		return 0;
	}
	memset(args, 0, sizeof(*args));
	again_put(args, "kv-bench");
	sweep_settings(&s->opt, false, args);
	sweep_cell_args(c, s->opt.bench.seed, args);
	rc = again_check(args, err);
	if (rc == 0 && bench_options_parse((int)args->count, (char **)(uintptr_t)args->arg, &parsed, &why) < 0)
		skip(c, why.text);
	return rc;
}

static int settings_make(struct sweep *s, struct again_args *args, struct kv_error *err)
{
	int rc;
	memset(args, 0, sizeof(*args));
	sweep_settings(&s->opt, true, args);
	rc = again_check(args, err);
	s->settings = json_array();
	for (unsigned i = 0; rc == 0 && i < args->count; i++)
		if (json_array_append_new(s->settings, json_string(args->arg[i])) < 0)
			rc = kv_fail(err, -KV_EINVAL, "the option %.200s is not text in UTF-8", args->arg[i]);
	return rc;
}

static int cells_make(struct sweep *s, struct again_args *args, struct kv_error *err)
{
	const struct bench_list *a = s->opt.axis;
	unsigned n = 0, skipped = 0;
	int rc = 0;
	s->num_cells = a[SWEEP_SIZE].count * a[SWEEP_CLIENTS].count * a[SWEEP_WORKERS].count;
	s->cell = calloc(s->num_cells, sizeof(*s->cell));
	if (!s->cell) {
		s->num_cells = 0;
		return kv_fail(err, -KV_ENOMEM, "no memory for the combinations: choose fewer");
	}
	for (unsigned v = 0; v < a[SWEEP_SIZE].count; v++)
		for (unsigned c = 0; c < a[SWEEP_CLIENTS].count; c++)
			for (unsigned w = 0; w < a[SWEEP_WORKERS].count && rc == 0; w++) {
				struct sweep_cell *cell = &s->cell[n++];
				*cell = (struct sweep_cell){.at = {[SWEEP_SIZE] = a[SWEEP_SIZE].value[v],
								   [SWEEP_CLIENTS] = a[SWEEP_CLIENTS].value[c],
								   [SWEEP_WORKERS] = a[SWEEP_WORKERS].value[w]},
							    .runs = json_array()};
				rc = cell->runs ? judge(s, cell, args, err)
						: kv_fail(err, -KV_ENOMEM, "no memory for the combinations");
				skipped += cell->state == SWEEP_SKIPPED;
			}
	if (rc == 0 && skipped == s->num_cells)
		rc = kv_fail(err, -KV_EINVAL, "no combination is left to run: %s", s->cell[0].reason);
	return rc;
}

int sweep_plan(struct sweep *s, struct kv_error *err)
{
	struct again_args *args = calloc(1, sizeof(*args));
	int rc = args ? 0 : kv_fail(err, -KV_ENOMEM, "no memory for the combinations");
	if (rc == 0)
		rc = settings_make(s, args, err);
	if (rc == 0)
		rc = cells_make(s, args, err);
	free(args);
	return rc;
}

void sweep_free(struct sweep *s)
{
	for (unsigned i = 0; i < s->num_cells; i++)
		json_decref(s->cell[i].runs);
	free(s->cell);
	s->cell = NULL;
	s->num_cells = 0;
	json_decref(s->settings);
	json_decref(s->host);
	json_decref(s->provider);
	json_decref(s->conditions);
	s->settings = s->host = s->provider = s->conditions = NULL;
}

unsigned sweep_order(const struct sweep *s, unsigned round, unsigned *out)
{
	struct kv_prng prng;
	unsigned n = 0;
	for (unsigned i = 0; i < s->num_cells; i++)
		if (s->cell[i].state <= SWEEP_PARTIAL && json_array_size(s->cell[i].runs) <= round)
			out[n++] = i;
	kv_prng_seed(&prng, s->order_seed * 1000003 + round);
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)kv_prng_below(&prng, i), held = out[k];
		out[k] = out[i - 1];
		out[i - 1] = held;
	}
	return n;
}

void sweep_cell_state(const struct sweep *s, struct sweep_cell *cell)
{
	size_t n = json_array_size(cell->runs);
	if (cell->state != SWEEP_SKIPPED && cell->state != SWEEP_FAILED)
		cell->state = n >= s->opt.bench.repeat_runs ? SWEEP_DONE : n > 0 ? SWEEP_PARTIAL : SWEEP_PENDING;
}

bool sweep_figure(const struct sweep_cell *cell, const char *member, struct bench_spread *out)
{
	const char *rate = strncmp(member, "write_", 6) == 0 ? "write_ops_per_s" : "ops_per_s";
	bool is_latency = strcmp(member + strlen(member) - 3, "_ns") == 0, lacking = false;
	double value[BENCH_RUNS_MAX];
	unsigned n = 0;
	json_t *run;
	size_t i;
	json_array_foreach(cell->runs, i, run)
	{
		const json_t *v = json_object_get(run, member);
		if (json_is_number(v) && n < BENCH_RUNS_MAX)
			value[n++] = json_number_value(v);
		/* Too few samples for a quantile: the slowest of the runs. Without it the others would speak for all.
		 */
		lacking |= is_latency && !v && json_object_get(run, rate);
	}
	if (lacking || n == 0)
		return false;
	bench_spread_of(value, n, out);
	return true;
}
