/* SPDX-License-Identifier: Apache-2.0 */
/* capacity.h -- kv-bench capacity: how many clients with resources of their own a machine can have, and which limit
 * ends it. This side has the options, makes the plan and runs the steps, each in a process of its own;
 * kvlab/capacity.py starts and judges them. */
#ifndef KVRAIL_KVBENCH_CAPACITY_CAPACITY_H
#define KVRAIL_KVBENCH_CAPACITY_CAPACITY_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "host/host.h"
#include "kvclient/kvclient.h"

enum {
	CAPACITY_CLIENTS_MAX = 4096,
	CAPACITY_SESSIONS_MAX = 100000,
	CAPACITY_STEPS_MAX = 256, /* of --steps */
	CAPACITY_STEPS_ROOM = CAPACITY_STEPS_MAX + 16,
	CAPACITY_ENGINES_MAX = 64
};

enum capacity_model { CAPACITY_ENDPOINTS, CAPACITY_VERBS, CAPACITY_POOLED, CAPACITY_MODELS };

/* The resource that ended a step, or was short in it. */
enum capacity_end {
	CAPACITY_COMPLETE,
	CAPACITY_FILES,
	CAPACITY_MEMORY,
	CAPACITY_LOCKED,
	CAPACITY_EPS,
	CAPACITY_QPS,
	CAPACITY_CQS,
	CAPACITY_MRS,
	CAPACITY_THREADS,
	CAPACITY_PROVIDER, /* known to the provider alone: the sentence lists the candidates */
	CAPACITY_SERVER,
	CAPACITY_TIME,
	CAPACITY_DATA, /* a GET failed or brought a wrong byte */
	CAPACITY_INTERRUPTED,
	CAPACITY_UNUSABLE, /* it could not begin: no device, no provider, no server */
	CAPACITY_ENDS
};

struct capacity_step {
	int model; /* enum capacity_model */
	int end;   /* enum capacity_end */
	int code;
	bool final; /* everything is open and measured, or has failed; only closing is left */
	uint32_t attempted, opened, connected, verified, wrong;
	uint32_t endpoints, qps, cqs, mrs;          /* opened by this process */
	int64_t kernel_qps, kernel_cqs, kernel_mrs; /* of all processes on the RDMA devices here; -1: unknown */
	uint64_t open_ns, get_ns;
	uint64_t rss_start, rss; /* resident: before anything was opened; at the most */
	uint32_t fds, threads;
	struct kvc_info info;
	char text[512];
};

struct capacity_options {
	const char *server, *provider, *nic, *device;
	uint32_t rails;
	int model;
	const char *steps;
	uint32_t max_clients, max_sessions, engines, num_threads, server_threads;
	uint64_t value_size, buffer_mb, timeout_ns;
	struct kv_opt_security security;
	const char *json;
	bool quiet, config;
	int log_level; /* enum kv_log_level */
	uint32_t step_clients;
};

extern const struct kv_opt capacity_options_table[];
extern const struct kv_opt_program capacity_options_program;

/* capacity_options_parse -- like bench_options_parse. argv[0] is the program's name, argv[1] an option. */
int capacity_options_parse(int argc, char **argv, struct capacity_options *out, struct kv_error *err);

struct capacity_steps {
	unsigned count;
	uint32_t clients[CAPACITY_STEPS_ROOM];
};

/* capacity_steps_parse -- "10,100,450,500,..." up to max: ascending numbers, those above max left out; "..." continues
 * by the difference of the last two. 0 or -KV_EINVAL with *err. */
int capacity_steps_parse(const char *text, uint32_t max, struct capacity_steps *out, struct kv_error *err);

/* capacity_steps_extend -- continue to max: 1, 2, 5, 10, ... and max itself. */
void capacity_steps_extend(struct capacity_steps *steps, uint32_t max);

const char *capacity_model_name(int model); /* "endpoints" */
const char *capacity_end_name(int end);     /* "open files" */

/* capacity_main -- the sub-command. argv as for capacity_options_parse. Returns the exit status: 0 also where a limit
 * was met: the limit is the result. */
int capacity_main(int argc, char **argv);

/* capacity_step_main -- the process kv-bench-capacity-step MODEL CLIENTS SERVER TIMEOUT_NS OPTION...: run this step,
 * and report on standard output. SERVER "": that of the options. Returns the exit status. */
int capacity_step_main(int argc, char **argv);

#endif
