/* SPDX-License-Identifier: Apache-2.0 */
/* again.c -- kv-bench starts a kv-bench.
 *
 * Each run is a process of its own: a server cannot be started after the first call of libfabric (no fork after it),
 * the provider may keep resources of one pool that the next would find, and a run that hangs or crashes costs only
 * itself. The process dies with its parent, and its server with it.
 *
 * Report and log go to files in memory, which nobody has to empty while the process runs. Read parts of the log are
 * given back to the kernel. */
#include "kvbench/setup/again.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/setup/server_child.h"
#include "kvbench/setup/signals.h"

enum { POLL_MS = 20, LOG_MAX = 4096, REPORT_MAX = 64 << 20 };

#define ENDING_NS  20000000000ull /* after a signal; then the process is killed */
#define CLOSING_NS 60000000000ull /* beyond a step's own time, to close hundreds of endpoints */

/* ---- arguments ---- */

void again_put(struct again_args *args, const char *arg)
{
	if (args->count == AGAIN_ARGS_MAX - 1) {
		args->full = true;
		return;
	}
	args->arg[args->count++] = arg;
	args->arg[args->count] = NULL;
}

void again_add(struct again_args *args, const char *fmt, ...)
{
	size_t room = sizeof(args->text) - args->used;
	char *at = args->text + args->used;
	va_list list;
	int n;
	va_start(list, fmt);
	n = vsnprintf(at, room, fmt, list);
	va_end(list);
	if (n < 0 || (size_t)n >= room) {
		args->full = true;
		return;
	}
	args->used += (size_t)n + 1;
	again_put(args, at);
}

int again_check(const struct again_args *args, struct kv_error *err)
{
	return args->full ? kv_fail(err, -KV_EINVAL,
				    "the options of a run are too long: use shorter names of files, or fewer servers")
			  : 0;
}

/* ---- a process that reports ---- */

struct process {
	const struct again_run *run;
	pid_t pid;
	int report, log; /* files in memory */
	off_t log_read;
	uint64_t deadline_ns;
	int status;
	bool signalled, too_long, killed;
	char line[300]; /* of the log: the last line that begins with our name, else the last one */
};

/* The end of the log; the part before it is not needed any more. */
static void log_follow(struct process *p)
{
	char data[LOG_MAX];
	ssize_t n;
	while (p->run->log_through && (n = pread(p->log, data, sizeof(data), p->log_read)) > 0) {
		fwrite(data, 1, (size_t)n, stderr);
		p->log_read += n;
	}
	if (p->log_read > LOG_MAX)
		(void)fallocate(p->log, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, p->log_read - LOG_MAX);
}

/* A signal to us is passed on. A process is killed when its time is over or its report is too long. */
static void hurry(struct process *p)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	if (bench_interrupted() && !p->signalled) {
		kill(p->pid, SIGTERM);
		p->signalled = true;
		p->deadline_ns = KV_MIN(p->deadline_ns, kv_deadline(now, ENDING_NS));
	}
	if ((now >= p->deadline_ns || p->too_long) && !p->killed) {
		kill(p->pid, SIGKILL);
		p->killed = true;
	}
}

static void follow(struct process *p)
{
	pid_t got;
	do {
		got = waitpid(p->pid, &p->status, WNOHANG);
		p->too_long = lseek(p->report, 0, SEEK_END) > REPORT_MAX;
		log_follow(p);
		if (got == 0) {
			hurry(p);
			poll(NULL, 0, POLL_MS);
		}
	} while (got == 0 || (got < 0 && errno == EINTR));
}

static json_t *report_read(int fd)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char *text = end > 0 ? malloc((size_t)end) : NULL;
	json_t *doc = text && pread(fd, text, (size_t)end, 0) == end ? json_loadb(text, (size_t)end, 0, NULL) : NULL;
	free(text);
	return doc;
}

static void line_find(struct process *p)
{
	static const char name[] = "kv-bench: ";
	char data[LOG_MAX], *line, *next;
	off_t end = lseek(p->log, 0, SEEK_END);
	ssize_t n = pread(p->log, data, sizeof(data) - 1, KV_MAX(end - LOG_MAX + 1, (off_t)0));
	bool ours = false;
	data[KV_MAX(n, (ssize_t)0)] = 0;
	for (line = data; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next ? (*next = 0, 1) : 0;
		for (char *c = line; *c; c++)
			if ((unsigned char)*c < 0x20)
				*c = ' ';
		if (strncmp(line, name, sizeof(name) - 1) == 0)
			snprintf(p->line, sizeof(p->line), ": %.250s", line + sizeof(name) - 1);
		else if (!ours && line[strspn(line, " ")])
			snprintf(p->line, sizeof(p->line), ": %.250s", line);
		ours |= strncmp(line, name, sizeof(name) - 1) == 0;
	}
}

static int failed(struct process *p, struct kv_error *err)
{
	char limit[32];
	line_find(p);
	if (p->too_long)
		return kv_fail(err, -KV_EINVAL, "its report is longer than %u MiB", (unsigned)REPORT_MAX >> 20);
	if (p->killed)
		return kv_fail(err, -KV_ETIMEOUT, "it was not over within %s%s%s%s",
			       kv_duration_format(p->run->timeout_ns, limit, sizeof(limit)),
			       p->run->timeout ? " (" : "", p->run->timeout ? p->run->timeout : "",
			       p->run->timeout ? ")" : "");
	if (WIFSIGNALED(p->status))
		return kv_fail(err, -KV_EINTERNAL, "its process was ended by signal %d%s", WTERMSIG(p->status),
			       p->line);
	if (WEXITSTATUS(p->status) == 0)
		return kv_fail(err, -KV_EINTERNAL, "it wrote no report%s", p->line);
	return kv_fail(err, -KV_EINTERNAL, "exit status %d%s", WEXITSTATUS(p->status), p->line);
}

int again_report(const struct again_run *run, const struct again_args *args, json_t **out, struct kv_error *err)
{
	struct process p = {.run = run,
			    .report = memfd_create("report", MFD_CLOEXEC),
			    .log = memfd_create("log", MFD_CLOEXEC),
			    .deadline_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), run->timeout_ns)};
	int rc = again_check(args, err);
	*out = NULL;
	if (rc == 0 && (p.report < 0 || p.log < 0))
		rc = kv_fail(err, -errno, "its process cannot be started: %s", kv_strerror(-errno));
	if (rc < 0)
		goto out;
	rc = probe_spawn(run->program ? run->program : "/proc/self/exe", args->arg, p.report, p.log,
			 (const int[]){-1, -1}, true, &p.pid);
	if (rc < 0) {
		kv_fail(err, rc, "its process cannot be started: %s", kv_strerror(rc));
		goto out;
	}
	follow(&p);
	if (bench_interrupted()) {
		rc = kv_fail(err, -KV_ECANCELED, "interrupted");
		goto out;
	}
	if (!p.killed && !p.too_long && WIFEXITED(p.status) && WEXITSTATUS(p.status) <= run->status_max)
		*out = report_read(p.report);
	rc = *out ? 0 : failed(&p, err);
out:
	if (p.report >= 0)
		close(p.report);
	if (p.log >= 0)
		close(p.log);
	return rc;
}

/* ---- a step that may fail ---- */

static void on_told(struct probe *probe)
{
	struct again_step *s = probe->arg;
	struct kv_process server = {0};
	if (!s->server)
		return;
	kv_process_read((int)server_child_pid(s->server), &server);
	s->server_rss = KV_MAX(s->server_rss, server.rss);
	s->server_files = (uint32_t)KV_MAX(s->server_files, server.files);
}

void again_step_begin(struct again_step *s, const char *command, int argc, char **argv)
{
	s->probe = (struct probe){.name = "the step",
				  .input = s->key,
				  .result = s->result,
				  .result_bytes = s->result_bytes,
				  .timeout_ns = s->timeout_ns + CLOSING_NS,
				  .interrupted = bench_interrupted,
				  .ending_ns = ENDING_NS,
				  .told = on_told,
				  .arg = s};
	if (s->server)
		s->probe.input_bytes = (size_t)snprintf(s->key, sizeof(s->key), "%s\n", server_child_psk(s->server));
	s->rc = probe_open(&s->probe);
	again_put(&s->args, argv[0]);
	again_put(&s->args, command);
	for (int i = 1; i < argc; i++)
		again_put(&s->args, argv[i]);
}

void again_step_run(struct again_step *s)
{
	probe_run(&s->probe, s->rc, s->args.arg);
	explicit_bzero(s->key, sizeof(s->key));
}
