/* SPDX-License-Identifier: Apache-2.0 */
/* program.c -- servers that need a client library of their own: a program with that library executes the lines of its
 * standard input, one at a time, and answers on standard output, in order.
 *
 *   kv-bench           kvbench-program/1 PATH BYTES   PATH: a file to map shared, BYTES long
 *   program            ready TEXT                     TEXT: name and version of its server
 *   kv-bench           put KEY OFFSET LENGTH          store these bytes of the file under KEY
 *                      get KEY OFFSET LENGTH          read KEY's value into the file, LENGTH bytes at most
 *                      delete KEY
 *   program            ok [LENGTH]                    LENGTH: of a get, the value's
 *                      miss                           there is no such key
 *                      error TEXT                     ends the run
 *
 * No value passes the pipe, whose time would be measured. The program may register the file's memory with its library.
 * The end of its input ends it. */
#include "kvbench/versus/program.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "kvbench/versus/rival.h"

enum { READY_S = 60 }; /* a library may take long to connect and to register memory */

extern char **environ;

void program_memory_make(uint64_t bytes, struct program_memory *out)
{
	out->bytes = bytes;
	out->fd = memfd_create("kvbench-program", MFD_CLOEXEC);
	if (out->fd < 0 || ftruncate(out->fd, (off_t)bytes) < 0)
		rival_die_errno("memory for the program");
	out->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
	if (out->base == MAP_FAILED)
		rival_die_errno("memory for the program");
}

static void spawn(const char *path, int its_end)
{
	char *const argv[] = {(char *)(uintptr_t)path, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int rc;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, its_end, 0);
	posix_spawn_file_actions_adddup2(&actions, its_end, 1);
	rc = posix_spawn(&pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		rival_die(path, strerror(rc));
}

int program_start(const char *path, const struct program_memory *memory, char *version, size_t cap)
{
	struct timeval grace = {.tv_sec = READY_S};
	char line[RIVAL_HEAD_BYTES];
	int fd[2], n;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		rival_die_errno("socketpair");
	spawn(path, fd[1]);
	close(fd[1]);
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &grace, sizeof(grace));
	n = snprintf(line, sizeof(line), "kvbench-program/1 /proc/%d/fd/%d %llu\n", (int)getpid(), memory->fd,
		     (unsigned long long)memory->bytes);
	rival_send(fd[0], line, (size_t)n);
	rival_line(fd[0], line);
	if (strncmp(line, "ready", 5))
		rival_die(path, strncmp(line, "error ", 6) ? "it does not report that it is ready" : line + 6);
	snprintf(version, cap, "%s", line + 5 + (line[5] == ' '));
	grace.tv_sec = RIVAL_GRACE_S;
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &grace, sizeof(grace));
	return fd[0];
}

void program_stop(int fd)
{
	char rest[64];
	shutdown(fd, SHUT_WR);
	while (recv(fd, rest, sizeof(rest), 0) > 0)
		;
	close(fd);
}
