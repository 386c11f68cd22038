/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- one round of one target: this program again, as kv-bench for KVRail and as `versus --drive` for the
 * others. A process each, since a server of its own cannot be started after the first call of libfabric, and what ends
 * one target badly must reach neither the next nor the report. Its output goes to files in memory, which no reader has
 * to keep up with. A signal to us is passed on; a process that outstays its time is killed. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/report/document.h"
#include "kvbench/setup/signals.h"
#include "kvbench/versus/versus.h"
#include "probe/probe.h"

enum { ARGS_MAX = 128, TEXT_MAX = 4096, POLL_MS = 20 };

#define SPARE_NS  600000000000ull /* beside the reads: for the writes, and a server that maps its memory */
#define ENDING_NS 20000000000ull  /* after a signal */

struct args {
	const char *arg[ARGS_MAX];
	unsigned count;
	char text[TEXT_MAX];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void arg_add(struct args *a, const char *fmt, ...)
{
	size_t room = sizeof(a->text) - a->len;
	va_list v;
	int n;
	va_start(v, fmt);
	n = vsnprintf(a->text + a->len, room, fmt, v);
	va_end(v);
	if (n < 0 || (size_t)n >= room || a->count >= ARGS_MAX - 1)
		return;
	a->arg[a->count++] = a->text + a->len;
	a->len += (size_t)n + 1;
}

static void arg_put(struct args *a, const char *text)
{
	if (a->count < ARGS_MAX - 1)
		a->arg[a->count++] = text;
}

static void args_load(struct args *a, const struct versus_options *o, uint64_t seed)
{
	arg_add(a, "--num-workers=%u", o->num_workers);
	arg_add(a, "--num-keys=%llu", (unsigned long long)o->num_keys);
	arg_add(a, "--value-size=%llu", (unsigned long long)o->value_size);
	arg_add(a, "--duration=%lluns", (unsigned long long)o->duration_ns);
	arg_add(a, "--warmup=%llu", (unsigned long long)o->warmup);
	arg_add(a, "--seed=%llu", (unsigned long long)seed);
	if (o->keys_pattern)
		arg_add(a, "--keys-pattern=%s", o->keys_pattern);
	if (o->rate > 0)
		arg_add(a, "--rate=%.17g", o->rate);
	if (o->arrivals == BENCH_POISSON)
		arg_put(a, "--arrivals=poisson");
	if (o->batch)
		arg_add(a, "--batch=%u", o->batch);
	if (o->mixed)
		arg_put(a, "--mixed");
	if (o->verify)
		arg_put(a, "--verify");
	if (o->no_checksum)
		arg_put(a, "--no-checksum");
}

static void args_make(struct args *a, const struct versus *v, const struct versus_target *t, uint64_t seed)
{
	const struct versus_options *o = &v->opt;
	arg_put(a, "kv-bench");
	if (t->kind != VERSUS_KVRAIL) {
		arg_put(a, "versus");
		arg_put(a, "--drive");
		arg_add(a, "--targets=%s", t->name);
		args_load(a, o, seed);
		for (unsigned i = 0; i < o->num_targets; i++)
			if (o->target[i].kind == VERSUS_KVRAIL && v->server[i].congestion[0]) {
				arg_add(a, "--congestion=%s", v->server[i].congestion);
				break;
			}
		return;
	}
	arg_put(a, "--quiet");
	arg_put(a, "--json=-");
	arg_put(a, "--log-level=warn");
	arg_add(a, "--num-clients=%u", o->num_clients);
	if (t->address[0])
		arg_add(a, "--server=%s", t->address);
	args_load(a, o, seed);
	for (unsigned i = 0; i < o->own.count; i++)
		arg_put(a, o->own.item[i]);
}

/* ---- following it ---- */

static char *file_text(int fd, size_t *len)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char *text = end >= 0 ? malloc((size_t)end + 1) : NULL;
	ssize_t n = text ? pread(fd, text, (size_t)end, 0) : -1;
	if (n < 0) {
		free(text);
		return NULL;
	}
	text[n] = 0;
	*len = (size_t)n;
	return text;
}

/* Returns its status as waitpid has it. */
static int follow(pid_t pid, uint64_t deadline_ns, bool *killed)
{
	bool told = false;
	int status = 0;
	for (;;) {
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		pid_t got = waitpid(pid, &status, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR))
			return status;
		if (bench_interrupted() && !told) {
			kill(pid, SIGTERM);
			deadline_ns = KV_MIN(deadline_ns, kv_deadline(now, ENDING_NS));
			told = true;
		}
		if (now >= deadline_ns && !*killed) {
			kill(pid, SIGKILL);
			*killed = true;
		}
		poll(NULL, 0, POLL_MS);
	}
}

/* The lines of a program's standard error that say why, without its name. */
static int reason(int fd, int status, bool killed, struct kv_error *err)
{
	size_t len = 0;
	char *text = file_text(fd, &len), *line, *next, *last = NULL;
	int rc;
	for (line = text; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next ? (*next = 0, 1) : 0;
		if (strncmp(line, "kv-bench: ", 10) == 0)
			last = line + 10;
		else if (!last && *line)
			last = line;
	}
	if (killed)
		rc = kv_fail(err, -KV_ETIMEOUT, "its round did not end in time and was killed");
	else if (WIFSIGNALED(status))
		rc = kv_fail(err, -KV_EINTERNAL, "its client was ended by signal %d (%s)", WTERMSIG(status),
			     strsignal(WTERMSIG(status)));
	else
		rc = kv_fail(err, -KV_EINTERNAL, "%s", last ? last : "its client ended badly, and did not say why");
	free(text);
	return rc;
}

static int outcome(const struct versus *v, int out, int log, int status, bool killed, struct versus_run *run,
		   struct versus_server *server, struct kv_error *err)
{
	json_error_t why;
	size_t len = 0;
	char *text;
	json_t *doc;
	int rc;
	if (bench_interrupted())
		return -KV_ECANCELED;
	if (killed || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return reason(log, status, killed, err);
	text = file_text(out, &len);
	doc = text ? json_loadb(text, len, 0, &why) : NULL;
	free(text);
	rc = doc ? versus_run_read(doc, v->opt.mixed, run, server, err)
		 : kv_fail(err, -KV_EINTERNAL, "its client wrote no report");
	json_decref(doc);
	return rc;
}

int versus_run_target(struct versus *v, unsigned target, uint64_t seed, struct versus_run *out, struct kv_error *err)
{
	struct args *a = calloc(1, sizeof(*a));
	int file[2] = {memfd_create("report", MFD_CLOEXEC), memfd_create("log", MFD_CLOEXEC)};
	int rc = 0, status = 0;
	bool killed = false;
	pid_t pid;
	if (!a || file[0] < 0 || file[1] < 0) {
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the report of a round");
		goto end;
	}
	args_make(a, v, &v->opt.target[target], seed);
	rc = probe_spawn("/proc/self/exe", a->arg, file[0], file[1], (const int[]){-1, -1}, true, &pid);
	if (rc < 0) {
		kv_fail(err, rc, "its client cannot be started: %s", kv_strerror(rc));
		goto end;
	}
	status = follow(pid, kv_deadline(kv_clock_now(&kv_clock_monotonic), v->opt.duration_ns + SPARE_NS), &killed);
	rc = outcome(v, file[0], file[1], status, killed, out, &v->server[target], err);
end:
	for (unsigned i = 0; i < 2; i++)
		if (file[i] >= 0)
			close(file[i]);
	free(a);
	return rc;
}
