/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- a sweep as JSON, and back.
 *
 * A file may come from anywhere, or be half of one: each member is looked at before it is used, and nothing is taken
 * before all of it has been looked at. */
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/document.h"
#include "kvbench/report/state.h"
#include "kvbench/sweep/sweep.h"

enum { WHY_MAX = 400 };

static const char *const axis_members[SWEEP_AXES] = {
	[SWEEP_SIZE] = "value_size", [SWEEP_CLIENTS] = "num_clients", [SWEEP_WORKERS] = "num_workers"};

/* ---- writing ---- */

static json_t *point_object(const struct sweep_cell *c)
{
	static const char *const figures[] = {
		"ops_per_s",       "bytes_per_s",       "p50_ns",       "p99_ns",      "p999_ns",
		"write_ops_per_s", "write_bytes_per_s", "write_p50_ns", "write_p99_ns"};
	json_t *o = json_pack("{s:s}", "state", sweep_state_name(c->state)), *spreads = json_object();
	for (unsigned i = 0; i < SWEEP_AXES; i++)
		if (c->at[i])
			json_object_set_new(o, axis_members[i], json_integer((json_int_t)c->at[i]));
	if (c->reason[0])
		json_object_set_new(o, "reason", json_string(c->reason));
	for (unsigned i = 0; i < KV_COUNT(figures); i++) {
		struct bench_spread f;
		if (c->state == SWEEP_FAILED || !sweep_figure(c, figures[i], &f))
			continue;
		json_object_set_new(o, figures[i], json_real(f.median));
		if (json_array_size(c->runs) > 1)
			json_object_set_new(
				spreads, figures[i],
				json_pack("{s:f, s:f, s:f}", "min", f.min, "max", f.max, "spread", f.spread));
	}
	if (json_object_size(spreads) > 0)
		json_object_set(o, "spread", spreads);
	json_decref(spreads);
	json_object_set(o, "runs", c->runs);
	return o;
}

static json_t *axes_object(const struct sweep_options *opt)
{
	json_t *o = json_object();
	for (unsigned i = 0; i < SWEEP_AXES; i++) {
		json_t *list = json_array();
		for (unsigned k = 0; k < opt->axis[i].count; k++)
			if (opt->axis[i].value[k])
				json_array_append_new(list, json_integer((json_int_t)opt->axis[i].value[k]));
		json_object_set_new(o, axis_members[i], list);
	}
	return o;
}

/* One sentence for each cell that failed. */
static json_t *verdict_object(const struct sweep *s)
{
	json_t *problems = json_array();
	bool all = true;
	for (unsigned i = 0; i < s->num_cells; i++) {
		const struct sweep_cell *c = &s->cell[i];
		char text[SWEEP_REASON_MAX + 160], size[48] = "";
		all &= c->state >= SWEEP_DONE;
		if (c->state != SWEEP_FAILED)
			continue;
		if (c->at[SWEEP_SIZE])
			snprintf(size, sizeof(size), " of %s", kv_size_format(c->at[SWEEP_SIZE], (char[32]){0}, 32));
		snprintf(text, sizeof(text), "%llu workers, values%s, %llu clients: %s",
			 (unsigned long long)c->at[SWEEP_WORKERS], size, (unsigned long long)c->at[SWEEP_CLIENTS],
			 c->reason);
		json_array_append_new(problems, json_string(text));
	}
	return json_pack("{s:b, s:o}", "ok", all && !s->interrupted && json_array_size(problems) == 0, "problems",
			 problems);
}

static json_t *run_object(const struct sweep *s)
{
	char text[32] = "";
	time_t started = (time_t)s->started_s;
	struct tm tm;
	json_t *given = json_array();
	if (gmtime_r(&started, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	for (int i = 1; i < s->opt.bench.argc; i++)
		json_array_append_new(given, json_string(s->opt.bench.argv[i]));
	return json_pack("{s:s, s:s, s:o, s:o}", "version", KVRAIL_VERSION, "time", text, "options", given,
			 "interrupted", s->interrupted ? json_integer(s->interrupted) : json_null());
}

static json_t *or_empty(json_t *object)
{
	return object ? json_incref(object) : json_object();
}

json_t *sweep_document(const struct sweep *s)
{
	json_t *points = json_array();
	for (unsigned i = 0; i < s->num_cells; i++)
		json_array_append_new(points, point_object(&s->cell[i]));
	return json_pack(
		"{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:{s:O, s:o, s:I, s:i, s:s, s:o}}", "schema", "kvbench-sweep/1",
		"interrupted", s->interrupted != 0, "verdict", verdict_object(s), "conditions", or_empty(s->conditions),
		"run", run_object(s), "host", or_empty(s->host), "provider", or_empty(s->provider), "sweep", "settings",
		s->settings, "axes", axes_object(&s->opt), "order_seed", (json_int_t)s->order_seed, "repeat_runs",
		(int)s->opt.bench.repeat_runs, "server",
		s->opt.bench.servers.count ? "given, shared by all runs" : "one for each run", "points", points);
}

/* ---- reading ---- */

/* Some of `why` may be the file's words. */
static int refuse(const char *path, struct kv_error *err, const char *why)
{
	char text[320];
	return kv_fail(err, -KV_EINVAL, "--resume %.200s: %s", path, kv_printable(why, false, text, sizeof(text)));
}

/* The first option that only one of the two sweeps has, as a sentence. */
static void setting_lone(const json_t *item, bool is_of_file, void *arg)
{
	char *why = arg;
	if (!why[0])
		snprintf(why, WHY_MAX,
			 "%.200s is an option of %s sweep only; use the same options, or begin another file",
			 json_is_string(item) ? json_string_value(item) : "(no text)", is_of_file ? "its" : "this");
}

static int settings_same(const struct sweep *s, const json_t *theirs, const char *path, struct kv_error *err)
{
	char why[WHY_MAX] = "";
	if (state_settings_lone(s->settings, theirs, setting_lone, why))
		return refuse(path, err, why);
	return json_array_size(theirs) == json_array_size(s->settings)
		       ? 0
		       : refuse(path, err, "its options are others than these; begin another file");
}

/* What of the machine can be known before the first run. */
static int machine_same(const json_t *doc, const char *path, struct kv_error *err)
{
	char name[256] = "", why[WHY_MAX];
	const char *theirs = document_text(json_object_get(doc, "host"), "name");
	const char *version = document_text(json_object_get(doc, "run"), "version");
	if (!version || strcmp(version, KVRAIL_VERSION) != 0) {
		snprintf(why, sizeof(why),
			 "kv-bench %.60s wrote it, and this is " KVRAIL_VERSION "; begin another file",
			 version ? version : "of an unknown version");
		return refuse(path, err, why);
	}
	if (theirs && gethostname(name, sizeof(name) - 1) == 0 && strcmp(theirs, name) != 0) {
		snprintf(why, sizeof(why), "it was measured on %.100s, and this is %.100s; begin another file", theirs,
			 name);
		return refuse(path, err, why);
	}
	return 0;
}

static struct sweep_cell *cell_of(const struct sweep *s, const json_t *point)
{
	for (unsigned i = 0; i < s->num_cells; i++) {
		bool same = true;
		for (unsigned k = 0; k < SWEEP_AXES; k++) {
			const json_t *v = json_object_get(point, axis_members[k]);
			same &= s->cell[i].at[k]
					? json_is_integer(v) && (uint64_t)json_integer_value(v) == s->cell[i].at[k]
					: !v;
		}
		if (same)
			return &s->cell[i];
	}
	return NULL;
}

/* A run that the figures can be taken from. */
static bool run_good(const json_t *run)
{
	static const char *const needed[] = {"ops_per_s", "bytes_per_s", "p50_ns"};
	for (unsigned i = 0; i < KV_COUNT(needed); i++) {
		double v = document_number(run, needed[i]);
		if (!(isfinite(v) && v > 0))
			return false;
	}
	return true;
}

static int point_check(const struct sweep *s, const json_t *point, const char *path, struct kv_error *err)
{
	const json_t *runs = json_object_get(point, "runs"), *run;
	size_t i;
	if (!json_is_array(runs))
		return refuse(path, err, "a combination in it has no list of runs; the file is damaged");
	json_array_foreach(runs, i, run) if (!run_good(run)) return refuse(
		path, err, "a run in it lacks a figure; the file is damaged");
	if (json_array_size(runs) > 0 && !cell_of(s, point))
		return refuse(path, err,
			      "it has measured combinations that these lists do not contain, and would lose them; "
			      "lengthen the lists, or begin another file");
	return 0;
}

static int all_check(const struct sweep *s, const json_t *doc, const char *path, struct kv_error *err)
{
	const json_t *points = document_at(doc, "sweep", "points", NULL), *point;
	size_t i;
	int rc = machine_same(doc, path, err);
	if (rc == 0 && !json_is_array(points))
		rc = refuse(path, err, "it has no combinations; the file is damaged");
	if (rc == 0)
		rc = settings_same(s, document_at(doc, "sweep", "settings", NULL), path, err);
	json_array_foreach(points, i, point)
	{
		if (rc == 0)
			rc = point_check(s, point, path, err);
	}
	return rc;
}

static void keep(json_t **to, const json_t *doc, const char *name)
{
	json_t *object = json_object_get(doc, name);
	if (json_is_object(object) && json_object_size(object) > 0)
		*to = json_incref(object);
}

/* What failed is tried again. */
static void all_take(struct sweep *s, const json_t *doc)
{
	json_t *points = document_at(doc, "sweep", "points", NULL), *point;
	size_t i;
	json_array_foreach(points, i, point)
	{
		struct sweep_cell *cell = cell_of(s, point);
		json_t *runs = json_object_get(point, "runs");
		if (!cell || cell->state == SWEEP_SKIPPED || json_array_size(cell->runs) > 0)
			continue;
		json_array_extend(cell->runs, runs);
		s->kept += (unsigned)json_array_size(runs);
		sweep_cell_state(s, cell);
	}
	if (s->kept == 0)
		return;
	keep(&s->host, doc, "host");
	keep(&s->provider, doc, "provider");
	keep(&s->conditions, doc, "conditions");
}

int sweep_resume(struct sweep *s, const char *path, struct kv_error *err)
{
	json_t *doc = NULL;
	int rc;
	if (access(path, F_OK) < 0)
		return 0;
	rc = document_load_sweep(path, &doc, err);
	if (rc == 0)
		rc = all_check(s, doc, path, err);
	if (rc == 0)
		all_take(s, doc);
	json_decref(doc);
	return rc;
}
