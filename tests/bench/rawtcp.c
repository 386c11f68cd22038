/* SPDX-License-Identifier: Apache-2.0 */
/* rawtcp.c -- what one TCP connection on loopback carries when nothing is in the way: the limit of every store that
 * speaks TCP.
 *
 * Two processes, a thread and one socket each. The client keeps --depth requests of 8 bytes in flight, a block's number
 * each; the server writes the blocks that it was asked for with one sendmsg, and the client receives the stream
 * straight into a ring of --depth places. Requests are sent again in bulk, as many as blocks came. Both sides poll, and
 * give the processor away when there is nothing. Blocks are read in kv-bench's order, begin and end with a word of
 * their own, and both words are wiped before a place is used again and compared when the block is whole.
 *
 * The congestion control is --congestion, by default reno: KVRail's engine asks for it on loopback, too. Any failure
 * ends the run with a sentence; nothing is given back before the end. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "kvbench/load/workload.h"
#include "tests/bench/load.h"
#include "tests/bench/result.h"

enum { DEPTH_MAX = 512, GRACE_S = 10 };

struct options {
	struct load_shape shape;
	uint32_t depth;
	const char *congestion;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct kv_opt table[] = {
	LOAD_ROWS(struct options),
	LOAD_BLOCKS_ROW(struct options, "blocks", "Blocks that the server holds."),
	LOAD_COUNT_ROW(.name = "depth", .letter = 'n', AT(depth), .def = "16", .max = DEPTH_MAX,
		       .help = "Requests in flight."),
	{.name = "congestion",
	 .type = KV_OPT_STRING,
	 AT(congestion),
	 .metavar = "NAME",
	 .def = "reno",
	 .help = "Congestion control; empty: the system's default."},
	{.name = NULL},
};

static const struct kv_opt_program program = {
	.name = "rawtcp", .about = "Blocks over one TCP connection on loopback, pipelined. Prints JSON."};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "rawtcp: %s: %s\n", what, why);
	exit(1);
}

static uint8_t *memory(uint64_t len)
{
	struct kv_area area;
	struct kv_error err = {0};
	if (kv_area_map(len, &area, &err) < 0)
		die("memory", err.text);
	return area.base;
}

static int tcp_socket(const struct options *o)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (fd < 0)
		die("socket", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (o->congestion[0] &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion, (socklen_t)strlen(o->congestion)) < 0)
		die(o->congestion, strerror(errno));
	return fd;
}

/* Bytes moved, 0 when there is nothing to move now, -1 at the end of the connection. */
static ssize_t outcome(ssize_t n)
{
	if (n > 0)
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		sched_yield();
		return 0;
	}
	return -1;
}

/* ---- the server ---- */

/* All of it, however often the socket is full. Whether the client is still there. */
static bool send_blocks(int fd, struct iovec *v, unsigned n)
{
	while (n > 0) {
		struct msghdr m = {.msg_iov = v, .msg_iovlen = n};
		ssize_t sent = outcome(sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT));
		if (sent < 0)
			return false;
		for (; n > 0 && (size_t)sent >= v->iov_len; v++, n--)
			sent -= (ssize_t)v->iov_len;
		if (n > 0) {
			v->iov_base = (uint8_t *)v->iov_base + sent;
			v->iov_len -= (size_t)sent;
		}
	}
	return true;
}

static int server_run(const struct options *o, int listener)
{
	uint8_t *base = memory(o->shape.blocks * o->shape.size);
	uint64_t request[DEPTH_MAX];
	struct iovec v[DEPTH_MAX];
	size_t have = 0;
	int fd;
	blocks_fill(&o->shape, base);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept", strerror(errno));
	for (;;) {
		ssize_t n = outcome(recv(fd, (uint8_t *)request + have, sizeof(request) - have, MSG_DONTWAIT));
		unsigned whole;
		if (n < 0)
			return 0; /* the client has gone */
		have += (size_t)n;
		whole = (unsigned)(have / 8);
		for (unsigned i = 0; i < whole; i++) {
			if (request[i] >= o->shape.blocks)
				die("a request", "there is no such block");
			v[i] = (struct iovec){base + request[i] * o->shape.size, o->shape.size};
		}
		if (whole && !send_blocks(fd, v, whole))
			return 0;
		memmove(request, request + whole, have % 8);
		have %= 8;
	}
}

/* ---- the client ---- */

struct client {
	const struct options *o;
	int fd;
	uint8_t *ring; /* depth places */
	uint64_t block[DEPTH_MAX], start_ns[DEPTH_MAX];
	uint64_t asked, received, arrived; /* requests; bytes of all blocks; blocks */
	bool counting;
	struct result result;
};

/* So many requests at once. They are small, and those before them are answered: the socket takes them whole. */
static void ask(struct client *c, unsigned n)
{
	uint64_t request[DEPTH_MAX], now = now_ns();
	for (unsigned i = 0; i < n; i++, c->asked++) {
		uint64_t place = c->asked % c->o->depth;
		request[i] = c->block[place] = bench_order_key(c->asked, c->o->shape.blocks, c->o->shape.seed);
		c->start_ns[place] = now;
		block_wipe(&c->o->shape, c->ring + place * c->o->shape.size);
	}
	if (send(c->fd, request, n * 8ul, MSG_NOSIGNAL) != (ssize_t)(n * 8ul))
		die("send", strerror(errno));
}

static void block_arrived(struct client *c, uint64_t now)
{
	uint64_t place = c->arrived++ % c->o->depth;
	if (!block_is(&c->o->shape, c->ring + place * c->o->shape.size, c->block[place]))
		die("a block that arrived", "not as it should be");
	if (!c->counting)
		return;
	c->result.gets++;
	c->result.bytes += c->o->shape.size;
	kv_hist_add(&c->result.latency, now - c->start_ns[place]);
}

/* Take what is there, up to the ring's end and what was asked for. */
static void receive(struct client *c)
{
	uint64_t ring = c->o->depth * c->o->shape.size, at = c->received % ring;
	uint64_t room = KV_MIN(ring - at, c->asked * c->o->shape.size - c->received);
	ssize_t n = outcome(recv(c->fd, c->ring + at, room, MSG_DONTWAIT));
	unsigned whole;
	uint64_t now;
	if (n < 0)
		die("the server", "it closed the connection");
	if (n == 0)
		return;
	c->received += (uint64_t)n;
	whole = (unsigned)(c->received / c->o->shape.size - c->arrived);
	now = now_ns();
	for (unsigned i = 0; i < whole; i++)
		block_arrived(c, now);
	if (whole)
		ask(c, whole);
}

static void read_for(struct client *c, uint64_t duration_ns)
{
	uint64_t end = now_ns() + duration_ns, grace = end + GRACE_S * 1000000000ull, now;
	do {
		receive(c);
		now = now_ns();
	} while (now < end || (c->counting && c->result.gets == 0 && now < grace));
}

static int client_run(const struct options *o, const struct sockaddr_in *to)
{
	static struct client c; /* a histogram is too large for a stack */
	uint64_t start;
	double cpu;
	c.o = o;
	c.ring = memory(o->depth * o->shape.size);
	c.fd = tcp_socket(o);
	result_init(&c.result);
	if (connect(c.fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		die("connect", strerror(errno));
	ask(&c, o->depth);
	/* The server fills its blocks first. */
	for (uint64_t end = now_ns() + 60000000000ull; c.arrived == 0 && now_ns() < end;)
		receive(&c);
	read_for(&c, o->shape.duration_ns / 10);
	c.counting = true;
	cpu = cpu_seconds_now();
	start = now_ns();
	read_for(&c, o->shape.duration_ns);
	c.result.elapsed_ns = now_ns() - start;
	c.result.cpu_seconds = cpu_seconds_now() - cpu;
	close(c.fd);
	if (c.result.gets == 0)
		die("the server", "not one answer");
	return result_print(&c.result) < 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	struct options o;
	int listener, rc = load_options(&program, table, argc, argv, &o);
	pid_t child;
	if (rc >= 0)
		return rc;
	listener = tcp_socket(&o);
	if (bind(listener, (struct sockaddr *)&sin, sizeof(sin)) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&sin, &len) < 0)
		die("listen", strerror(errno));
	child = peer_start();
	if (child < 0)
		die("fork", strerror(errno));
	if (child == 0)
		_exit(server_run(&o, listener));
	close(listener);
	rc = client_run(&o, &sin);
	return peer_end(child, program.name) ? rc : 1;
}
