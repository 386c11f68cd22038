/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c -- kv-bench scale from start to end: one server, a process for each step, the report.
 *
 * The server is sized for the largest step, and all steps share it, so that their figures differ by the clients alone.
 * A step that fails does not end the run: the next has another process. Connections with TLS stop at the first number
 * that cannot be had, since more cannot be either. */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "kvbench/load/bench.h"
#include "kvbench/report/json.h"
#include "kvbench/scale/scale.h"
#include "kvbench/setup/again.h"
#include "kvbench/setup/signals.h"

enum { SERVER_MB = 64, SPARE_CLIENTS = 16 };

/* As kv-bench capacity: rxm's buffers are most of what an engine takes, and no message of KVRail is larger. The server
 * inherits it, since the size must be equal on both sides. */
#define RXM_BUFFER "4096"

#define READY_TIMEOUT_NS 120000000000ull

struct scale {
	struct scale_options opt;
	struct scale_run run;
	struct server_child *server;
	FILE *out, *table; /* table: NULL with --quiet */
	int argc;
	char **argv;
};

static void step_run(struct scale *s, enum scale_kind kind, uint32_t clients)
{
	struct scale_step *out = &s->run.step[s->run.count++];
	struct again_step a = {
		.result = out, .result_bytes = sizeof(*out), .server = s->server, .timeout_ns = s->opt.timeout_ns};
	*out = (struct scale_step){.kind = (int)kind, .clients = clients};
	again_step_begin(&a, "scale", s->argc, s->argv);
	again_add(&a.args, "--step-clients=%u", clients);
	again_add(&a.args, "--step-kind=%u", (unsigned)kind);
	again_add(&a.args, "--step-fd=%d", a.probe.tell_fd);
	again_add(&a.args, "--step-input-fd=%d", a.probe.input_fd);
	again_add(&a.args, "--step-server=%s", server_child_address(s->server));
	again_step_run(&a);
	out->text[sizeof(out->text) - 1] = 0;
	out->server_rss = a.server_rss;
	if (a.probe.end != PROBE_EXITED || !out->final) {
		out->ended = true;
		snprintf(out->text, sizeof(out->text), "%s", a.probe.text);
	}
	if (server_child_dead(s->server) && !bench_interrupted()) {
		out->ended = true;
		snprintf(out->text, sizeof(out->text), "the server that kv-bench started died");
	}
	if (s->table)
		scale_print_step(out, s->table);
}

/* ---- all of it ---- */

static int server_start(struct scale *s, struct kv_error *err)
{
	const struct scale_options *o = &s->opt;
	uint32_t most = (uint32_t)o->list.value[o->list.count - 1];
	struct server_child_options so = {.provider = strcmp(o->provider, "auto") ? o->provider : NULL,
					  .nic = o->nic,
					  .memory_mb = (uint64_t)SERVER_MB * o->server_threads,
					  .threads = o->server_threads,
					  .max_clients = most + o->engines + SPARE_CLIENTS,
					  .max_sessions = most,
					  .log_level = o->log_level,
					  .ready_timeout_ns = READY_TIMEOUT_NS};
	return server_child_start(&so, &s->server, err);
}

static int steps_run(struct scale *s)
{
	bool tls = !s->opt.no_tls;
	int status = BENCH_OK;
	for (unsigned i = 0; i < s->opt.list.count && !bench_interrupted() && !server_child_dead(s->server); i++) {
		uint32_t clients = (uint32_t)s->opt.list.value[i];
		const struct scale_step *step = &s->run.step[s->run.count];
		step_run(s, SCALE_SESSIONS, clients);
		if (step->ended || step->succeeded < step->clients)
			status = BENCH_FAILED;
		if (!tls || bench_interrupted())
			continue;
		step = &s->run.step[s->run.count];
		step_run(s, SCALE_TLS, clients);
		tls = !step->ended;
		if (step->wrong > 0)
			status = BENCH_FAILED;
	}
	return status;
}

static int finish(struct scale *s, struct json_file **json, int status)
{
	struct kv_error err = {0};
	char *text;
	s->run.interrupted = bench_interrupted();
	scale_print_end(&s->run, s->out);
	if (s->run.interrupted)
		fprintf(stderr,
			"kv-bench scale: interrupted by signal %d: the report has the steps that were over, and what "
			"the "
			"last one had reached\n",
			s->run.interrupted);
	if (*json) {
		text = scale_json_text(&s->run);
		if (json_write_text(json, text, &err) < 0) {
			fprintf(stderr, "kv-bench scale: %s\n", err.text);
			status = BENCH_FAILED;
		}
		free(text);
	}
	if (!kv_written(s->out)) {
		fprintf(stderr, "kv-bench scale: the report could not be written to standard output\n");
		status = BENCH_FAILED;
	}
	return s->run.interrupted ? 128 + s->run.interrupted : status;
}

static int run_all(struct scale *s, struct json_file **json)
{
	struct kv_error err = {0};
	int status = BENCH_NO_START;
	s->run.opt = &s->opt;
	(void)setenv("FI_OFI_RXM_BUFFER_SIZE", RXM_BUFFER, 0);
	s->run.step = calloc((size_t)SCALE_KINDS * BENCH_LIST_MAX, sizeof(*s->run.step));
	if (!s->run.step) {
		fprintf(stderr, "kv-bench scale: no memory for the steps\n");
		return BENCH_NO_START;
	}
	if (server_start(s, &err) < 0) {
		fprintf(stderr, "kv-bench scale: %s\n", err.text);
		status = bench_interrupted() ? 128 + bench_interrupted() : BENCH_NO_START;
	} else {
		if (s->table)
			scale_print_head(&s->opt, s->table);
		bench_conditions_begin(&s->run.conditions, server_child_cpu_seconds(s->server));
		status = steps_run(s);
		bench_conditions_end(&s->run.conditions, server_child_cpu_seconds(s->server));
		status = finish(s, json, status);
	}
	server_child_stop(&s->server, NULL);
	free(s->run.step);
	return status;
}

int scale_main(int argc, char **argv)
{
	static struct scale s;
	struct json_file *json = NULL;
	struct kv_error err = {0};
	int rc = scale_options_parse(argc, argv, &s.opt, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && s.opt.config) {
		kv_opt_dump(scale_options_table, &s.opt, stdout);
		return BENCH_OK;
	}
	bench_signals_install();
	if (rc == 0 && s.opt.step_clients > 0)
		return scale_step_main(&s.opt);
	if (rc < 0 || (s.opt.json && json_open(s.opt.json, &json, &err) < 0)) {
		fprintf(stderr, "kv-bench scale: %s%s\n", err.text, rc < 0 ? " (try --help)" : "");
		return rc < 0 ? BENCH_USAGE : BENCH_NO_START;
	}
	s.argc = argc;
	s.argv = argv;
	s.out = s.opt.json && strcmp(s.opt.json, "-") == 0 ? stderr : stdout;
	s.table = s.opt.quiet ? NULL : s.out;
	rc = run_all(&s, &json);
	json_discard(&json);
	return rc;
}
