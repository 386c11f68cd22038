/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.c -- KVRail asks for a congestion control without pacing on loopback (engine/door/pace.c), and redis and
 * memcached have the system's, which may pace (bbr). The sender decides, which for GETs is the server. So a server's
 * ends of our connections are taken out of its process (pidfd_getfd, which needs the right to trace it), recognised by
 * their peer's address, and set like ours. */
#include "kvbench/versus/congestion.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS = 50, LOOK_US = 10000 };

struct tcp_end {
	struct sockaddr_storage addr;
	socklen_t len;
};

static bool same(const struct tcp_end *a, const struct tcp_end *b)
{
	return a->len == b->len && memcmp(&a->addr, &b->addr, a->len) == 0;
}

static bool is_tcp(const struct tcp_end *e)
{
	return e->addr.ss_family == AF_INET || e->addr.ss_family == AF_INET6;
}

static void set(int fd, const char *name)
{
	if (*name)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

static bool get(int fd, char out[CONGESTION_NAME])
{
	socklen_t len = CONGESTION_NAME - 1;
	memset(out, 0, CONGESTION_NAME);
	return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &len) == 0;
}

/* Ours of all ends: their own addresses are the peers of the server's. */
static unsigned ours(const int *fd, unsigned n, const char *name, struct tcp_end *end)
{
	unsigned count = 0;
	for (unsigned i = 0; i < n; i++) {
		struct tcp_end *e = &end[count];
		memset(e, 0, sizeof(*e));
		e->len = sizeof(e->addr);
		if (getsockname(fd[i], (struct sockaddr *)&e->addr, &e->len) < 0 || !is_tcp(e))
			continue;
		set(fd[i], name);
		count++;
	}
	return count;
}

/* One descriptor of the server, duplicated into this process. Returns whether it is an end of a connection of ours. */
static bool theirs(int fd, const struct tcp_end *end, unsigned n, const char *name, char has[CONGESTION_NAME])
{
	struct tcp_end peer;
	memset(&peer, 0, sizeof(peer));
	peer.len = sizeof(peer.addr);
	if (getpeername(fd, (struct sockaddr *)&peer.addr, &peer.len) < 0)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (same(&peer, &end[i])) {
			set(fd, name);
			return get(fd, has);
		}
	return false;
}

/* Returns how many ends were found; out is empty where they differ. -1: we may not look at them. */
static int ends_align(int pidfd, DIR *fds, const struct tcp_end *end, unsigned n, const char *name,
		      char out[CONGESTION_NAME])
{
	struct dirent *entry;
	int found = 0;
	bool alike = true;
	while ((entry = readdir(fds))) {
		char has[CONGESTION_NAME];
		char *rest;
		long number = strtol(entry->d_name, &rest, 10);
		int fd = (errno = 0, *rest) ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, (int)number, 0);
		if (fd < 0 && (errno == EPERM || errno == ENOSYS))
			return -1;
		if (fd < 0)
			continue;
		if (theirs(fd, end, n, name, has)) {
			alike = alike && (found == 0 || strcmp(has, out) == 0);
			memcpy(out, has, sizeof(has));
			found++;
		}
		close(fd);
	}
	if (!alike)
		out[0] = 0;
	return found;
}

/* All of them, or nothing is known. A server takes connections up a while after they are there. */
static void server_align(int pidfd, DIR *fds, const struct tcp_end *end, unsigned n, const char *name,
			 char out[CONGESTION_NAME])
{
	int found = 0;
	for (unsigned look = 0; found >= 0 && found < (int)n && look < LOOKS; look++) {
		if (look > 0)
			usleep(LOOK_US);
		rewinddir(fds);
		found = ends_align(pidfd, fds, end, n, name, out);
	}
	if (found < (int)n)
		out[0] = 0;
}

void congestion_align(int pid, const int *fd, unsigned n, const char *name, char out[CONGESTION_NAME])
{
	struct tcp_end *end = calloc(KV_MAX(n, 1u), sizeof(*end));
	int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	char path[32];
	unsigned count;
	DIR *fds;
	out[0] = 0;
	count = end ? ours(fd, n, name, end) : 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = pidfd >= 0 && count > 0 ? opendir(path) : NULL;
	if (fds) {
		server_align(pidfd, fds, end, count, name, out);
		closedir(fds);
	}
	if (pidfd >= 0)
		close(pidfd);
	free(end);
}
