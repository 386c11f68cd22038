/* SPDX-License-Identifier: Apache-2.0 */
/* dns.c -- members by a name with several addresses, such as a headless service: dns:NAME:PORT.
 *
 * The name is looked up every 5 s, by getaddrinfo on this thread, which serves nobody. Each address is a member. Its id
 * is what the reverse look-up calls it, if that is a name below NAME ("kv-0.kv.ns.svc..." for "kv.ns.svc"): then keys
 * stay where they are when addresses change. Else the id is ADDRESS:PORT. An address is asked for its name once, and
 * again when it was away. All servers do the same, so they have the same ids.
 *
 * A resolver that cannot say now what an address is called has not said that it has no name: a server that took the
 * address for its id would differ from the others for good. So the address is left out: it is no member yet, and is
 * asked for again at the next look, behind the other addresses. After LOOKS_LEFT looks in a row that left one out, the
 * next look asks once more, and then an id is ADDRESS:PORT. Each question without an answer is waited for, so a look
 * has one of them, and looks are counted, not questions: in a network where such questions are never answered, all
 * addresses are ids by then. The first view waits for all of its names: a part of the members, told as news, would draw
 * clients from the whole view that they have.
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

enum { LOOKS_LEFT = 3 };

#define LOOK_NS 5000000000ull

struct source {
	struct source_setup setup;
	struct kv_hostport at;
	struct kv_view known; /* by these an address keeps its id */
	bool told;            /* there is a first view */
	uint64_t epoch;
	char silent[KV_MEMBER_ADDRESS]; /* the address whose name nobody could say in the last look, or "" */
	unsigned looks_left;            /* looks in a row that left an address out */
};

/* One look. */
struct look {
	struct kv_view found;
	char last[KV_MEMBER_ADDRESS]; /* asked for behind the others */
	bool silent;                  /* a question had no answer: no further one is asked */
	unsigned left_out;            /* addresses that are no members yet, since nobody says their names */
	unsigned unnamed;             /* those that are members under their addresses for that reason */
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

/* Give a member its id: its name, or its address if it has none. False: nobody says what it is called, and it is to be
 * asked for again. */
static bool name_take(struct source *s, struct look *l, const struct addrinfo *a, struct kv_member *m)
{
	char name[NI_MAXHOST];
	int rc;

	snprintf(m->node_id, sizeof(m->node_id), "%.*s", KV_NAME_MAX - 1, m->address);
	if (!l->silent) {
		rc = s->setup.names->name_of(a, name, sizeof(name));
		if (rc == 0)
			label_take(s, name, m);
		if (rc != EAI_AGAIN)
			return true;
		l->silent = true;
		snprintf(s->silent, sizeof(s->silent), "%s", m->address);
	}
	if (s->looks_left < LOOKS_LEFT) {
		l->left_out++;
		return false;
	}
	l->unnamed++;
	return true;
}

/* last: it is the turn of the address that is asked for behind the others. */
static int address_take(struct source *s, struct look *l, const struct addrinfo *a, bool last)
{
	struct sockaddr_storage addr = {0};
	struct kv_member m = {.weight = KV_WEIGHT_DEFAULT, .state = KV_MEMBER_UP};
	const struct kv_member *was;

	if (a->ai_addrlen > sizeof(addr) || (a->ai_family != AF_INET && a->ai_family != AF_INET6))
		return 0;
	memcpy(&addr, a->ai_addr, a->ai_addrlen);
	kv_sockaddr_format(&addr, m.address, sizeof(m.address));
	if ((strcmp(m.address, l->last) == 0) != last || members_by_address(&l->found, m.address))
		return 0;
	was = members_by_address(&s->known, m.address);
	if (was)
		memcpy(m.node_id, was->node_id, sizeof(m.node_id));
	else if (!name_take(s, l, a, &m))
		return 0;
	if (kv_view_find(&l->found, m.node_id)) /* two addresses of one name (IPv4 and IPv6): the first one */
		return 0;
	return kv_view_add(&l->found, &m);
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
static int addresses_take(struct source *s, const struct addrinfo *list, struct look *l)
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
	for (size_t i = 0; i < 2 * n && rc == 0; i++)
		rc = address_take(s, l, sorted[i % n], i >= n);
	free(sorted);
	return rc;
}

/* Why the view stays as it is; NULL: there is another one. */
static const char *trouble_of(const struct source *s, const struct look *l, int rc)
{
	if (rc)
		return "too many addresses, or no memory";
	if (l->left_out && (!s->told || l->found.count == 0))
		return "the names of its addresses cannot be looked up now";
	return l->found.count ? NULL : "the name has no address";
}

static void looked_up(struct source *s, const struct addrinfo *list)
{
	const struct source_sink *sink = s->setup.sink;
	struct look l = {.found = {0}};
	const char *trouble;
	int rc;

	memcpy(l.last, s->silent, sizeof(l.last));
	rc = addresses_take(s, list, &l);
	s->looks_left = l.left_out ? s->looks_left + 1 : 0;
	if (!l.silent)
		s->silent[0] = '\0';
	trouble = trouble_of(s, &l, rc);
	if (trouble)
		sink->trouble(sink->arg, trouble);
	if (rc || (trouble && s->told)) {
		kv_view_fini(&l.found);
		return;
	}
	if (l.unnamed)
		sink->unnamed(sink->arg, s->silent, l.unnamed);
	if (!kv_view_same(&l.found, &s->known))
		s->epoch = members_now_ms();
	kv_view_fini(&s->known);
	s->known = l.found;
	s->known.source = members_source("dns", s->setup.spec);
	s->known.epoch = s->epoch;
	if (trouble) /* the next look asks for the other names alone */
		return;
	s->told = true;
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
	.name = "dns", .check = dns_check, .open = dns_open, .turn = dns_turn, .close = dns_close, .own_epochs = true};
