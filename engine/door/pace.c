/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c -- congestion control of tcp connections over loopback. bbr, a common default, paces by a timer for every
 * segment; reno does not. A connection keeps pacing after a change, so reno is set on listening sockets (fabric/tcp.c),
 * and on sockets about to connect (door/calls.c). */
#include "engine/door/pace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

bool pace_loopback(const struct sockaddr *address)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	if (address->sa_family == AF_INET) {
		memcpy(&in, address, sizeof(in));
		return ntohl(in.sin_addr.s_addr) >> 24 == 127;
	}
	if (address->sa_family != AF_INET6)
		return false;
	memcpy(&in6, address, sizeof(in6));
	return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

int pace_off(int fd)
{
	static const char unpaced[] = "reno";
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1) ? errno : 0;
}
