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
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

enum { ARGS_MAX = 160, SERVER_MB = 64, SPARE_CLIENTS = 16 };

/* As kv-bench capacity: rxm's buffers are most of what an engine takes, and no message of KVRail is larger. The server
 * inherits it, since the size must be equal on both sides. */
#define RXM_BUFFER "4096"

#define READY_TIMEOUT_NS 120000000000ull
#define CLOSING_NS       60000000000ull /* beyond a step's own time */
#define ENDING_NS        20000000000ull /* after it was told to end */

struct scale {
	struct scale_options opt;
	struct scale_run run;
	struct server_child *server;
	FILE *out, *table; /* table: NULL with --quiet */
	int argc;
	char **argv;
};

/* ---- a step ---- */

struct child {
	struct probe probe;
	const struct server_child *server;
	struct scale_step told, *out;
	char key[256], text[4][32];
	const char *arg[ARGS_MAX];
	unsigned num_args;
};

static void arg_add(struct child *c, const char *name, const char *value)
{
	if (c->num_args + 2 < ARGS_MAX) {
		c->arg[c->num_args++] = name;
		if (value)
			c->arg[c->num_args++] = value;
	}
}

static const char *number(struct child *c, unsigned slot, uint64_t n)
{
	snprintf(c->text[slot], sizeof(c->text[slot]), "%llu", (unsigned long long)n);
	return c->text[slot];
}

/* Of two options the later one wins. */
static void args_make(struct child *c, const struct scale *s)
{
	arg_add(c, s->argv[0], "scale");
	for (int i = 1; i < s->argc; i++)
		arg_add(c, s->argv[i], NULL);
	arg_add(c, "--step-clients", number(c, 0, c->out->clients));
	arg_add(c, "--step-kind", number(c, 1, (uint64_t)c->out->kind));
	arg_add(c, "--step-fd", number(c, 2, (uint64_t)c->probe.tell_fd));
	arg_add(c, "--step-input-fd", number(c, 3, (uint64_t)c->probe.input_fd));
	arg_add(c, "--step-server", server_child_address(c->server));
	c->arg[c->num_args] = NULL;
}

static void on_told(struct probe *probe)
{
	struct child *c = probe->arg;
	uint64_t rss = c->out->server_rss;
	struct kv_process server = {0};
	kv_process_read((int)server_child_pid(c->server), &server);
	*c->out = c->told;
	c->out->text[sizeof(c->out->text) - 1] = '\0';
	c->out->server_rss = KV_MAX(rss, server.rss);
}

static void step_run(struct scale *s, enum scale_kind kind, uint32_t clients)
{
	struct scale_step *out = &s->run.step[s->run.count++];
	struct child c = {.server = s->server, .out = out};
	int rc;
	*out = (struct scale_step){.kind = (int)kind, .clients = clients};
	c.probe = (struct probe){.name = "the step",
				 .input = c.key,
				 .result = &c.told,
				 .result_bytes = sizeof(c.told),
				 .timeout_ns = s->opt.timeout_ns + CLOSING_NS,
				 .interrupted = bench_interrupted,
				 .ending_ns = ENDING_NS,
				 .told = on_told,
				 .arg = &c};
	c.probe.input_bytes = (size_t)snprintf(c.key, sizeof(c.key), "%s\n", server_child_psk(s->server));
	rc = probe_open(&c.probe);
	args_make(&c, s);
	probe_run(&c.probe, rc, c.arg);
	explicit_bzero(c.key, sizeof(c.key));
	if (c.probe.end != PROBE_EXITED || !out->final) {
		out->ended = true;
		snprintf(out->text, sizeof(out->text), "%s", c.probe.text);
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
