/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c -- one round of a target other than KVRail: PUTs of all keys, GETs for a while, with --mixed both one to one,
 * then the keys are deleted again. All values are stored once before the first clock runs.
 *
 * One thread, epoll, non-blocking sockets, a connection per worker with one unit each: a request, or a pipeline of
 * --batch. In the open loop unit n is due when kv-bench's is (kvbench/load/arrivals.h), and waits for a free
 * connection. Keys, values and order are kv-bench's (workload.h, keys.h). Of each value the checksum is compared, as
 * KVRail's client does, with --verify each byte too, and with --no-checksum the length, first and last eight bytes.
 *
 * An answer is received into the connection's own buffer, and a PUT sends its value from where it lies: client
 * libraries would copy each value once more, in our favour. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/arrivals.h"
#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"
#include "kvbench/versus/congestion.h"
#include "kvbench/versus/program.h"
#include "kvbench/versus/rival.h"
#include "kvbench/versus/versus.h"

enum { EVENTS = 256, DELETES = 64, KINDS = 2 };
enum { GET, PUT };

struct drive_conn {
	int fd;
	uint8_t *buf;      /* answers of one unit; cap bytes */
	uint64_t place;    /* of a program: where in its memory the values of a unit are */
	size_t cap, have;  /* have: received */
	size_t at;         /* of the incomplete answer */
	unsigned answered; /* of the unit */
	unsigned kind, count;
	uint64_t start_ns, first; /* first: number of its first operation */
	char *request;            /* heads of one unit */
	struct iovec *iov;
	unsigned iovs, iov_at;
	bool blocked, busy; /* blocked: the socket took no more, until epoll reports that it does */
	struct drive_conn *next_free;
};

struct drive_phase {
	bool mixed;
	unsigned kind; /* of all, if not mixed */
	uint64_t key_base, units, due;
	uint64_t start_ns, end_ns, due_ns;
	double rate;
	struct bench_arrivals arrivals;
	unsigned running;
	/* results */
	uint64_t ops[KINDS], elapsed_ns;
	uint64_t never_started;
	double cpu_seconds, server_cpu_seconds; /* below 0: the server does not say */
	int64_t faults, server_faults;          /* page faults; below 0: not known */
	struct kv_hist latency[KINDS];
};

struct drive {
	const struct versus_options *o;
	struct rival rival;
	struct bench_draw draw;
	unsigned batch;
	int epoll, timer;
	struct drive_conn *conn, *free;
	uint8_t *stock;               /* values are parts of it */
	struct program_memory memory; /* of a program: the stock, and behind it each connection's values */
	uint64_t *sum;
	struct drive_phase *phase;
	const char *congestion;
	struct rival_facts server;
	char server_congestion[CONGESTION_NAME];
};

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* ---- a unit ---- */

/* The key of operation `number` of a kind: that of a GET in kv-bench's order, that of a PUT one after the other. */
static uint64_t key_of(const struct drive *l, unsigned kind, uint64_t number)
{
	return kind == PUT ? l->phase->key_base + number : bench_draw_key(&l->draw, number);
}

static void piece_add(struct drive_conn *c, const void *at, size_t len)
{
	c->iov[c->iovs++] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = len};
}

static bool is_program(const struct drive *l)
{
	return l->rival.protocol == RIVAL_PROGRAM;
}

/* Value i of a connection's unit, for or from a program. */
static uint64_t place_of(const struct drive *l, const struct drive_conn *c, unsigned i)
{
	return c->place + i * l->o->value_size;
}

static void program_request(const struct drive *l, struct drive_conn *c, char *head, const struct bench_key *key)
{
	unsigned i = c->iovs;
	uint64_t size = l->o->value_size;
	uint64_t at = c->kind == PUT ? bench_value_at(key, size) : place_of(l, c, i);
	if (c->kind == GET) /* the bytes of an earlier GET must not pass for an answer */
		memset(l->memory.base + at, 0, KV_MIN(size, (uint64_t)64));
	piece_add(c, head,
		  (size_t)snprintf(head, RIVAL_HEAD_BYTES, "%s %s %llu %llu\n", c->kind == PUT ? "put" : "get",
				   key->text, (unsigned long long)at, (unsigned long long)size));
}

static void request_add(const struct drive *l, struct drive_conn *c, char *head, uint64_t number)
{
	const struct versus_options *o = l->o;
	int protocol = l->rival.protocol;
	struct bench_key key;
	bench_key_make(&key, l->draw.seed, o->value_size, key_of(l, c->kind, number));
	if (is_program(l)) {
		program_request(l, c, head, &key);
	} else if (c->kind == PUT) {
		piece_add(c, head, (size_t)rival_put_head(protocol, &key, o->value_size, head));
		piece_add(c, l->stock + bench_value_at(&key, o->value_size), o->value_size);
		piece_add(c, "\r\n", 2);
	} else {
		piece_add(c, head, (size_t)rival_get(protocol, &key, head));
	}
}

static void wait_for(const struct drive *l, struct drive_conn *c, bool blocked)
{
	struct epoll_event e = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};
	if (c->blocked != blocked && epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &e) < 0)
		rival_die_errno("epoll_ctl");
	c->blocked = blocked;
}

static void send_more(const struct drive *l, struct drive_conn *c)
{
	while (c->iov_at < c->iovs) {
		struct msghdr m = {.msg_iov = c->iov + c->iov_at, .msg_iovlen = KV_MIN(c->iovs - c->iov_at, 512u)};
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			rival_die_peer("send");
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

/* Unit `number` of the phase, due at start_ns. */
static void ask(struct drive *l, struct drive_conn *c, uint64_t number, uint64_t start_ns)
{
	struct drive_phase *p = l->phase;
	uint64_t n = p->mixed ? number / 2 : number;
	c->kind = p->mixed ? number % 2 : p->kind;
	c->first = n * l->batch;
	c->count = l->batch;
	if (c->kind == PUT)
		c->count = (unsigned)KV_MIN((uint64_t)l->batch, l->o->num_keys - c->first);
	c->iovs = c->iov_at = 0;
	for (unsigned i = 0; i < c->count; i++)
		request_add(l, c, c->request + (size_t)i * RIVAL_HEAD_BYTES, c->first + i);
	c->have = c->at = 0;
	c->answered = 0;
	c->busy = true;
	p->running++;
	c->start_ns = start_ns;
	send_more(l, c);
}

/* ---- answers ---- */

/* The value's length and place when the header is whole: 0; else -EAGAIN. */
static int header(const struct drive *l, const struct drive_conn *c, size_t *out_body, uint64_t *out_len)
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
	len = rival_value_header(l->rival.protocol, line);
	if (len < 0)
		rival_die("GET", "missed a stored key (has the server memory enough?)");
	*out_body = c->at + n + 1;
	*out_len = (uint64_t)len;
	return 0;
}

static void value_check(const struct drive *l, const struct drive_conn *c, const uint8_t *value, uint64_t len)
{
	const struct versus_options *o = l->o;
	uint64_t index = key_of(l, GET, c->first + c->answered);
	const uint8_t *want;
	struct bench_key key;
	bool right;
	if (l->sum && !o->verify) {
		if (kv_hash_block(value, len) != l->sum[index])
			rival_die("GET", "a value differs from the stored one");
		return;
	}
	bench_key_make(&key, l->draw.seed, o->value_size, index);
	want = l->stock + bench_value_at(&key, len);
	right = memcmp(value, want, 8) == 0 && memcmp(value + len - 8, want + len - 8, 8) == 0;
	if (o->verify)
		right = right && bench_value_check(&key, value, len) == len &&
			(!l->sum || kv_hash_block(value, len) == l->sum[index]);
	if (!right)
		rival_die("GET", "a value differs from the stored one");
}

static void put_refused(const struct drive_conn *c)
{
	const char *line = (const char *)c->buf + c->at, *end = memchr(line, '\n', c->have - c->at);
	char said[160], why[320];
	size_t len = end ? (size_t)(end - line) : c->have - c->at;
	if (!end && len < sizeof(said))
		return;
	snprintf(said, sizeof(said), "%.*s", (int)KV_MIN(len, sizeof(said) - 1), line);
	if (strlen(said) > 0 && said[strlen(said) - 1] == '\r')
		said[strlen(said) - 1] = 0;
	for (char *p = said; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	snprintf(why, sizeof(why), "the server did not store a value: \"%s\" (%s)", said,
		 strstr(said, "NOAUTH") ? "kv-bench has no password: use a server that requires none"
					: "has it memory enough, and items so large?");
	rival_die("SET", why);
}

/* The answer to a PUT. */
static bool put_answer(const struct drive *l, struct drive_conn *c)
{
	const char *yes = rival_stored_text(l->rival.protocol);
	size_t len = strlen(yes), have = KV_MIN(len, c->have - c->at);
	if (memcmp(c->buf + c->at, yes, have)) {
		put_refused(c);
		return false;
	}
	if (have < len)
		return false;
	c->at += len;
	c->answered++;
	return true;
}

/* The answer of a program, one line. */
static bool program_answer(const struct drive *l, struct drive_conn *c)
{
	char *line = (char *)c->buf + c->at, *end = memchr(line, '\n', c->have - c->at);
	const char *what = c->kind == PUT ? "put" : "get";
	unsigned long long len;
	if (!end && c->have - c->at >= RIVAL_HEAD_BYTES)
		rival_die(what, "the program's answer is not of this protocol");
	if (!end)
		return false;
	*end = 0;
	if (strncmp(line, "error ", 6) == 0)
		rival_die(what, line + 6);
	if (strcmp(line, "miss") == 0)
		rival_die("GET", "missed a stored key (has the server memory enough?)");
	if (strncmp(line, "ok", 2) || (c->kind == GET && sscanf(line, "ok %llu", &len) != 1))
		rival_die(what, "the program's answer is not of this protocol");
	if (c->kind == GET && len != l->o->value_size)
		rival_die("GET", "a value has another length than the stored one");
	if (c->kind == GET)
		value_check(l, c, l->memory.base + place_of(l, c, c->answered), len);
	c->at = (size_t)(end + 1 - (char *)c->buf);
	c->answered++;
	return true;
}

/* Complete answers. Returns whether the unit is complete. */
static bool parse(const struct drive *l, struct drive_conn *c)
{
	size_t tail = rival_tail(l->rival.protocol), body;
	uint64_t len;
	while (c->answered < c->count && c->at < c->have) {
		if (is_program(l) || c->kind == PUT) {
			if (!(is_program(l) ? program_answer : put_answer)(l, c))
				return false;
			continue;
		}
		if (header(l, c, &body, &len) == -EAGAIN)
			return false;
		if (len != l->o->value_size)
			rival_die("GET", "a value has another length than the stored one");
		if (c->have < body + len + tail)
			return false;
		value_check(l, c, c->buf + body, len);
		c->at = body + len + tail;
		c->answered++;
	}
	return c->answered == c->count;
}

/* ---- the loop ---- */

static bool over(const struct drive_phase *p, uint64_t now)
{
	return p->due >= p->units || now >= p->end_ns || bench_interrupted();
}

static void timer_set(const struct drive *l, uint64_t at_ns)
{
	struct itimerspec t = {.it_value = {(time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000)}};
	if (timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &t, NULL) < 0)
		rival_die_errno("timerfd_settime");
}

/* Start due units on free connections. */
static void feed(struct drive *l)
{
	struct drive_phase *p = l->phase;
	while (l->free) {
		uint64_t now = now_ns();
		struct drive_conn *c = l->free;
		if (over(p, now))
			return;
		if (p->rate > 0 && now < p->due_ns) {
			timer_set(l, KV_MIN(p->due_ns, p->end_ns));
			return;
		}
		l->free = c->next_free;
		ask(l, c, p->due, p->rate > 0 ? p->due_ns : now);
		p->due++;
		if (p->rate > 0)
			p->due_ns = p->start_ns + bench_arrivals_due(&p->arrivals, p->due);
	}
}

static void done(struct drive *l, struct drive_conn *c)
{
	struct drive_phase *p = l->phase;
	p->ops[c->kind] += c->count;
	kv_hist_add(&p->latency[c->kind], now_ns() - c->start_ns);
	p->running--;
	c->busy = false;
	c->next_free = l->free;
	l->free = c;
}

static void receive(struct drive *l, struct drive_conn *c)
{
	for (;;) {
		ssize_t n = recv(c->fd, c->buf + c->have, c->cap - c->have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			rival_die_peer("recv");
		if (n == 0)
			rival_die("recv", "the server closed the connection");
		if (!c->busy)
			rival_die("the server", "it sends more than was requested");
		c->have += (size_t)n;
		if (parse(l, c)) {
			done(l, c);
			return;
		}
	}
}

static void turn(struct drive *l)
{
	struct epoll_event e[EVENTS];
	uint64_t ticks;
	int n = epoll_wait(l->epoll, e, EVENTS, RIVAL_GRACE_S * 1000);
	if (n < 0 && errno != EINTR)
		rival_die_errno("epoll_wait");
	if (n == 0 && l->phase->running > 0)
		rival_die("the server", "no answer any more");
	for (int i = 0; i < n; i++) {
		if (!e[i].data.ptr) {
			if (read(l->timer, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
				rival_die_errno("timerfd");
			continue;
		}
		if (e[i].events & EPOLLOUT)
			send_more(l, e[i].data.ptr);
		receive(l, e[i].data.ptr);
	}
}

/* The server behind a program cannot be reached. */
static double server_cpu_seconds(const struct drive *l)
{
	return is_program(l) ? -1 : rival_cpu_seconds(&l->rival);
}

static void left_add(void *arg, uint64_t number, uint64_t due_ns, uint64_t count)
{
	struct drive_phase *p = arg;
	(void)number;
	p->never_started += count;
	kv_hist_add_many(&p->latency[p->kind], p->end_ns - p->start_ns - due_ns, count);
}

/* As in kv-bench: a due unit without a free connection at the end counts with its age. due_ns is that of the next unit
 * already. */
static void left_add_all(struct drive_phase *p)
{
	if (p->rate <= 0 || p->end_ns == KV_NEVER || bench_interrupted() || p->due >= p->units ||
	    p->due_ns >= p->end_ns)
		return;
	left_add(p, p->due, p->due_ns - p->start_ns, 1);
	bench_arrivals_left(&p->arrivals, p->due + 1, p->units, p->end_ns - p->start_ns, left_add, p);
}

/* units: at most; duration_ns 0: all of them. */
static void phase_run(struct drive *l, struct drive_phase *p, uint64_t units, uint64_t duration_ns)
{
	double cpu, server = server_cpu_seconds(l), after;
	int64_t faults = kv_process_faults(0), faults_there = l->server.pid ? kv_process_faults(l->server.pid) : -1,
		now_there;
	for (unsigned i = 0; i < KINDS; i++)
		kv_hist_init(&p->latency[i]);
	p->units = units;
	l->phase = p;
	if (p->rate > 0)
		bench_arrivals_init(&p->arrivals, p->rate, l->o->arrivals == BENCH_POISSON, 0, l->draw.seed);
	cpu = bench_cpu_seconds(RUSAGE_SELF);
	p->start_ns = now_ns();
	p->end_ns = duration_ns ? kv_deadline(p->start_ns, duration_ns) : KV_NEVER;
	p->due_ns = p->rate > 0 ? p->start_ns + bench_arrivals_due(&p->arrivals, 0) : 0;
	feed(l);
	while (p->running > 0 || !over(p, now_ns())) {
		turn(l);
		feed(l);
	}
	p->elapsed_ns = now_ns() - p->start_ns;
	left_add_all(p);
	p->cpu_seconds = bench_cpu_seconds(RUSAGE_SELF) - cpu;
	after = server_cpu_seconds(l);
	p->server_cpu_seconds = server < 0 || after < 0 ? -1 : after - server;
	p->faults = kv_process_faults(0) - faults;
	now_there = l->server.pid ? kv_process_faults(l->server.pid) : -1;
	p->server_faults = faults_there < 0 || now_there < 0 ? -1 : now_there - faults_there;
}

/* ---- set-up ---- */

static void conns_open(struct drive *l)
{
	const struct versus_options *o = l->o;
	struct epoll_event timer = {.events = EPOLLIN};
	struct kv_area area;
	struct kv_error err = {0};
	/* A program's values are in memory of their own. */
	size_t cap = kv_align_up(l->batch * ((is_program(l) ? 0 : o->value_size) + RIVAL_HEAD_BYTES), 4096);
	l->conn = calloc(o->num_workers, sizeof(*l->conn));
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (!l->conn || l->epoll < 0 || l->timer < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &timer) < 0)
		rival_die_errno("epoll");
	/* Huge pages where there are any, as kv-bench's receive buffers have them. */
	if (kv_area_map(o->num_workers * cap, &area, &err) < 0)
		rival_die("memory", err.text);
	memset(area.base, 0, area.len_bytes);
	for (uint32_t i = 0; i < o->num_workers; i++) {
		struct drive_conn *c = &l->conn[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
		c->request = malloc((size_t)l->batch * RIVAL_HEAD_BYTES);
		c->iov = malloc((size_t)l->batch * 3 * sizeof(*c->iov));
		if (!c->request || !c->iov)
			rival_die_errno("malloc");
		c->place = bench_stock_bytes(o->value_size) + (uint64_t)i * l->batch * o->value_size;
		c->fd = is_program(l) ? program_start(l->rival.address, &l->memory, l->server.version,
						      sizeof(l->server.version))
				      : rival_connect(&l->rival);
		c->cap = cap;
		c->buf = (uint8_t *)area.base + i * cap;
		c->next_free = l->free;
		l->free = c;
		if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
			rival_die_errno("epoll_ctl");
	}
}

static void values_make(struct drive *l)
{
	const struct versus_options *o = l->o;
	uint64_t bytes = bench_stock_bytes(o->value_size);
	struct bench_key key;
	if (is_program(l)) {
		program_memory_make(bytes + (uint64_t)o->num_workers * l->batch * o->value_size, &l->memory);
		l->stock = l->memory.base;
	} else {
		l->stock = malloc(bytes);
	}
	l->sum = o->no_checksum ? NULL : malloc(o->num_keys * sizeof(*l->sum));
	if (!l->stock || (!l->sum && !o->no_checksum))
		rival_die_errno("malloc");
	bench_stock_fill(l->stock, bytes);
	for (uint64_t i = 0; l->sum && i < o->num_keys; i++) {
		bench_key_make(&key, l->draw.seed, o->value_size, i);
		l->sum[i] = kv_hash_block(l->stock + bench_value_at(&key, o->value_size), o->value_size);
	}
}

static void keys_delete(struct drive *l, uint64_t from, uint64_t to)
{
	int fd = is_program(l) ? l->conn[0].fd : rival_connect(&l->rival);
	char head[RIVAL_HEAD_BYTES];
	struct bench_key key;
	for (uint64_t at = from; at < to; at += DELETES) {
		uint64_t n = KV_MIN(to - at, (uint64_t)DELETES);
		for (uint64_t i = 0; i < n; i++) {
			bench_key_make(&key, l->draw.seed, l->o->value_size, at + i);
			rival_send(fd, head, (size_t)rival_delete(l->rival.protocol, &key, head));
		}
		for (uint64_t i = 0; i < n; i++)
			rival_line(fd, head);
	}
	if (!is_program(l))
		close(fd);
}

/* The same congestion control for all, as far as it can be had. */
static void conns_align(struct drive *l)
{
	unsigned n = l->o->num_workers;
	int *fd = malloc(n * sizeof(*fd));
	if (!fd)
		rival_die_errno("malloc");
	for (unsigned i = 0; i < n; i++)
		fd[i] = l->conn[i].fd;
	congestion_align(l->server.pid, fd, n, l->congestion, l->server_congestion);
	free(fd);
}

/* Before any clock runs the server has the memory of all values: kv-server makes its pages at its start, and page
 * faults in the measured PUTs of another server (17 for a PUT of 64 KiB) would count against it. The treatment of an
 * existing key by a program is unknown: it gets other keys, deleted afterwards. */
static void memory_touch(struct drive *l)
{
	static struct drive_phase touch = {.kind = PUT};
	uint64_t keys = l->o->num_keys * (l->o->mixed ? 2 : 1), units = (l->o->num_keys + l->batch - 1) / l->batch;
	for (uint64_t from = 0; from < keys && !bench_interrupted(); from += l->o->num_keys) {
		touch = (struct drive_phase){.kind = PUT, .key_base = from + (is_program(l) ? keys : 0)};
		phase_run(l, &touch, units, 0);
	}
	if (is_program(l))
		keys_delete(l, keys, 2 * keys);
}

/* ---- the whole ---- */

static json_t *figures(const struct drive *l, const struct drive_phase *p, unsigned kind)
{
	double per_s = p->elapsed_ns ? 1e9 / (double)p->elapsed_ns : 0, ops = (double)p->ops[kind];
	const struct kv_hist *h = &p->latency[kind];
	uint64_t p99 = kv_hist_reached(h, 0.99);
	json_t *o =
		json_pack("{s:I, s:f, s:f, s:f, s:f, s:{s:I, s:o*}}", "ops", (json_int_t)p->ops[kind], "seconds",
			  (double)p->elapsed_ns / 1e9, "ops_per_s", ops * per_s, "bytes_per_s",
			  ops * per_s * (double)l->o->value_size, "cpu_seconds", p->cpu_seconds, "latency_ns", "p50",
			  (json_int_t)kv_hist_quantile(h, 0.5), "p99", p99 ? json_integer((json_int_t)p99) : NULL);
	if (p->rate > 0)
		json_object_set_new(o, "never_started", json_integer((json_int_t)p->never_started));
	if (p->faults >= 0)
		json_object_set_new(o, "page_faults", json_integer((json_int_t)p->faults));
	if (p->server_faults >= 0)
		json_object_set_new(o, "server_page_faults", json_integer((json_int_t)p->server_faults));
	if (p->server_cpu_seconds >= 0)
		json_object_set_new(o, "server_cpu_seconds", json_real(p->server_cpu_seconds));
	return o;
}

static int report(const struct drive *l, const struct drive_phase *put, const struct drive_phase *get,
		  const struct drive_phase *both)
{
	json_t *phases = json_pack("{s:o, s:o}", "write", figures(l, put, PUT), "read", figures(l, get, GET));
	json_t *doc = json_pack("{s:o, s:{s:s, s:I}, s:{s:i}, s:{s:s}}", "phases", phases, "server", "version",
				l->server.version, "threads", (json_int_t)l->server.threads, "config", "num_threads", 1,
				"conditions", "loopback_congestion_control", l->server_congestion);
	char *text = NULL;
	if (phases && l->o->mixed)
		json_object_set_new(
			phases, "mixed",
			json_pack("{s:o, s:o}", "write", figures(l, both, PUT), "read", figures(l, both, GET)));
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	if (!text)
		rival_die("the report", "no memory for it");
	puts(text);
	free(text);
	if (fflush(stdout) != 0)
		rival_die_errno("the report");
	return bench_interrupted() ? 128 + bench_interrupted() : BENCH_OK;
}

int versus_drive(const struct versus_options *o, const char *congestion)
{
	static struct drive l;
	static struct drive_phase put = {.kind = PUT}, warmup = {.kind = GET}, get = {.kind = GET},
				  both = {.mixed = true};
	static const int protocols[] = {
		[VERSUS_REDIS] = RIVAL_REDIS, [VERSUS_MEMCACHED] = RIVAL_MEMCACHED, [VERSUS_PROGRAM] = RIVAL_PROGRAM};
	uint64_t units;
	rival_program = "kv-bench";
	l.o = o;
	l.congestion = congestion ? congestion : "";
	l.batch = KV_MAX(o->batch, 1u);
	l.rival = (struct rival){.protocol = protocols[o->target[0].kind], .address = o->target[0].address};
	bench_draw_init(&l.draw, &o->pattern, o->num_keys, o->seed);
	l.server.threads = -1;
	if (!is_program(&l))
		rival_facts_get(&l.rival, &l.server);
	values_make(&l);
	conns_open(&l);
	conns_align(&l);
	memory_touch(&l);
	units = (o->num_keys + l.batch - 1) / l.batch;
	phase_run(&l, &put, units, 0);
	phase_run(&l, &warmup, (o->warmup + l.batch - 1) / l.batch, 5000000000ull);
	get.rate = o->rate;
	both.key_base = o->num_keys;
	phase_run(&l, &get, UINT64_MAX, o->duration_ns);
	if (o->mixed)
		phase_run(&l, &both, 2 * units, 0);
	keys_delete(&l, 0, o->num_keys * (o->mixed ? 2 : 1));
	for (uint32_t i = 0; is_program(&l) && i < o->num_workers; i++)
		program_stop(l.conn[i].fd);
	return report(&l, &put, &get, &both);
}
