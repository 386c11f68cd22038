/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- kv-bench sweep from start to end: plan, take up an earlier sweep, run what is missing, report.
 *
 * After every run the document is written anew, beside the old one, and takes its name when it is complete: whatever
 * ends this process, the file is the one before or the one after. If a disk is full in the middle, the sweep goes on,
 * since what it measures is not lost before its end; then a file that could not be written fails it. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/file.h"
#include "kvbench/report/json.h"
#include "kvbench/report/page.h"
#include "kvbench/setup/signals.h"
#include "kvbench/sweep/sweep.h"

struct progress_of {
	unsigned done, all;
	uint64_t start_ns;
	bool warned; /* that the file cannot be written now */
};

static FILE *out_of(const struct sweep *s)
{
	return s->opt.bench.json && strcmp(s->opt.bench.json, "-") == 0 ? stderr : stdout;
}

/* ---- files ---- */

static int json_save(const struct sweep *s, struct kv_error *err)
{
	struct json_file *file = NULL;
	json_t *doc = sweep_document(s);
	char *text = doc ? json_dumps(doc, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	int rc = json_open(s->opt.bench.json, &file, err);
	if (rc == 0)
		rc = json_write_text(&file, text, err);
	free(text);
	json_decref(doc);
	return rc;
}

static int page_save(const struct sweep *s, struct kv_error *err)
{
	struct out_file file;
	json_t *doc = sweep_document(s);
	size_t len = 0;
	char *text = doc ? page_html(doc, &len, err) : NULL;
	int rc = out_file_open(&file, s->opt.bench.report, "the page", err);
	if (rc == 0)
		rc = out_file_write(&file, text, len, err);
	free(text);
	json_decref(doc);
	return rc;
}

/* Now, so that a wrong path costs no hour. */
static int files_try(const struct sweep *s, struct kv_error *err)
{
	const char *const path[] = {s->opt.bench.json, s->opt.bench.report};
	static const char *const what[] = {"the JSON report", "the page"};
	int rc = 0;
	for (unsigned i = 0; i < KV_COUNT(path) && rc == 0; i++) {
		struct out_file file;
		if (!path[i])
			continue;
		rc = out_file_open(&file, path[i], what[i], err);
		out_file_discard(&file);
	}
	return rc;
}

/* Only a file is written in the middle: of a pipe or a device the reader expects one document. */
static void checkpoint(const struct sweep *s, struct progress_of *p)
{
	struct kv_error err = {0};
	const char *path = s->opt.bench.json;
	if (!path || strcmp(path, "-") == 0 || strncmp(path, "/dev/", 5) == 0 || json_save(s, &err) == 0) {
		p->warned = false;
		return;
	}
	if (!p->warned)
		fprintf(stderr, "kv-bench sweep: %s; the sweep goes on, and tries again after the next run\n",
			err.text);
	p->warned = true;
}

/* ---- running ---- */

static unsigned runs_left(const struct sweep *s)
{
	unsigned n = 0;
	for (unsigned i = 0; i < s->num_cells; i++)
		if (s->cell[i].state <= SWEEP_PARTIAL)
			n += s->opt.bench.repeat_runs -
			     (unsigned)KV_MIN(json_array_size(s->cell[i].runs), (size_t)s->opt.bench.repeat_runs);
	return n;
}

/* As long for each run that is left as for those that were made: their order is by chance. */
static uint64_t time_left(const struct sweep *s, const struct progress_of *p)
{
	uint64_t took = kv_clock_now(&kv_clock_monotonic) - p->start_ns;
	return p->done ? took / p->done * runs_left(s) : 0;
}

static void run_one(struct sweep *s, struct sweep_cell *cell, unsigned round, struct progress_of *p)
{
	FILE *out = s->opt.bench.quiet ? NULL : out_of(s);
	bool tty = out && kv_terminal(out);
	if (tty) {
		fprintf(out, "%11s %7llu %8s %7llu ...", "running", (unsigned long long)cell->at[SWEEP_WORKERS],
			cell->at[SWEEP_SIZE] ? kv_size_format(cell->at[SWEEP_SIZE], (char[32]){0}, 32) : "load",
			(unsigned long long)cell->at[SWEEP_CLIENTS]);
		fflush(out);
	}
	sweep_cell_run(s, cell, round);
	if (tty)
		fputs("\r\033[K", out);
	if (bench_interrupted())
		return;
	p->done++;
	p->all = p->done + runs_left(s);
	if (out)
		sweep_print_run(cell, p->done, p->all, time_left(s, p), out);
	checkpoint(s, p);
}

static int run_all(struct sweep *s, struct progress_of *p, struct kv_error *err)
{
	unsigned *order = calloc(s->num_cells, sizeof(*order));
	if (!order)
		return kv_fail(err, -KV_ENOMEM, "no memory for the order of the combinations");
	p->start_ns = kv_clock_now(&kv_clock_monotonic);
	for (unsigned round = 0; round < s->opt.bench.repeat_runs && !bench_interrupted(); round++) {
		unsigned n = sweep_order(s, round, order);
		for (unsigned i = 0; i < n && !bench_interrupted(); i++)
			run_one(s, &s->cell[order[i]], round, p);
	}
	free(order);
	return 0;
}

/* ---- the end ---- */

static bool any_failed(const struct sweep *s)
{
	for (unsigned i = 0; i < s->num_cells; i++)
		if (s->cell[i].state == SWEEP_FAILED)
			return true;
	return false;
}

static int finish(struct sweep *s)
{
	struct kv_error err = {0};
	int status = any_failed(s) ? BENCH_FAILED : BENCH_OK;
	FILE *out = out_of(s);
	s->interrupted = bench_interrupted();
	sweep_print_table(s, out);
	if (s->interrupted)
		fprintf(stderr,
			"kv-bench sweep: interrupted by signal %d: the report has what was measured until then\n",
			s->interrupted);
	if (s->opt.bench.json && json_save(s, &err) < 0) {
		fprintf(stderr, "kv-bench sweep: %s\n", err.text);
		status = BENCH_FAILED;
	}
	if (s->opt.bench.report && page_save(s, &err) < 0) {
		fprintf(stderr, "kv-bench sweep: %s\n", err.text);
		status = BENCH_FAILED;
	}
	if (!kv_written(out)) {
		fprintf(stderr, "kv-bench sweep: the table could not be written to standard output\n");
		status = BENCH_FAILED;
	}
	return s->interrupted ? 128 + s->interrupted : status;
}

static void order_seed_choose(struct sweep *s)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	s->started_s = (uint64_t)now.tv_sec;
	s->order_seed = s->opt.order_seed
				? s->opt.order_seed
				: ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) & 0xffffffff;
}

static int begin(struct sweep *s, struct kv_error *err)
{
	int rc = sweep_plan(s, err);
	if (rc == 0 && s->opt.resume)
		rc = sweep_resume(s, s->opt.resume, err);
	if (rc < 0)
		return rc == -KV_ENOMEM ? BENCH_NO_START : BENCH_USAGE;
	return files_try(s, err) < 0 ? BENCH_NO_START : BENCH_OK;
}

int sweep_main(int argc, char **argv)
{
	static struct sweep s; /* too large for a stack */
	struct progress_of p = {0};
	struct kv_error err = {0};
	int status, rc = sweep_options_parse(argc, argv, &s.opt, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && s.opt.bench.config) {
		kv_opt_dump(sweep_options_table(), &s.opt, stdout);
		return BENCH_OK;
	}
	order_seed_choose(&s);
	bench_signals_install();
	status = rc < 0 ? BENCH_USAGE : begin(&s, &err);
	if (status == BENCH_OK) {
		if (!s.opt.bench.quiet)
			sweep_print_head(&s, runs_left(&s), out_of(&s));
		checkpoint(&s, &p);
		if (run_all(&s, &p, &err) < 0)
			status = BENCH_NO_START;
	}
	if (status == BENCH_OK)
		status = finish(&s);
	else
		fprintf(stderr, "kv-bench sweep: %s%s\n", err.text, status == BENCH_USAGE ? " (try --help)" : "");
	sweep_free(&s);
	return status;
}
