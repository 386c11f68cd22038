/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- kv-bench fabric: start the responder, measure each operation of each size, report.
 *
 * The responder is this program again (probe_spawn), before the first libfabric call. A socket pair joins the two: it
 * carries their addresses and what comes next, and its end tells each that the other is gone. Nothing listens for
 * others: tcp is on loopback, unless --nic names another address; there it starts only behind the doorkeeper. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/fabric/measure.h"
#include "kvbench/load/bench.h"
#include "kvbench/report/json.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

enum { ARGS_MAX = 64, REAP_STEP_US = 10000, REAP_STEPS = 1000 };

struct session {
	struct fabric_run run;
	struct end end;
	int fd;
	pid_t pid;
	FILE *out, *table; /* table: NULL with --quiet */
};

static int responder_start(struct session *s, int argc, char **argv, struct kv_error *err)
{
	const char *args[ARGS_MAX + 5] = {argv[0], "fabric"};
	char number[16];
	int fds[2], n = 2, rc;
	if (argc > ARGS_MAX)
		return kv_fail(err, -KV_EINVAL, "more than %u arguments: use fewer", (unsigned)ARGS_MAX);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return kv_fail(err, -errno, "no socket for the responder: %s", kv_strerror(errno));
	for (int i = 1; i < argc; i++)
		args[n++] = argv[i];
	snprintf(number, sizeof(number), "%d", fds[1]);
	args[n++] = "--responder-fd";
	args[n++] = number;
	args[n] = NULL;
	rc = probe_spawn("/proc/self/exe", args, -1, -1, (const int[]){fds[1], -1}, true, &s->pid);
	close(fds[1]);
	s->fd = fds[0];
	if (rc < 0)
		return kv_fail(err, rc, "the responder cannot be started: %s%s", kv_strerror(rc),
			       rc == -ENOENT ? " (/proc/self/exe: is /proc mounted?)" : "");
	return 0;
}

/* It ends by itself when the socket closes; one that does not is killed. */
static void responder_stop(struct session *s)
{
	int status;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	for (unsigned i = 0; s->pid > 0 && i < REAP_STEPS; i++) {
		if (waitpid(s->pid, &status, WNOHANG) != 0)
			s->pid = 0;
		else
			usleep(REAP_STEP_US);
	}
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, &status, 0);
	}
	s->pid = 0;
}

/* ---- measuring ---- */

static void look_at_reads(struct fabric_run *run)
{
	if (run->info.reads_refused)
		snprintf(run->no_read, sizeof(run->no_read),
			 "no reads: with this libfabric (%s) a peer that dies while it answers one crashes the reader "
			 "over tcp; "
			 "1.22 and newer are safe",
			 run->info.libfabric);
}

static bool fits(const struct fabric_run *run, enum fabric_op op, uint64_t size)
{
	if (op == FABRIC_MESSAGE)
		return size <= KV_MSG_MAX;
	return op != FABRIC_READ || !run->info.reads_refused;
}

static int measure_all(struct session *s, struct kv_error *err)
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
			rc = fabric_measure(&s->end, row, run->opt.time_ns);
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
				fabric_print_row(run, row, s->table);
		}
	run->complete = true;
	return 0;
}

/* ---- the whole ---- */

static int json_finish(struct session *s, struct json_file **json, struct kv_error *err)
{
	char *text = fabric_json_text(&s->run);
	int rc = json_write_text(json, text, err);
	free(text);
	return rc;
}

static int report(struct session *s, struct json_file **json, int rc, struct kv_error *err)
{
	int status = rc < 0 && rc != -KV_ECANCELED ? BENCH_FAILED : BENCH_OK;
	if (status == BENCH_FAILED)
		fprintf(stderr, "kv-bench fabric: %s\n", err->text);
	if (bench_interrupted())
		fprintf(stderr,
			"kv-bench: interrupted by signal %d: the report has the rows that were measured until then\n",
			bench_interrupted());
	fabric_print_end(&s->run, s->out);
	if (*json && json_finish(s, json, err) < 0) {
		fprintf(stderr, "kv-bench fabric: %s\n", err->text);
		status = BENCH_FAILED;
	}
	if (!kv_written(s->out)) {
		fprintf(stderr, "kv-bench: the report could not be written to %s\n",
			s->out == stdout ? "standard output" : "standard error");
		status = BENCH_FAILED;
	}
	return bench_interrupted() ? 128 + bench_interrupted() : status;
}

static int session_open(struct session *s, int argc, char **argv, struct kv_error *err)
{
	int rc;
	s->run.row = calloc((size_t)FABRIC_OPS * s->run.opt.num_sizes, sizeof(*s->run.row));
	if (!s->run.row)
		return kv_fail(err, -KV_ENOMEM, "no memory for the rows: use fewer --sizes");
	rc = responder_start(s, argc, argv, err);
	kvc_program_setup();
	if (rc == 0)
		rc = end_open(&s->end, &s->run.opt, s->fd, bench_interrupted, err);
	if (rc < 0)
		return rc;
	s->run.info = s->end.info;
	fabric_rdma_look(&s->run.info, &s->run.rdma);
	look_at_reads(&s->run);
	return 0;
}

static int session_run(struct session *s, struct json_file **json, int argc, char **argv)
{
	struct kv_error err = {0};
	int status, rc = session_open(s, argc, argv, &err);
	if (rc < 0) {
		if (bench_interrupted())
			snprintf(err.text, sizeof(err.text), "interrupted by signal %d before the first operation",
				 bench_interrupted());
		fprintf(stderr, "kv-bench fabric: %s\n", err.text);
		status = bench_interrupted() ? 128 + bench_interrupted() : BENCH_NO_START;
	} else {
		if (s->table)
			fabric_print_head(&s->run, s->table);
		bench_conditions_begin(&s->run.conditions, kv_process_cpu_seconds((int)s->pid));
		rc = measure_all(s, &err);
		bench_conditions_end(&s->run.conditions, kv_process_cpu_seconds((int)s->pid));
		status = report(s, json, rc, &err);
	}
	end_close(&s->end);
	responder_stop(s);
	free(s->run.row);
	return status;
}

int fabric_main(int argc, char **argv)
{
	static struct session s; /* too large for a stack */
	struct json_file *json = NULL;
	struct kv_error err = {0};
	int status, rc = fabric_options_parse(argc, argv, &s.run.opt, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && s.run.opt.config) {
		kv_opt_dump(fabric_options_table, &s.run.opt, stdout);
		return BENCH_OK;
	}
	bench_signals_install();
	if (rc == 0 && s.run.opt.responder_fd > 0) {
		kvc_program_setup();
		return fabric_responder_main(&s.run.opt);
	}
	if (rc < 0 || (s.run.opt.json && json_open(s.run.opt.json, &json, &err) < 0)) {
		fprintf(stderr, "kv-bench fabric: %s%s\n", err.text, rc < 0 ? " (try --help)" : "");
		return rc < 0 ? BENCH_USAGE : BENCH_NO_START;
	}
	s.fd = -1;
	s.out = s.run.opt.json && strcmp(s.run.opt.json, "-") == 0 ? stderr : stdout;
	s.table = s.run.opt.quiet ? NULL : s.out;
	status = session_run(&s, &json, argc, argv);
	json_discard(&json);
	return status;
}
