/* SPDX-License-Identifier: Apache-2.0 */
/* cell.c -- one run of a cell: this program again, its report from a pipe.
 *
 * A process for each run, and not a loop in this one: a server of its own cannot be started after the first call of
 * libfabric (no fork after it), what a provider keeps from one pool would be found by the next, and a run that hangs or
 * crashes costs its cell alone. The process asks the kernel to die with its parent, and its server with it. So a sweep
 * that is killed leaves nothing behind, and loses the run that was under way. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/document.h"
#include "kvbench/setup/again.h"
#include "kvbench/setup/signals.h"
#include "kvbench/sweep/sweep.h"

bool sweep_cell_begin(const char *parent)
{
	uint64_t pid;
	return kv_u64_parse(parent, &pid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && (uint64_t)getppid() == pid;
}

/* ---- what it measured ---- */

static void figure_copy(json_t *run, const char *as, const json_t *from, const char *member)
{
	double v = document_number(from, member);
	if (v > 0)
		json_object_set_new(run, as, json_real(v));
}

/* What all runs of a sweep must have alike, of an object that has more. */
static json_t *members(const json_t *from, const char *const *names)
{
	json_t *to = json_object();
	for (; *names; names++)
		if (json_object_get(from, *names))
			json_object_set(to, *names, json_object_get(from, *names));
	return to;
}

static int same(json_t **kept, json_t *now, const char *what, struct kv_error *err)
{
	int rc = 0;
	const char *name;
	json_t *value;
	if (!now)
		return kv_fail(err, -KV_ENOMEM, "no memory for the report of a run");
	if (!*kept) {
		*kept = now;
		return 0;
	}
	json_object_foreach(now, name, value)
	{
		json_t *before = json_object_get(*kept, name);
		char *a, *b;
		if (rc < 0 || json_equal(before, value))
			continue;
		a = json_dumps(before, JSON_ENCODE_ANY);
		b = json_dumps(value, JSON_ENCODE_ANY);
		rc = kv_fail(err, -KV_EINVAL,
			     "it ran under other conditions than the runs before: %s %s is %.60s, and was %.60s", what,
			     name, b ? b : "unknown", a ? a : "unknown");
		free(a);
		free(b);
	}
	json_decref(now);
	return rc;
}

static int conditions_same(struct sweep *s, const json_t *doc, struct kv_error *err)
{
	static const char *const host[] = {"name",  "kernel",     "architecture",       "processor",
					   "cores", "numa_nodes", "congestion_control", NULL};
	static const char *const provider[] = {"name",      "fabric", "domain",   "wait",
					       "libfabric", "mode",   "security", "loopback_congestion_control",
					       NULL};
	static const char *const conditions[] = {"provider", "wait", "libfabric", "cores", "histogram_error", NULL};
	int rc = same(&s->host, members(json_object_get(doc, "host"), host), "host", err);
	if (rc == 0)
		rc = same(&s->provider, members(json_object_get(doc, "provider"), provider), "provider", err);
	if (rc == 0)
		rc = same(&s->conditions, members(json_object_get(doc, "conditions"), conditions), "condition", err);
	return rc;
}

static json_t *run_of(const json_t *doc, uint64_t seed)
{
	static const char *const noise[] = {"steal_share",
					    "others_cores",
					    "shared_machine",
					    "core_distance_before_ns",
					    "core_distance_after_ns",
					    "suspended_s",
					    NULL};
	const json_t *read = document_at(doc, "phases", "read", NULL),
		     *write = document_at(doc, "phases", "write", NULL);
	const json_t *latency = json_object_get(read, "latency_ns"), *written = json_object_get(write, "latency_ns");
	json_t *run = members(json_object_get(doc, "conditions"), noise);
	figure_copy(run, "ops_per_s", read, "ops_per_s");
	figure_copy(run, "bytes_per_s", read, "bytes_per_s");
	figure_copy(run, "seconds", read, "seconds");
	figure_copy(run, "p50_ns", latency, "p50");
	figure_copy(run, "p99_ns", latency, "p99");
	figure_copy(run, "p999_ns", latency, "p999");
	/* Values that were there already did not travel. */
	if (document_number(write, "duplicates") == 0) {
		figure_copy(run, "write_ops_per_s", write, "ops_per_s");
		figure_copy(run, "write_bytes_per_s", write, "bytes_per_s");
		figure_copy(run, "write_p50_ns", written, "p50");
		figure_copy(run, "write_p99_ns", written, "p99");
	}
	json_object_set_new(run, "seed", json_integer((json_int_t)seed));
	json_object_set(run, "time", document_at(doc, "run", "time", NULL));
	return run;
}

int sweep_take(struct sweep *s, struct sweep_cell *cell, const json_t *doc, uint64_t seed, struct kv_error *err)
{
	const json_t *problems = document_at(doc, "verdict", "problems", NULL);
	json_t *run;
	int rc;
	if (!json_is_true(document_at(doc, "verdict", "ok", NULL)))
		return kv_fail(err, -KV_EINVAL, "%.300s",
			       json_is_string(json_array_get(problems, 0))
				       ? json_string_value(json_array_get(problems, 0))
				       : "its verdict is not good, and does not say why");
	rc = conditions_same(s, doc, err);
	if (rc < 0)
		return rc;
	run = run_of(doc, seed);
	if (!json_object_get(run, "ops_per_s")) {
		json_decref(run);
		return kv_fail(err, -KV_EINVAL, "it read nothing");
	}
	if (json_array_append_new(cell->runs, run) < 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the report of a run");
	return 0;
}

/* ---- all of it ---- */

/* With servers of others each run has keys of its own: values that are there already would not travel. */
static uint64_t seed_of(const struct sweep *s, const struct sweep_cell *cell, unsigned round)
{
	struct kv_prng prng;
	if (s->opt.bench.servers.count == 0)
		return s->opt.bench.seed;
	kv_prng_seed(&prng,
		     s->opt.bench.seed * 7919 + s->order_seed + (uint64_t)(cell - s->cell) * SWEEP_RUNS_MAX + round);
	return kv_prng_next(&prng) >> 2;
}

static int run_it(struct sweep *s, struct sweep_cell *cell, uint64_t seed, struct kv_error *err)
{
	const struct again_run run = {.timeout_ns = s->opt.cell_timeout_ns,
				      .timeout = "--cell-timeout",
				      .status_max = BENCH_FAILED,
				      .log_through = s->opt.bench.log_level > KV_LOG_ERROR};
	struct again_args *args = calloc(1, sizeof(*args));
	json_t *doc;
	int rc;
	if (!args)
		return kv_fail(err, -KV_ENOMEM, "no memory for its command line");
	again_put(args, "kv-bench");
	again_put(args, "sweep");
	again_put(args, "--cell");
	again_add(args, "%d", (int)getpid());
	sweep_settings(&s->opt, false, args);
	sweep_cell_args(cell, seed, args);
	rc = again_report(&run, args, &doc, err);
	if (rc == 0)
		rc = sweep_take(s, cell, doc, seed, err);
	json_decref(doc);
	free(args);
	return rc;
}

void sweep_cell_run(struct sweep *s, struct sweep_cell *cell, unsigned round)
{
	struct kv_error err = {0};
	int rc = run_it(s, cell, seed_of(s, cell, round), &err);
	if (rc < 0 && bench_interrupted())
		return;
	if (rc < 0) {
		cell->state = SWEEP_FAILED;
		snprintf(cell->reason, sizeof(cell->reason), "%s", err.text);
	}
	sweep_cell_state(s, cell);
}
