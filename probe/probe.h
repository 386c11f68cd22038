/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h -- a child process that tries an operation in place of this one.
 *
 * The operation may hang, abort, or take all memory, so only a child is put at risk: this program again, with other
 * arguments. The child reports by writing one struct, whole, again and again. Its last report is the result, however it
 * ends. A Ctrl-C reaches the child by itself. kv-doctor tries endpoints this way; kv-bench starts its server with
 * probe_spawn. */
#ifndef KVRAIL_PROBE_PROBE_H
#define KVRAIL_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"

enum {
	PROBE_RESULT_MAX = 4096, /* bytes of a result: a pipe takes a write of that size whole (PIPE_BUF) */
	PROBE_INPUT_MAX = 32768, /* it fits a pipe's buffer, so writing it does not block */
	PROBE_LOG_MAX = 400
};

enum probe_end {
	PROBE_EXITED,
	PROBE_SIGNALLED,
	PROBE_KILLED, /* it did not end in time */
	PROBE_NOT_STARTED
};

struct probe {
	/* Set by the caller before probe_open. */
	const char *name;    /* in sentences: "the step" */
	const void *input;   /* for the child, through a pipe, which shows it in no argument, environment */
	size_t input_bytes;  /* ... or file; 0: none */
	void *result;        /* the child's last report; unchanged without one */
	size_t result_bytes; /* 0: none */
	uint64_t timeout_ns; /* then the child is killed */
	bool keep_log;       /* its standard error is kept in `log` */
	/* Set by probe_open: the child's descriptors, for its arguments. */
	int report_fd, input_fd;
	/* Set by probe_run. */
	enum probe_end end;
	int code;                /* the exit status, the signal, or -errno of the start */
	char text[200];          /* how it ended, in a sentence */
	char log[PROBE_LOG_MAX]; /* the end of its standard error */
	/* probe.c's */
	int ours[3];
	int theirs[3];
	pid_t pid;
	uint64_t deadline_ns;
};

/* probe_open -- make the pipes. Returns 0 or -errno. Then call probe_run, which closes them in any case. */
int probe_open(struct probe *probe);

/* probe_run -- start this program with these arguments (NULL behind the last), follow it, and reap it. rc: of
 * probe_open. Never fails: `end` and `text` describe the end. Thread: the one that must outlive the child. */
void probe_run(struct probe *probe, int rc, const char *const *argv);

/* ---- in the child ---- */

/* probe_take -- read the input, at most cap bytes, and close the descriptor. Returns the number of bytes. */
size_t probe_take(int fd, void *out, size_t cap);

/* probe_report -- send the parent a report. */
void probe_report(int fd, const void *result, size_t bytes);

/* ---- below all this ---- */

/* probe_spawn -- start a program (looked for in PATH unless its name has a slash) with /dev/null as standard input; out
 * and err: its standard output and error, -1: ours; keep: two more descriptors that it inherits under their numbers,
 * -1: none. group: it leads a process group, so that Ctrl-C reaches only us. posix_spawn and not fork: this process may
 * have threads, and a fork of registered memory is a hazard on EFA. Returns 0 or -errno. */
int probe_spawn(const char *program, const char *const *argv, int out, int err, const int keep[2], bool group,
		pid_t *out_pid);

/* probe_reap -- waitpid with a limit. False: the process still runs. It is polled: there is no timed waitpid. */
bool probe_reap(pid_t pid, unsigned wait_ms, int *out_status);

#endif
