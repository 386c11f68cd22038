/* SPDX-License-Identifier: Apache-2.0 */
/* cell.c -- one run of a cell: this program again, its report from a pipe.
 *
 * A process for each run, and not a loop in this one: a server of its own cannot be started after the first call of
 * libfabric (no fork after it), what a provider keeps from one pool would be found by the next, and a run that hangs or
 * crashes costs its cell alone. The process asks the kernel to die with its parent, and its server with it. So a sweep
 * that is killed leaves nothing behind, and loses the run that was under way.
 *
 * Both pipes are read while it runs: a report may be longer than what a pipe holds. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "kvbench/report/document.h"
#include "kvbench/setup/signals.h"
#include "kvbench/sweep/sweep.h"
#include "probe/probe.h"

enum { POLL_MS = 100, LOG_MAX = 4096, REPORT_MAX = 64 << 20 };

#define ENDING_NS 20000000000ull /* after a signal; then it is killed */

struct run {
	pid_t pid;
	int fd[2]; /* its report, its log; -1: closed */
	char *report;
	size_t len, cap;
	char log[LOG_MAX]; /* the end of it */
	size_t log_len;
	bool log_through, too_long, told, killed;
	uint64_t deadline_ns;
	int status;
};

/* ---- the process ---- */

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start(struct run *r, const char *const *arg)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1};
	int rc = pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ? -errno : 0;
	if (rc == 0)
		rc = probe_spawn("/proc/self/exe", arg, out[1], err[1], (const int[]){-1, -1}, true, &r->pid);
	fd_close(&out[1]);
	fd_close(&err[1]);
	r->fd[0] = out[0];
	r->fd[1] = err[0];
	return rc;
}

/* A signal to us is passed on; a process whose time is over is killed. */
static void hurry(struct run *r)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic);
	if (bench_interrupted() && !r->told) {
		kill(r->pid, SIGTERM);
		r->told = true;
		r->deadline_ns = KV_MIN(r->deadline_ns, kv_deadline(now, ENDING_NS));
	}
	if ((now >= r->deadline_ns || r->too_long) && !r->killed) {
		kill(r->pid, SIGKILL);
		r->killed = true;
	}
}

static bool report_add(struct run *r, const char *data, size_t n)
{
	size_t cap = r->cap;
	char *more;
	while (cap < r->len + n)
		cap = cap ? 2 * cap : 65536;
	more = cap <= REPORT_MAX ? realloc(r->report, cap) : NULL;
	if (!more)
		return false;
	r->report = more;
	r->cap = cap;
	memcpy(r->report + r->len, data, n);
	r->len += n;
	return true;
}

static void log_add(struct run *r, const char *data, size_t n)
{
	size_t drop = r->log_len + n > LOG_MAX ? r->log_len + n - LOG_MAX : 0;
	memmove(r->log, r->log + drop, r->log_len - drop);
	memcpy(r->log + r->log_len - drop, data, n);
	r->log_len += n - drop;
	if (r->log_through)
		fwrite(data, 1, n, stderr);
}

static void take(struct run *r, int which)
{
	char data[LOG_MAX / 2];
	ssize_t n = read(r->fd[which], data, sizeof(data));
	if (n == 0 || (n < 0 && errno != EINTR))
		fd_close(&r->fd[which]);
	else if (n > 0 && which == 1)
		log_add(r, data, (size_t)n);
	else if (n > 0)
		r->too_long |= !report_add(r, data, (size_t)n);
}

/* It stays to be reaped. */
static bool gone(const struct run *r)
{
	siginfo_t info = {0};
	return waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == r->pid;
}

/* A process that it started may have the pipes and live on: so its own end is the end, once they are empty. */
static void follow(struct run *r)
{
	bool last = false;
	for (;;) {
		struct pollfd at[] = {{.fd = r->fd[0], .events = POLLIN}, {.fd = r->fd[1], .events = POLLIN}};
		int n = poll(at, KV_COUNT(at), last ? 0 : POLL_MS);
		for (int i = 0; n > 0 && i < (int)KV_COUNT(at); i++)
			if (at[i].revents)
				take(r, i);
		if (last && n <= 0)
			break;
		last = gone(r);
		if (!last)
			hurry(r);
		else if (r->fd[0] < 0 && r->fd[1] < 0)
			break;
	}
	while (waitpid(r->pid, &r->status, 0) < 0 && errno == EINTR)
		;
	fd_close(&r->fd[0]);
	fd_close(&r->fd[1]);
}

bool sweep_cell_begin(const char *parent)
{
	uint64_t pid;
	return kv_u64_parse(parent, &pid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && (uint64_t)getppid() == pid;
}

/* ---- what it measured ---- */

static void figure_copy(json_t *run, const char *as, const json_t *from, const char *member)
{
	double v = document_number(from, member);
	if (v > 0)
		json_object_set_new(run, as, json_real(v));
}

/* What all runs of a sweep must have alike, of an object that has more. */
static json_t *members(const json_t *from, const char *const *names)
{
	json_t *to = json_object();
	for (; *names; names++)
		if (json_object_get(from, *names))
			json_object_set(to, *names, json_object_get(from, *names));
	return to;
}

static int same(json_t **kept, json_t *now, const char *what, struct kv_error *err)
{
	int rc = 0;
	const char *name;
	json_t *value;
	if (!now)
		return kv_fail(err, -KV_ENOMEM, "no memory for the report of a run");
	if (!*kept) {
		*kept = now;
		return 0;
	}
	json_object_foreach(now, name, value)
	{
		json_t *before = json_object_get(*kept, name);
		char *a, *b;
		if (rc < 0 || json_equal(before, value))
			continue;
		a = json_dumps(before, JSON_ENCODE_ANY);
		b = json_dumps(value, JSON_ENCODE_ANY);
		rc = kv_fail(err, -KV_EINVAL,
			     "it ran under other conditions than the runs before: %s %s is %.60s, and was %.60s", what,
			     name, b ? b : "unknown", a ? a : "unknown");
		free(a);
		free(b);
	}
	json_decref(now);
	return rc;
}

static int conditions_same(struct sweep *s, const json_t *doc, struct kv_error *err)
{
	static const char *const host[] = {"name",  "kernel",     "architecture",       "processor",
					   "cores", "numa_nodes", "congestion_control", NULL};
	static const char *const provider[] = {"name",      "fabric", "domain",   "wait",
					       "libfabric", "mode",   "security", "loopback_congestion_control",
					       NULL};
	static const char *const conditions[] = {"provider", "wait", "libfabric", "cores", "histogram_error", NULL};
	int rc = same(&s->host, members(json_object_get(doc, "host"), host), "host", err);
	if (rc == 0)
		rc = same(&s->provider, members(json_object_get(doc, "provider"), provider), "provider", err);
	if (rc == 0)
		rc = same(&s->conditions, members(json_object_get(doc, "conditions"), conditions), "condition", err);
	return rc;
}

static json_t *run_of(const json_t *doc, uint64_t seed)
{
	static const char *const noise[] = {"steal_share",
					    "others_cores",
					    "shared_machine",
					    "core_distance_before_ns",
					    "core_distance_after_ns",
					    "suspended_s",
					    NULL};
	const json_t *read = document_at(doc, "phases", "read", NULL),
		     *write = document_at(doc, "phases", "write", NULL);
	const json_t *latency = json_object_get(read, "latency_ns"), *written = json_object_get(write, "latency_ns");
	json_t *run = members(json_object_get(doc, "conditions"), noise);
	figure_copy(run, "ops_per_s", read, "ops_per_s");
	figure_copy(run, "bytes_per_s", read, "bytes_per_s");
	figure_copy(run, "seconds", read, "seconds");
	figure_copy(run, "p50_ns", latency, "p50");
	figure_copy(run, "p99_ns", latency, "p99");
	figure_copy(run, "p999_ns", latency, "p999");
	/* Values that were there already did not travel. */
	if (document_number(write, "duplicates") == 0) {
		figure_copy(run, "write_ops_per_s", write, "ops_per_s");
		figure_copy(run, "write_bytes_per_s", write, "bytes_per_s");
		figure_copy(run, "write_p50_ns", written, "p50");
		figure_copy(run, "write_p99_ns", written, "p99");
	}
	json_object_set_new(run, "seed", json_integer((json_int_t)seed));
	json_object_set(run, "time", document_at(doc, "run", "time", NULL));
	return run;
}

int sweep_take(struct sweep *s, struct sweep_cell *cell, const json_t *doc, uint64_t seed, struct kv_error *err)
{
	const json_t *problems = document_at(doc, "verdict", "problems", NULL);
	json_t *run;
	int rc;
	if (!json_is_true(document_at(doc, "verdict", "ok", NULL)))
		return kv_fail(err, -KV_EINVAL, "%.300s",
			       json_is_string(json_array_get(problems, 0))
				       ? json_string_value(json_array_get(problems, 0))
				       : "its verdict is not good, and does not say why");
	rc = conditions_same(s, doc, err);
	if (rc < 0)
		return rc;
	run = run_of(doc, seed);
	if (!json_object_get(run, "ops_per_s")) {
		json_decref(run);
		return kv_fail(err, -KV_EINVAL, "it read nothing");
	}
	if (json_array_append_new(cell->runs, run) < 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the report of a run");
	return 0;
}

/* ---- all of it ---- */

/* The last line that says something. */
static const char *last_line(struct run *r)
{
	char *end = r->log + KV_MIN(r->log_len, (size_t)LOG_MAX - 1);
	*end = 0;
	while (end > r->log && (end[-1] == '\n' || end[-1] == ' '))
		*--end = 0;
	for (char *c = r->log; c < end; c++)
		if ((unsigned char)*c < 0x20 && *c != '\n')
			*c = ' ';
	while (end > r->log && end[-1] != '\n')
		end--;
	return strncmp(end, "kv-bench: ", 10) == 0 ? end + 10 : end;
}

static int ended(const struct sweep *s, struct run *r, struct kv_error *err)
{
	const char *line = last_line(r);
	char limit[32];
	if (r->too_long)
		return kv_fail(err, -KV_EINVAL, "its report is longer than %u MiB", (unsigned)REPORT_MAX >> 20);
	if (r->killed)
		return kv_fail(err, -KV_ETIMEOUT, "it was not over within %s (--cell-timeout)",
			       kv_duration_format(s->opt.cell_timeout_ns, limit, sizeof(limit)));
	if (WIFSIGNALED(r->status))
		return kv_fail(err, -KV_EINTERNAL, "its process was ended by signal %d%s%.200s", WTERMSIG(r->status),
			       *line ? ": " : "", line);
	return kv_fail(err, -KV_EINTERNAL, "exit status %d%s%.250s", WEXITSTATUS(r->status), *line ? ": " : "", line);
}

/* With servers of others each run has keys of its own: values that are there already would not travel. */
static uint64_t seed_of(const struct sweep *s, const struct sweep_cell *cell, unsigned round)
{
	struct kv_prng prng;
	if (s->opt.bench.servers.count == 0)
		return s->opt.bench.seed;
	kv_prng_seed(&prng,
		     s->opt.bench.seed * 7919 + s->order_seed + (uint64_t)(cell - s->cell) * SWEEP_RUNS_MAX + round);
	return kv_prng_next(&prng) >> 2;
}

static int run_it(struct sweep *s, struct sweep_cell *cell, uint64_t seed, struct sweep_args *args, struct run *r,
		  struct kv_error *err)
{
	json_error_t why;
	json_t *doc;
	int rc = sweep_args_add(args, err, "%s", "kv-bench");
	if (rc == 0)
		rc = sweep_args_add(args, err, "sweep");
	if (rc == 0)
		rc = sweep_args_add(args, err, "--cell");
	if (rc == 0)
		rc = sweep_args_add(args, err, "%d", (int)getpid());
	if (rc == 0)
		rc = sweep_settings(&s->opt, false, args, err);
	if (rc == 0)
		rc = sweep_cell_args(cell, seed, args, err);
	if (rc < 0)
		return rc;
	r->deadline_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), s->opt.cell_timeout_ns);
	rc = start(r, args->arg);
	if (rc < 0) {
		fd_close(&r->fd[0]);
		fd_close(&r->fd[1]);
		return kv_fail(err, rc, "its process cannot be started: %s", kv_strerror(rc));
	}
	follow(r);
	if (bench_interrupted())
		return -KV_ECANCELED;
	doc = r->killed || WIFSIGNALED(r->status) || WEXITSTATUS(r->status) > BENCH_FAILED
		      ? NULL
		      : json_loadb(r->report, r->len, 0, &why);
	rc = doc ? sweep_take(s, cell, doc, seed, err) : ended(s, r, err);
	json_decref(doc);
	return rc;
}

void sweep_cell_run(struct sweep *s, struct sweep_cell *cell, unsigned round)
{
	struct run r = {.fd = {-1, -1}, .log_through = s->opt.bench.log_level > KV_LOG_ERROR};
	struct sweep_args *args = calloc(1, sizeof(*args));
	struct kv_error err = {0};
	int rc = args ? run_it(s, cell, seed_of(s, cell, round), args, &r, &err)
		      : kv_fail(&err, -KV_ENOMEM, "no memory for its command line");
	free(r.report);
	free(args);
	if (rc < 0 && bench_interrupted())
		return;
	if (rc < 0) {
		cell->state = SWEEP_FAILED;
		snprintf(cell->reason, sizeof(cell->reason), "%s", err.text);
	}
	sweep_cell_state(s, cell);
}
