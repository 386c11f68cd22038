/* SPDX-License-Identifier: Apache-2.0 */
/* rival.c -- redis (RESP) and memcached (text) as far as the load tools need them. */
#include "tests/bench/rival.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

const char *const rival_protocols[] = {"redis", "memcached", NULL};
const char *rival_program = "kvload";

void rival_die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", rival_program, what, why);
	exit(1);
}

void rival_die_errno(const char *what)
{
	rival_die(what, strerror(errno));
}

static int connect_unix(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sun.sun_path))
		rival_die(path, "too long for a unix socket");
	memcpy(sun.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		rival_die_errno(path);
	return fd;
}

static int connect_tcp(const char *address)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *ai;
	struct kv_hostport hp;
	struct kv_error err = {0};
	char port[16];
	int fd, one = 1, rc;

	if (kv_hostport_parse(address, &hp, &err) < 0)
		rival_die(address, err.text);
	snprintf(port, sizeof(port), "%u", (unsigned)hp.port);
	rc = getaddrinfo(hp.host, port, &hints, &ai);
	if (rc)
		rival_die(address, gai_strerror(rc));
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen) < 0)
		rival_die_errno(address);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(ai);
	return fd;
}

int rival_connect(const struct rival *rival)
{
	const char *address = rival->address;
	struct timeval tv = {.tv_sec = RIVAL_GRACE_S};
	int fd = strchr(address, '/') ? connect_unix(address) : connect_tcp(address);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return fd;
}

int rival_put_head(int protocol, const struct bench_key *key, uint64_t size, char out[RIVAL_HEAD_BYTES])
{
	if (protocol == RIVAL_REDIS)
		return snprintf(out, RIVAL_HEAD_BYTES, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%llu\r\n", key->len,
				key->text, (unsigned long long)size);
	return snprintf(out, RIVAL_HEAD_BYTES, "set %s 0 0 %llu\r\n", key->text, (unsigned long long)size);
}

int rival_get(int protocol, const struct bench_key *key, char out[RIVAL_HEAD_BYTES])
{
	if (protocol == RIVAL_REDIS)
		return snprintf(out, RIVAL_HEAD_BYTES, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", key->len, key->text);
	return snprintf(out, RIVAL_HEAD_BYTES, "get %s\r\n", key->text);
}

const char *rival_stored_text(int protocol)
{
	return protocol == RIVAL_REDIS ? "+OK\r\n" : "STORED\r\n";
}

size_t rival_tail(int protocol)
{
	return protocol == RIVAL_REDIS ? 2 : 7; /* "\r\n", "\r\nEND\r\n" */
}

int64_t rival_value_header(int protocol, const char *line)
{
	unsigned long long len;

	if (strncmp(line, protocol == RIVAL_REDIS ? "$-1" : "END", 3) == 0)
		return -1;
	if (sscanf(line, protocol == RIVAL_REDIS ? "$%llu" : "VALUE %*s %*s %llu", &len) != 1 || len > INT64_MAX)
		rival_die("GET failed", line);
	return (int64_t)len;
}
