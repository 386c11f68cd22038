/* SPDX-License-Identifier: Apache-2.0 */
/* dns.c -- members by a name with several addresses, such as a headless service: dns:NAME:PORT.
 *
 * The name is looked up every 5 s. Each address is a member. Its id is its reverse name, if that lies below NAME
 * ("kv-0.kv.ns.svc..." for "kv.ns.svc"), else ADDRESS:PORT; addresses of one name are one member. An address is asked
 * for its name once, and again after an absence. Where addresses of both families lack names, only one family counts:
 * this server's own, else IPv4.
 *
 * An address whose look-up fails is left out, since another server may know its name. After LOOKS_LEFT such looks its
 * id is ADDRESS:PORT. "No such name" may mean a resolver without upstream, so the view stays. The epoch is the time of
 * the observed change in ms. */
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

struct address {
	const struct addrinfo *at; /* of this look */
	char text[KV_MEMBER_ADDRESS];
	unsigned looks; /* consecutive ones that left it out */
	unsigned asked; /* unanswered questions for its name */
};

struct source {
	struct source_setup setup;
	struct kv_hostport at;
	struct kv_view known;
	bool reported; /* there is a first view */
	unsigned waits;
	uint64_t epoch;
	struct address *left; /* out by the last look */
	size_t left_count;
	bool one_family_logged;
};

/* One look. */
struct look {
	struct kv_view found;
	struct address *address;
	size_t count;
	size_t left;
	bool silent;
	unsigned unnamed;
	char unnamed_at[KV_MEMBER_ADDRESS]; /* the first of them */
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
	free((*s)->left);
	free(*s);
	*s = NULL;
}

/* The first label of a name below the looked-up one. */
static void label_take(const struct source *s, const char *name, struct kv_member *m)
{
	size_t label = strcspn(name, "."), len = strlen(name), host = strlen(s->at.host);
	while (len && name[len - 1] == '.')
		len--;
	while (host && s->at.host[host - 1] == '.')
		host--;
	/* "kv-0.kv.ns.svc.cluster.local" for "kv.ns.svc" as well: the looked-up name may be short */
	if (label == 0 || label >= sizeof(m->node_id) || label + 1 + host > len ||
	    strncasecmp(name + label + 1, s->at.host, host) != 0 ||
	    (label + 1 + host < len && name[label + 1 + host] != '.'))
		return;
	snprintf(m->node_id, sizeof(m->node_id), "%.*s", (int)label, name);
}

/* Give a member its id: its name, or its address without one. False: the name is unknown, and will be asked for again.
 */
static bool name_take(const struct source *s, struct look *l, struct address *a, struct kv_member *m)
{
	char name[NI_MAXHOST];
	int rc;
	snprintf(m->node_id, sizeof(m->node_id), "%.*s", KV_NAME_MAX - 1, m->address);
	if (!l->silent) {
		rc = s->setup.names->name_of(a->at, name, sizeof(name));
		if (rc == 0)
			label_take(s, name, m);
		if (rc != EAI_AGAIN)
			return true;
		l->silent = true;
		a->asked++;
	}
	if (a->looks++ < LOOKS_LEFT)
		return false;
	if (l->unnamed++ == 0)
		snprintf(l->unnamed_at, sizeof(l->unnamed_at), "%s", m->address);
	return true;
}

static int address_take(const struct source *s, struct look *l, struct address *a)
{
	struct kv_member m = {.weight = KV_WEIGHT_DEFAULT, .state = KV_MEMBER_UP};
	const struct kv_member *was = members_by_address(&s->known, a->text);
	memcpy(m.address, a->text, sizeof(m.address));
	if (was) {
		memcpy(m.node_id, was->node_id, sizeof(m.node_id));
	} else if (!name_take(s, l, a, &m)) {
		l->address[l->left++] = *a;
		return 0;
	}
	was = kv_view_find(&l->found, m.node_id);
	if (!was)
		return kv_view_add(&l->found, &m);
	m = *was;
	(void)kv_where_add(m.address, a->text);
	kv_where_sort(m.address);
	return members_put(&l->found, &m);
}

static int in_turn(const void *a, const void *b)
{
	const struct address *one = a, *other = b;
	const struct addrinfo *x = one->at, *y = other->at;
	if (one->asked != other->asked)
		return one->asked < other->asked ? -1 : 1;
	if (x->ai_family != y->ai_family)
		return x->ai_family == AF_INET ? -1 : 1;
	if (x->ai_addrlen != y->ai_addrlen)
		return x->ai_addrlen < y->ai_addrlen ? -1 : 1;
	return memcmp(x->ai_addr, y->ai_addr, x->ai_addrlen);
}

static void address_add(const struct source *s, struct look *l, const struct addrinfo *at)
{
	struct address *a = &l->address[l->count];
	struct sockaddr_storage addr = {0};
	if (at->ai_addrlen > sizeof(addr) || (at->ai_family != AF_INET && at->ai_family != AF_INET6))
		return;
	memcpy(&addr, at->ai_addr, at->ai_addrlen);
	a->at = at;
	kv_sockaddr_format(&addr, a->text, sizeof(a->text));
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->address[i].text, a->text) == 0)
			return;
	for (size_t i = 0; i < s->left_count; i++)
		if (strcmp(s->left[i].text, a->text) == 0) {
			a->looks = s->left[i].looks;
			a->asked = s->left[i].asked;
		}
	l->count++;
}

/* Except for repeated questions, in an order shared by all servers; resolvers rotate theirs. */
static int addresses_take(const struct source *s, const struct addrinfo *list, struct look *l)
{
	size_t n = 0;
	int rc = 0;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		n++;
	l->address = calloc(KV_MAX(n, (size_t)1), sizeof(*l->address));
	if (!l->address)
		return -KV_ENOMEM;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		address_add(s, l, a);
	qsort(l->address, l->count, sizeof(*l->address), in_turn);
	for (size_t i = 0; i < l->count && rc == 0; i++)
		rc = address_take(s, l, &l->address[i]);
	return rc;
}

static bool is_unnamed(const struct kv_member *m)
{
	return strcmp(m->node_id, m->address) == 0;
}

/* Remove the unnamed members of one family, if both have some. Returns how many. */
static unsigned one_family(const struct source *s, struct kv_view *v)
{
	unsigned count[2] = {0}, out, n = 0;
	for (unsigned i = 0; i < v->count; i++)
		count[v->member[i].address[0] == '['] += is_unnamed(&v->member[i]);
	if (!count[0] || !count[1])
		return 0;
	out = s->setup.self.address[0] != '[';
	for (unsigned i = 0; i < v->count; i++)
		if (!is_unnamed(&v->member[i]) || (v->member[i].address[0] == '[') != out)
			v->member[n++] = v->member[i];
	v->count = n;
	return count[out];
}

static int known_report(struct source *s)
{
	struct kv_view v = {0};
	unsigned out;
	int rc = members_copy(&s->known, &v);
	if (rc)
		return rc;
	out = one_family(s, &v);
	if (out && !s->one_family_logged)
		kv_event(s->setup.log, KV_LOG_WARN, KV_EVENT("members_one_family", KV_NUMBER("left_out", out)),
			 "--members dns: the name has IPv4 and IPv6 addresses without names of their own, so it is "
			 "unknown which two are one server's: %u %s address%s left out; give each server a name below "
			 "%s (reverse look-up), or the name addresses of one family",
			 out, s->setup.self.address[0] == '[' ? "IPv4" : "IPv6", out == 1 ? " is" : "es are",
			 s->at.host);
	s->one_family_logged = out > 0;
	s->setup.sink->members(s->setup.sink->arg, &v);
	kv_view_fini(&v);
	return 0;
}

/* The next look continues with the addresses left out by this one. */
static void left_keep(struct source *s, struct look *l)
{
	for (size_t i = 0; i < l->left; i++)
		l->address[i].at = NULL;
	free(s->left);
	s->left = l->address;
	s->left_count = l->left;
}

/* Why the view stays; NULL: there is another one. */
static const char *trouble_of(const struct source *s, const struct look *l, int rc)
{
	if (rc)
		return "too many addresses, or no memory";
	if (l->left && ((!s->reported && s->waits < LOOKS_LEFT) || l->found.count == 0))
		return "the names of its addresses cannot be looked up now";
	return l->found.count ? NULL : "the name has no address";
}

static void looked_up(struct source *s, const struct addrinfo *list)
{
	const struct source_sink *sink = s->setup.sink;
	struct look l = {.found = {0}};
	const char *trouble;
	int rc = addresses_take(s, list, &l);
	if (rc)
		free(l.address);
	else
		left_keep(s, &l);
	trouble = trouble_of(s, &l, rc);
	if (trouble)
		sink->trouble(sink->arg, trouble);
	if (rc || (trouble && s->reported)) {
		kv_view_fini(&l.found);
		return;
	}
	if (l.unnamed)
		sink->unnamed(sink->arg, l.unnamed_at, l.unnamed);
	if (!kv_view_same(&l.found, &s->known))
		s->epoch = members_now_ms();
	kv_view_fini(&s->known);
	s->known = l.found;
	s->known.source = members_source(s->setup.cluster, "dns", s->setup.spec);
	s->known.epoch = s->epoch;
	if (trouble) {
		s->waits++;
		return;
	}
	s->reported = true;
	if (known_report(s))
		sink->trouble(sink->arg, "no memory");
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
