/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c -- start a child, read its reports, and kill it if it does not end.
 *
 * Three pipes: reports, standard error, input. Our copies of the child's ends are closed as soon as it runs, so the end
 * of the first two means that the child has closed them or has ended. A process that the child started may keep them
 * open, so the end of the child ends the reading. */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT, LOG, INPUT, PIPES, POLL_MS = 100, REAP_STEP_MS = 5 };

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- starting ---- */

/* glibc clears close-on-exec of a descriptor that dup2 gives to itself. */
static int actions_fill(posix_spawn_file_actions_t *actions, int out, int err, const int keep[2])
{
	int rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0 && out >= 0)
		rc = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
	if (rc == 0 && err >= 0)
		rc = posix_spawn_file_actions_adddup2(actions, err, STDERR_FILENO);
	for (int i = 0; i < 2 && rc == 0; i++)
		if (keep[i] >= 0)
			rc = posix_spawn_file_actions_adddup2(actions, keep[i], keep[i]);
	return rc;
}

static int attributes_fill(posix_spawnattr_t *attr, bool group)
{
	sigset_t defaults;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE); /* exec would pass on that it is ignored */
	int rc = posix_spawnattr_setsigdefault(attr, &defaults);
	if (rc == 0)
		rc = posix_spawnattr_setpgroup(attr, 0);
	if (rc == 0)
		rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | (group ? POSIX_SPAWN_SETPGROUP : 0));
	return rc;
}

int probe_spawn(const char *program, const char *const *argv, int out, int err, const int keep[2], bool group,
		pid_t *out_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int rc = posix_spawn_file_actions_init(&actions);
	if (rc)
		return -rc;
	rc = posix_spawnattr_init(&attr);
	if (rc)
		goto out;
	rc = actions_fill(&actions, out, err, keep);
	if (rc == 0)
		rc = attributes_fill(&attr, group);
	if (rc == 0)
		rc = posix_spawnp(out_pid, program, &actions, &attr, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attr);
out:
	posix_spawn_file_actions_destroy(&actions);
	return -rc;
}

int probe_open(struct probe *p)
{
	const bool wanted[PIPES] = {p->result_bytes > 0, p->keep_log, p->input_bytes > 0};
	int rc = 0;
	for (int i = 0; i < PIPES; i++) {
		int ends[2] = {-1, -1};
		if (wanted[i] && rc == 0 && pipe2(ends, O_CLOEXEC) < 0)
			rc = -errno;
		p->ours[i] = i == INPUT ? ends[1] : ends[0];
		p->theirs[i] = i == INPUT ? ends[0] : ends[1];
	}
	p->report_fd = p->theirs[REPORT];
	p->input_fd = p->theirs[INPUT];
	if (rc == 0 && p->input_bytes > 0 && write(p->ours[INPUT], p->input, p->input_bytes) != (ssize_t)p->input_bytes)
		rc = -EIO;
	return rc;
}

/* ---- following ---- */

/* A child whose time is over is killed. */
static void hurry(struct probe *p)
{
	if (kv_clock_now(&kv_clock_monotonic) >= p->deadline_ns && p->end != PROBE_KILLED) {
		kill(p->pid, SIGKILL);
		p->end = PROBE_KILLED;
	}
}

/* The log keeps its end. */
static void log_add(struct probe *p, const char *data, size_t n)
{
	size_t len = strlen(p->log), left = sizeof(p->log) - 1 - len;
	if (n > sizeof(p->log) - 1) {
		data += n - (sizeof(p->log) - 1);
		n = sizeof(p->log) - 1;
	}
	size_t drop = n > left ? n - left : 0;
	memmove(p->log, p->log + drop, len - drop);
	memcpy(p->log + len - drop, data, n);
	p->log[len - drop + n] = '\0';
}

static void pipe_read(struct probe *p, int which)
{
	char data[PROBE_RESULT_MAX];
	ssize_t n = read(p->ours[which], data, which == REPORT ? p->result_bytes : sizeof(data));
	if (n == 0 || (n < 0 && errno != EINTR)) {
		close_fd(&p->ours[which]);
	} else if (n > 0 && which == LOG) {
		log_add(p, data, (size_t)n);
	} else if (n == (ssize_t)p->result_bytes) {
		memcpy(p->result, data, p->result_bytes);
	}
}

/* Whether the child has ended; it stays to be reaped. */
static bool gone(const struct probe *p)
{
	siginfo_t info = {0};
	return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == p->pid;
}

static void follow(struct probe *p)
{
	while (p->ours[REPORT] >= 0 || p->ours[LOG] >= 0) {
		struct pollfd at[] = {{.fd = p->ours[REPORT], .events = POLLIN},
				      {.fd = p->ours[LOG], .events = POLLIN}};
		bool last = gone(p);
		hurry(p);
		int n = poll(at, KV_COUNT(at), last ? 0 : POLL_MS);
		if (n == 0 && last)
			break;
		if (n <= 0)
			continue;
		for (int i = 0; i < (int)KV_COUNT(at); i++)
			if (at[i].revents)
				pipe_read(p, i);
	}
}

static void reap(struct probe *p)
{
	int status = 0;
	pid_t got;
	while ((got = waitpid(p->pid, &status, WNOHANG)) != p->pid && (got == 0 || errno == EINTR)) {
		hurry(p);
		poll(NULL, 0, 5);
	}
	bool by_signal = WIFSIGNALED(status);
	p->code = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
	if (p->end == PROBE_KILLED)
		snprintf(p->text, sizeof(p->text), "%s did not end in time and was killed", p->name);
	else if (by_signal)
		snprintf(p->text, sizeof(p->text), "the process of %s was ended by signal %d (%s)%s", p->name, p->code,
			 strsignal(p->code), p->code == SIGKILL ? ": for lack of memory, most likely (see dmesg)" : "");
	else
		snprintf(p->text, sizeof(p->text), "the process of %s ended with status %d before it was done", p->name,
			 p->code);
	if (by_signal && p->end != PROBE_KILLED)
		p->end = PROBE_SIGNALLED;
}

static const char *start_hint(int rc)
{
	if (rc == -EAGAIN)
		return "; look at ulimit -u, and at the pids limit of a container";
	return rc == -ENOENT ? " (/proc/self/exe: is /proc mounted?)" : "";
}

void probe_run(struct probe *p, int rc, const char *const *argv)
{
	p->end = PROBE_EXITED;
	p->deadline_ns = kv_deadline(kv_clock_now(&kv_clock_monotonic), p->timeout_ns);
	if (rc == 0)
		rc = probe_spawn("/proc/self/exe", argv, -1, p->theirs[LOG],
				 (const int[]){p->theirs[REPORT], p->theirs[INPUT]}, false, &p->pid);
	for (int i = 0; i < PIPES; i++)
		close_fd(&p->theirs[i]);
	close_fd(&p->ours[INPUT]);
	if (rc == 0) {
		follow(p);
		reap(p);
	} else {
		p->end = PROBE_NOT_STARTED;
		p->code = rc;
		snprintf(p->text, sizeof(p->text), "the process of %s cannot be started: %s%s", p->name,
			 kv_strerror(rc), start_hint(rc));
	}
	close_fd(&p->ours[REPORT]);
	close_fd(&p->ours[LOG]);
}

/* ---- in the child ---- */

size_t probe_take(int fd, void *out, size_t cap)
{
	size_t have = 0;
	ssize_t n = 1;
	while (have < cap && n != 0) {
		n = read(fd, (char *)out + have, cap - have);
		if (n < 0 && errno != EINTR)
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return have;
}

void probe_report(int fd, const void *result, size_t bytes)
{
	while (write(fd, result, bytes) < 0 && errno == EINTR)
		;
}

bool probe_reap(pid_t pid, unsigned wait_ms, int *out_status)
{
	for (unsigned waited = 0;; waited += REAP_STEP_MS) {
		pid_t got = waitpid(pid, out_status, WNOHANG);
		if (got == pid)
			return true;
		if (got < 0 && errno != EINTR) {
			*out_status = 0;
			return true;
		}
		if (waited >= wait_ms)
			return false;
		poll(NULL, 0, REAP_STEP_MS);
	}
}
