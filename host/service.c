/* SPDX-License-Identifier: Apache-2.0 */
/* service.c -- a datagram to the socket of NOTIFY_SOCKET: a path, or an abstract name after '@'. */
#include "host/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED = 3 };

/* fd: -1 or passed along. */
static int notify(const char *lines, int fd)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	struct iovec iov = {(void *)(uintptr_t)lines, strlen(lines)};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr msg = {.msg_name = &to,
			     .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	int from, rc = 0;
	if (len == 0)
		return 1;
	if ((path[0] != '/' && path[0] != '@') || len >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
	}
	from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (from < 0)
		return -errno;
	if (sendmsg(from, &msg, MSG_NOSIGNAL) < 0)
		rc = -errno;
	close(from);
	return rc;
}

int kv_service_tell(const char *lines)
{
	return notify(lines, -1);
}

int kv_service_store(const char *name, int fd)
{
	char lines[128];
	snprintf(lines, sizeof(lines), "FDSTORE=1\nFDNAME=%s", name);
	return notify(lines, fd);
}

int kv_service_unstore(const char *name)
{
	char lines[128];
	snprintf(lines, sizeof(lines), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return notify(lines, -1);
}

/* Descriptors from 3 on, named in LISTEN_FDNAMES with ':' between (sd_listen_fds(3)). */
int kv_service_take(const char *name)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS"), *at = getenv("LISTEN_FDNAMES");
	long n = count ? strtol(count, NULL, 10) : 0;
	if (!pid || strtol(pid, NULL, 10) != getpid() || !at)
		return -1;
	for (int fd = FIRST_PASSED; n > 0; n--, fd++) {
		size_t len = strcspn(at, ":");
		if (len == strlen(name) && memcmp(at, name, len) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0)
			return fd;
		if (!at[len])
			return -1;
		at += len + 1;
	}
	return -1;
}

uint64_t kv_service_watchdog_ns(void)
{
	const char *time_us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long us = time_us ? strtoull(time_us, NULL, 10) : 0;
	if ((pid && strtol(pid, NULL, 10) != getpid()) || us > UINT64_MAX / 1000)
		return 0;
	return us * 1000;
}
