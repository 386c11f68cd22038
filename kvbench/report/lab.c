/* SPDX-License-Identifier: Apache-2.0 */
/* lab.c -- starts kvlab (kvlab/__main__.py). It lies next to kv-bench in a build, and in ../share/kvrail where kv-bench
 * is installed. Documents pass through files in memory, so no pipe can fill up. Python is isolated (-I): neither the
 * environment nor packages of the user change it. */
#include "kvbench/report/lab.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/load/bench.h"
#include "probe/probe.h"

/* Before the arguments: python3 -I -S kvlab VERSION NAME. */
enum { BEFORE = 6 };

struct lab_command {
	char path[PATH_MAX], fd[16];
	const char *arg[BEFORE + LAB_ARGS_MAX + 2];
};

static int path_find(char path[PATH_MAX], struct kv_error *err)
{
	static const char *const places[] = {"/kvlab", "/../share/kvrail/kvlab"};
	char folder[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	folder[KV_MAX(n, (ssize_t)0)] = 0;
	*(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = 0;
	for (unsigned i = 0; i < KV_COUNT(places); i++) {
		snprintf(path, PATH_MAX, "%s%s", folder, places[i]);
		if (access(path, R_OK) == 0)
			return 0;
	}
	return kv_fail(err, -ENOENT, "the folder kvlab is missing: neither %s/kvlab nor %s is there", folder, path);
}

/* Returns the file in memory with the input, -1 without one, or another code below 0. */
static int command_make(struct lab_command *c, const char *name, const json_t *input, const char *const *args,
			struct kv_error *err)
{
	int fd = -1, rc = path_find(c->path, err), n = BEFORE;
	const char *const before[BEFORE] = {access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3",
					    "-I",
					    "-S",
					    c->path,
					    KVRAIL_VERSION,
					    name};
	if (rc < 0)
		return rc;
	memcpy(c->arg, before, sizeof(before));
	if (input) {
		fd = memfd_create("document", 0);
		if (fd < 0 || json_dumpfd(input, fd, JSON_REAL_PRECISION(12)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
			return kv_fail(err, -KV_ENOMEM, "no memory for the report");
		snprintf(c->fd, sizeof(c->fd), "%d", fd);
		c->arg[n++] = c->fd;
	}
	for (unsigned i = 0; args && args[i] && i < LAB_ARGS_MAX; i++)
		c->arg[n++] = args[i];
	c->arg[n] = NULL;
	return fd;
}

static int no_python(int error, struct kv_error *err)
{
	return kv_fail(err, -error,
		       "python3 cannot be started (%s), and makes pages, charts, comparisons and sweeps: install it",
		       kv_strerror(-error));
}

int lab_exec(const char *program, const char *name, const json_t *input, const char *const *args)
{
	static struct lab_command c;
	struct kv_error err = {0};
	fflush(stdout);
	if (command_make(&c, name, input, args, &err) >= -1) {
		execvp(c.arg[0], (char *const *)(uintptr_t)c.arg);
		no_python(errno, &err);
	}
	fprintf(stderr, "%s: %s\n", program, err.text);
	return BENCH_NO_START;
}

json_t *lab_strings(const char *const *item, unsigned count)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(list, json_string(item[i]));
	return list;
}

int lab_run(const char *command, json_t *plan, int argc, char **argv)
{
	char program[PATH_MAX], name[32];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	int rc;
	program[KV_MAX(n, (ssize_t)0)] = 0;
	snprintf(name, sizeof(name), "kv-bench %s", command);
	if (!plan) {
		fprintf(stderr, "%s: no memory for the plan, or an option is not text in UTF-8\n", name);
		return BENCH_USAGE;
	}
	json_object_set_new(plan, "version", json_string(KVRAIL_VERSION));
	json_object_set_new(plan, "program", json_string(program));
	json_object_set_new(plan, "options", lab_strings((const char *const *)argv + 1, (unsigned)argc - 1));
	rc = lab_exec(name, command, plan, NULL);
	json_decref(plan);
	return rc;
}

static char *whole(int fd, size_t *len)
{
	struct stat st = {0};
	char *text = fstat(fd, &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
	*len = (size_t)st.st_size;
	if (text && pread(fd, text, *len, 0) == st.st_size) {
		text[*len] = 0;
		return text;
	}
	free(text);
	return NULL;
}

/* Returns the exit status, or a code below 0. */
static int command_run(const struct lab_command *c, int in, int out, struct kv_error *err)
{
	int status = 0, rc;
	pid_t pid;
	rc = probe_spawn(c->arg[0], c->arg, out, -1, (const int[]){in, -1}, false, &pid);
	if (rc < 0)
		return no_python(-rc, err);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return kv_fail(err, -errno, "python3 is lost: %s", kv_strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

char *lab_make(const char *kind, const json_t *doc, size_t *len, struct kv_error *err)
{
	static struct lab_command c;
	int in = command_make(&c, kind, doc, NULL, err), out = memfd_create("made", MFD_CLOEXEC);
	int status = in >= 0 && out >= 0 ? command_run(&c, in, out, err) : -KV_ENOMEM;
	char *text = status >= 0 ? whole(out, len) : NULL;
	if (status > 0) {
		kv_fail(err, -KV_EINVAL, "%s", status == BENCH_FAILED && text && *text ? text : "python3 failed");
		free(text);
		text = NULL;
	} else if (!text && !err->text[0]) {
		kv_fail(err, -KV_ENOMEM, "no memory for the file");
	}
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return text;
}

int lab_check(struct kv_error *err)
{
	static struct lab_command c;
	int out = memfd_create("version", MFD_CLOEXEC), rc = command_make(&c, "", NULL, NULL, err);
	if (rc >= -1) {
		c.arg[1] = "-V";
		c.arg[2] = NULL;
		rc = command_run(&c, -1, out, err);
	}
	if (out >= 0)
		close(out);
	return rc < 0 ? rc : 0;
}
