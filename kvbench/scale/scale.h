/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h -- kv-bench scale: many logical clients in one process, each with a session of its own, and what each costs;
 * beside it, a TCP connection with TLS for each.
 *
 * A step is one number of clients on one kind. Each runs in a process of its own, so that its memory is its own, and
 * tells its parent its struct scale_step (probe/probe.h). */
#ifndef KVRAIL_KVBENCH_SCALE_SCALE_H
#define KVRAIL_KVBENCH_SCALE_SCALE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "kvbench/measure/conditions.h"
#include "kvbench/setup/list.h"

enum { SCALE_CLIENTS_MAX = 200000, SCALE_ENGINES_MAX = 64 };

enum scale_kind { SCALE_SESSIONS, SCALE_TLS, SCALE_KINDS, SCALE_PEER = SCALE_KINDS /* not a step */ };
const char *scale_kind_name(enum scale_kind kind);

struct scale_options {
	const char *clients, *provider, *nic, *json;
	uint64_t message_bytes, think_ns, buffer_mb, timeout_ns;
	uint32_t messages, engines, num_threads, server_threads;
	bool no_tls, quiet, config;
	int log_level; /* enum kv_log_level */
	struct bench_list list;
	/* of the process of a step: its parent sets them */
	uint32_t step_clients, step_kind, step_fd, step_input_fd;
	const char *step_server;
};

extern const struct kv_opt scale_options_table[];

/* scale_options_parse -- like bench_options_parse. */
int scale_options_parse(int argc, char **argv, struct scale_options *out, struct kv_error *err);

/* One step, as its process tells it. */
struct scale_step {
	int kind; /* enum scale_kind */
	bool final;
	bool ended; /* early: text says why */
	uint32_t clients, connected, succeeded;
	uint64_t messages, wrong, failed;
	uint64_t connect_ns, talk_ns; /* until all were connected; all messages */
	uint64_t connect_p50_ns, connect_p99_ns, p50_ns, p99_ns;
	uint64_t rss_start, rss_base, rss; /* resident: at the start; before the first client; at the most */
	uint32_t threads, files;
	uint64_t server_rss;
	char provider[64], libfabric[64], wait[16], congestion[32]; /* congestion: on loopback */
	char text[512];
};

/* What the figures say: bytes of all this process for each client, and what the clients alone added. */
uint64_t scale_bytes(const struct scale_step *step);
uint64_t scale_bytes_each(const struct scale_step *step);
double scale_success(const struct scale_step *step);

struct scale_run {
	const struct scale_options *opt;
	unsigned count;
	struct scale_step *step; /* room for SCALE_KINDS * BENCH_LIST_MAX */
	int interrupted;
	struct bench_conditions conditions;
};

/* ---- a step, in its process (teller.c, step.c, sessions.c, tls.c) ---- */

struct scale_teller {
	const struct scale_options *opt;
	struct scale_step step;
	uint64_t begun_ns, deadline_ns, looked_ns;
};

/* scale_tell -- tell the parent. scale_measure -- bring what is measured up to date. Thread: main of the step. */
void scale_tell(struct scale_teller *t);
void scale_measure(struct scale_teller *t);

/* scale_end -- why the step ends early; the first reason is kept. */
void scale_end(struct scale_teller *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* scale_over -- after a signal, or the deadline. Thread: any. */
bool scale_over(const struct scale_teller *t);

void scale_sessions_run(struct scale_teller *t, const char *psk);
void scale_tls_run(struct scale_teller *t, const char *psk);

/* scale_step_main -- the exit status. */
int scale_step_main(const struct scale_options *options);

/* ---- the report (text.c); no line is wider than KV_COLUMNS ---- */

void scale_print_head(const struct scale_options *options, FILE *out);
void scale_print_step(const struct scale_step *step, FILE *out);
void scale_print_end(const struct scale_run *run, FILE *out);

/* scale_json_text -- schema kvbench-scale/1; the caller frees it. NULL: no memory. */
char *scale_json_text(const struct scale_run *run);

/* scale_main -- the sub-command. The exit status. */
int scale_main(int argc, char **argv);

#endif
