/* SPDX-License-Identifier: Apache-2.0 */
/* dns.c -- members by a name with several addresses, such as a headless service: dns:NAME:PORT.
 *
 * The name is looked up every 5 s, by getaddrinfo on this thread, which serves nobody. Each address is a member. Its id
 * is what the reverse look-up calls it, if that is a name below NAME ("kv-0.kv.ns.svc..." for "kv.ns.svc"): then keys
 * stay where they are when addresses change. Else the id is ADDRESS:PORT. An address is asked for its name once, and
 * again when it was away. All servers do the same, so they have the same ids.
 *
 * A resolver that cannot say now what an address is called has not said that it has no name: a server that took the
 * address for its id would differ from the others for good. So that is trouble, and asked again at the next look,
 * NAME_TRIES times in all; in a network where such questions are never answered, addresses are the ids then.
 *
 * "There is no such name" is an answer where a headless service has no member, but it is also what a resolver says that
 * has lost its upstream: it is trouble here, and the view stays. DNS has neither numbers nor states: all are up. The
 * epoch is the time, in ms, at which the change was seen. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kvserver/member/source.h"

enum { NAME_TRIES = 3 };

#define LOOK_NS 5000000000ull

struct source {
	struct source_setup setup;
	struct kv_hostport at;
	struct kv_view known;
	uint64_t epoch;
	unsigned unnamed; /* looks in a row that ended with an address without an answer about its name */
};

static int name_of(const struct addrinfo *a, char *buf, unsigned cap)
{
	return getnameinfo(a->ai_addr, a->ai_addrlen, buf, cap, NULL, 0, NI_NAMEREQD);
}

static const struct source_names libc_names = {.look_up = getaddrinfo, .free = freeaddrinfo, .name_of = name_of};

static int spec_parse(const char *spec, struct kv_hostport *out, struct kv_error *err)
{
	int rc = kv_hostport_parse(spec, out, err);

	if (rc)
		return rc;
	return out->port ? 0 : kv_fail(err, -KV_EINVAL, "'%.200s': port 0 is no server's", spec);
}

static int dns_check(const struct source_setup *setup, struct kv_error *err)
{
	struct kv_hostport at;

	return spec_parse(setup->spec, &at, err) ? kv_fail_more(err, "--members dns") : 0;
}

static int dns_open(const struct source_setup *setup, struct source **out)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return -KV_ENOMEM;
	s->setup = *setup;
	if (!s->setup.names)
		s->setup.names = &libc_names;
	spec_parse(setup->spec, &s->at, NULL);
	*out = s;
	return 0;
}

static void dns_close(struct source **s)
{
	kv_view_fini(&(*s)->known);
	free(*s);
	*s = NULL;
}

/* The first label of a name below the one that is looked up. */
static void label_take(const struct source *s, const char *name, struct kv_member *m)
{
	size_t label = strcspn(name, "."), len = strlen(name), host = strlen(s->at.host);

	while (len && name[len - 1] == '.')
		len--;
	while (host && s->at.host[host - 1] == '.')
		host--;
	/* "kv-0.kv.ns.svc.cluster.local" for "kv.ns.svc" as well: what is looked up may be short */
	if (label == 0 || label >= sizeof(m->node_id) || label + 1 + host > len ||
	    strncasecmp(name + label + 1, s->at.host, host) != 0 ||
	    (label + 1 + host < len && name[label + 1 + host] != '.'))
		return;
	snprintf(m->node_id, sizeof(m->node_id), "%.*s", (int)label, name);
}

/* 0, also where it has no name; -EAGAIN: nobody says. */
static int name_take(const struct source *s, const struct addrinfo *a, struct kv_member *m)
{
	char name[NI_MAXHOST];
	int rc;

	if (s->unnamed >= NAME_TRIES)
		return 0; /* each question would be waited for */
	rc = s->setup.names->name_of(a, name, sizeof(name));
	if (rc == 0)
		label_take(s, name, m);
	return rc == EAI_AGAIN ? -EAGAIN : 0;
}

static int address_take(const struct source *s, const struct addrinfo *a, struct kv_view *out)
{
	struct sockaddr_storage addr = {0};
	struct kv_member m = {.weight = KV_WEIGHT_DEFAULT, .state = KV_MEMBER_UP};
	const struct kv_member *was;

	if (a->ai_addrlen > sizeof(addr) || (a->ai_family != AF_INET && a->ai_family != AF_INET6))
		return 0;
	memcpy(&addr, a->ai_addr, a->ai_addrlen);
	kv_sockaddr_format(&addr, m.address, sizeof(m.address));
	if (members_by_address(out, m.address))
		return 0;
	was = members_by_address(&s->known, m.address);
	snprintf(m.node_id, sizeof(m.node_id), "%.*s", KV_NAME_MAX - 1, was ? was->node_id : m.address);
	if (!was && name_take(s, a, &m))
		return -EAGAIN;
	if (kv_view_find(out, m.node_id)) /* two addresses of one name (IPv4 and IPv6): the first one */
		return 0;
	return kv_view_add(out, &m);
}

static int by_address(const void *a, const void *b)
{
	const struct addrinfo *one = *(const struct addrinfo *const *)a, *other = *(const struct addrinfo *const *)b;

	if (one->ai_family != other->ai_family)
		return one->ai_family == AF_INET ? -1 : 1;
	if (one->ai_addrlen != other->ai_addrlen)
		return one->ai_addrlen < other->ai_addrlen ? -1 : 1;
	return memcmp(one->ai_addr, other->ai_addr, one->ai_addrlen);
}

/* In an order that all servers share; resolvers turn theirs round. */
static int addresses_take(const struct source *s, const struct addrinfo *list, struct kv_view *out)
{
	const struct addrinfo **sorted;
	size_t n = 0;
	int rc = 0;

	for (const struct addrinfo *a = list; a; a = a->ai_next)
		n++;
	sorted = calloc(KV_MAX(n, (size_t)1), sizeof(const struct addrinfo *));
	if (!sorted)
		return -KV_ENOMEM;
	n = 0;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		sorted[n++] = a;
	qsort(sorted, n, sizeof(const struct addrinfo *), by_address);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = address_take(s, sorted[i], out);
	free(sorted);
	return rc;
}

static void looked_up(struct source *s, const struct addrinfo *list)
{
	const struct source_sink *sink = s->setup.sink;
	struct kv_view found = {0};
	int rc = addresses_take(s, list, &found);

	s->unnamed = rc == -EAGAIN ? s->unnamed + 1 : 0;
	if (rc || found.count == 0) {
		sink->trouble(sink->arg, rc == -EAGAIN ? "the names of its addresses cannot be looked up now"
					 : rc          ? "too many addresses, or no memory"
						       : "the name has no address");
		kv_view_fini(&found);
		return;
	}
	if (!kv_view_same(&found, &s->known))
		s->epoch = members_now_ms();
	kv_view_fini(&s->known);
	s->known = found;
	s->known.source = members_source("dns", s->setup.spec);
	s->known.epoch = s->epoch;
	sink->members(sink->arg, &s->known);
}

static uint64_t dns_turn(struct source *s, uint64_t now_ns)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	const struct source_sink *sink = s->setup.sink;
	struct addrinfo *list = NULL;
	char port[8], why[KV_HOST_MAX + 128];
	int rc;

	snprintf(port, sizeof(port), "%u", s->at.port);
	rc = s->setup.names->look_up(s->at.host, port, &hints, &list);
	if (rc) {
		snprintf(why, sizeof(why), "%s: %s", s->at.host,
			 rc == EAI_SYSTEM ? kv_strerror(-errno) : gai_strerror(rc));
		sink->trouble(sink->arg, why);
		return now_ns + LOOK_NS / s->setup.pace;
	}
	looked_up(s, list);
	s->setup.names->free(list);
	return now_ns + LOOK_NS / s->setup.pace;
}

const struct source_class source_dns = {
	.name = "dns", .check = dns_check, .open = dns_open, .turn = dns_turn, .close = dns_close};
