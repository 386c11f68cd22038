/* SPDX-License-Identifier: Apache-2.0 */
/* rival.c -- redis (RESP) and memcached (text) as far as kv-bench versus and kvreplay need them. */
#include "kvbench/versus/rival.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

const char *rival_program = "kv-bench";

void rival_die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", rival_program, what, why);
	exit(1);
}

void rival_die_errno(const char *what)
{
	rival_die(what, strerror(errno));
}

void rival_die_peer(const char *what)
{
	rival_die(what, errno == EPIPE || errno == ECONNRESET ? "the server closed the connection" : strerror(errno));
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
	struct sockaddr_storage to;
	struct kv_hostport hp;
	struct kv_error err = {0};
	socklen_t len = 0;
	int fd, one = 1;
	if (kv_hostport_parse(address, &hp, &err) < 0 || kv_hostport_resolve(&hp, &to, &len, &err) < 0)
		rival_die(address, err.text);
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) < 0)
		rival_die_errno(address);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
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

int rival_delete(int protocol, const struct bench_key *key, char out[RIVAL_HEAD_BYTES])
{
	if (protocol == RIVAL_PROGRAM)
		return snprintf(out, RIVAL_HEAD_BYTES, "delete %s\n", key->text);
	if (protocol == RIVAL_REDIS)
		return snprintf(out, RIVAL_HEAD_BYTES, "*2\r\n$3\r\nDEL\r\n$%zu\r\n%s\r\n", key->len, key->text);
	return snprintf(out, RIVAL_HEAD_BYTES, "delete %s\r\n", key->text);
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

void rival_send(int fd, const void *data, size_t len)
{
	const char *p = data;
	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rival_die_peer("send");
		p += n;
		len -= (size_t)n;
	}
}

void rival_line(int fd, char out[RIVAL_HEAD_BYTES])
{
	size_t n = 0;
	for (;;) {
		char c;
		ssize_t got = recv(fd, &c, 1, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			rival_die("the server", "no answer any more");
		if (got < 0)
			rival_die_peer("recv");
		if (got == 0)
			rival_die("recv", "the server closed the connection");
		if (c == '\n')
			break;
		if (n == RIVAL_HEAD_BYTES - 1)
			rival_die("the server", "the answer is not of this protocol");
		out[n++] = c;
	}
	out[n > 0 && out[n - 1] == '\r' ? n - 1 : n] = 0;
}

/* ---- what a server says of itself ---- */

static void line_take(const char *line, struct rival_facts *f)
{
	(void)sscanf(line, "redis_version:%63s", f->version);
	(void)sscanf(line, "STAT version %63s", f->version);
	(void)sscanf(line, "used_cpu_user:%lf", &f->user_s);
	(void)sscanf(line, "used_cpu_sys:%lf", &f->system_s);
	(void)sscanf(line, "STAT rusage_user %lf", &f->user_s);
	(void)sscanf(line, "STAT rusage_system %lf", &f->system_s);
	(void)sscanf(line, "process_id:%d", &f->pid);
	(void)sscanf(line, "STAT pid %d", &f->pid);
	(void)sscanf(line, "STAT threads %" SCNd64, &f->threads);
}

/* A reply to INFO: lines of text in one bulk, or an error, which says nothing. */
static void redis_info(int fd, const char *command, struct rival_facts *f)
{
	char line[RIVAL_HEAD_BYTES];
	unsigned long long n = 0;
	rival_send(fd, command, strlen(command));
	rival_line(fd, line);
	if (sscanf(line, "$%llu", &n) != 1)
		return;
	for (size_t seen = 0; seen < n + 2;) {
		rival_line(fd, line);
		seen += strlen(line) + 2;
		line_take(line, f);
	}
}

/* CONFIG answers an array of bulks, or an error, which gives no figure. */
static void redis_threads(int fd, struct rival_facts *f)
{
	char line[RIVAL_HEAD_BYTES];
	unsigned long long n = 0;
	rival_send(fd, "CONFIG GET io-threads\r\n", 23);
	rival_line(fd, line);
	if (sscanf(line, "*%llu", &n) != 1)
		return;
	for (unsigned i = 0; i < 2 * n; i++) {
		rival_line(fd, line);
		if (i == 3)
			f->threads = (int64_t)strtoll(line, NULL, 10);
	}
}

/* Another machine, or container, may have a process of this number as well: it must be called like the server. */
static bool is_called(int pid, int protocol)
{
	static const char *const names[][2] = {
		[RIVAL_REDIS] = {"redis", "valkey"}, [RIVAL_MEMCACHED] = {"memcached", "memcached"}};
	char command[1024], path[64];
	size_t n;
	FILE *f;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (!f)
		return false;
	n = fread(command, 1, sizeof(command) - 1, f);
	fclose(f);
	for (size_t i = 0; i < n; i++)
		command[i] = command[i] ? command[i] : ' ';
	command[n] = 0;
	return strstr(command, names[protocol][0]) || strstr(command, names[protocol][1]);
}

void rival_facts_get(const struct rival *rival, struct rival_facts *out)
{
	char line[RIVAL_HEAD_BYTES];
	int fd = rival_connect(rival);
	*out = (struct rival_facts){.threads = -1, .user_s = -1, .system_s = -1};
	if (rival->protocol == RIVAL_REDIS) {
		redis_info(fd, "INFO server\r\n", out);
		redis_info(fd, "INFO cpu\r\n", out);
		redis_threads(fd, out);
	} else {
		rival_send(fd, "stats\r\n", 7);
		do {
			rival_line(fd, line);
			line_take(line, out);
		} while (strncmp(line, "STAT ", 5) == 0);
	}
	close(fd);
	if (!is_called(out->pid, rival->protocol))
		out->pid = 0;
}

double rival_cpu_seconds(const struct rival *rival)
{
	struct rival_facts f;
	rival_facts_get(rival, &f);
	return f.user_s >= 0 && f.system_s >= 0 ? f.user_s + f.system_s : -1;
}
