/* SPDX-License-Identifier: Apache-2.0 */
/* rival.c -- redis (RESP) and memcached (text) as far as kv-bench versus and kvreplay need them. */
#include "kvbench/versus/rival.h"

#include <errno.h>
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

/* A reply to INFO: lines of text in one bulk, or an error, which says nothing. */
static void redis_info(int fd, const char *command, void (*take)(const char *line, void *arg), void *arg)
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
		take(line, arg);
	}
}

struct version {
	char *text;
	size_t cap;
};

static void take_version(const char *line, void *arg)
{
	const struct version *v = arg;
	if (strncmp(line, "redis_version:", 14) == 0)
		snprintf(v->text, v->cap, "%s", line + 14);
}

/* CONFIG answers an array of bulks, or an error, which gives no figure. */
static void redis_facts(int fd, char *version, size_t cap, int64_t *threads)
{
	char line[RIVAL_HEAD_BYTES];
	unsigned long long n = 0;
	redis_info(fd, "INFO server\r\n", take_version, &(struct version){version, cap});
	rival_send(fd, "CONFIG GET io-threads\r\n", 23);
	rival_line(fd, line);
	n = 0;
	if (sscanf(line, "*%llu", &n) != 1)
		return;
	for (unsigned i = 0; i < 2 * n; i++) {
		rival_line(fd, line);
		if (i == 3)
			*threads = (int64_t)strtoll(line, NULL, 10);
	}
}

static void memcached_facts(int fd, char *version, size_t cap, int64_t *threads)
{
	char line[RIVAL_HEAD_BYTES];
	rival_send(fd, "version\r\n", 9);
	rival_line(fd, line);
	if (strncmp(line, "VERSION ", 8) == 0)
		snprintf(version, cap, "%s", line + 8);
	rival_send(fd, "stats settings\r\n", 16);
	do {
		rival_line(fd, line);
		if (strncmp(line, "STAT num_threads ", 17) == 0)
			*threads = (int64_t)strtoll(line + 17, NULL, 10);
	} while (strncmp(line, "STAT ", 5) == 0);
}

void rival_facts(const struct rival *rival, char *version, size_t cap, int64_t *out_threads)
{
	int fd = rival_connect(rival);
	version[0] = 0;
	*out_threads = -1;
	if (rival->protocol == RIVAL_REDIS)
		redis_facts(fd, version, cap, out_threads);
	else
		memcached_facts(fd, version, cap, out_threads);
	close(fd);
}

/* Two lines have it, in the system and outside; -1 until both are there. */
struct cpu {
	double user, system;
	int pid;
};

static void take_cpu(const char *line, void *arg)
{
	struct cpu *c = arg;
	(void)sscanf(line, "used_cpu_user:%lf", &c->user);
	(void)sscanf(line, "used_cpu_sys:%lf", &c->system);
	(void)sscanf(line, "STAT rusage_user %lf", &c->user);
	(void)sscanf(line, "STAT rusage_system %lf", &c->system);
	(void)sscanf(line, "process_id:%d", &c->pid);
	(void)sscanf(line, "STAT pid %d", &c->pid);
}

/* section: of redis's INFO. memcached has all in one. */
static struct cpu process_facts(const struct rival *rival, const char *section)
{
	struct cpu c = {-1, -1, 0};
	char line[RIVAL_HEAD_BYTES], info[64];
	int fd = rival_connect(rival);
	if (rival->protocol == RIVAL_REDIS) {
		snprintf(info, sizeof(info), "INFO %s\r\n", section);
		redis_info(fd, info, take_cpu, &c);
	} else {
		rival_send(fd, "stats\r\n", 7);
		do {
			rival_line(fd, line);
			take_cpu(line, &c);
		} while (strncmp(line, "STAT ", 5) == 0);
	}
	close(fd);
	return c;
}

double rival_cpu_seconds(const struct rival *rival)
{
	struct cpu c = process_facts(rival, "cpu");
	return c.user >= 0 && c.system >= 0 ? c.user + c.system : -1;
}

/* Another machine, or container, may have a process of this number as well: it must be called like the server. */
int rival_pid(const struct rival *rival)
{
	static const char *const names[][2] = {
		[RIVAL_REDIS] = {"redis", "valkey"}, [RIVAL_MEMCACHED] = {"memcached", "memcached"}};
	int pid = process_facts(rival, "server").pid;
	char command[1024], path[64];
	ssize_t n;
	FILE *f;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	if (!f)
		return 0;
	n = (ssize_t)fread(command, 1, sizeof(command) - 1, f);
	fclose(f);
	for (ssize_t i = 0; i < n; i++)
		command[i] = command[i] ? command[i] : ' ';
	command[n > 0 ? n : 0] = 0;
	return strstr(command, names[rival->protocol][0]) || strstr(command, names[rival->protocol][1]) ? pid : 0;
}
