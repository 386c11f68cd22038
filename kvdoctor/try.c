/* SPDX-License-Identifier: Apache-2.0 */
/* try.c -- the trial, seen from outside: for each process of the run, a child opens what that process would open, and
 * reports what happens.
 *
 * A provider may end its process (EFA aborts on some errors) or hang inside a call, so only a child is put at risk. It
 * is killed after a minute. It has the limits of the process that it stands for. Rejected: fork; libfabric is in use in
 * this process by now, so posix_spawn starts the program anew. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvdoctor/try.h"

enum { PIPE_OUT, PIPE_ERR, PIPES, TEXT_CAP = 4096, NUMBER_CAP = 24, LOG_SHOWN = 300 };

#define TRY_NS 60000000000ull

extern char **environ;

struct child {
	pid_t pid;
	int fd[PIPES];
	char text[PIPES][TEXT_CAP];
	size_t len[PIPES];
};

/* ---- what the child reports ---- */

void try_line(struct trial *t, const char *line)
{
	char name[32];
	uint64_t value = 0;
	int at = 0;
	if (sscanf(line, "%31s %n", name, &at) != 1)
		return;
	if (strcmp(name, "error") == 0) {
		snprintf(t->error, sizeof(t->error), "%.399s", line + at);
		return;
	}
	if (strcmp(name, "no_door") == 0) {
		snprintf(t->no_door, sizeof(t->no_door), "%.159s", line + at);
		return;
	}
	if (kv_u64_parse(line + at, &value))
		return;
	if (strcmp(name, "opened") == 0)
		t->opened = (unsigned)value;
	else if (strcmp(name, "open_ns") == 0)
		t->open_ns = value;
	else if (strcmp(name, "register_ns") == 0)
		t->register_ns = value;
	else if (strcmp(name, "registered_bytes") == 0)
		t->registered_bytes = value;
	else if (strcmp(name, "ping_ns") == 0)
		t->ping_ns = value;
	else if (strcmp(name, "bytes") == 0)
		t->bytes = value;
	else if (strcmp(name, "moved") == 0)
		t->moved = value != 0;
	else if (strcmp(name, "wait_fd") == 0)
		t->wait_fd = value != 0;
	else if (strcmp(name, "write_emulated") == 0)
		t->write_emulated = value != 0;
	else if (strcmp(name, "read_emulated") == 0)
		t->read_emulated = value != 0;
	else if (strcmp(name, "done") == 0)
		t->done = value != 0;
}

/* If the text does not fit, stdout keeps its beginning, and stderr its end. */
static void text_add(struct child *c, int pipe_index, const char *data, size_t n)
{
	char *text = c->text[pipe_index];
	size_t *len = &c->len[pipe_index], room = TEXT_CAP - 1 - *len;
	if (n > room && pipe_index == PIPE_ERR) {
		size_t drop = KV_MIN(n - room, *len);
		memmove(text, text + drop, *len - drop);
		*len -= drop;
		room += drop;
	}
	n = KV_MIN(n, room);
	memcpy(text + *len, data, n);
	*len += n;
	text[*len] = '\0';
}

/* ---- the child ---- */

static int child_spawn(struct child *c, char *const *argv)
{
	int ends[PIPES][2] = {{-1, -1}, {-1, -1}};
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);
	if (rc)
		return rc;
	for (int i = 0; i < PIPES && rc == 0; i++) {
		rc = pipe2(ends[i], O_CLOEXEC) ? errno : 0;
		if (rc == 0)
			rc = posix_spawn_file_actions_adddup2(&actions, ends[i][1], i + 1);
	}
	if (rc == 0)
		rc = posix_spawn(&c->pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	for (int i = 0; i < PIPES; i++) {
		if (ends[i][1] >= 0)
			close(ends[i][1]);
		if (rc && ends[i][0] >= 0)
			close(ends[i][0]);
		c->fd[i] = rc ? -1 : ends[i][0];
	}
	return rc;
}

/* Reads until both pipes are closed. False: they were not closed in time. */
static bool child_read(struct child *c)
{
	uint64_t end = kv_clock_now(&kv_clock_monotonic) + TRY_NS;
	char data[1024];
	while (c->fd[PIPE_OUT] >= 0 || c->fd[PIPE_ERR] >= 0) {
		struct pollfd p[PIPES] = {{.fd = c->fd[PIPE_OUT], .events = POLLIN},
					  {.fd = c->fd[PIPE_ERR], .events = POLLIN}};
		uint64_t now = kv_clock_now(&kv_clock_monotonic);
		if (now >= end)
			return false;
		(void)poll(p, PIPES, (int)((end - now) / 1000000) + 1);
		for (int i = 0; i < PIPES; i++) {
			ssize_t n = p[i].fd >= 0 && p[i].revents ? read(c->fd[i], data, sizeof(data)) : -2;
			if (n > 0)
				text_add(c, i, data, (size_t)n);
			else if (n == 0 || (n == -1 && errno != EINTR)) {
				close(c->fd[i]);
				c->fd[i] = -1;
			}
		}
	}
	return true;
}

static void child_end(struct child *c, bool in_time, struct trial *t)
{
	int status = 0;
	if (!in_time)
		kill(c->pid, SIGKILL);
	for (int i = 0; i < PIPES; i++)
		if (c->fd[i] >= 0)
			close(c->fd[i]);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	for (char *save = NULL, *line = strtok_r(c->text[PIPE_OUT], "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		try_line(t, line);
	size_t kept = KV_MIN(c->len[PIPE_ERR], sizeof(t->log) - 1);
	memcpy(t->log, c->text[PIPE_ERR] + c->len[PIPE_ERR] - kept, kept);
	if (t->error[0])
		return;
	if (!in_time)
		snprintf(t->error, sizeof(t->error), "it hung for a minute, and was killed");
	else if (WIFSIGNALED(status))
		snprintf(t->error, sizeof(t->error), "the provider ended the process (%s)",
			 strsignal(WTERMSIG(status)));
	else if (!t->done)
		snprintf(t->error, sizeof(t->error), "it ended without a word (exit status %d)", WEXITSTATUS(status));
}

/* Gives the child the file limit of the process that it stands for. posix_spawn cannot set limits, so this process has
 * it meanwhile. */
static int child_spawn_limited(struct child *c, char *const *argv, uint64_t files_soft)
{
	struct rlimit before = {0}, now;
	bool other =
		getrlimit(RLIMIT_NOFILE, &before) == 0 && files_soft > before.rlim_cur && files_soft <= before.rlim_max;
	int rc;
	now = before;
	now.rlim_cur = other ? files_soft : before.rlim_cur;
	other = other && setrlimit(RLIMIT_NOFILE, &now) == 0;
	rc = child_spawn(c, argv);
	if (other)
		(void)setrlimit(RLIMIT_NOFILE, &before);
	return rc;
}

static void role_try(const struct role *r, uint64_t files_soft, struct trial *t)
{
	char number[5][NUMBER_CAP], local[NI_MAXHOST] = "";
	const struct sockaddr *sa = (const struct sockaddr *)&r->options.local;
	uint64_t value[5] = {r->options.rails, r->engines, r->region_bytes, r->options.messages, r->options.receives};
	struct child *c = calloc(1, sizeof(*c));
	if (!c) {
		snprintf(t->error, sizeof(t->error), "no memory");
		return;
	}
	if (sa->sa_family)
		(void)getnameinfo(sa, sizeof(r->options.local), local, sizeof(local), NULL, 0, NI_NUMERICHOST);
	for (int i = 0; i < 5; i++)
		snprintf(number[i], sizeof(number[i]), "%llu", (unsigned long long)value[i]);
	const char *argv[] = {"kv-doctor",
			      TRY_CHILD,
			      r->options.provider,
			      r->options.nic ? r->options.nic : "",
			      number[0],
			      number[1],
			      number[2],
			      number[3],
			      number[4],
			      local,
			      NULL};
	int rc = child_spawn_limited(c, (char *const *)(uintptr_t)argv, files_soft);
	if (rc)
		snprintf(t->error, sizeof(t->error), "the trial could not be started: %s%s", kv_strerror(-rc),
			 rc == ENOENT ? " (/proc/self/exe: is /proc mounted?)" : "");
	else
		child_end(c, child_read(c), t);
	free(c);
}

/* ---- findings ---- */

/* The last line that is not empty. */
static void last_line(const char *text, const char **out_from, size_t *out_len)
{
	size_t end = strlen(text), from;
	while (end > 0 && text[end - 1] == '\n')
		end--;
	for (from = end; from > 0 && text[from - 1] != '\n'; from--)
		;
	*out_from = text + from;
	*out_len = KV_MIN(end - from, (size_t)LOG_SHOWN);
}

static void trial_judge(struct doctor *d, const struct role *r, const struct trial *t)
{
	char opened[32], registered[32], took[32], ping[32], moved[32];
	const char *from;
	size_t len;
	if (!t->error[0] && t->moved) {
		doctor_found(d, SECTION_TRY, TE_OK, "try", r->name, "tried",
			     "%u endpoint%s opened in %s, %s each registered in %s; a message there and back in %s; %s "
			     "written and found right",
			     t->opened, t->opened == 1 ? "" : "s",
			     kv_duration_format(t->open_ns, opened, sizeof(opened)),
			     kv_size_format(t->registered_bytes, registered, sizeof(registered)),
			     kv_duration_format(t->register_ns, took, sizeof(took)),
			     kv_duration_format(t->ping_ns, ping, sizeof(ping)),
			     kv_size_format(t->bytes, moved, sizeof(moved)));
		return;
	}
	last_line(t->log, &from, &len);
	doctor_found(d, SECTION_TRY, TE_FAIL, "try", r->name, "tried", "%u of %u engines opened; %.399s%s%.*s%s",
		     t->opened, r->engines, t->error, len ? " (its last words: " : "", (int)len, from, len ? ")" : "");
}

/* Where no doorkeeper can stand before the fabric ports, the network must keep strangers out. */
static void door_judge(struct doctor *d, const struct trial *t)
{
	struct finding *f;
	if (!t->done)
		return;
	if (!t->no_door[0]) {
		doctor_found(d, SECTION_TRY, TE_OK, "door", "fabric ports", "doorkeeper",
			     "strangers are turned away before libfabric reads a byte of theirs; what peers send is "
			     "checked");
		return;
	}
	f = doctor_found(d, SECTION_TRY, TE_WARN, "door", "fabric ports", "doorkeeper",
			 "no doorkeeper stands before them: %s", t->no_door);
	doctor_remedy(f, "let only the machines of this cache reach them, by a network, security group or firewall of "
			 "their own (docs/guide/security.md)");
}

void doctor_try(struct doctor *d)
{
	if (d->opt->no_try || *d->root) {
		doctor_found(d, SECTION_TRY, TE_INFO, "try", "run", "tried", "nothing was opened (%s)",
			     *d->root ? "--sysroot" : "--no-try");
		return;
	}
	if (d->client.rc || (d->server.present && d->server.rc))
		return; /* there is no provider to try */
	role_try(&d->client, doctor_files_soft(d, &d->client), &d->tried_client);
	trial_judge(d, &d->client, &d->tried_client);
	if (d->server.present) {
		role_try(&d->server, doctor_files_soft(d, &d->server), &d->tried_server);
		trial_judge(d, &d->server, &d->tried_server);
	}
	door_judge(d, &d->tried_client);
	if (d->tried_client.write_emulated) {
		struct finding *f = doctor_found(d, SECTION_TRY, TE_WARN, "emulated", "run", "emulation",
						 "the provider emulates RDMA writes (reads: %s)",
						 d->tried_client.read_emulated ? "too" : "no");
		doctor_remedy(f, "see the lines on the EFA device and on libfabric above");
	}
}
