/* SPDX-License-Identifier: Apache-2.0 */
/* port_holder.c -- find the holder of a TCP address that could not be bound.
 *
 * Besides a listener it may be an outgoing connection: the kernel gives them ports of ip_local_port_range, and such a
 * connection blocks its port until 60 s after its end (TIME_WAIT), whatever SO_REUSEADDR says here. Two addresses
 * conflict if their ports are equal and the addresses are equal or one is any. IPv4 is compared in its IPv6 form. */
#include "loop/port_holder.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* States in the kernel's tables. */
enum { TABLE_TIME_WAIT = 6, TABLE_LISTEN = 10, TABLE_LINE_MAX = 512 };

struct place {
	struct in6_addr host;
	unsigned port;
};

static struct in6_addr mapped(uint32_t v4_be)
{
	struct in6_addr host = {.s6_addr = {[10] = 0xFF, [11] = 0xFF}};
	memcpy(host.s6_addr + 12, &v4_be, sizeof(v4_be));
	return host;
}

static bool is_any(const struct in6_addr *host)
{
	const struct in6_addr v4 = mapped(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(host) || IN6_ARE_ADDR_EQUAL(host, &v4);
}

static struct place place_of(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
	if (addr->ss_family == AF_INET6)
		return (struct place){.host = v6->sin6_addr, .port = ntohs(v6->sin6_port)};
	return (struct place){.host = mapped(v4->sin_addr.s_addr), .port = ntohs(v4->sin_port)};
}

/* "N: LOCAL:PORT REMOTE:PORT STATE ...", in hexadecimal. An address is one or four 32-bit numbers in host byte order.
 */
static bool line_read(const char *line, struct place *out, unsigned *out_state)
{
	unsigned word[4];
	if (sscanf(line, "%*u: %8x%8x%8x%8x:%4x %*32[0-9A-F]:%*x %2x", &word[0], &word[1], &word[2], &word[3],
		   &out->port, out_state) == 6) {
		memcpy(&out->host, word, sizeof(out->host));
		return true;
	}
	if (sscanf(line, "%*u: %8x:%4x %*8[0-9A-F]:%*x %2x", &word[0], &out->port, out_state) != 3)
		return false;
	out->host = mapped(word[0]);
	return true;
}

static enum holder holder_of(unsigned state)
{
	if (state == TABLE_LISTEN)
		return HOLDER_LISTENS;
	return state == TABLE_TIME_WAIT ? HOLDER_LINGERS : HOLDER_CONNECTS;
}

static enum holder table_search(const char *path, const struct place *wanted)
{
	enum holder found = HOLDER_UNSEEN;
	char line[TABLE_LINE_MAX];
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		struct place its;
		unsigned state;
		if (line_read(line, &its, &state) && its.port == wanted->port &&
		    (IN6_ARE_ADDR_EQUAL(&its.host, &wanted->host) || is_any(&its.host) || is_any(&wanted->host)))
			found = KV_MAX(found, holder_of(state));
	}
	if (f)
		fclose(f);
	return found;
}

enum holder holder_find(const struct sockaddr_storage *addr)
{
	const struct place wanted = place_of(addr);
	enum holder v4 = table_search("/proc/net/tcp", &wanted), v6 = table_search("/proc/net/tcp6", &wanted);
	return KV_MAX(v4, v6);
}
