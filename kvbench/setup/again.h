/* SPDX-License-Identifier: Apache-2.0 */
/* again.h -- kv-bench starts a kv-bench: for its report, or for a step that may fail. */
#ifndef KVRAIL_KVBENCH_SETUP_AGAIN_H
#define KVRAIL_KVBENCH_SETUP_AGAIN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/base.h"
#include "probe/probe.h"

struct server_child;

/* ---- arguments ---- */

enum { AGAIN_ARGS_MAX = 192, AGAIN_TEXT_MAX = 32768 };

/* The arguments of a process, beginning with the program's name. Zeroed before the first one. */
struct again_args {
	const char *arg[AGAIN_ARGS_MAX]; /* NULL behind the last */
	unsigned count;
	bool full; /* an argument found no room */
	size_t used;
	char text[AGAIN_TEXT_MAX];
};

/* again_add -- append a formatted argument. again_put -- append one that outlives args. */
void again_add(struct again_args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void again_put(struct again_args *args, const char *arg);

/* again_check -- 0, or -KV_EINVAL with *err if an argument found no room. */
int again_check(const struct again_args *args, struct kv_error *err);

/* ---- a process that reports ---- */

struct again_run {
	const char *program; /* NULL: this one */
	uint64_t timeout_ns; /* afterwards the process is killed */
	const char *timeout; /* the option that sets it, for the error's sentence; NULL: none */
	int status_max;      /* with a higher exit status the report does not count */
	bool log_through;    /* the process's standard error goes to ours, too */
};

/* again_report -- start the process with these arguments, wait for it, and parse its standard output as a JSON
 * document. A signal to kv-bench is passed on. Thread: main, which must outlive the process. Returns 0, and *out is the
 * caller's reference; else *out is NULL, with a code and a sentence that ends in the last line of the process's log.
 * Errors: -KV_ECANCELED  kv-bench was interrupted -KV_ETIMEOUT   the process was killed -KV_EINTERNAL  it failed, was
 * ended by a signal, or wrote no report -KV_EINVAL     its report is longer than 64 MiB; or an argument found no room
 *   -errno         it could not be started */
int again_report(const struct again_run *run, const struct again_args *args, json_t **out, struct kv_error *err);

/* ---- a step that may fail ---- */

/* A process that is expected to run out of a resource (capacity, scale): see probe.h. */
struct again_step {
	/* Set by the caller. */
	void *result; /* the last struct that the step sent; unchanged while it has sent none */
	size_t result_bytes;
	const struct server_child *server; /* its key goes to the step's input; NULL: none */
	uint64_t timeout_ns;               /* the step's own; it has a minute more to close its endpoints */
	/* Set by again_step_begin: the caller adds the step's own arguments. */
	struct again_args args;
	struct probe probe; /* tell_fd, input_fd; and after again_step_run end, code, text */
	/* Set by again_step_run: the largest figures of the server while the step ran. */
	uint64_t server_rss;
	uint32_t server_files;
	/* Private. */
	char key[256];
	int rc;
};

/* again_step_begin -- make the pipes, and begin the arguments: this program, the command, and argv from 1 on. (Of two
 * equal options the later one counts.) again_step_run -- start the step, follow it, and reap it. It never fails:
 * step->probe says how the step ended. Thread: main, which must outlive the process. */
void again_step_begin(struct again_step *step, const char *command, int argc, char **argv);
void again_step_run(struct again_step *step);

#endif
