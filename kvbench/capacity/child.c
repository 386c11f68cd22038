/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- the parent's side of a step: start this program again for it (probe/probe.h), follow what it tells, and
 * judge how it ended.
 *
 * Each step is a process, because it is made to fail. What a failed step leaves behind (memory of the allocator, a
 * provider that is stuck in a call, an abort) must reach neither the next step nor the report, and only a process can
 * be made to end in time. The process gets this program's arguments and behind them its own, where the later one of two
 * wins; the key goes through a pipe, as it does to the server. */
#include <errno.h>
#include <signal.h>

#include "kvbench/capacity/capacity.h"
#include "kvbench/setup/server_child.h"
#include "kvbench/setup/signals.h"
#include "probe/probe.h"

enum { ARGS_MAX = 160, SERVER_FILES_MARGIN = 40 /* the server keeps some for what it must open */ };

#define CLOSING_NS 60000000000ull /* beyond the step's own time: for closing hundreds of endpoints */
#define ENDING_NS  20000000000ull /* after it was told to end */

struct child {
	struct probe probe;
	const struct server_child *server;
	struct capacity_step told, *out;
	char key[256], text[4][32];
	const char *arg[ARGS_MAX];
	unsigned num_args;
};

static void arg_add(struct child *c, const char *arg)
{
	if (c->num_args < ARGS_MAX - 1)
		c->arg[c->num_args++] = arg;
}

static void arg_number(struct child *c, unsigned slot, const char *name, uint64_t n, const char *unit)
{
	snprintf(c->text[slot], sizeof(c->text[slot]), "%llu%s", (unsigned long long)n, unit);
	arg_add(c, name);
	arg_add(c, c->text[slot]);
}

static void args_make(struct child *c, int argc, char **argv, uint64_t timeout_ns)
{
	arg_add(c, argv[0]);
	arg_add(c, "capacity");
	for (int i = 1; i < argc; i++)
		arg_add(c, argv[i]);
	arg_add(c, "--model");
	arg_add(c, capacity_model_name(c->out->model));
	arg_number(c, 0, "--step-clients", c->out->attempted, "");
	arg_number(c, 1, "--step-fd", (uint64_t)c->probe.tell_fd, "");
	arg_number(c, 2, "--timeout", timeout_ns, "ns");
	if (c->server) {
		arg_add(c, "--server");
		arg_add(c, server_child_address(c->server));
		arg_number(c, 3, "--step-psk-fd", (uint64_t)c->probe.input_fd, "");
	}
	c->arg[c->num_args] = NULL;
}

/* The step told where it is; of the server the parent sees the rest. */
static void on_told(struct probe *probe)
{
	struct child *c = probe->arg;
	uint64_t rss = c->out->server_rss, fds = c->out->server_fds;
	struct kv_process server = {0};
	if (c->server)
		kv_process_read((int)server_child_pid(c->server), &server);
	*c->out = c->told;
	c->out->text[sizeof(c->out->text) - 1] = '\0';
	c->out->server_rss = KV_MAX(rss, server.rss);
	c->out->server_fds = (uint32_t)KV_MAX(fds, server.files);
}

static void ended_badly(struct capacity_step *s, enum capacity_end end, const char *what)
{
	char before[256];
	if (end == CAPACITY_INTERRUPTED || s->end == CAPACITY_COMPLETE) {
		s->end = end;
		snprintf(s->text, sizeof(s->text), "%s, with %u of %u client%s open", what, s->opened, s->attempted,
			 kv_plural(s->attempted));
	} else {
		snprintf(before, sizeof(before), "%.255s", s->text);
		snprintf(s->text, sizeof(s->text), "%s; then %s", before, what);
	}
	s->code = s->code ? s->code : -KV_EINTERNAL;
}

/* Even the process of a step takes something. */
static enum capacity_end start_end(int rc)
{
	switch (-rc) {
	case EMFILE:
	case ENFILE:
		return CAPACITY_FILES;
	case EAGAIN:
		return CAPACITY_THREADS;
	case ENOMEM:
		return CAPACITY_MEMORY;
	default:
		return CAPACITY_UNUSABLE;
	}
}

/* What the parent knows of the step's end, and the step could not tell. */
static void judge(const struct probe *p, struct capacity_step *out)
{
	if (p->end == PROBE_NOT_STARTED) {
		out->end = start_end(p->code);
		out->code = p->code;
		snprintf(out->text, sizeof(out->text), "%s", p->text);
		return;
	}
	if (p->end == PROBE_SIGNALLED && p->code == SIGKILL)
		ended_badly(out, CAPACITY_MEMORY, p->text);
	else if (p->end != PROBE_EXITED || !out->final)
		ended_badly(out, CAPACITY_KILLED, p->text);
	if (bench_interrupted() && out->end != CAPACITY_INTERRUPTED)
		ended_badly(out, CAPACITY_INTERRUPTED, "interrupted");
}

/* A server without a free descriptor accepts nobody, and clients that wait for it see only the time pass. */
static void server_look(const struct server_child *server, struct capacity_step *s)
{
	char before[256];
	struct kv_process p;
	if (server_child_dead(server) && s->end != CAPACITY_INTERRUPTED) {
		s->end = CAPACITY_SERVER;
		snprintf(s->text, sizeof(s->text),
			 "the server that kv-bench started died, with %u of %u client%s connected", s->connected,
			 s->attempted, kv_plural(s->attempted));
		return;
	}
	if (!server || s->end != CAPACITY_TIME)
		return;
	kv_process_read((int)server_child_pid(server), &p);
	if (p.files_soft == KV_UNKNOWN || s->server_fds + SERVER_FILES_MARGIN < p.files_soft)
		return;
	snprintf(before, sizeof(before), "%.255s", s->text);
	s->end = CAPACITY_FILES;
	s->code = -KV_ELIMIT;
	snprintf(s->text, sizeof(s->text), "the server has %u files open and may have %llu: raise `ulimit -n`; %s",
		 s->server_fds, (unsigned long long)p.files_soft, before);
}

void capacity_child_run(int argc, char **argv, int model, uint32_t clients, uint64_t timeout_ns,
			struct server_child *server, struct capacity_step *out)
{
	struct child c = {.server = server, .out = out};
	*out = (struct capacity_step){
		.model = model, .attempted = clients, .kernel_qps = -1, .kernel_cqs = -1, .kernel_mrs = -1};
	c.probe = (struct probe){.name = "the step",
				 .input = c.key,
				 .result = &c.told,
				 .result_bytes = sizeof(c.told),
				 .timeout_ns = timeout_ns + CLOSING_NS,
				 .interrupted = bench_interrupted,
				 .ending_ns = ENDING_NS,
				 .told = on_told,
				 .arg = &c};
	if (server)
		c.probe.input_bytes = (size_t)snprintf(c.key, sizeof(c.key), "%s\n", server_child_psk(server));
	int rc = probe_open(&c.probe);
	args_make(&c, argc, argv, timeout_ns);
	probe_run(&c.probe, rc, c.arg);
	judge(&c.probe, out);
	if (c.probe.end != PROBE_NOT_STARTED)
		server_look(server, out);
	explicit_bzero(c.key, sizeof(c.key));
}
