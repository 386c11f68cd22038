/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_pace.c -- congestion control of tcp connections over loopback.
 *
 * bbr, a common default, paces: it arms a timer for every segment. On loopback nothing is ever lost and no other
 * traffic shares the path, and there those timers took 18 % of all processor time of a run of 64 KiB GETs. reno, which
 * every kernel has and allows to every process, does not pace. A connection that began with bbr goes on pacing after a
 * change, so it is made before: the listening socket of an endpoint is given reno, which the connections that it
 * accepts inherit (fabric_tcp.c), and so is a socket that the provider is about to connect (fabric_door_calls.c). The
 * server's end of a connection, which accepted it, sends the bytes of GETs; the client's end sends those of PUTs. */
#include "engine/fabric_pace.h"

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
