/* SPDX-License-Identifier: Apache-2.0 */
/* addr.c -- "host:port" to a socket address and back.
 *
 * An IPv6 address needs brackets. IPv4 addresses of a name come first: the fabric takes the interface of the first
 * address, and "localhost" must reach a server on 127.0.0.1. Several addresses of a server are one text with '+' in
 * between, unchanged everywhere, so that all compute one digest of a view. */
#include "base/addr.h"

#include <strings.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/units.h"

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* scheme_skip -- the text behind "http://" or another scheme, or text itself. */
static const char *scheme_skip(const char *text)
{
	const char *p = text;
	while (is_alnum(*p) || *p == '+' || *p == '-' || *p == '.')
		p++;
	return p > text && strncmp(p, "://", 3) == 0 ? p + 3 : text;
}

static bool is_name(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_alnum(s[i]) && !strchr("-._", s[i]))
			return false;
	}
	return n > 0;
}

/* is_v6 -- whether the n characters are an IPv6 address, with or without a zone ("fe80::1%eth0"). */
static bool is_v6(const char *s, size_t n)
{
	const char *zone = memchr(s, '%', n);
	size_t len = zone ? (size_t)(zone - s) : n;
	char text[INET6_ADDRSTRLEN];
	struct in6_addr ignored;
	if (len >= sizeof(text) || (zone && !is_name(zone + 1, n - len - 1)))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return inet_pton(AF_INET6, text, &ignored) == 1;
}

static bool port_parse(const char *s, size_t n, uint16_t *out)
{
	char digits[8];
	uint64_t v;
	if (n == 0 || n >= sizeof(digits) || memchr(s, 'x', n) || memchr(s, 'X', n))
		return false;
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (kv_u64_parse(digits, &v) != 0 || v > UINT16_MAX)
		return false;
	*out = (uint16_t)v;
	return true;
}

/* host_span -- find the host in s[0..n): start, length, and the place of a ":port". NULL, or a sentence why there is no
 * host. */
static const char *host_span(const char *s, size_t n, const char **out_host, size_t *out_len, const char **out_rest)
{
	if (n > 0 && s[0] == '[') {
		const char *close = memchr(s, ']', n);
		if (!close)
			return "the bracket is not closed";
		*out_host = s + 1;
		*out_len = (size_t)(close - s - 1);
		*out_rest = close + 1;
		return is_v6(*out_host, *out_len) ? NULL : "the text in brackets is not an IPv6 address";
	}
	const char *colon = memchr(s, ':', n);
	*out_host = s;
	*out_len = colon ? (size_t)(colon - s) : n;
	*out_rest = s + *out_len;
	if (colon && memchr(colon + 1, ':', (size_t)(s + n - colon - 1)))
		return "put an IPv6 address in brackets, as in [::1]:7411";
	if (*out_len == 0)
		return "the host is missing (to listen on every address, name 0.0.0.0)";
	return is_name(*out_host, *out_len) ? NULL
					    : "the host has characters that are not valid in names and addresses";
}

int kv_hostport_parse(const char *text, struct kv_hostport *out, struct kv_error *err)
{
	const char *host = NULL, *rest = NULL, *s = text ? scheme_skip(text) : "";
	struct kv_hostport hp = {.port = KV_PORT_DEFAULT};
	size_t len = 0, n = strlen(s);
	if (n > 0 && s[n - 1] == '/')
		n--;
	const char *wrong = host_span(s, n, &host, &len, &rest);
	if (!wrong && len >= KV_HOST_MAX)
		wrong = "the host is longer than 255 characters";
	if (!wrong && rest != s + n && (*rest != ':' || !port_parse(rest + 1, (size_t)(s + n - rest - 1), &hp.port)))
		wrong = "the port is not a number from 0 to 65535";
	if (wrong)
		return kv_fail(err, -KV_EINVAL, "'%.100s' is not HOST:PORT: %s", text ? text : "", wrong);
	memcpy(hp.host, host, len);
	*out = hp;
	return 0;
}

char *kv_hostport_format(const struct kv_hostport *hp, char *buf, size_t cap)
{
	bool v6 = strchr(hp->host, ':') != NULL;
	snprintf(buf, cap, v6 ? "[%s]:%u" : "%s:%u", hp->host, hp->port);
	return buf;
}

int kv_node_id_check(const char *id, struct kv_error *err)
{
	size_t n = strlen(id);
	bool good = n > 0 && n < KV_NAME_MAX;
	for (size_t i = 0; i < n && good; i++)
		good = id[i] > ' ' && id[i] <= '~' && id[i] != '=' && id[i] != ',';
	if (good)
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       "'%.100s' cannot be the name of a server: "
		       "it must have 1 to %d characters of ASCII, without spaces, '=' and ','",
		       id, KV_NAME_MAX - 1);
}

/* ---- several addresses of one server ---- */

static size_t part_len(const char *s)
{
	return strcspn(s, "+");
}

static const char *part_at(const char *where, unsigned i, size_t *out_len)
{
	while (i > 0 && *where) {
		where += part_len(where);
		where += *where == '+';
		i--;
	}
	*out_len = part_len(where);
	return *where ? where : NULL;
}

bool kv_where_at(const char *where, unsigned i, struct kv_hostport *out)
{
	char text[KV_WHERE_MAX];
	size_t len;
	const char *at = part_at(where, i, &len);
	if (!at || len >= sizeof(text))
		return false;
	memcpy(text, at, len);
	text[len] = '\0';
	return kv_hostport_parse(text, out, NULL) == 0;
}

static bool has(const char *where, const char *one, size_t len)
{
	size_t n;
	const char *at;
	for (unsigned i = 0; (at = part_at(where, i, &n)) != NULL; i++)
		if (n == len && strncasecmp(at, one, n) == 0) /* names ignore case */
			return true;
	return false;
}

bool kv_where_has(const char *where, const char *one)
{
	return one[0] && has(where, one, strlen(one));
}

bool kv_where_shares(const char *a, const char *b)
{
	size_t len;
	const char *at;
	for (unsigned i = 0; (at = part_at(a, i, &len)) != NULL; i++)
		if (has(b, at, len))
			return true;
	return false;
}

static unsigned parts(const char *where)
{
	unsigned n = where[0] != '\0';
	for (; *where; where++)
		n += *where == '+';
	return n;
}

bool kv_where_add(char where[KV_WHERE_MAX], const char *one)
{
	size_t len = strlen(where), more = strlen(one);
	if (kv_where_has(where, one))
		return true;
	if (parts(where) == KV_WHERE_ADDRESSES || len + (len > 0) + more >= KV_WHERE_MAX)
		return false;
	if (len)
		where[len++] = '+';
	memcpy(where + len, one, more + 1);
	return true;
}

/* 0: IPv4, 1: IPv6, 2: a name. */
static int part_kind(const char *text)
{
	struct kv_hostport hp;
	struct in_addr ignored;
	if (text[0] == '[')
		return 1;
	return kv_hostport_parse(text, &hp, NULL) == 0 && inet_pton(AF_INET, hp.host, &ignored) == 1 ? 0 : 2;
}

static int part_order(const void *a, const void *b)
{
	int kind = part_kind(a) - part_kind(b);
	return kind ? kind : strcmp(a, b);
}

void kv_where_sort(char where[KV_WHERE_MAX])
{
	char part[KV_WHERE_ADDRESSES][KV_WHERE_MAX];
	unsigned n = 0;
	size_t len;
	for (const char *at; n < KV_WHERE_ADDRESSES && (at = part_at(where, n, &len)) != NULL; n++)
		snprintf(part[n], sizeof(part[n]), "%.*s", (int)len, at);
	qsort(part, n, sizeof(part[0]), part_order);
	where[0] = '\0';
	for (unsigned i = 0; i < n; i++)
		(void)kv_where_add(where, part[i]);
}

static bool is_link_local(const char *host)
{
	struct in6_addr in6;
	char text[INET6_ADDRSTRLEN];
	size_t len = strcspn(host, "%");
	if (len >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)len, host);
	return inet_pton(AF_INET6, text, &in6) == 1 && IN6_IS_ADDR_LINKLOCAL(&in6);
}

static int where_take(const char *text, char out[KV_WHERE_MAX], struct kv_error *err)
{
	struct kv_hostport hp;
	char one[KV_WHERE_MAX];
	int rc = kv_hostport_parse(text, &hp, err);
	if (rc < 0)
		return rc;
	if (hp.port == 0)
		return kv_fail(err, -KV_EINVAL,
			       "'%.100s': port 0 is no server's; give the port that kv-server listens on", text);
	if (is_link_local(hp.host))
		return kv_fail(err, -KV_EINVAL,
			       "'%.100s' is a link-local address: it means another machine on each interface; give an "
			       "address of the whole network",
			       text);
	kv_hostport_format(&hp, one, sizeof(one));
	if (kv_where_has(out, one))
		return kv_fail(err, -KV_EINVAL, "the address %s is listed twice", one);
	if (!kv_where_add(out, one))
		return kv_fail(err, -KV_EINVAL,
			       "a server has at most %d addresses, of %d characters together; leave %.100s out",
			       KV_WHERE_ADDRESSES, KV_WHERE_MAX - 1, one);
	return 0;
}

int kv_where_parse(const char *text, char *out, struct kv_error *err)
{
	char where[KV_WHERE_MAX] = "", one[KV_WHERE_MAX + 64];
	const char *at = text;
	int rc;
	do {
		size_t len = part_len(at);
		snprintf(one, sizeof(one), "%.*s", (int)KV_MIN(len, sizeof(one) - 1), at);
		rc = where_take(one, where, err);
		at += len;
	} while (rc == 0 && *at++ == '+');
	if (rc == 0 && out)
		memcpy(out, where, sizeof(where));
	return rc;
}

/* ---- an entry of a list of servers ---- */

int kv_server_entry_parse(const char *text, struct kv_server_entry *out, struct kv_error *err)
{
	const char *equals = text ? strchr(text, '=') : NULL;
	struct kv_server_entry e = {.named = equals != NULL};
	size_t len = equals ? (size_t)(equals - text) : 0;
	const char *at = text ? text : "";
	int rc;
	if (equals)
		at = equals + 1;
	if (at[0] == '\0' || at[0] == ':')
		return kv_fail(
			err, -KV_EINVAL,
			"'%.100s' names no host; a server is HOST:PORT or NAME=HOST:PORT, with the host's name or "
			"address (port %u where none is given)",
			text ? text : "", KV_PORT_DEFAULT);
	if (strchr(at, ','))
		return kv_fail(err, -KV_EINVAL,
			       "'%.100s' has a comma: name several servers one by one, as in --server A --server B",
			       text);
	rc = kv_where_parse(at, e.where, err);
	if (rc < 0)
		return rc;
	if (!equals && strchr(e.where, '+'))
		return kv_fail(err, -KV_EINVAL,
			       "'%.100s' are several addresses of one server: give it a name, NAME=HOST:PORT+HOST:PORT",
			       text);
	(void)kv_where_at(e.where, 0, &e.at);
	/* One character more than a name may have, so that the check below refuses it. */
	snprintf(e.id, sizeof(e.id), "%.*s", equals ? (int)KV_MIN(len, (size_t)KV_NAME_MAX) : (int)sizeof(e.where),
		 equals ? text : e.where);
	if (equals && kv_node_id_check(e.id, err) < 0)
		return -KV_EINVAL;
	snprintf(e.text, sizeof(e.text), "%.*s%s%s", equals ? KV_NAME_MAX : 0, e.id, equals ? "=" : "", e.where);
	*out = e;
	return 0;
}

static int resolve_fail(const struct kv_hostport *hp, int rc, int saved_errno, struct kv_error *err)
{
	const char *why = rc == EAI_SYSTEM ? kv_strerror(saved_errno) : gai_strerror(rc);
	return kv_fail(err, -KV_EINVAL, "cannot resolve host '%.100s': %s; check the name, or give an IP address",
		       hp->host, why);
}

static void address_add(struct kv_addresses *out, const void *addr, socklen_t len)
{
	unsigned i = out->count;
	if (i == KV_ADDRESSES_MAX || len > sizeof(out->addr[0]))
		return;
	memset(&out->addr[i], 0, sizeof(out->addr[i]));
	memcpy(&out->addr[i], addr, len);
	out->len[i] = len;
	out->count++;
}

static int addresses_get(const struct kv_hostport *hp, int flags, struct kv_addresses *out)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
	struct addrinfo *list = NULL;
	char port[8];
	int rc;
	snprintf(port, sizeof(port), "%u", hp->port);
	rc = getaddrinfo(hp->host, port, &hints, &list);
	if (rc != 0)
		return rc;
	out->count = 0;
	for (int pass = 0; pass < 2; pass++)
		for (const struct addrinfo *a = list; a; a = a->ai_next)
			if ((a->ai_family == AF_INET) == (pass == 0))
				address_add(out, a->ai_addr, a->ai_addrlen);
	freeaddrinfo(list);
	return out->count ? 0 : EAI_NONAME;
}

bool kv_hostport_numeric(const struct kv_hostport *hp, struct kv_addresses *out)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(hp->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(hp->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	if (strcasecmp(hp->host, "localhost") != 0)
		return addresses_get(hp, AI_NUMERICHOST, out) == 0;
	/* RFC 6761: localhost is the loopback, also without /etc/hosts. */
	out->count = 0;
	address_add(out, &v4, sizeof(v4));
	address_add(out, &v6, sizeof(v6));
	return true;
}

int kv_hostport_look_up(const struct kv_hostport *hp, struct kv_addresses *out, struct kv_error *err)
{
	int rc;
	if (kv_hostport_numeric(hp, out))
		return 0;
	rc = addresses_get(hp, 0, out);
	return rc ? resolve_fail(hp, rc, errno, err) : 0;
}

int kv_hostport_resolve(const struct kv_hostport *hp, struct sockaddr_storage *out, socklen_t *out_len,
			struct kv_error *err)
{
	struct kv_addresses all = {0};
	int rc = kv_hostport_look_up(hp, &all, err);
	if (rc == 0) {
		*out = all.addr[0];
		*out_len = all.len[0];
	}
	return rc;
}

char *kv_sockaddr_format(const struct sockaddr_storage *sa, char *buf, size_t cap)
{
	char text[INET6_ADDRSTRLEN] = "?";
	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		snprintf(buf, cap, "%s:%u", text, ntohs(in->sin_port));
	} else if (sa->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;
		bool mapped = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
		inet_ntop(mapped ? AF_INET : AF_INET6, in6->sin6_addr.s6_addr + (mapped ? 12 : 0), text, sizeof(text));
		snprintf(buf, cap, mapped ? "%s:%u" : "[%s]:%u", text, ntohs(in6->sin6_port));
	} else {
		snprintf(buf, cap, "address of family %u", sa->ss_family);
	}
	return buf;
}

bool kv_sockaddr_is_loopback(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >> 24 == 127;
	if (sa->ss_family != AF_INET6)
		return false;
	const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static socklen_t size_of(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void port_drop(struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		((struct sockaddr_in *)(void *)sa)->sin_port = 0;
	else if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = 0;
}

bool kv_sockaddr_route(const struct sockaddr_storage *to, socklen_t len, struct sockaddr_storage *out)
{
	socklen_t out_len = sizeof(*out);
	bool found;
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return false;
	/* Connecting a datagram socket only looks up the route. */
	found = connect(fd, (const struct sockaddr *)to, len) == 0 &&
		getsockname(fd, (struct sockaddr *)out, &out_len) == 0;
	close(fd);
	if (!found)
		memset(out, 0, sizeof(*out));
	port_drop(out);
	return found;
}

bool kv_sockaddr_is_ours(const struct sockaddr_storage *sa)
{
	struct sockaddr_storage at = *sa;
	int fd = socket(sa->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours;
	if (fd < 0)
		return true;
	port_drop(&at);
	ours = bind(fd, (const struct sockaddr *)&at, size_of(&at)) == 0 || errno != EADDRNOTAVAIL;
	close(fd);
	return ours;
}

bool kv_sockaddr_is_link_local(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

uint64_t kv_sockaddr_source(const struct sockaddr_storage *address)
{
	uint64_t source = 0;
	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
			memcpy(&source, in6->sin6_addr.s6_addr + 12, 4);
		else
			memcpy(&source, in6->sin6_addr.s6_addr, sizeof(source));
	} else if (address->ss_family == AF_INET) {
		memcpy(&source, &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
	return source;
}
