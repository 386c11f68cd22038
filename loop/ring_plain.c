/* SPDX-License-Identifier: Apache-2.0 */
/* ring_plain.c -- system calls that both rings make directly. Descriptors are the caller's. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop/ring_kernel.h"

enum { SEND_BUFFER = 128 << 10 }; /* the kernel doubles it for its bookkeeping */

int ring_refuse_files(int rc, const char *what, struct kv_error *err)
{
	struct rlimit limit = {0};
	switch (rc) {
	case -EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		return kv_fail(
			err, -KV_ELIMIT,
			"%s: this process has all of its %llu files open; raise the limit (ulimit -n, LimitNOFILE)",
			what, (unsigned long long)limit.rlim_cur);
	case -ENFILE:
		return kv_fail(err, -KV_ELIMIT, "%s: the machine has no more files; raise the sysctl fs.file-max",
			       what);
	default:
		return kv_fail(err, rc, "%s: %s", what, kv_strerror(rc));
	}
}

int ring_socket(struct ring *ring, int family, int *out_fd)
{
	(void)ring;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	*out_fd = fd;
	return 0;
}

/* Accepted sockets inherit the send buffer. By default it grows to megabytes when a peer does not read: kernel memory
 * per connection, and writers that notice late. */
int ring_listen(struct ring *ring, struct sockaddr_storage *addr, socklen_t len, int *out_fd)
{
	socklen_t bound_len = sizeof(*addr);
	int fd = -1, on = 1, off = 0, send_bytes = SEND_BUFFER, rc = ring_socket(ring, addr->ss_family, &fd);
	if (rc < 0)
		return rc;
	/* [::] is every address of both families, whatever net.ipv6.bindv6only says. */
	if ((addr->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0) ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes)) < 0 ||
	    bind(fd, (struct sockaddr *)addr, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)addr, &bound_len) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

int ring_nodelay(struct ring *ring, int fd)
{
	int on = 1;
	(void)ring;
	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ? -errno : 0;
}

int ring_user_timeout(struct ring *ring, int fd, unsigned timeout_ms)
{
	/* The user timeout covers unacknowledged data, keepalive (in whole seconds) idle connections. */
	int on = 1, idle_s = (int)KV_MAX(timeout_ms / 3000, 1u), probes = 3;
	(void)ring;
	if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) < 0)
		return -errno;
	return 0;
}

void ring_shutdown(struct ring *ring, int fd)
{
	(void)ring; /* a request not yet in the kernel finds the socket shut */
	shutdown(fd, SHUT_RDWR);
}
