/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- the parent's side of a step: start this program again for it (setup/again.h), and judge how it ended.
 *
 * Each step is a process, because it is made to fail. What a failed step leaves behind (memory of the allocator, a
 * provider that is stuck in a call, an abort) must reach neither the next step nor the report, and only a process can
 * be made to end in time. */
#include <errno.h>
#include <signal.h>

#include "kvbench/capacity/capacity.h"
#include "kvbench/setup/again.h"
#include "kvbench/setup/server_child.h"
#include "kvbench/setup/signals.h"

enum { SERVER_FILES_MARGIN = 40 /* the server keeps some for what it must open */ };

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

static void args_add(struct again_step *s, const struct capacity_step *step)
{
	again_put(&s->args, "--model");
	again_put(&s->args, capacity_model_name(step->model));
	again_add(&s->args, "--step-clients=%u", step->attempted);
	again_add(&s->args, "--step-fd=%d", s->probe.tell_fd);
	again_add(&s->args, "--timeout=%lluns", (unsigned long long)s->timeout_ns);
	if (!s->server)
		return;
	again_add(&s->args, "--server=%s", server_child_address(s->server));
	again_add(&s->args, "--step-psk-fd=%d", s->probe.input_fd);
}

void capacity_child_run(int argc, char **argv, int model, uint32_t clients, uint64_t timeout_ns,
			struct server_child *server, struct capacity_step *out)
{
	struct again_step s = {.result = out, .result_bytes = sizeof(*out), .server = server, .timeout_ns = timeout_ns};
	*out = (struct capacity_step){
		.model = model, .attempted = clients, .kernel_qps = -1, .kernel_cqs = -1, .kernel_mrs = -1};
	again_step_begin(&s, "capacity", argc, argv);
	args_add(&s, out);
	again_step_run(&s);
	out->text[sizeof(out->text) - 1] = 0;
	out->server_rss = s.server_rss;
	out->server_fds = s.server_files;
	judge(&s.probe, out);
	if (s.probe.end != PROBE_NOT_STARTED)
		server_look(server, out);
}
