/* SPDX-License-Identifier: Apache-2.0 */
/* versus.c -- kv-bench versus: rounds in which the targets take turns.
 *
 * Virtual CPUs move between cores of the host, and the distance of two decides what both sides reach: it is taken
 * before, between and after the targets of a round, and a round in which it changed does not count. Nor does one in
 * which a target cost far more processor time than in its best round, or client and server were on one core (result.c).
 * The order turns round by round, so that neither side is always the one that runs on a machine that has just warmed
 * up. A target that failed takes no further part; the run goes on with the others, and fails in the end. */
#include "kvbench/versus/versus.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/file.h"
#include "kvbench/report/lab.h"
#include "kvbench/setup/signals.h"

#define QUIET_NS 200000000ull /* before each round */

static unsigned standing(const struct versus *v)
{
	unsigned n = 0;
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		n += !v->failed[t][0];
	return n;
}

/* Who comes at this place of the round. In the first one KVRail does first: the others get its congestion control. */
static unsigned target_at(const struct versus *v, unsigned place)
{
	unsigned n = v->opt.num_targets, at = 0;
	if (v->rounds > 0)
		return v->rounds % 2 ? n - 1 - place : place;
	for (unsigned own = 1; own < 2; own--)
		for (unsigned t = 0; t < n; t++)
			if ((v->opt.target[t].kind == VERSUS_KVRAIL) == own && at++ == place)
				return t;
	return place;
}

/* False: a signal came. */
static bool round_run(struct versus *v, struct versus_round *r)
{
	unsigned n = v->opt.num_targets;
	*r = (struct versus_round){.seed = v->opt.seed + v->rounds, .complete = true};
	r->distance_ns[r->distances++] = bench_distance_ns();
	for (unsigned i = 0; i < n; i++) {
		unsigned t = target_at(v, i);
		struct kv_error err = {0};
		int rc;
		if (v->failed[t][0])
			continue;
		rc = versus_run_target(v, t, r->seed, &r->run[t], &err);
		if (rc == -KV_ECANCELED)
			return false;
		if (rc < 0) {
			snprintf(v->failed[t], sizeof(v->failed[t]), "%s", err.text);
			r->run[t] = (struct versus_run){0};
			r->complete = false;
		}
		r->distance_ns[r->distances++] = bench_distance_ns();
	}
	return true;
}

/* Servers of the targets are others as well: these are counted while nobody asks any of them for anything. */
static void rounds_run(struct versus *v)
{
	struct bench_quiet quiet = {0};
	bench_conditions_begin(&v->conditions, 0);
	while (v->counted < v->opt.rounds && v->rounds < VERSUS_TRIES * v->opt.rounds && standing(v) > 0 &&
	       !v->failed[0][0]) {
		struct versus_round *r = &v->round[v->rounds];
		bench_conditions_quiet(&quiet, QUIET_NS);
		if (!round_run(v, r))
			break;
		v->rounds++;
		v->counted = versus_rounds_judge(v);
		versus_print_round(v, r);
	}
	bench_conditions_end(&v->conditions, 0);
	v->conditions.others_cores = quiet.seconds > 0 ? quiet.busy / quiet.seconds : 0;
	/* Better figures with their warning than none. */
	v->unsteady = v->counted == 0;
	for (unsigned i = 0; v->unsteady && i < v->rounds; i++)
		v->round[i].counts = true;
}

static void print_head(const struct versus *v)
{
	const struct versus_options *o = &v->opt;
	char text[320];
	kv_wrap(v->out, "versus  ", 0, "%s", versus_load_text(o, text, sizeof(text)));
	fprintf(v->out, "%-13s", "of each round");
	for (unsigned t = 0; t < o->num_targets; t++)
		fprintf(v->out, " %14.14s", o->target[t].label);
	fputc('\n', v->out);
	fflush(v->out);
}

static int files_write(const struct versus *v, struct out_file *json, struct out_file *page)
{
	struct kv_error err = {0};
	json_t *doc = versus_document(v);
	char *text = doc ? json_dumps(doc, JSON_INDENT(1)) : NULL;
	size_t len = 0;
	int rc = 0;
	if (json->fd >= 0)
		rc = out_file_write(json, text, text ? strlen(text) : 0, &err);
	free(text);
	text = rc == 0 && page->fd >= 0 ? lab_make("versus", doc, &len, &err) : NULL;
	if (rc == 0 && page->fd >= 0)
		rc = text ? out_file_write(page, text, len, &err) : -KV_ENOMEM;
	free(text);
	json_decref(doc);
	if (rc == 0 && !kv_written(v->out))
		rc = kv_fail(&err, -EIO, "the report could not be written to %s",
			     v->out == stdout ? "standard output" : "standard error");
	if (rc < 0)
		fprintf(stderr, "kv-bench versus: %s\n", err.text);
	return rc;
}

static int verdict(const struct versus *v)
{
	bool good = true;
	for (unsigned t = 0; t < v->opt.num_targets; t++)
		if (v->failed[t][0]) {
			fprintf(stderr, "kv-bench versus: %s failed: %s\n", v->opt.target[t].name, v->failed[t]);
			good = false;
		}
	if (bench_interrupted()) {
		fprintf(stderr, "kv-bench versus: interrupted by signal %d: these are the rounds until then\n",
			bench_interrupted());
		return 128 + bench_interrupted();
	}
	return good ? BENCH_OK : BENCH_FAILED;
}

static int measure(struct versus *v)
{
	struct out_file json = {.fd = -1}, page = {.fd = -1};
	struct kv_error err = {0};
	int rc = v->opt.json ? out_file_open(&json, v->opt.json, "the JSON report", &err) : 0, status;
	if (rc == 0 && v->opt.report)
		rc = out_file_open(&page, v->opt.report, "the page", &err);
	if (rc == 0 && v->opt.report)
		rc = lab_check(&err);
	if (rc < 0) {
		fprintf(stderr, "kv-bench versus: %s\n", err.text);
		out_file_discard(&json);
		out_file_discard(&page);
		return BENCH_NO_START;
	}
	v->started_s = (int64_t)time(NULL);
	print_head(v);
	rounds_run(v);
	versus_print_summary(v);
	status = verdict(v);
	if (files_write(v, &json, &page) < 0 && status == BENCH_OK)
		status = BENCH_FAILED;
	out_file_discard(&json);
	out_file_discard(&page);
	return status;
}

int versus_main(int argc, char **argv)
{
	static struct versus v; /* its rounds are too large for a stack */
	struct kv_error err = {0};
	int rc = versus_options_parse(argc, argv, &v.opt, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc < 0) {
		fprintf(stderr, "kv-bench versus: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (v.opt.config) {
		kv_opt_dump(versus_options_table, &v.opt, stdout);
		return BENCH_OK;
	}
	bench_signals_install();
	if (v.opt.drive)
		return versus_drive(&v.opt);
	v.argc = argc;
	v.argv = argv;
	v.out = v.opt.json && strcmp(v.opt.json, "-") == 0 ? stderr : stdout;
	return measure(&v);
}
