/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h -- a step of kv-bench capacity or scale: one number of clients of one kind, in a process of its own, since it
 * may run out of something. kvlab/steps.py starts it. */
#ifndef KVRAIL_KVBENCH_STEPS_STEPS_H
#define KVRAIL_KVBENCH_STEPS_STEPS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"
#include "host/host.h"
#include "kvclient/kvclient.h"

enum { STEP_ENGINES_MAX = 64 };

enum step_model {
	STEP_ENDPOINTS, /* a client of the library, with an endpoint, for each */
	STEP_VERBS,
	STEP_POOLED, /* a session for each, over the endpoints of a few engines */
	STEP_TLS,    /* a TCP connection with TLS for each */
	STEP_MODELS
};

/* The resource that ended a step, or was short in it. */
enum step_end {
	STEP_COMPLETE,
	STEP_FILES,
	STEP_MEMORY,
	STEP_LOCKED,
	STEP_EPS,
	STEP_QPS,
	STEP_CQS,
	STEP_MRS,
	STEP_THREADS,
	STEP_PROVIDER, /* known to the provider alone: the sentence lists the candidates */
	STEP_SERVER,
	STEP_TIME,
	STEP_DATA, /* a message failed or had a wrong byte */
	STEP_INTERRUPTED,
	STEP_UNUSABLE, /* it could not begin: no device, no provider, no server */
	STEP_ENDS
};

struct step_options {
	const char *server, *provider, *nic, *device;
	uint32_t rails, engines, num_threads, messages;
	uint64_t value_size, buffer_mb, think_ns, timeout_ns;
	struct kv_opt_security security;
	int log_level; /* enum kv_log_level */
	/* of the process */
	enum step_model model;
	uint32_t clients;
};

struct step {
	const struct step_options *opt;
	uint64_t begun_ns, deadline_ns, measured_ns;
	bool final; /* everything is open and measured, or has failed; only closing is left */
	enum step_end end;
	int code;
	char text[512];
	uint32_t opened, connected, verified; /* verified: all messages were right */
	_Atomic uint64_t messages, wrong, failed;
	_Atomic int failure; /* of a message */
	struct {
		uint32_t endpoints, qps, cqs, mrs;
	} made;            /* by this process */
	int64_t kernel[3]; /* queue pairs, completion queues, regions of all processes on the RDMA devices here; -1:
			      unknown */
	uint64_t open_ns, connect_ns, talk_ns; /* open: since the start; connect: of sessions or connections alone */
	uint64_t connect_p50_ns, connect_p99_ns, p50_ns, p99_ns;
	struct {
		uint64_t start, base, most, looked, peer; /* base: before the first client; looked: at the last look */
	} rss;
	uint32_t files, threads;
	struct kvc_info info;
};

/* step_main -- the process kv-bench-capacity-step or kv-bench-scale-step MODEL CLIENTS SERVER TIMEOUT_NS OPTION...: run
 * this step, and report on standard output. argv[STEP_ARGS] stands in place of the program's name before the options,
 * which the caller has parsed: rc, *err. SERVER "": that of the options. Returns the exit status. */
enum { STEP_ARGS = 4 };
int step_main(int rc, char **argv, struct step_options *options, const struct kv_error *err);

const char *step_model_name(enum step_model model); /* "endpoints" */
const char *step_end_name(enum step_end end);       /* "open files" */

void step_clients_run(struct step *s, const char *psk); /* STEP_ENDPOINTS, STEP_POOLED; psk NULL: none */
void step_verbs_run(struct step *s);
void step_tls_run(struct step *s);

/* step_verbs_end -- the exhausted resource when a call of ibverbs that makes `what` failed with this errno; host: the
 * present state. */
enum step_end step_verbs_end(enum step_end what, int error, const struct kv_host *host);

/* ---- reporter.c ---- */

/* step_report -- report the figures. step_measure -- raise the maxima to the present use of this process and the
 * kernel's counts; it walks through all descriptors. Thread: main, or the one that opens clients. */
void step_report(struct step *s);
void step_measure(struct step *s);

/* step_look -- bring the figures up to date, report them, and return whether to go on: false after a signal, past the
 * deadline, or when memory is about to end, with the step's end and sentence set. */
bool step_look(struct step *s);

/* step_over -- after a signal, or the deadline. Thread: any. */
bool step_over(const struct step *s);

/* step_fail -- the step's first error: its end, code and sentence; later ones are ignored. */
void step_fail(struct step *s, enum step_end end, int code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* step_end_said -- the resource that a sentence of the engine names as short; STEP_COMPLETE: none. step_end_of -- the
 * resource that ended a step whose call of the library failed with this error. */
enum step_end step_end_said(const char *text);
enum step_end step_end_of(const struct step *s, const struct kv_error *err);

struct step_times {
	_Alignas(KV_CACHELINE) struct kv_hist connect, latency;
};

/* step_times_make -- n empty ones, for the caller to free; NULL: no memory. step_times_take -- their quantiles. */
struct step_times *step_times_make(unsigned n);
void step_times_take(struct step_times *times, unsigned n, struct step *s);

#endif
