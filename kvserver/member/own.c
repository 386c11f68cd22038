/* SPDX-License-Identifier: Apache-2.0 */
/* own.c -- the addresses of this server. A server that listens on all addresses owns the machine's present ones: IPv4
 * on 0.0.0.0, both families on [::]. */
#include "kvserver/member/private.h"

#include <netinet/in.h>
#include <string.h>

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct sockaddr_in a4, b4;
	struct sockaddr_in6 a6, b6;
	if (a->ss_family != b->ss_family)
		return false;
	memcpy(&a4, a, sizeof(a4));
	memcpy(&b4, b, sizeof(b4));
	memcpy(&a6, a, sizeof(a6));
	memcpy(&b6, b, sizeof(b6));
	return a->ss_family == AF_INET ? a4.sin_addr.s_addr == b4.sin_addr.s_addr
				       : memcmp(&a6.sin6_addr, &b6.sin6_addr, sizeof(a6.sin6_addr)) == 0;
}

static bool listens_at(const struct kv_hostport *listen, const struct sockaddr_storage *a)
{
	struct kv_addresses here = {0};
	if (strcmp(listen->host, "0.0.0.0") == 0)
		return a->ss_family == AF_INET && kv_sockaddr_is_ours(a);
	if (strcmp(listen->host, "::") == 0)
		return kv_sockaddr_is_ours(a);
	return !kv_hostport_numeric(listen, &here) || same_address(&here.addr[0], a);
}

static bool is_own(const struct kv_hostport *at, const struct kv_hostport *listen)
{
	struct kv_addresses found = {0};
	if (at->port != listen->port)
		return false;
	if (kv_hostport_look_up(at, &found, NULL))
		return true;
	for (unsigned i = 0; i < found.count; i++)
		if (listens_at(listen, &found.addr[i]))
			return true;
	return false;
}

unsigned own_foreign(const char *where, const char *listen, const char *advertised, char out[KV_WHERE_MAX])
{
	struct kv_hostport at, here;
	char one[KV_WHERE_MAX];
	unsigned foreign = 0;
	out[0] = '\0';
	if (kv_hostport_parse(listen, &here, NULL))
		return 0;
	for (unsigned i = 0; kv_where_at(where, i, &at); i++) {
		kv_hostport_format(&at, one, sizeof(one));
		if (kv_where_has(advertised, one) || is_own(&at, &here))
			continue;
		foreign += kv_where_add(out, one);
	}
	return foreign;
}
