/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.c -- to be preloaded: gives every TCP socket that a program makes the congestion control named in
 * BENCH_CONGESTION.
 *
 * KVRail asks for one that does not pace on loopback (engine/fabric/tcp.c); redis, memcached and libfabric's own tools
 * take the system's default. What that alone is worth is not ours to claim, so the driver measures the others both
 * ways. A socket that listens hands it to what it accepts. One that is refused stays as it is, and is told on
 * stderr: the comparison would not be what its label says. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	int fd = (int)syscall(SYS_socket, domain, type, protocol);
	const char *name = getenv("BENCH_CONGESTION");
	int tcp = (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM;
	if (fd < 0 || !tcp || !name || !name[0])
		return fd;
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) < 0)
		fprintf(stderr, "congestion control %s: %s\n", name, strerror(errno));
	return fd;
}
