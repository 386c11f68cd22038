/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h -- kv-bench scale: many logical clients in one process, each with a session of its own, and the cost of each;
 * for comparison, a TCP connection with TLS for each. This side has the options, makes the plan and runs the steps,
 * each in a process of its own; kvlab/scale.py starts them. */
#ifndef KVRAIL_KVBENCH_SCALE_SCALE_H
#define KVRAIL_KVBENCH_SCALE_SCALE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "kvbench/setup/list.h"
#include "kvclient/kvclient.h"

enum { SCALE_CLIENTS_MAX = 200000, SCALE_ENGINES_MAX = 64 };

struct scale_options {
	const char *clients, *provider, *nic, *json;
	uint64_t message_bytes, think_ns, buffer_mb, timeout_ns;
	uint32_t messages, engines, num_threads, server_threads;
	bool no_tls, quiet, config;
	int log_level; /* enum kv_log_level */
	struct bench_list list;
	/* of the process of a step */
	uint32_t step_clients;
	const char *step_server;
};

extern const struct kv_opt scale_options_table[];

/* scale_options_parse -- like bench_options_parse. */
int scale_options_parse(int argc, char **argv, struct scale_options *out, struct kv_error *err);

struct scale_step {
	bool final;
	bool ended; /* early: text says why */
	uint32_t clients, connected, succeeded;
	uint64_t messages, wrong, failed;
	uint64_t connect_ns, talk_ns;
	uint64_t connect_p50_ns, connect_p99_ns, p50_ns, p99_ns;
	uint64_t rss_start, rss_base, rss; /* resident: at the start; before the first client; at the most */
	uint32_t threads, files;
	uint64_t peer_rss;
	struct kvc_info info;
	char text[512];
};

/* ---- a step, in its process (reporter.c, step.c, sessions.c, tls.c) ---- */

struct scale_reporter {
	const struct scale_options *opt;
	struct scale_step step;
	uint64_t begun_ns, deadline_ns, looked_ns;
};

/* scale_report -- report the figures. scale_measure -- bring them up to date. Thread: main of the step. */
void scale_report(struct scale_reporter *t);
void scale_measure(struct scale_reporter *t);

/* scale_end -- why the step ends early; the first reason is kept. */
void scale_end(struct scale_reporter *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* scale_over -- after a signal, or the deadline. Thread: any. */
bool scale_over(const struct scale_reporter *t);

struct scale_tally {
	_Alignas(KV_CACHELINE) struct kv_hist connect, latency;
	uint64_t messages, wrong, failed;
	int code; /* of one that failed */
};

/* scale_tallies_make -- n empty ones, for the caller to free; NULL: no memory. scale_tallies_take -- add them up in the
 * first, and in the step. */
struct scale_tally *scale_tallies_make(unsigned n);
void scale_tallies_take(struct scale_tally *tally, unsigned n, struct scale_step *step);

void scale_sessions_run(struct scale_reporter *t, const char *psk);
void scale_tls_run(struct scale_reporter *t);

/* scale_step_main -- the process kv-bench-scale-step sessions|tls CLIENTS SERVER OPTION...: run this step, and report
 * on standard output. The exit status. */
int scale_step_main(int argc, char **argv);

/* scale_main -- the sub-command. The exit status. */
int scale_main(int argc, char **argv);

#endif
