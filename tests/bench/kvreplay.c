/* SPDX-License-Identifier: Apache-2.0 */
/* kvreplay.c -- a trace of KV-cache requests replayed on redis or memcached, as kv-bench --trace replays it on
 * kv-servers (kvbench/load/replay.c).
 *
 * Each request is one lookup of all its blocks, GETs of those before the first that is missing, in batches, and PUTs of
 * the others. Keys, values, batches and the order of requests are kv-bench's, by its own code. A lookup asks for each
 * key (EXISTS, mg), since neither server knows prefixes; commands of a step go out together.
 *
 * One thread: a coroutine of our loop for each connection. It sends and receives by plain system calls, and parks only
 * when the socket is full or empty. Values are sent from where they lie ready, and received into the connection's own
 * buffer; --verify compares all of their bytes, else the first and last eight are compared.
 *
 * A block that was there in the lookup and is gone in the GET was evicted: it is stored again, as kv-bench does. What
 * memcached refuses for want of memory is counted. Any other error, or a wrong value, ends the run with a sentence. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "kvbench/load/replay_order.h"
#include "kvbench/load/workload.h"
#include "kvbench/versus/rival.h"
#include "loop/loop.h"
#include "tests/bench/load.h"
#include "tests/bench/result.h"

enum { CONNS_MAX = 1024, BATCH_MAX = 16, BATCH_BYTES = 4 << 20, IOV_MOST = 512, BUFFER_MIN = 1 << 20 };

static const char *const protocols[] = {"redis", "memcached", NULL};
static const char *const orders[] = {"strict", "relaxed", NULL};

struct options {
	struct rival rival;
	const char *trace;
	int order;
	struct load_shape shape; /* blocks is not used */
	uint32_t conns;
	bool verify;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct kv_opt table[] = {
	{.name = "protocol",
	 .letter = 'p',
	 .type = KV_OPT_CHOICE,
	 AT(rival.protocol),
	 .metavar = "NAME",
	 .def = "redis",
	 .choices = protocols,
	 .help = "redis (RESP) or memcached (text)."},
	{.name = "address",
	 .letter = 'a',
	 .type = KV_OPT_STRING,
	 AT(rival.address),
	 .metavar = "HOST:PORT",
	 .def = "127.0.0.1:6379",
	 .help = "Where the server listens; with a slash: a unix socket."},
	{.name = "trace",
	 .letter = 't',
	 .type = KV_OPT_STRING,
	 AT(trace),
	 .metavar = "FILE",
	 .help = "The trace: JSON lines with hash_ids."},
	{.name = "order",
	 .letter = 'o',
	 .type = KV_OPT_CHOICE,
	 AT(order),
	 .metavar = "NAME",
	 .def = "strict",
	 .choices = orders,
	 .help = "strict: a request sees all that earlier ones stored; relaxed."},
	LOAD_ROWS(struct options),
	LOAD_COUNT_ROW(.name = "conns", .letter = 'c', AT(conns), .def = "32", .max = CONNS_MAX,
		       .help = "Connections."),
	{.name = "verify", .type = KV_OPT_FLAG, AT(verify), .help = "Compare every byte read."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "kvreplay", .about = "Replays a trace on redis or memcached, one thread. Prints JSON."};

struct replay {
	const struct options *o;
	struct loop *loop;
	struct sequencer *seq;
	uint8_t *stock; /* what values are parts of */
	unsigned batch, running;
	uint64_t requests, blocks, hits, lost, refused;
	struct result result; /* gets: blocks read and written */
};

/* A connection, and the request that it works on. */
struct worker {
	struct seq_worker order;
	struct replay *r;
	int fd;
	struct bench_key *key; /* of the request's blocks; cap of them */
	char *head;            /* RIVAL_HEAD_BYTES for each */
	unsigned cap;
	uint8_t *buf; /* received, and not looked at: at .. have */
	size_t room, at, have;
	struct iovec iov[BATCH_MAX * 3];
	unsigned block[BATCH_MAX]; /* of a batch: indices in the request */
};

/* ---- bytes ---- */

static void ready_await(const struct worker *w, short events)
{
	int rc = io_poll_await(w->fd, events, loop_now(w->r->loop) + RIVAL_GRACE_S * 1000000000ull);
	if (rc < 0)
		rival_die("the server", rc == -KV_ETIMEOUT ? "no answer any more" : kv_strerror(rc));
}

/* Send n pieces; they are used up. */
static void send_await(const struct worker *w, struct iovec *iov, unsigned n)
{
	for (unsigned at = 0; at < n;) {
		struct msghdr m = {.msg_iov = iov + at, .msg_iovlen = KV_MIN(n - at, (unsigned)IOV_MOST)};
		ssize_t sent = sendmsg(w->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EAGAIN)
			ready_await(w, POLLOUT);
		else if (sent < 0 && errno != EINTR)
			rival_die_errno("send");
		for (size_t left = sent > 0 ? (size_t)sent : 0; left > 0;) {
			size_t part = KV_MIN(left, iov[at].iov_len);
			iov[at].iov_base = (uint8_t *)iov[at].iov_base + part;
			iov[at].iov_len -= part;
			left -= part;
			at += iov[at].iov_len == 0;
		}
	}
}

/* Receive until n bytes are there to be looked at. */
static void need_await(struct worker *w, size_t n)
{
	if (w->room - w->at < n) {
		memmove(w->buf, w->buf + w->at, w->have - w->at);
		w->have -= w->at;
		w->at = 0;
	}
	if (w->room < n)
		rival_die("GET", "an answer is longer than what was stored");
	while (w->have - w->at < n) {
		ssize_t got = recv(w->fd, w->buf + w->have, w->room - w->have, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			ready_await(w, POLLIN);
		else if (got < 0 && errno != EINTR)
			rival_die_errno("recv");
		else if (got == 0)
			rival_die("recv", "the server closed the connection");
		w->have += got > 0 ? (size_t)got : 0;
	}
}

/* A line, without its end. */
static void line_await(struct worker *w, char out[RIVAL_HEAD_BYTES])
{
	size_t seen = 0, n;
	const uint8_t *end;
	for (;;) {
		need_await(w, seen + 1);
		end = memchr(w->buf + w->at + seen, '\n', w->have - w->at - seen);
		if (end)
			break;
		seen = w->have - w->at;
		if (seen >= RIVAL_HEAD_BYTES)
			rival_die("the server", "the answer is not of this protocol");
	}
	n = (size_t)(end - (w->buf + w->at));
	memcpy(out, w->buf + w->at, KV_MIN(n, (size_t)RIVAL_HEAD_BYTES - 1));
	out[KV_MIN(n, (size_t)RIVAL_HEAD_BYTES - 1)] = 0;
	w->at += n + 1;
}

/* ---- a request ---- */

static void keys_make(struct worker *w)
{
	unsigned n = w->order.num_ids;
	if (n > w->cap) {
		free(w->key);
		free(w->head);
		w->key = malloc(n * sizeof(*w->key));
		w->head = malloc((size_t)n * RIVAL_HEAD_BYTES);
		w->cap = n;
		if (!w->key || !w->head)
			rival_die_errno("malloc");
	}
	for (unsigned i = 0; i < n; i++)
		bench_key_trace(&w->key[i], w->r->o->shape.seed, w->r->o->shape.size, w->order.ids[i]);
}

/* How many blocks of the request are there before the first that is not. */
static unsigned look_up_await(struct worker *w)
{
	int protocol = w->r->o->rival.protocol;
	struct iovec all = {.iov_base = w->head};
	unsigned found = 0, n = w->order.num_ids;
	char *to = w->head, line[RIVAL_HEAD_BYTES];
	for (unsigned i = 0; i < n; i++)
		to += protocol == RIVAL_REDIS ? snprintf(to, RIVAL_HEAD_BYTES, "*2\r\n$6\r\nEXISTS\r\n$%zu\r\n%s\r\n",
							 w->key[i].len, w->key[i].text)
					      : snprintf(to, RIVAL_HEAD_BYTES, "mg %s\r\n", w->key[i].text);
	all.iov_len = (size_t)(to - w->head);
	send_await(w, &all, 1);
	for (unsigned i = 0; i < n; i++) {
		bool yes;
		line_await(w, line);
		yes = strncmp(line, protocol == RIVAL_REDIS ? ":1" : "HD", 2) == 0;
		if (!yes && strncmp(line, protocol == RIVAL_REDIS ? ":0" : "EN", 2) != 0)
			rival_die("the lookup failed", line);
		found += yes && found == i;
	}
	return found;
}

static void value_check(const struct worker *w, unsigned block, const uint8_t *got)
{
	uint64_t size = w->r->o->shape.size;
	const uint8_t *want = w->r->stock + bench_value_at(&w->key[block], size);
	if (memcmp(got, want, 8) || memcmp(got + size - 8, want + size - 8, 8) ||
	    (w->r->o->verify && memcmp(got, want, size)))
		rival_die("GET", "a value is not what was stored");
}

static void put_await(struct worker *w, unsigned n)
{
	const struct options *o = w->r->o;
	const char *yes = rival_stored_text(o->rival.protocol);
	for (unsigned i = 0; i < n; i++) {
		struct bench_key *key = &w->key[w->block[i]];
		char *head = w->head + (size_t)i * RIVAL_HEAD_BYTES;
		w->iov[3 * i] =
			(struct iovec){head, (size_t)rival_put_head(o->rival.protocol, key, o->shape.size, head)};
		w->iov[3 * i + 1] = (struct iovec){w->r->stock + bench_value_at(key, o->shape.size), o->shape.size};
		w->iov[3 * i + 2] = (struct iovec){(void *)(uintptr_t)"\r\n", 2};
	}
	send_await(w, w->iov, 3 * n);
	for (unsigned i = 0; i < n; i++) {
		char line[RIVAL_HEAD_BYTES];
		line_await(w, line);
		if (strncmp(line, "SERVER_ERROR out of memory", 26) == 0)
			w->r->refused++; /* memcached evicts within a size class, and may find nothing there */
		else if (strncmp(line, yes, strlen(yes) - 2) != 0)
			rival_die("SET: the server did not store a value (has it memory enough, and items so large?)",
				  line);
	}
	w->r->result.gets += n;
	w->r->result.bytes += n * o->shape.size;
}

/* Read the n blocks of the batch. Those that are gone become the batch; returns their number. */
static unsigned get_await(struct worker *w, unsigned n)
{
	const struct options *o = w->r->o;
	size_t tail = rival_tail(o->rival.protocol);
	unsigned lost = 0;
	for (unsigned i = 0; i < n; i++) {
		char *head = w->head + (size_t)i * RIVAL_HEAD_BYTES;
		w->iov[i] = (struct iovec){head, (size_t)rival_get(o->rival.protocol, &w->key[w->block[i]], head)};
	}
	send_await(w, w->iov, n);
	for (unsigned i = 0; i < n; i++) {
		char line[RIVAL_HEAD_BYTES];
		int64_t len;
		line_await(w, line);
		len = rival_value_header(o->rival.protocol, line);
		if (len < 0) {
			w->block[lost++] = w->block[i];
			continue;
		}
		if ((uint64_t)len != o->shape.size)
			rival_die("GET", "a value has another length than what was stored");
		need_await(w, o->shape.size + tail);
		value_check(w, w->block[i], w->buf + w->at);
		w->at += o->shape.size + tail;
	}
	w->r->hits += n - lost;
	w->r->lost += lost;
	w->r->result.gets += n - lost;
	w->r->result.bytes += (n - lost) * o->shape.size;
	return lost;
}

static void request_await(struct worker *w)
{
	uint64_t start_ns = now_ns();
	unsigned found, n;
	keys_make(w);
	found = look_up_await(w);
	seq_looked_up_await(&w->order, found);
	for (unsigned at = 0; at < w->order.num_ids; at += n) {
		unsigned missing;
		n = KV_MIN((at < found ? found : w->order.num_ids) - at, w->r->batch);
		for (unsigned i = 0; i < n; i++)
			w->block[i] = at + i;
		missing = at < found ? get_await(w, n) : n;
		if (missing)
			put_await(w, missing);
	}
	w->r->requests++;
	w->r->blocks += w->order.num_ids;
	kv_hist_add(&w->r->result.latency, now_ns() - start_ns);
}

static void worker_main(void *arg)
{
	struct worker *w = arg;
	struct replay *r = w->r;
	seq_worker_init(&w->order, r->seq);
	while (seq_next_await(&w->order))
		if (w->order.num_ids > 0)
			request_await(w);
		else
			r->requests++;
	seq_worker_fini(&w->order);
	if (--r->running == 0)
		loop_stop(r->loop);
}

/* ---- the whole ---- */

static bool never_over(void *arg)
{
	(void)arg;
	return false;
}

static struct worker *workers_make(struct replay *r)
{
	struct worker *all = calloc(r->o->conns, sizeof(*all));
	if (!all)
		rival_die_errno("malloc");
	for (uint32_t i = 0; i < r->o->conns; i++) {
		struct worker *w = &all[i];
		w->r = r;
		w->room = KV_MAX(r->batch * (r->o->shape.size + RIVAL_HEAD_BYTES), (uint64_t)BUFFER_MIN);
		w->buf = malloc(w->room);
		if (!w->buf)
			rival_die_errno("malloc");
		memset(w->buf, 0, w->room); /* so that no GET waits for a page to be made */
		w->fd = rival_connect(&r->o->rival);
		if (co_spawn(r->loop, worker_main, w, "replay") < 0)
			rival_die("memory", "no stack for a connection's coroutine");
		r->running++;
	}
	return all;
}

static int print(const struct replay *r, const struct seq_stats *stats)
{
	double seconds = (double)r->result.elapsed_ns / 1e9;
	printf("{\"requests\": %llu, \"requests_per_s\": %.1f, \"bytes_per_s\": %.0f, \"seconds\": %.6f, \"blocks\": "
	       "%llu, \"hits\": %llu, \"lost\": %llu, \"refused\": %llu, \"complete\": "
	       "%s, \"p50_ns\": %llu, \"p99_ns\": %llu, \"cpu_seconds\": %.3f}\n",
	       (unsigned long long)r->requests, (double)r->requests / seconds, (double)r->result.bytes / seconds,
	       seconds, (unsigned long long)r->blocks, (unsigned long long)r->hits, (unsigned long long)r->lost,
	       (unsigned long long)r->refused, stats->end_of_file ? "true" : "false",
	       (unsigned long long)kv_hist_quantile(&r->result.latency, 0.5),
	       (unsigned long long)kv_hist_quantile(&r->result.latency, 0.99), r->result.cpu_seconds);
	return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	static struct replay r; /* a histogram is too large for a stack */
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = kv_log_stderr};
	struct loop_options lo = {.name = "replay", .log = &log};
	struct seq_options so = {.over = never_over, .log = &log};
	struct seq_stats stats = {0};
	struct kv_error err = {0};
	struct options o;
	struct worker *workers;
	uint64_t start_ns;
	int rc = load_options(&program, table, argc, argv, &o);
	if (rc >= 0)
		return rc;
	rival_program = "kvreplay";
	if (!o.trace)
		rival_die("no trace is given", "name one with --trace FILE");
	r.o = &o;
	r.batch = (unsigned)KV_MIN(KV_MAX(BATCH_BYTES / o.shape.size, (uint64_t)1), (uint64_t)BATCH_MAX);
	result_init(&r.result);
	r.stock = malloc(bench_stock_bytes(o.shape.size));
	if (!r.stock)
		rival_die_errno("malloc");
	bench_stock_fill(r.stock, bench_stock_bytes(o.shape.size));
	so.path = o.trace;
	so.strict = o.order == 0;
	so.duration_ns = o.shape.duration_ns;
	if (loop_create(&lo, &r.loop, &err) < 0 || sequencer_start(&so, &r.seq, &err) < 0)
		rival_die("cannot start", err.text);
	start_ns = now_ns();
	workers = workers_make(&r);
	if (loop_run(r.loop) < 0)
		rival_die("cannot start", "the loop is not ours");
	r.result.elapsed_ns = now_ns() - start_ns;
	r.result.cpu_seconds = cpu_seconds_now();
	if (sequencer_stop(&r.seq, &stats, &err) < 0)
		rival_die(o.trace, err.text);
	loop_destroy(&r.loop);
	for (uint32_t i = 0; i < o.conns; i++) {
		free(workers[i].key);
		free(workers[i].head);
		free(workers[i].buf);
	}
	free(workers);
	free(r.stock);
	return print(&r, &stats);
}
