/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.c -- kv-bench capacity: the models, one after the other, each step by step until one fails.
 *
 * This process opens no endpoint: it starts a server for each model and a process for each step (child.c), and
 * reports. Meeting a limit is its purpose, and so a success. It fails for a wrong byte, for a GET that failed while
 * nothing was short, for a step that had to be killed, and for a model that was asked for by name and cannot begin. */
#include <stdlib.h>

#include "kvbench/load/bench.h"
#include "kvbench/capacity/capacity.h"
#include "kvbench/capacity/verbs.h"
#include "kvbench/report/json.h"
#include "kvbench/setup/signals.h"

#define READY_TIMEOUT_NS 120000000000ull
#define CONFIRM_NS       10000000000ull

enum { SERVER_MB = 64, SPARE_CLIENTS = 16 };

/* The largest message of KVRail: smaller buffers of rxm would make it more than one. */
#define RXM_BUFFER "4096"

struct capacity {
	struct capacity_options opt;
	struct capacity_run run[CAPACITY_MODELS];
	struct server_child *server;
	FILE *out, *table; /* table: NULL with --quiet */
	int argc;
	char **argv;
};

static int server_start(struct capacity *c, uint32_t clients, struct kv_error *err)
{
	const struct capacity_options *o = &c->opt;
	struct server_child_options so = {.provider = strcmp(o->provider, "auto") ? o->provider : NULL,
					  .nic = o->nic,
					  .rails = o->rails,
					  .memory_mb = (uint64_t)SERVER_MB * o->server_threads,
					  .threads = o->server_threads,
					  .max_clients = clients + o->engines + SPARE_CLIENTS,
					  .max_sessions = clients,
					  .log_level = o->log_level,
					  .ready_timeout_ns = READY_TIMEOUT_NS};
	return o->server ? 0 : server_child_start(&so, &c->server, err);
}

/* False: it is not complete. */
static bool step_run(struct capacity *c, struct capacity_run *run, uint32_t clients, uint64_t timeout_ns)
{
	struct capacity_step *s = &run->step[run->num_steps++];
	bool never;
	capacity_child_run(c->argc, c->argv, run->model, clients, timeout_ns, c->server, s);
	/* If an earlier step ran, the model ran. Every process has a thread: one without has never told anything. */
	never = s->end == CAPACITY_UNUSABLE || (s->end != CAPACITY_INTERRUPTED && s->threads == 0);
	if (never && s->connected == 0 && run->num_steps == 1) {
		run->ran = false;
		run->num_steps--;
		snprintf(run->why_not, sizeof(run->why_not), "%s", s->text);
		return false;
	}
	if (c->table)
		capacity_print_step(s, c->table);
	return s->end == CAPACITY_COMPLETE;
}

/* The library opens all clients of a pool or none, so the clients that were open when the next one failed have read
 * nothing. As many are opened once more, and each of them reads. Some of the open ones may not have been connected yet,
 * and what a connection takes may be short as well: then fewer are tried, a few times. A provider that lacks memory for
 * a connection may never report it, so none of these steps may take much longer than the one that failed. */
static void steps_confirm(struct capacity *c, struct capacity_run *run, uint64_t took_ns)
{
	const struct capacity_step *s = &run->step[run->last];
	uint32_t before = run->last > 0 ? s[-1].attempted : 0, n = s->opened;
	uint64_t timeout_ns = KV_MIN(c->opt.timeout_ns, CONFIRM_NS + 2 * took_ns);
	if (run->model != CAPACITY_ENDPOINTS || s->end == CAPACITY_TIME || s->end == CAPACITY_KILLED ||
	    s->end == CAPACITY_DATA || s->end == CAPACITY_INTERRUPTED)
		return;
	for (unsigned i = 0; i < CAPACITY_CONFIRMS && n > before && !server_child_dead(c->server); i++) {
		if (step_run(c, run, n, timeout_ns) || bench_interrupted())
			return;
		n -= KV_MAX(n / 8, 1u);
	}
}

static void steps_run(struct capacity *c, struct capacity_run *run, const struct capacity_steps *steps)
{
	bool complete = true;
	uint64_t begun = 0;
	run->ran = true;
	if (c->table)
		capacity_print_model(run->model, &c->opt, c->table);
	for (unsigned i = 0; i < steps->count && complete; i++) {
		begun = kv_clock_now(&kv_clock_monotonic);
		complete = step_run(c, run, steps->clients[i], c->opt.timeout_ns);
		run->last = run->num_steps ? run->num_steps - 1 : 0;
	}
	if (!complete && run->num_steps > 0)
		steps_confirm(c, run, kv_clock_now(&kv_clock_monotonic) - begun);
}

static void steps_of(const struct capacity *c, int model, struct capacity_steps *out)
{
	bool pooled = model == CAPACITY_POOLED;
	capacity_steps_parse(c->opt.steps,
			     pooled ? KV_MIN(c->opt.max_clients, c->opt.max_sessions) : c->opt.max_clients, out, NULL);
	if (pooled)
		capacity_steps_extend(out, c->opt.max_sessions);
}

static void model_run(struct capacity *c, int model)
{
	struct capacity_run *run = &c->run[model];
	struct capacity_steps steps;
	struct kv_error err = {0};
	run->model = model;
	steps_of(c, model, &steps);
	if (model == CAPACITY_VERBS ? !capacity_verbs_here(c->opt.device, &err)
				    : server_start(c, steps.clients[steps.count - 1], &err) < 0) {
		snprintf(run->why_not, sizeof(run->why_not), "%s", err.text);
	} else {
		steps_run(c, run, &steps);
	}
	if (!bench_interrupted())
		capacity_print_end(run, c->out);
	/* If the server ended the step, the step says so already. */
	server_child_stop(&c->server, NULL);
}

/* ---- the verdict ---- */

static int status_of(const struct capacity *c, const struct capacity_run *run)
{
	bool by_name = c->opt.model == run->model;
	if (!run->ran)
		return by_name || run->model != CAPACITY_VERBS ? BENCH_NO_START : BENCH_OK;
	for (unsigned i = 0; i < run->num_steps; i++)
		if (run->step[i].wrong > 0 || run->step[i].end == CAPACITY_DATA || run->step[i].end == CAPACITY_KILLED)
			return BENCH_FAILED;
	/* If the server served no client at all, there is no figure. */
	return run->num_steps > 0 && run->step[0].end == CAPACITY_SERVER && run->step[0].connected == 0 ? BENCH_NO_START
													: BENCH_OK;
}

static int json_finish(const struct capacity_report *report, struct json_file **json)
{
	struct kv_error err = {0};
	char *text = capacity_json_text(report);
	int rc = json_write_text(json, text, &err);
	free(text);
	if (rc < 0)
		fprintf(stderr, "kv-bench: %s\n", err.text);
	return rc < 0 ? BENCH_FAILED : BENCH_OK;
}

static int capacity_run_all(struct capacity *c, struct json_file **json)
{
	struct capacity_report report = {.opt = &c->opt, .run = c->run};
	int status = BENCH_OK;
	/* rxm's buffers are most of what an endpoint takes. Their size must be equal on both sides (engine/env.c):
	 * where the server is ours, it inherits this one. */
	if (!c->opt.server)
		(void)setenv("FI_OFI_RXM_BUFFER_SIZE", RXM_BUFFER, 0);
	if (c->table)
		capacity_print_head(&c->opt, c->table);
	bench_conditions_begin(&report.conditions, 0);
	for (int m = 0; m < CAPACITY_MODELS && !bench_interrupted(); m++) {
		if (c->opt.model != CAPACITY_MODELS && c->opt.model != m)
			continue;
		model_run(c, m);
		status = KV_MAX(status, status_of(c, &c->run[m]));
	}
	if (bench_interrupted()) {
		fprintf(stderr,
			"kv-bench: interrupted by signal %d; everything is closed, the report has the steps that were "
			"over\n",
			bench_interrupted());
	}
	bench_conditions_end(&report.conditions, 0);
	capacity_print_conditions(&report, c->out);
	if (*json && json_finish(&report, json) != BENCH_OK && status == BENCH_OK)
		status = BENCH_FAILED;
	if (!kv_written(c->out)) {
		fprintf(stderr, "kv-bench: the report could not be written to %s\n",
			c->out == stdout ? "standard output" : "standard error");
		status = status == BENCH_OK ? BENCH_FAILED : status;
	}
	return bench_interrupted() ? 128 + bench_interrupted() : status;
}

int capacity_main(int argc, char **argv)
{
	static struct capacity c; /* too large for a stack */
	struct json_file *json = NULL;
	struct kv_error err = {0};
	int rc = capacity_options_parse(argc, argv, &c.opt, &err);
	if (rc > 0)
		return BENCH_OK;
	if (rc == 0 && c.opt.config) {
		kv_opt_dump(capacity_options_table, &c.opt, stdout);
		return BENCH_OK;
	}
	bench_signals_install();
	if (rc == 0 && c.opt.step_clients > 0)
		return capacity_step_main(&c.opt);
	if (rc < 0) {
		fprintf(stderr, "kv-bench capacity: %s (try --help)\n", err.text);
		return BENCH_USAGE;
	}
	if (c.opt.json && json_open(c.opt.json, &json, &err) < 0) {
		fprintf(stderr, "kv-bench: %s\n", err.text);
		return BENCH_NO_START;
	}
	c.argc = argc;
	c.argv = argv;
	c.out = c.opt.json && strcmp(c.opt.json, "-") == 0 ? stderr : stdout;
	c.table = c.opt.quiet ? NULL : c.out;
	rc = capacity_run_all(&c, &json);
	json_discard(&json);
	return rc;
}
