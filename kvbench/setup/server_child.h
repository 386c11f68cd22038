/* SPDX-License-Identifier: Apache-2.0 */
/* server_child.h -- the kv-server that kv-bench starts for itself: on loopback, with a one-time key. It ends when
 * kv-bench ends. */
#ifndef KVRAIL_KVBENCH_SETUP_SERVER_CHILD_H
#define KVRAIL_KVBENCH_SETUP_SERVER_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/base.h"

struct server_child;

struct server_child_options {
	const char *binary;   /* NULL: kv-server beside this program, else in PATH */
	const char *provider; /* or NULL */
	const char *nic;      /* or NULL */
	uint32_t rails;       /* 0: its default */
	bool numa_off;
	int door; /* enum kvc_door */
	int eviction;
	bool allow_pull, pull_where_safe;
	uint64_t memory_mb;
	const struct kv_opt_strings *tier; /* of --tier, or NULL */
	unsigned count;
	uint32_t late;         /* bit n - 1: server n does not start with the others (but one does) */
	const unsigned *start; /* servers that server_child_run is to start, as often as they stand here */
	unsigned num_starts;
	uint32_t threads;                   /* 0: its default */
	uint32_t max_clients, max_sessions; /* 0: its default */
	int log_level;                      /* enum kv_log_level; from debug on its log goes to stderr as it comes */
	uint64_t ready_timeout_ns;
	_Atomic int *out_pid; /* or NULL: set as soon as the process runs, so that its start can be watched */
};

/* server_child_start -- spawn it and wait until it listens. Before the first libfabric call of this process (no fork
 * after one). Errors: -ENOENT (no such binary), -KV_ETIMEOUT, -KV_EPEERDOWN (it ended; its log was printed),
 * -KV_ECANCELED (a signal came), -errno. Thread: main, which must outlive the child (the child dies with the thread
 * that started it). */
int server_child_start(const struct server_child_options *options, struct server_child **out, struct kv_error *err);

/* server_child_run -- have one of options.start, numbered from 1, run now, and wait until it listens: anew at its old
 * address, or for the first time. If some are late, all read their members from a file (--members). Their
 * processes are there from the start, without memory, and wait for the key: a process that uses a fabric starts none.
 * Returns 0, or a code with a sentence, as server_child_start. Any thread, one at a time. */
int server_child_run(struct server_child *child, unsigned number, struct kv_error *err);

/* server_child_address -- "127.0.0.1:PORT". server_child_name -- of one of several, numbered from 1:
 * "server-2=127.0.0.1:PORT", so that keys lie the same in every run; NULL: it does not run from the start. */
const char *server_child_address(const struct server_child *child);
const char *server_child_name(const struct server_child *child, unsigned number);
const char *server_child_psk(const struct server_child *child); /* "identity:hex" */
pid_t server_child_pid(const struct server_child *child);

/* server_child_signal -- send it to one of several, numbered from 1. A server that SIGKILL ended so is not dead by
 * itself, and its end no failure. Any thread. */
void server_child_signal(struct server_child *child, unsigned number, int signal);

/* server_child_dead -- whether any ended by itself. Any thread; NULL is never dead. */
bool server_child_dead(const struct server_child *child);

/* server_child_cpu_seconds -- CPU time that all have used so far; 0 when unknown, and of NULL. */
double server_child_cpu_seconds(const struct server_child *child);

/* server_child_faults -- page faults of all so far; below 0: not known, and of NULL. */
int64_t server_child_faults(const struct server_child *child);

/* server_child_memory_peak -- bytes that all had resident at the most, those that run; 0 when unknown, and of NULL. */
uint64_t server_child_memory_peak(const struct server_child *child);

/* server_child_stop -- terminate (after 10 s: kill) and reap it. Returns 0 when it ended in order, else -KV_EPEERDOWN
 * with *err, and its log's last lines on stderr. *child becomes NULL; NULL is accepted. */
int server_child_stop(struct server_child **child, struct kv_error *err);

#endif
