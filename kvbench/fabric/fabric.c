/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- kv-bench fabric: start the responders, measure each operation of each size, report. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvbench/fabric/measure.h"
#include "kvbench/fabric/pairs.h"
#include "kvbench/fabric/remote.h"
#include "kvbench/fabric/responder.h"
#include "kvbench/load/bench.h"
#include "kvbench/report/json.h"
#include "kvbench/setup/command.h"
#include "kvbench/setup/signals.h"

struct fabric_command {
	struct fabric_run run;
	struct fabric_pairs pairs;
	FILE *out, *table; /* table: NULL with --quiet */
};

/* ---- measuring ---- */

static void look_at_reads(struct fabric_run *run)
{
	if (run->info.reads_refused)
		snprintf(run->no_read, sizeof(run->no_read),
			 "no reads: with this libfabric (%s) a peer that dies while it "
			 "answers one crashes the reader over tcp; 1.22 and newer are safe",
			 run->info.libfabric);
}

static bool fits(const struct fabric_run *run, enum fabric_op op, uint64_t size)
{
	if (op == FABRIC_MESSAGE)
		return size <= KV_MSG_MAX;
	return op != FABRIC_READ || !run->info.reads_refused;
}

static int measure_all(struct fabric_command *s, struct kv_error *err)
{
	struct fabric_run *run = &s->run;
	for (int op = 0; op < FABRIC_OPS; op++)
		for (unsigned i = 0; i < run->opt.num_sizes; i++) {
			struct fabric_row *row = &run->row[run->num_rows];
			int rc;
			if (!fits(run, (enum fabric_op)op, run->opt.size[i]))
				continue;
			*row = (struct fabric_row){.op = (enum fabric_op)op, .size = run->opt.size[i]};
			kv_hist_init(&row->latency);
			rc = fabric_measure(s->pairs.end, s->pairs.num_open, row, run->opt.depth, run->opt.time_ns);
			if (rc == -KV_ECANCELED)
				return rc;
			if (rc < 0)
				return kv_fail(err, rc, "%s of %llu bytes broke off: %s%s", fabric_op_name(row->op),
					       (unsigned long long)row->size, kv_strerror(rc),
					       rc == -KV_EPEERDOWN
						       ? " (the responder ended; --log-level info shows more)"
						       : "");
			run->num_rows++;
			if (s->table)
				fabric_print_row(row, s->table);
		}
	run->complete = true;
	return 0;
}

/* ---- the whole ---- */

static int report(struct fabric_command *s, struct out_file *json, int rc, struct kv_error *err)
{
	int status = rc < 0 && rc != -KV_ECANCELED ? BENCH_FAILED : BENCH_OK;
	json_t *doc;
	if (status == BENCH_FAILED)
		fprintf(stderr, "kv-bench fabric: %s\n", err->text);
	if (bench_interrupted())
		fprintf(stderr, "kv-bench: interrupted by signal %d: the report has the rows measured so far\n",
			bench_interrupted());
	fabric_print_end(&s->run, s->out);
	doc = s->run.opt.json ? fabric_json(&s->run) : NULL;
	if (s->run.opt.json && json_write(json, doc, JSON_INDENT(1), err) < 0) {
		fprintf(stderr, "kv-bench fabric: %s\n", err->text);
		status = BENCH_FAILED;
	}
	json_decref(doc);
	if (!kv_written(s->out)) {
		fprintf(stderr, "kv-bench: the report could not be written to %s\n",
			s->out == stdout ? "standard output" : "standard error");
		status = BENCH_FAILED;
	}
	return bench_interrupted() ? 128 + bench_interrupted() : status;
}

static int session_open(struct fabric_command *s, struct kv_error *err)
{
	int rc;
	s->run.row = calloc((size_t)FABRIC_OPS * s->run.opt.num_sizes, sizeof(*s->run.row));
	if (!s->run.row)
		return kv_fail(err, -KV_ENOMEM, "no memory for the rows: use fewer --sizes");
	rc = fabric_pairs_start(&s->pairs, &s->run.opt, err);
	kvc_program_setup();
	if (rc == 0)
		rc = fabric_pairs_open(&s->pairs, &s->run.opt, err);
	if (rc < 0)
		return rc;
	s->run.info = s->pairs.end[0]->info;
	fabric_rdma_look(&s->run.info, &s->run.rdma);
	look_at_reads(&s->run);
	return 0;
}

static int session_run(struct fabric_command *s, struct out_file *json)
{
	struct kv_error err = {0};
	int status, rc = session_open(s, &err);
	if (rc < 0) {
		if (bench_interrupted())
			snprintf(err.text, sizeof(err.text), "interrupted by signal %d before the first operation",
				 bench_interrupted());
		fprintf(stderr, "kv-bench fabric: %s\n", err.text);
		status = bench_interrupted() ? 128 + bench_interrupted() : BENCH_NO_START;
	} else {
		if (s->table)
			fabric_print_head(&s->run, s->table);
		bench_conditions_begin(&s->run.conditions, fabric_pairs_cpu_seconds(&s->pairs));
		rc = measure_all(s, &err);
		bench_conditions_end(&s->run.conditions, fabric_pairs_cpu_seconds(&s->pairs));
		status = report(s, json, rc, &err);
	}
	fabric_pairs_close(&s->pairs);
	free(s->run.row);
	return status;
}

int fabric_main(int argc, char **argv)
{
	static struct fabric_command s; /* too large for a stack */
	struct out_file json = {.fd = -1};
	struct kv_error err = {0};
	bool responds = argc > 2 && strcmp(argv[1], FABRIC_RESPONDER) == 0;
	int status, fd = responds ? atoi(argv[2]) : -1;
	int rc = fabric_options_parse(argc - 2 * responds, argv + 2 * responds, &s.run.opt, &err);
	int over = command_over("kv-bench fabric", rc, &err, fabric_options_table, &s.run.opt, s.run.opt.config);
	if (over >= 0)
		return over;
	bench_signals_install();
	if (responds) {
		kvc_program_setup();
		return fabric_responder_main(&s.run.opt, fd);
	}
	if (s.run.opt.listen)
		return fabric_listen_main(&s.run.opt);
	if (s.run.opt.json && out_file_open(&json, s.run.opt.json, "the JSON report", &err) < 0) {
		fprintf(stderr, "kv-bench fabric: %s\n", err.text);
		return BENCH_NO_START;
	}
	s.out = s.run.opt.json && strcmp(s.run.opt.json, "-") == 0 ? stderr : stdout;
	s.table = s.run.opt.quiet ? NULL : s.out;
	status = session_run(&s, &json);
	out_file_discard(&json);
	return status;
}
