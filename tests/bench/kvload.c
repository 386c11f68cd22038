/* SPDX-License-Identifier: Apache-2.0 */
/* kvload.c -- GETs, PUTs, or both one to one, against redis or memcached: what kv-bench's phases are, for the servers
 * people would use instead.
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
 * A PUT sends its value from where it lies ready, as kv-bench does (the stock of workload.c), with one system call for
 * what the socket takes. PUTs go round all keys; where the keys are there already they store the same bytes again. With
 * --op put nothing is stored before.
 *
 * The stock clients are no yardstick: redis-benchmark and memtier_benchmark saturate one core of their own before the
 * server is busy. (Rejected: hiredis and libmemcached. Both copy each value once more than this does.) */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/workload.h"
#include "tests/bench/load.h"
#include "tests/bench/result.h"
#include "tests/bench/rival.h"

enum { CONNS_MAX = 4096, BATCH_MAX = 1024, FILL_BATCH = 16, EVENTS = 256 };

enum op { GET, PUT, MIXED };

static const char *const ops[] = {"get", "put", "mixed", NULL};

struct options {
	struct rival rival;
	int op;
	struct load_shape shape; /* blocks: keys */
	uint32_t conns, batch;
	bool verify, no_fill;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct kv_opt table[] = {
	RIVAL_ROWS(struct options),
	{.name = "op",
	 .letter = 'o',
	 .type = KV_OPT_CHOICE,
	 AT(op),
	 .metavar = "NAME",
	 .def = "get",
	 .choices = ops,
	 .help = "get; put; or mixed: one after the other."},
	LOAD_BLOCKS_ROW(struct options, "num-keys", "Keys stored, then read."),
	LOAD_ROWS(struct options),
	LOAD_COUNT_ROW(.name = "conns", .letter = 'c', AT(conns), .def = "32", .max = CONNS_MAX,
		       .help = "Connections."),
	LOAD_COUNT_ROW(.name = "batch", .letter = 'n', AT(batch), .def = "1", .max = BATCH_MAX,
		       .help = "GETs or PUTs that a connection sends at once; latency is the batch's."),
	{.name = "verify", .type = KV_OPT_FLAG, AT(verify), .help = "Compare every byte read."},
	{.name = "no-fill", .type = KV_OPT_FLAG, AT(no_fill), .help = "The keys are there already."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kvload", .about = "GETs and PUTs to redis or memcached, one thread, a closed loop. Prints JSON."};

struct conn {
	int fd;
	uint8_t *buf;             /* answers of one batch; cap bytes */
	size_t cap, have;         /* have: received */
	size_t at;                /* of the answer that is not whole yet */
	unsigned answered;        /* of the batch */
	uint64_t start_ns, first; /* first: number of its first operation */
	char *request;            /* heads of one batch */
	struct iovec *iov;        /* and what goes out, values between heads */
	unsigned iovs, iov_at;    /* iov_at: the first that is not sent whole */
	bool blocked;             /* the socket took no more: epoll tells when it does */
};

struct load {
	const struct options *o;
	int epoll;
	struct conn *conn;
	uint64_t number;
	uint64_t *stamp; /* first and last eight bytes of each value */
	uint8_t *stock;  /* what values are parts of */
	bool counting, over;
	unsigned running;
	struct result result;
};

static void send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0)
			rival_die_errno("send");
		p += n;
		len -= (size_t)n;
	}
}

/* ---- fill ---- */

static void store(struct load *l, int fd, uint64_t index)
{
	const struct options *o = l->o;
	struct bench_key key;
	char head[RIVAL_HEAD_BYTES];
	const uint8_t *value;
	int n;

	bench_key_make(&key, o->shape.seed, o->shape.size, index);
	value = l->stock + bench_value_at(&key, o->shape.size);
	memcpy(&l->stamp[2 * index], value, 8);
	memcpy(&l->stamp[2 * index + 1], value + o->shape.size - 8, 8);
	if (o->no_fill || o->op == PUT)
		return;
	n = rival_put_head(o->rival.protocol, &key, o->shape.size, head);
	send_all(fd, head, (size_t)n);
	send_all(fd, value, o->shape.size);
	send_all(fd, "\r\n", 2);
}

static void stored(const struct options *o, int fd, unsigned count)
{
	const char *yes = rival_stored_text(o->rival.protocol);
	size_t len = strlen(yes);
	char answer[16];

	for (unsigned i = 0; i < count; i++) {
		ssize_t n = recv(fd, answer, len, MSG_WAITALL);
		if (n < 0)
			rival_die_errno("an answer to SET");
		if ((size_t)n != len || memcmp(answer, yes, len))
			rival_die("SET",
				  "the server did not store a value (has it memory enough, and items so large?)");
	}
}

static void fill(struct load *l)
{
	const struct options *o = l->o;
	int fd = rival_connect(&o->rival);

	for (uint64_t i = 0; i < o->shape.blocks; i += FILL_BATCH) {
		uint64_t n = KV_MIN(o->shape.blocks - i, (uint64_t)FILL_BATCH);
		for (uint64_t j = 0; j < n; j++)
			store(l, fd, i + j);
		if (!o->no_fill && o->op != PUT)
			stored(o, fd, (unsigned)n);
	}
	close(fd);
}

/* ---- reading ---- */

static bool is_put(const struct options *o, uint64_t number)
{
	return o->op == PUT || (o->op == MIXED && number % 2);
}

/* The key of an operation: that of a GET in kv-bench's order, that of a PUT one after the other. */
static uint64_t key_of(const struct options *o, uint64_t number)
{
	uint64_t n = o->op == MIXED ? number / 2 : number;

	return is_put(o, number) ? n % o->shape.blocks : bench_order_key(n, o->shape.blocks, o->shape.seed);
}

static void piece_add(struct conn *c, const void *at, size_t len)
{
	c->iov[c->iovs++] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = len};
}

static void request_add(const struct load *l, struct conn *c, char *head, uint64_t number)
{
	const struct options *o = l->o;
	struct bench_key key;

	bench_key_make(&key, o->shape.seed, o->shape.size, key_of(o, number));
	if (is_put(o, number)) {
		piece_add(c, head, (size_t)rival_put_head(o->rival.protocol, &key, o->shape.size, head));
		piece_add(c, l->stock + bench_value_at(&key, o->shape.size), o->shape.size);
		piece_add(c, "\r\n", 2);
	} else {
		piece_add(c, head, (size_t)rival_get(o->rival.protocol, &key, head));
	}
}

static void wait_for(const struct load *l, struct conn *c, bool blocked)
{
	struct epoll_event e = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};

	if (c->blocked != blocked && epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &e) < 0)
		rival_die_errno("epoll_ctl");
	c->blocked = blocked;
}

/* Send what the socket takes. */
static void send_more(const struct load *l, struct conn *c)
{
	while (c->iov_at < c->iovs) {
		struct msghdr m = {.msg_iov = c->iov + c->iov_at, .msg_iovlen = KV_MIN(c->iovs - c->iov_at, 512u)};
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			rival_die_errno("send");
		for (size_t left = n > 0 ? (size_t)n : 0; left > 0;) {
			struct iovec *v = &c->iov[c->iov_at];
			size_t part = KV_MIN(left, v->iov_len);
			v->iov_base = (uint8_t *)v->iov_base + part;
			v->iov_len -= part;
			left -= part;
			c->iov_at += v->iov_len == 0;
		}
	}
	wait_for(l, c, c->iov_at < c->iovs);
}

static void ask(struct load *l, struct conn *c)
{
	c->first = l->number;
	c->iovs = c->iov_at = 0;
	for (unsigned i = 0; i < l->o->batch; i++)
		request_add(l, c, c->request + (size_t)i * RIVAL_HEAD_BYTES, l->number++);
	c->have = c->at = 0;
	c->answered = 0;
	c->start_ns = now_ns();
	send_more(l, c);
}

/* The value's length and place when the header is whole: 0; else -EAGAIN. */
static int header(const struct load *l, const struct conn *c, size_t *out_body, uint64_t *out_len)
{
	const char *start = (const char *)c->buf + c->at, *end = memchr(start, '\n', c->have - c->at);
	char line[RIVAL_HEAD_BYTES];
	int64_t len;
	size_t n = end ? (size_t)(end - start) : 0;

	if (!end && c->have - c->at >= RIVAL_HEAD_BYTES)
		rival_die("GET", "the answer is not of this protocol");
	if (!end)
		return -EAGAIN;
	memcpy(line, start, KV_MIN(n, sizeof(line) - 1));
	line[KV_MIN(n, sizeof(line) - 1)] = 0;
	len = rival_value_header(l->o->rival.protocol, line);
	if (len < 0)
		rival_die("GET", "missed a key that was stored (has the server memory enough?)");
	*out_body = c->at + n + 1;
	*out_len = (uint64_t)len;
	return 0;
}

static void value_check(struct load *l, const struct conn *c, size_t body, uint64_t len)
{
	const struct options *o = l->o;
	uint64_t index = key_of(o, c->first + c->answered);
	struct bench_key key;

	if (len != o->shape.size || memcmp(c->buf + body, &l->stamp[2 * index], 8) ||
	    memcmp(c->buf + body + len - 8, &l->stamp[2 * index + 1], 8))
		rival_die("GET", "a value is not what was stored");
	if (!o->verify)
		return;
	bench_key_make(&key, o->shape.seed, o->shape.size, index);
	if (bench_value_check(&key, c->buf + body, len) != len)
		rival_die("GET", "a value is not what was stored");
}

/* The answer to a PUT. False: it is not whole yet. */
static bool put_answer(const struct load *l, struct conn *c)
{
	const char *yes = rival_stored_text(l->o->rival.protocol);
	size_t len = strlen(yes), have = KV_MIN(len, c->have - c->at);

	if (memcmp(c->buf + c->at, yes, have))
		rival_die("SET", "the server did not store a value (has it memory enough, and items so large?)");
	if (have < len)
		return false;
	c->at += len;
	c->answered++;
	return true;
}

/* Answers that are whole now. Returns whether the batch is. */
static bool parse(struct load *l, struct conn *c)
{
	size_t tail = rival_tail(l->o->rival.protocol);
	size_t body;
	uint64_t len;

	while (c->answered < l->o->batch && c->at < c->have) {
		if (is_put(l->o, c->first + c->answered)) {
			if (!put_answer(l, c))
				return false;
			continue;
		}
		if (header(l, c, &body, &len) == -EAGAIN)
			return false;
		if (len != l->o->shape.size)
			rival_die("GET", "a value has another length than what was stored");
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
			rival_die_errno("recv");
		if (n == 0)
			rival_die("recv", "the server closed the connection");
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
	int n = epoll_wait(l->epoll, e, EVENTS, RIVAL_GRACE_S * 1000);

	if (n < 0 && errno != EINTR)
		rival_die_errno("epoll_wait");
	if (n == 0)
		rival_die("the server", "no answer any more");
	for (int i = 0; i < n; i++) {
		if (e[i].events & EPOLLOUT)
			send_more(l, e[i].data.ptr);
		receive(l, e[i].data.ptr);
	}
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
	size_t cap = o->batch * (o->shape.size + RIVAL_HEAD_BYTES);

	l->conn = calloc(o->conns, sizeof(*l->conn));
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!l->conn || l->epoll < 0)
		rival_die_errno("epoll_create1");
	/* Huge pages where there are any, as kv-bench's receive buffers have them. */
	if (kv_area_map(o->conns * kv_align_up(cap, 4096), &area, &err) < 0)
		rival_die("memory", err.text);
	for (uint32_t i = 0; i < o->conns; i++) {
		struct conn *c = &l->conn[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
		c->request = malloc((size_t)o->batch * RIVAL_HEAD_BYTES);
		c->iov = malloc((size_t)o->batch * 3 * sizeof(*c->iov));
		if (!c->request || !c->iov)
			rival_die_errno("malloc");
		c->fd = rival_connect(&o->rival);
		c->cap = cap;
		c->buf = (uint8_t *)area.base + i * kv_align_up(cap, 4096);
		if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
			rival_die_errno("epoll_ctl");
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
	l.stock = malloc(bench_stock_bytes(o.shape.size));
	if (!l.stamp || !l.stock)
		rival_die_errno("malloc");
	bench_stock_fill(l.stock, bench_stock_bytes(o.shape.size));
	fill(&l);
	conns_open(&l);
	load_run(&l);
	return result_print(&l.result) < 0;
}
