/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_at.c -- the choice of this machine's address for the fabric.
 *
 * A server that listens on one address has its fabric there. On 0.0.0.0 and [::] the first address of this machine
 * among these is used:
 *
 *   1. the addresses of --advertise
 *   2. the source address of the default route, IPv4 before IPv6 (0.0.0.0: IPv4 alone)
 *   3. the only address of a working interface besides loopback
 *   4. of several: that of the interface with the lowest number; `others` lists the rest */
#include "kvserver/server/fabric_at.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "kvserver/server/private.h"

enum { CANDIDATES_MAX = 16 };

struct candidate {
	struct sockaddr_storage addr;
	char name[IF_NAMESIZE];
	unsigned index;
};

static bool usable(const struct sockaddr_storage *a)
{
	return a->ss_family != 0 && !kv_sockaddr_is_loopback(a) && !kv_sockaddr_is_link_local(a);
}

/* ---- --advertise ---- */

static bool advertised(const char *where, struct sockaddr_storage *out)
{
	struct kv_addresses found;
	struct kv_hostport at;
	for (unsigned i = 0; where && kv_where_at(where, i, &at); i++) {
		if (kv_hostport_look_up(&at, &found, NULL))
			continue;
		for (unsigned k = 0; k < found.count; k++)
			if (kv_sockaddr_is_ours(&found.addr[k])) {
				*out = found.addr[k];
				address_set_port(out, 0);
				return true;
			}
	}
	return false;
}

/* ---- the default route ---- */

/* An address reached by the default route only: of networks for documentation. */
static bool default_route(int family, struct sockaddr_storage *out)
{
	const struct sockaddr_in far4 = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc6336401)};
	const struct sockaddr_in6 far6 = {.sin6_family = AF_INET6,
					  .sin6_port = htons(9),
					  .sin6_addr = {.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}}};
	struct sockaddr_storage far = {0};
	if (family == AF_INET)
		memcpy(&far, &far4, sizeof(far4));
	else
		memcpy(&far, &far6, sizeof(far6));
	return kv_sockaddr_route(&far, family == AF_INET ? sizeof(far4) : sizeof(far6), out) && usable(out);
}

/* ---- the interfaces ---- */

static socklen_t size_of(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* One address for each working interface: the first of that family, ordered by interface number. */
static unsigned candidates(int family, struct candidate *out)
{
	struct ifaddrs *list;
	unsigned n = 0, k;
	if (getifaddrs(&list) != 0)
		return 0;
	for (const struct ifaddrs *i = list; i && n < CANDIDATES_MAX; i = i->ifa_next) {
		struct candidate c = {.index = if_nametoindex(i->ifa_name)};
		if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP))
			continue;
		memcpy(&c.addr, i->ifa_addr, size_of(family));
		snprintf(c.name, sizeof(c.name), "%s", i->ifa_name);
		for (k = 0; k < n && out[k].index != c.index; k++)
			;
		if (k < n || !usable(&c.addr))
			continue;
		for (k = n++; k > 0 && out[k - 1].index > c.index; k--)
			out[k] = out[k - 1];
		out[k] = c;
	}
	freeifaddrs(list);
	return n;
}

static bool interface(int family, struct fabric_at *out)
{
	struct candidate c[CANDIDATES_MAX];
	unsigned n = candidates(family, c);
	size_t len = 0;
	char text[KV_HOST_MAX];
	if (n == 0)
		return false;
	out->addr = c[0].addr;
	address_set_port(&out->addr, 0);
	out->why = n == 1 ? "the only one but loopback" : "the first of several";
	for (unsigned i = 0; n > 1 && i < n && len < sizeof(out->others); i++) {
		kv_sockaddr_format(&c[i].addr, text, sizeof(text));
		*strrchr(text, ':') = '\0'; /* the port, which is 0 */
		len += (size_t)snprintf(out->others + len, sizeof(out->others) - len, "%s%s %s", i ? ", " : "",
					c[i].name, text);
	}
	return true;
}

/* ---- */

void fabric_at_choose(const struct sockaddr_storage *listen, const char *advertise, const char *nic,
		      struct fabric_at *out)
{
	const int families[] = {AF_INET, AF_INET6};
	unsigned n = listen->ss_family == AF_INET6 ? 2 : 1;
	*out = (struct fabric_at){.addr = *listen, .why = nic ? "by --nic" : "by --listen-addr"};
	address_set_port(&out->addr, 0);
	if (!address_is_any(listen))
		return;
	memset(&out->addr, 0, sizeof(out->addr));
	if (nic)
		return;
	out->why = "by --advertise";
	if (advertised(advertise, &out->addr))
		return;
	out->why = "by the default route";
	for (unsigned i = 0; i < n; i++)
		if (default_route(families[i], &out->addr))
			return;
	memset(&out->addr, 0, sizeof(out->addr));
	for (unsigned i = 0; i < n; i++)
		if (interface(families[i], out))
			return;
	out->why = "there is none but loopback";
}
