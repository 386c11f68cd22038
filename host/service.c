/* SPDX-License-Identifier: Apache-2.0 */
/* service.c -- a datagram to the socket of NOTIFY_SOCKET: a path, or an abstract name after '@'. */
#include "host/service.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int kv_service_tell(const char *lines)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd, rc = 0;
	if (len == 0)
		return 1;
	if ((path[0] != '/' && path[0] != '@') || len >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

uint64_t kv_service_watchdog_ns(void)
{
	const char *time_us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long us = time_us ? strtoull(time_us, NULL, 10) : 0;
	if ((pid && strtol(pid, NULL, 10) != getpid()) || us > UINT64_MAX / 1000)
		return 0;
	return us * 1000;
}
