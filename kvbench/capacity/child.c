/* SPDX-License-Identifier: Apache-2.0 */
/* child.c -- the parent's side of a step: start this program again for it, follow what it tells, and see to it
 * that it ends.
 *
 * A process for each step, because a step is made to fail: what it leaves behind (memory of the allocator, a provider
 * that is stuck in a call, an abort) must reach neither the next step nor the report, and only a process can be made to
 * end in time. It is started with posix_spawn: the parent has threads, and a fork in them is what sanitizers and
 * libraries cannot bear. It gets this program's own arguments and those of the step behind them, where the later one of
 * two wins; the key goes through a pipe, as to the server.
 *
 * Two pipes: what it tells (structs, whole) and the key. It leads a process group of its own, so that Ctrl-C reaches
 * the parent alone, which passes it on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/capacity/capacity.h"
#include "kvbench/setup/server_child.h"
#include "kvbench/setup/signals.h"

enum { ARGS_MAX = 160, POLL_MS = 100, SERVER_FILES_MARGIN = 40 /* it keeps some for what it must open */ };

/* Beyond the step's own time: for closing hundreds of endpoints, and for a look that came late. */
#define CLOSING_NS 60000000000ull
/* After it was told to end. */
#define ENDING_NS 20000000000ull

struct child {
	pid_t pid;
	int tell[2], key[2];
	char text[4][32];
	const char *arg[ARGS_MAX];
	unsigned num_args;
	uint64_t deadline_ns;
	bool told_to_end, killed;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void arg_add(struct child *c, const char *arg)
{
	if (c->num_args < ARGS_MAX - 1)
		c->arg[c->num_args++] = arg;
}

static void arg_number(struct child *c, unsigned slot, const char *name, uint64_t n)
{
	snprintf(c->text[slot], sizeof(c->text[slot]), "%llu", (unsigned long long)n);
	arg_add(c, name);
	arg_add(c, c->text[slot]);
}

static void args_make(struct child *c, int argc, char **argv, int model, uint32_t clients, uint64_t timeout_ns,
		      const struct server_child *server)
{
	arg_add(c, argv[0]);
	arg_add(c, "capacity");
	for (int i = 1; i < argc; i++)
		arg_add(c, argv[i]);
	arg_add(c, "--model");
	arg_add(c, capacity_model_name(model));
	arg_number(c, 0, "--step-clients", clients);
	arg_number(c, 1, "--step-fd", (uint64_t)c->tell[1]);
	snprintf(c->text[3], sizeof(c->text[3]), "%lluns", (unsigned long long)timeout_ns);
	arg_add(c, "--timeout");
	arg_add(c, c->text[3]);
	if (server) {
		arg_add(c, "--server");
		arg_add(c, server_child_address(server));
		arg_number(c, 2, "--step-psk-fd", (uint64_t)c->key[0]);
	}
	c->arg[c->num_args] = NULL;
}

static int key_send(struct child *c, const struct server_child *server)
{
	const char *psk;
	size_t len;

	if (!server)
		return 0;
	psk = server_child_psk(server);
	len = strlen(psk);
	/* It fits a pipe's buffer: this does not block. */
	return write(c->key[1], psk, len) == (ssize_t)len && write(c->key[1], "\n", 1) == 1 ? 0 : -EIO;
}

/* The ends that the step keeps lose close-on-exec by dup2 onto themselves. */
static int spawn(struct child *c)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t defaults;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (rc)
		goto out;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	rc = posix_spawnattr_setsigdefault(&attr, &defaults);
	if (rc == 0)
		rc = posix_spawnattr_setpgroup(&attr, 0);
	if (rc == 0)
		rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, c->tell[1], c->tell[1]);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, c->key[0], c->key[0]);
	if (rc == 0)
		rc = posix_spawn(&c->pid, "/proc/self/exe", &actions, &attr, (char *const *)(uintptr_t)c->arg, environ);
	posix_spawnattr_destroy(&attr);
out:
	posix_spawn_file_actions_destroy(&actions);
	return -rc;
}

/* ---- following it ---- */

static void server_look(const struct server_child *server, struct capacity_step *out)
{
	struct capacity_usage u;

	if (!server)
		return;
	capacity_usage_of((int)server_child_pid(server), &u);
	out->server_rss = KV_MAX(out->server_rss, u.rss);
	out->server_fds = KV_MAX(out->server_fds, u.fds);
}

static void take(const struct capacity_step *told, const struct server_child *server, struct capacity_step *out)
{
	uint64_t rss = out->server_rss;
	uint32_t fds = out->server_fds;

	*out = *told;
	out->text[sizeof(out->text) - 1] = 0;
	out->server_rss = rss;
	out->server_fds = fds;
	server_look(server, out);
}

/* Signals are passed on; one that does not end is killed. */
static void hurry(struct child *c, uint64_t now)
{
	if (bench_interrupted() && !c->told_to_end) {
		kill(c->pid, SIGTERM);
		c->told_to_end = true;
		c->deadline_ns = KV_MIN(c->deadline_ns, kv_deadline(now, ENDING_NS));
	}
	if (now >= c->deadline_ns && !c->killed) {
		kill(c->pid, SIGKILL);
		c->killed = true;
	}
}

/* Until it has closed its end, which its death does, too. */
static void follow(struct child *c, const struct server_child *server, struct capacity_step *out)
{
	struct capacity_step told;
	ssize_t n = 1;

	while (n != 0) {
		struct pollfd p = {.fd = c->tell[0], .events = POLLIN};
		hurry(c, kv_clock_now(&kv_clock_monotonic));
		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		n = read(c->tell[0], &told, sizeof(told));
		if (n == (ssize_t)sizeof(told))
			take(&told, server, out);
		else if (n < 0 && errno != EINTR)
			break;
	}
}

static void ended_badly(struct capacity_step *s, enum capacity_end end, const char *what)
{
	char before[256];

	if (end == CAPACITY_INTERRUPTED || s->end == CAPACITY_COMPLETE) {
		s->end = end;
		snprintf(s->text, sizeof(s->text), "%s, with %u of %u clients open", what, s->opened, s->attempted);
	} else {
		snprintf(before, sizeof(before), "%.255s", s->text);
		snprintf(s->text, sizeof(s->text), "%s; then %s", before, what);
	}
	s->code = s->code ? s->code : -KV_EINTERNAL;
}

/* What the parent knows of its end that it could not tell. */
static void reap(struct child *c, struct capacity_step *out)
{
	char what[160];
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		hurry(c, kv_clock_now(&kv_clock_monotonic));
	if (c->killed)
		ended_badly(out, CAPACITY_KILLED, "the step did not end in time and was killed");
	else if (WIFSIGNALED(status)) {
		snprintf(what, sizeof(what), "the process of the step was ended by signal %d (%s)%s", WTERMSIG(status),
			 strsignal(WTERMSIG(status)),
			 WTERMSIG(status) == SIGKILL ? ": for lack of memory, most likely (dmesg tells)" : "");
		ended_badly(out, WTERMSIG(status) == SIGKILL ? CAPACITY_MEMORY : CAPACITY_KILLED, what);
	} else if (!out->final) {
		snprintf(what, sizeof(what), "the process of the step ended with status %d before it was done",
			 WEXITSTATUS(status));
		ended_badly(out, CAPACITY_KILLED, what);
	}
	if (bench_interrupted() && out->end != CAPACITY_INTERRUPTED)
		ended_badly(out, CAPACITY_INTERRUPTED, "interrupted");
}

/* A server without a free descriptor accepts nobody, and those who wait for it see only the time pass. */
static void server_files_look(const struct server_child *server, struct capacity_step *s)
{
	char before[256];
	struct rlimit rl;

	if (!server || s->end != CAPACITY_TIME || prlimit(server_child_pid(server), RLIMIT_NOFILE, NULL, &rl) < 0 ||
	    rl.rlim_cur == RLIM_INFINITY || s->server_fds + SERVER_FILES_MARGIN < rl.rlim_cur)
		return;
	snprintf(before, sizeof(before), "%.255s", s->text);
	s->end = CAPACITY_FILES;
	s->code = -KV_ELIMIT;
	snprintf(s->text, sizeof(s->text), "the server has %u files open and may have %llu: raise `ulimit -n`; %s",
		 s->server_fds, (unsigned long long)rl.rlim_cur, before);
}

/* Even the process of a step takes something. */
static enum capacity_end start_end(int rc)
{
	switch (-rc) {
	case EMFILE:
	case ENFILE:
		return CAPACITY_FILES;
	case EAGAIN:
		return CAPACITY_THREADS;
	case ENOMEM:
		return CAPACITY_MEMORY;
	default:
		return CAPACITY_UNUSABLE;
	}
}

static int child_start(struct child *c, int argc, char **argv, int model, uint32_t clients, uint64_t timeout_ns,
		       const struct server_child *server)
{
	int rc = pipe2(c->tell, O_CLOEXEC) < 0 || pipe2(c->key, O_CLOEXEC) < 0 ? -errno : 0;

	if (rc == 0)
		rc = key_send(c, server);
	if (rc == 0) {
		args_make(c, argc, argv, model, clients, timeout_ns, server);
		rc = spawn(c);
	}
	close_fd(&c->tell[1]);
	close_fd(&c->key[0]);
	close_fd(&c->key[1]);
	return rc;
}

void capacity_child_run(int argc, char **argv, int model, uint32_t clients, uint64_t timeout_ns,
			struct server_child *server, struct capacity_step *out)
{
	struct child c = {.tell = {-1, -1}, .key = {-1, -1}};
	int rc;

	*out = (struct capacity_step){
		.model = model, .attempted = clients, .kernel_qps = -1, .kernel_cqs = -1, .kernel_mrs = -1};
	rc = child_start(&c, argc, argv, model, clients, timeout_ns, server);
	c.deadline_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), timeout_ns + CLOSING_NS);
	if (rc == 0) {
		follow(&c, server, out);
		reap(&c, out);
		server_files_look(server, out);
	} else {
		out->end = start_end(rc);
		out->code = rc;
		snprintf(out->text, sizeof(out->text), "the process of the step cannot be started: %s%s",
			 kv_strerror(rc),
			 rc == -EAGAIN ? "; look at ulimit -u, and at the pids limit of a container" : "");
	}
	if (server_child_dead(server) && out->end != CAPACITY_INTERRUPTED) {
		out->end = CAPACITY_SERVER;
		snprintf(out->text, sizeof(out->text),
			 "the server that kv-bench started died, with %u of %u clients connected", out->connected,
			 out->attempted);
	}
	close_fd(&c.tell[0]);
}
