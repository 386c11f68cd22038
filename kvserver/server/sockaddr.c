/* SPDX-License-Identifier: Apache-2.0 */
/* sockaddr.c -- ports and wildcards of IPv4 and IPv6 socket addresses. Pure functions over copies: no aliasing of the
 * storage. */
#include "kvserver/server/private.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

uint16_t address_port(const struct sockaddr_storage *a)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	memcpy(&v4, a, sizeof(v4));
	memcpy(&v6, a, sizeof(v6));
	if (a->ss_family == AF_INET)
		return ntohs(v4.sin_port);
	return a->ss_family == AF_INET6 ? ntohs(v6.sin6_port) : 0;
}

void address_set_port(struct sockaddr_storage *a, uint16_t port)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	memcpy(&v4, a, sizeof(v4));
	memcpy(&v6, a, sizeof(v6));
	v4.sin_port = v6.sin6_port = htons(port);
	if (a->ss_family == AF_INET)
		memcpy(a, &v4, sizeof(v4));
	else if (a->ss_family == AF_INET6)
		memcpy(a, &v6, sizeof(v6));
}

bool address_is_any(const struct sockaddr_storage *a)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	memcpy(&v4, a, sizeof(v4));
	memcpy(&v6, a, sizeof(v6));
	if (a->ss_family == AF_INET)
		return v4.sin_addr.s_addr == htonl(INADDR_ANY);
	return a->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}
