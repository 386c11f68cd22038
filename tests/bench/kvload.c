/* SPDX-License-Identifier: Apache-2.0 */
/* kvload.c -- GETs against redis or memcached: what kv-bench's read phase is, for the servers people would use instead.
 *
 * One thread, epoll, non-blocking sockets, --conns connections with one request (or one pipelined batch of --batch)
 * each: a connection asks again as soon as its answer is whole. Keys, values and order are kv-bench's
 * (kvbench/load/workload.h), so both sides read the same bytes in the same order; --verify compares all of them, else
 * the length of each answer is compared, and its first and last eight bytes with what was stored. Any error, miss or
 * wrong value ends the run with a sentence.
 *
 * An answer is received into the connection's own buffer, where it stays until it is whole: no copy, no allocation. The
 * system call asks for all that is missing, so a large value costs as few calls as the kernel's socket buffer allows.
 *
 * The stock clients are no yardstick: redis-benchmark and memtier_benchmark saturate one core of their own before the
 * server is busy. (Rejected: hiredis and libmemcached. Both copy each value once more than this does.) */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/workload.h"
#include "tests/bench/load.h"
#include "tests/bench/result.h"

enum { CONNS_MAX = 4096, BATCH_MAX = 1024, HEAD_BYTES = 512, FILL_BATCH = 16, EVENTS = 256, GRACE_S = 10 };

enum protocol { REDIS, MEMCACHED };

static const char *const protocols[] = {"redis", "memcached", NULL};

struct options {
	int protocol;
	const char *address;
	struct load_shape shape; /* blocks: keys */
	uint32_t conns, batch;
	bool verify, no_fill;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct kv_opt table[] = {
	{.name = "protocol",
	 .letter = 'p',
	 .type = KV_OPT_CHOICE,
	 AT(protocol),
	 .metavar = "NAME",
	 .def = "redis",
	 .choices = protocols,
	 .help = "redis (RESP) or memcached (text)."},
	{.name = "address",
	 .letter = 'a',
	 .type = KV_OPT_STRING,
	 AT(address),
	 .metavar = "HOST:PORT",
	 .def = "127.0.0.1:6379",
	 .help = "Where the server listens; with a slash: a unix socket."},
	LOAD_BLOCKS_ROW(struct options, "num-keys", "Keys stored, then read."),
	LOAD_ROWS(struct options),
	LOAD_COUNT_ROW(.name = "conns", .letter = 'c', AT(conns), .def = "32", .max = CONNS_MAX,
		       .help = "Connections."),
	LOAD_COUNT_ROW(.name = "batch", .letter = 'n', AT(batch), .def = "1", .max = BATCH_MAX,
		       .help = "GETs that a connection sends at once; latency is the batch's."),
	{.name = "verify", .type = KV_OPT_FLAG, AT(verify), .help = "Compare every byte read."},
	{.name = "no-fill", .type = KV_OPT_FLAG, AT(no_fill), .help = "The keys are there already."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kvload", .about = "GETs from redis or memcached, one thread, a closed loop. Prints JSON."};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "kvload: %s: %s\n", what, why);
	exit(1);
}

static void die_errno(const char *what)
{
	die(what, strerror(errno));
}

struct conn {
	int fd;
	uint8_t *buf;             /* answers of one batch; cap bytes */
	size_t cap, have;         /* have: received */
	size_t at;                /* of the answer that is not whole yet */
	unsigned answered;        /* of the batch */
	uint64_t start_ns, first; /* first: number of its first GET in kv-bench's order */
	uint64_t request_len;
};

struct load {
	const struct options *o;
	int epoll;
	struct conn *conn;
	uint64_t number;
	uint64_t *stamp; /* first and last eight bytes of each value */
	char *request;   /* scratch: one batch of requests */
	uint8_t *value;  /* scratch: one value */
	bool counting, over;
	unsigned running;
	struct result result;
};

/* ---- connections ---- */

static int connect_unix(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sun.sun_path))
		die(path, "too long for a unix socket");
	memcpy(sun.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		die_errno(path);
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
		die(address, err.text);
	snprintf(port, sizeof(port), "%u", (unsigned)hp.port);
	rc = getaddrinfo(hp.host, port, &hints, &ai);
	if (rc)
		die(address, gai_strerror(rc));
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen) < 0)
		die_errno(address);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	freeaddrinfo(ai);
	return fd;
}

/* Whoever says nothing for so long is dead. */
static int connection(const char *address)
{
	struct timeval tv = {.tv_sec = GRACE_S};
	int fd = strchr(address, '/') ? connect_unix(address) : connect_tcp(address);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return fd;
}

static void send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0)
			die_errno("send");
		p += n;
		len -= (size_t)n;
	}
}

/* ---- fill ---- */

static void store(struct load *l, int fd, uint64_t index)
{
	const struct options *o = l->o;
	struct bench_key key;
	char head[HEAD_BYTES];
	int n;

	bench_key_make(&key, o->shape.seed, o->shape.size, index);
	bench_value_fill(&key, l->value, o->shape.size);
	memcpy(&l->stamp[2 * index], l->value, 8);
	memcpy(&l->stamp[2 * index + 1], l->value + o->shape.size - 8, 8);
	if (o->no_fill)
		return;
	if (o->protocol == REDIS)
		n = snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%llu\r\n", key.len, key.text,
			     (unsigned long long)o->shape.size);
	else
		n = snprintf(head, sizeof(head), "set %s 0 0 %llu\r\n", key.text, (unsigned long long)o->shape.size);
	send_all(fd, head, (size_t)n);
	send_all(fd, l->value, o->shape.size);
	send_all(fd, "\r\n", 2);
}

static void stored(const struct options *o, int fd, unsigned count)
{
	const char *yes = o->protocol == REDIS ? "+OK\r\n" : "STORED\r\n";
	size_t len = strlen(yes);
	char answer[16];

	for (unsigned i = 0; i < count; i++) {
		ssize_t n = recv(fd, answer, len, MSG_WAITALL);
		if (n < 0)
			die_errno("an answer to SET");
		if ((size_t)n != len || memcmp(answer, yes, len))
			die("SET", "the server did not store a value (has it memory enough, and items so large?)");
	}
}

static void fill(struct load *l)
{
	const struct options *o = l->o;
	int fd = connection(o->address);

	for (uint64_t i = 0; i < o->shape.blocks; i += FILL_BATCH) {
		uint64_t n = KV_MIN(o->shape.blocks - i, (uint64_t)FILL_BATCH);
		for (uint64_t j = 0; j < n; j++)
			store(l, fd, i + j);
		if (!o->no_fill)
			stored(o, fd, (unsigned)n);
	}
	close(fd);
}

/* ---- reading ---- */

static size_t request_add(const struct load *l, char *out, size_t cap, uint64_t number)
{
	const struct options *o = l->o;
	struct bench_key key;
	int n;

	bench_key_make(&key, o->shape.seed, o->shape.size, bench_order_key(number, o->shape.blocks, o->shape.seed));
	if (o->protocol == REDIS)
		n = snprintf(out, cap, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", key.len, key.text);
	else
		n = snprintf(out, cap, "get %s\r\n", key.text);
	return (size_t)n;
}

static void ask(struct load *l, struct conn *c)
{
	size_t len = 0;
	ssize_t n;

	c->first = l->number;
	for (unsigned i = 0; i < l->o->batch; i++)
		len += request_add(l, l->request + len, HEAD_BYTES, l->number++);
	c->have = c->at = 0;
	c->answered = 0;
	c->start_ns = now_ns();
	/* The server has answered everything before: an empty socket buffer takes a batch of requests whole. */
	n = send(c->fd, l->request, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		die_errno("send");
	if ((size_t)n != len)
		die("send", "the socket did not take a batch of requests: use a smaller --batch");
}

/* The value's length and place when the header is whole: 0; else -EAGAIN. */
static int header(const struct load *l, const struct conn *c, size_t *out_body, uint64_t *out_len)
{
	const char *start = (const char *)c->buf + c->at, *end = memchr(start, '\n', c->have - c->at);
	char line[HEAD_BYTES];
	unsigned long long len;
	size_t n = end ? (size_t)(end - start) : 0;

	if (!end && c->have - c->at >= HEAD_BYTES)
		die("GET", "the answer is not of this protocol");
	if (!end)
		return -EAGAIN;
	memcpy(line, start, KV_MIN(n, sizeof(line) - 1));
	line[KV_MIN(n, sizeof(line) - 1)] = 0;
	if (line[0] == '$' && line[1] == '-')
		die("GET", "missed a key that was stored (has the server memory enough?)");
	if (sscanf(line, l->o->protocol == REDIS ? "$%llu" : "VALUE %*s %*s %llu", &len) != 1)
		die("GET missed a key, or failed", line);
	*out_body = c->at + n + 1;
	*out_len = len;
	return 0;
}

static void value_check(struct load *l, const struct conn *c, size_t body, uint64_t len)
{
	const struct options *o = l->o;
	uint64_t index = bench_order_key(c->first + c->answered, o->shape.blocks, o->shape.seed);
	struct bench_key key;

	if (len != o->shape.size || memcmp(c->buf + body, &l->stamp[2 * index], 8) ||
	    memcmp(c->buf + body + len - 8, &l->stamp[2 * index + 1], 8))
		die("GET", "a value is not what was stored");
	if (!o->verify)
		return;
	bench_key_make(&key, o->shape.seed, o->shape.size, index);
	if (bench_value_check(&key, c->buf + body, len) != len)
		die("GET", "a value is not what was stored");
}

/* Answers that are whole now. Returns whether the batch is. */
static bool parse(struct load *l, struct conn *c)
{
	size_t tail = l->o->protocol == REDIS ? 2 : 7; /* "\r\n", "\r\nEND\r\n" */
	size_t body;
	uint64_t len;

	while (c->answered < l->o->batch && c->at < c->have) {
		if (header(l, c, &body, &len) == -EAGAIN)
			return false;
		if (len != l->o->shape.size)
			die("GET", "a value has another length than what was stored");
		if (c->have < body + len + tail)
			return false;
		value_check(l, c, body, len);
		c->at = body + len + tail;
		c->answered++;
	}
	return c->answered == l->o->batch;
}

static void done(struct load *l, struct conn *c)
{
	if (l->counting) {
		l->result.gets += l->o->batch;
		l->result.bytes += l->o->batch * l->o->shape.size;
		kv_hist_add(&l->result.latency, now_ns() - c->start_ns);
	}
	if (l->over)
		l->running--;
	else
		ask(l, c);
}

/* Take what is there, until the socket is empty or the batch whole. */
static void receive(struct load *l, struct conn *c)
{
	for (;;) {
		size_t room = c->cap - c->have;
		ssize_t n = recv(c->fd, c->buf + c->have, room, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			die_errno("recv");
		if (n == 0)
			die("recv", "the server closed the connection");
		c->have += (size_t)n;
		if (parse(l, c)) {
			done(l, c);
			return; /* the next answer cannot be here yet */
		}
	}
}

static void turn(struct load *l)
{
	struct epoll_event e[EVENTS];
	int n = epoll_wait(l->epoll, e, EVENTS, GRACE_S * 1000);

	if (n < 0 && errno != EINTR)
		die_errno("epoll_wait");
	if (n == 0)
		die("the server", "no answer any more");
	for (int i = 0; i < n; i++)
		receive(l, e[i].data.ptr);
}

static void read_for(struct load *l, uint64_t duration_ns)
{
	uint64_t end = now_ns() + duration_ns;

	while (now_ns() < end || (l->counting && l->result.gets == 0))
		turn(l); /* which ends the run when there are no answers any more */
}

static void conns_open(struct load *l)
{
	const struct options *o = l->o;
	struct kv_area area;
	struct kv_error err = {0};
	size_t cap = o->batch * (o->shape.size + HEAD_BYTES);

	l->conn = calloc(o->conns, sizeof(*l->conn));
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!l->conn || l->epoll < 0)
		die_errno("epoll_create1");
	/* Huge pages where there are any, as kv-bench's receive buffers have them. */
	if (kv_area_map(o->conns * kv_align_up(cap, 4096), &area, &err) < 0)
		die("memory", err.text);
	for (uint32_t i = 0; i < o->conns; i++) {
		struct conn *c = &l->conn[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
		c->fd = connection(o->address);
		c->cap = cap;
		c->buf = (uint8_t *)area.base + i * kv_align_up(cap, 4096);
		if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
			die_errno("epoll_ctl");
	}
}

static void load_run(struct load *l)
{
	const struct options *o = l->o;
	uint64_t start;
	double cpu;

	for (uint32_t i = 0; i < o->conns; i++)
		ask(l, &l->conn[i]);
	read_for(l, o->shape.duration_ns / 10);
	l->counting = true;
	cpu = cpu_seconds_now();
	start = now_ns();
	read_for(l, o->shape.duration_ns);
	l->result.elapsed_ns = now_ns() - start;
	l->result.cpu_seconds = cpu_seconds_now() - cpu;
	l->counting = false;
	l->over = true;
	l->running = o->conns;
	while (l->running > 0)
		turn(l);
}

int main(int argc, char **argv)
{
	static struct load l; /* a histogram is too large for a stack */
	struct options o;
	int rc = load_options(&program, table, argc, argv, &o);

	if (rc >= 0)
		return rc;
	l.o = &o;
	result_init(&l.result);
	l.stamp = malloc(o.shape.blocks * 16);
	l.value = malloc(o.shape.size);
	l.request = malloc((size_t)o.batch * HEAD_BYTES);
	if (!l.stamp || !l.value || !l.request)
		die_errno("malloc");
	fill(&l);
	conns_open(&l);
	load_run(&l);
	return result_print(&l.result) < 0;
}
