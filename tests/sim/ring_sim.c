/* SPDX-License-Identifier: Apache-2.0 */
/* ring_sim.c -- loop/ring.h over virtual time and virtual TCP.
 *
 * Deliberately stupid: a request that cannot finish stays in its ring's list, and each ring_reap tries every one of
 * them again. So there are no wake-ups to lose; events only change sockets. A loop that would sleep writes down until
 * when, and sim_world_step goes to the earliest of these and of the events. Descriptors start at FD_FIRST, beyond those
 * of the kernel, and are never reused, so a real one is noticed.
 *
 * A connection is two sockets that name each other by number. What one writes becomes segments in the other's `coming`,
 * each with its time of arrival (never before the one in front); data, FIN and RST all travel so, and a cut simply
 * keeps them there. */
#include "tests/sim/ring_sim.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop/inside.h"
#include "loop/ring.h"
#include "loop/timer.h"

enum {
	FD_FIRST = 1 << 24,
	SOCKS_MAX = 1 << 16,
	LOCAL_PORT_FIRST = 1000,
	PORT_FIRST = 40000,
	BACKLOG_MAX = 128,
	SETTLE_ROUNDS_MAX = 1 << 20
};

#define SPIN_NS 1000ull /* what one empty turn of a spinning loop takes */

enum seg_kind { SEG_DATA, SEG_FIN, SEG_RST };

struct seg {
	struct kv_list node;
	uint64_t when_ns;
	enum seg_kind kind;
	size_t len, taken;
	char data[];
};

enum sock_kind { SOCK_FREE, SOCK_NEW, SOCK_CONNECTING, SOCK_OPEN, SOCK_LISTEN, SOCK_FLAG };

struct sock {
	enum sock_kind kind;
	struct ring *owner;             /* whose process it belongs to; NULL: the test's */
	int fd, peer;                   /* peer: the other end, or -1 */
	uint16_t port;                  /* of the listener, on both ends */
	struct kv_list coming, arrived; /* seg.node */
	size_t bytes;                   /* of data in both: counts against the window */
	bool end_seen, end_sent, closed, cut, set;
	int error; /* -errno, or 0 */
	uint64_t last_ns, user_timeout_ns, cut_epoch;
	int backlog[BACKLOG_MAX];
	unsigned backlog_len;
};

struct event {
	struct loop_timer timer;
	struct sim_world *world;
	void (*fn)(void *arg);
	void *arg;
	bool own; /* arg is a struct visit, which fn frees */
};

struct ring {
	struct sim_world *world;
	struct kv_list node; /* sim_world.rings */
	struct kv_list ops;  /* submitted, in order */
	uint64_t wake_ns;
	bool bell;
	bool frozen;
};

struct cut_port {
	uint16_t port;
	bool cut;
};

struct sim_world {
	struct kv_clock clock; /* first: the clock's function finds the world by it */
	struct kv_entropy entropy;
	uint64_t now_ns, trace;
	struct kv_prng prng, secrets;
	struct sim_net net;
	struct timer_heap events;
	struct kv_list rings;
	struct sock *socks[SOCKS_MAX];
	unsigned sock_count;
	uint16_t next_port, next_local;
	struct cut_port cut_ports[64];
	unsigned cut_port_count;
};

static _Thread_local struct sim_world *here;

/* ---- the world ---- */

static uint64_t world_clock(const struct kv_clock *clock)
{
	return KV_CONTAINER(clock, struct sim_world, clock)->now_ns;
}

static int world_secret(const struct kv_entropy *e, void *out, size_t n)
{
	kv_prng_fill(&KV_CONTAINER(e, struct sim_world, entropy)->secrets, out, n);
	return 0;
}

static void *must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "sim: no memory\n");
		abort();
	}
	return memory;
}

struct sim_world *sim_world_create(uint64_t seed)
{
	struct sim_world *world = must(calloc(1, sizeof(*world)));
	world->clock.now_ns = world_clock;
	world->entropy.fill = world_secret;
	world->now_ns = 1000000000; /* no deadline of a test is 0 by accident */
	kv_prng_seed(&world->prng, seed);
	kv_prng_seed(&world->secrets, seed ^ 0x5ec3e7);
	world->net = (struct sim_net){
		.delay_min_ns = 20000, .delay_max_ns = 200000, .window_bytes = 64 << 10, .split = true};
	world->next_port = PORT_FIRST;
	world->next_local = LOCAL_PORT_FIRST;
	kv_list_init(&world->rings);
	here = world;
	return world;
}

static void sock_free(struct sim_world *world, struct sock *s);

void sim_world_destroy(struct sim_world **world)
{
	struct sim_world *w = *world;
	if (!w)
		return;
	while (w->events.root) {
		struct event *e = KV_CONTAINER(w->events.root, struct event, timer);
		timer_cancel(&w->events, &e->timer);
		if (e->own)
			free(e->arg);
		free(e);
	}
	for (unsigned i = 0; i < w->sock_count; i++) {
		if (w->socks[i])
			sock_free(w, w->socks[i]);
	}
	if (here == w)
		here = NULL;
	free(w);
	*world = NULL;
}

uint64_t sim_world_now(const struct sim_world *world)
{
	return world->now_ns;
}

const struct kv_clock *sim_world_clock(struct sim_world *world)
{
	return &world->clock;
}

const struct kv_entropy *sim_world_entropy(struct sim_world *world)
{
	return &world->entropy;
}

struct kv_prng *sim_world_prng(struct sim_world *world)
{
	return &world->prng;
}

struct sim_net *sim_world_net(struct sim_world *world)
{
	return &world->net;
}

uint64_t sim_world_trace(const struct sim_world *world)
{
	return world->trace;
}

static void trace(struct sim_world *world, uint64_t what, uint64_t detail)
{
	const uint64_t step[] = {world->now_ns, what, detail};
	for (size_t i = 0; i < KV_COUNT(step); i++)
		world->trace = (world->trace ^ step[i]) * 0x100000001b3ull + 0x9e3779b97f4a7c15ull;
}

void sim_world_note(struct sim_world *world, uint64_t what, uint64_t detail)
{
	trace(world, what, detail);
}

static void event_fire(struct loop_timer *t)
{
	struct event *e = KV_CONTAINER(t, struct event, timer);
	trace(e->world, 1, 0);
	e->fn(e->arg);
	free(e);
}

static void event_at(struct sim_world *world, uint64_t when_ns, void (*fn)(void *arg), void *arg, bool own)
{
	struct event *e = must(calloc(1, sizeof(*e)));
	*e = (struct event){.timer = {.fire = event_fire}, .world = world, .fn = fn, .arg = arg, .own = own};
	timer_arm(&world->events, &e->timer, KV_MAX(when_ns, world->now_ns));
}

void sim_world_at(struct sim_world *world, uint64_t when_ns, void (*fn)(void *arg), void *arg)
{
	event_at(world, when_ns, fn, arg, false);
}

bool sim_world_step(struct sim_world *world, uint64_t limit_ns)
{
	uint64_t next = timer_next_ns(&world->events);
	KV_LIST_EACH (n, &world->rings) {
		const struct ring *ring = KV_LIST_ENTRY(n, struct ring, node);
		next = ring->frozen ? next : KV_MIN(next, ring->wake_ns);
	}
	if (next == KV_NEVER)
		return false;
	if (next > limit_ns) {
		world->now_ns = KV_MAX(world->now_ns, limit_ns);
		return false;
	}
	world->now_ns = KV_MAX(world->now_ns, next);
	while (timer_expire(&world->events, world->now_ns) > 0)
		continue;
	return true;
}

/* Turns every loop until all of them found nothing to do in the same round. */
static bool settle(struct sim_world *world, struct loop *const *loops, unsigned count)
{
	for (int round = 0; round < SETTLE_ROUNDS_MAX; round++) {
		unsigned first = (unsigned)kv_prng_below(&world->prng, KV_MAX(count, 1u));
		int busy = 0;
		for (unsigned i = 0; i < count; i++) {
			struct loop *loop = loops[(first + i) % count];
			busy |= !loop->ring->frozen && loop_turn(loop, KV_NEVER) != 0;
		}
		if (!busy)
			return true;
	}
	fprintf(stderr, "sim: the loops never come to rest at %llu ns\n", (unsigned long long)world->now_ns);
	return false;
}

bool sim_run(struct sim_world *world, struct loop *const *loops, unsigned count, bool (*done)(void *arg), void *arg,
	     uint64_t limit_ns)
{
	for (;;) {
		if (!settle(world, loops, count))
			return false;
		if (done && done(arg))
			return true;
		if (!sim_world_step(world, limit_ns))
			return !done && world->now_ns < limit_ns;
	}
}

void sim_loop_freeze(struct loop *loop, bool frozen)
{
	loop->ring->frozen = frozen;
}

/* ---- sockets ---- */

static struct sock *sock_new(struct sim_world *world, enum sock_kind kind)
{
	if (world->sock_count == SOCKS_MAX)
		return NULL;
	struct sock *s = must(calloc(1, sizeof(*s)));
	*s = (struct sock){.kind = kind, .fd = FD_FIRST + (int)world->sock_count, .peer = -1};
	kv_list_init(&s->coming);
	kv_list_init(&s->arrived);
	world->socks[world->sock_count++] = s;
	return s;
}

static struct sock *sock_of(struct sim_world *world, int fd)
{
	return fd >= FD_FIRST && fd < FD_FIRST + (int)world->sock_count ? world->socks[fd - FD_FIRST] : NULL;
}

/* An open descriptor of a loop; NULL gives EBADF. */
static struct sock *sock_open(struct sim_world *world, int fd)
{
	struct sock *s = sock_of(world, fd);
	return s && !s->closed ? s : NULL;
}

static void drop_segments(struct kv_list *list)
{
	struct kv_list *node;
	while ((node = kv_list_pop(list)))
		free(KV_LIST_ENTRY(node, struct seg, node));
}

static void sock_free(struct sim_world *world, struct sock *s)
{
	drop_segments(&s->coming);
	drop_segments(&s->arrived);
	world->socks[s->fd - FD_FIRST] = NULL;
	free(s);
}

static uint64_t delay_ns(struct sim_world *world)
{
	const struct sim_net *net = &world->net;
	return net->delay_min_ns + kv_prng_below(&world->prng, net->delay_max_ns - net->delay_min_ns + 1);
}

struct visit { /* an event's argument: sockets may be gone by then, so by number */
	struct sim_world *world;
	int fd;
	uint64_t epoch;
};

static void visit_at(struct sim_world *world, uint64_t when_ns, void (*fn)(void *arg), int fd, uint64_t epoch)
{
	struct visit *v = must(malloc(sizeof(*v)));
	*v = (struct visit){.world = world, .fd = fd, .epoch = epoch};
	event_at(world, when_ns, fn, v, true);
}

static void send_seg(struct sim_world *world, struct sock *to, enum seg_kind kind, const void *data, size_t len);

static void reset(struct sock *s, int error)
{
	s->error = error;
	drop_segments(&s->coming);
	drop_segments(&s->arrived);
	s->bytes = 0;
}

static void take_segment(struct sim_world *world, struct sock *s, struct seg *seg)
{
	kv_list_del(&seg->node);
	struct sock *from = sock_of(world, s->peer);
	if (seg->kind == SEG_DATA && !s->closed && !s->error) {
		kv_list_add_tail(&s->arrived, &seg->node);
		return;
	}
	if (seg->kind == SEG_DATA && from && !from->error)
		send_seg(world, from, SEG_RST, NULL, 0); /* nobody will read it */
	if (seg->kind == SEG_FIN)
		s->end_seen = true;
	if (seg->kind == SEG_RST && !s->error)
		reset(s, -ECONNRESET);
	free(seg);
}

/* Event: segments have arrived. */
static void arrive(void *arg)
{
	struct visit v = *(struct visit *)arg;
	free(arg);
	struct sock *s = sock_of(v.world, v.fd);
	while (s && !s->cut && !kv_list_empty(&s->coming)) {
		struct seg *seg = KV_LIST_ENTRY(s->coming.next, struct seg, node);
		if (seg->when_ns > v.world->now_ns)
			break;
		take_segment(v.world, s, seg);
	}
}

static void send_seg(struct sim_world *world, struct sock *to, enum seg_kind kind, const void *data, size_t len)
{
	struct seg *seg = must(malloc(sizeof(*seg) + len));
	*seg = (struct seg){.kind = kind, .len = len, .when_ns = KV_MAX(to->last_ns, world->now_ns + delay_ns(world))};
	if (len > 0)
		memcpy(seg->data, data, len);
	to->last_ns = seg->when_ns;
	to->bytes += len;
	kv_list_add_tail(&to->coming, &seg->node);
	visit_at(world, seg->when_ns, arrive, to->fd, 0);
}

static void send_end(struct sim_world *world, struct sock *s, enum seg_kind kind)
{
	struct sock *peer = sock_of(world, s->peer);
	if (s->end_sent || !peer)
		return;
	s->end_sent = true;
	send_seg(world, peer, kind, NULL, 0);
}

/* Event: a cut has lasted for the user timeout. */
static void cut_timeout(void *arg)
{
	struct visit v = *(struct visit *)arg;
	free(arg);
	struct sock *s = sock_of(v.world, v.fd);
	if (s && s->cut && s->cut_epoch == v.epoch && !s->error)
		reset(s, -ETIMEDOUT);
}

static void cut_one(struct sim_world *world, struct sock *s, bool cut)
{
	if (!s || s->cut == cut)
		return;
	s->cut = cut;
	s->cut_epoch++;
	if (cut && s->user_timeout_ns)
		visit_at(world, world->now_ns + s->user_timeout_ns, cut_timeout, s->fd, s->cut_epoch);
	if (!cut)
		visit_at(world, KV_MAX(world->now_ns + delay_ns(world), s->last_ns), arrive, s->fd, 0);
}

void sim_sock_cut(struct sim_world *world, int fd, bool cut)
{
	struct sock *s = sock_of(world, fd);
	if (!s)
		return;
	cut_one(world, s, cut);
	cut_one(world, sock_of(world, s->peer), cut);
}

void sim_sock_kill(struct sim_world *world, int fd)
{
	struct sock *s = sock_of(world, fd);
	if (!s || s->error)
		return;
	send_end(world, s, SEG_RST);
	reset(s, -ECONNRESET);
}

static bool is_server_end(const struct sock *s, uint16_t port)
{
	return s && s->kind == SOCK_OPEN && s->port == port && s->peer >= 0 && s->fd > s->peer;
}

unsigned sim_port_kill(struct sim_world *world, uint16_t port)
{
	unsigned killed = 0;
	for (unsigned i = 0; i < world->sock_count; i++) {
		if (!is_server_end(world->socks[i], port))
			continue;
		sim_sock_kill(world, world->socks[i]->fd);
		killed++;
	}
	return killed;
}

static void socks_kill(struct sim_world *world, const struct loop *loop, uint16_t below)
{
	for (unsigned i = 0; i < world->sock_count; i++) {
		struct sock *s = world->socks[i];
		if (!s || s->owner != loop->ring || s->closed || s->port >= below)
			continue;
		if (s->kind == SOCK_OPEN)
			sim_sock_kill(world, s->fd);
		s->closed = s->kind == SOCK_LISTEN;
		while (s->backlog_len > 0)
			sim_sock_kill(world, s->backlog[--s->backlog_len]);
	}
}

void sim_loop_crash(struct sim_world *world, struct loop *loop)
{
	sim_loop_freeze(loop, true);
	socks_kill(world, loop, UINT16_MAX);
}

void sim_local_kill(struct sim_world *world, const struct loop *loop)
{
	socks_kill(world, loop, PORT_FIRST);
}

static bool port_is_cut(const struct sim_world *world, uint16_t port)
{
	for (unsigned i = 0; i < world->cut_port_count; i++) {
		if (world->cut_ports[i].port == port)
			return world->cut_ports[i].cut;
	}
	return false;
}

static void remember_port(struct sim_world *world, uint16_t port, bool cut)
{
	unsigned i = 0;
	while (i < world->cut_port_count && world->cut_ports[i].port != port)
		i++;
	if (i == KV_COUNT(world->cut_ports))
		return;
	world->cut_ports[i] = (struct cut_port){.port = port, .cut = cut};
	world->cut_port_count = KV_MAX(world->cut_port_count, i + 1);
}

static void connect_arrives(void *arg);

unsigned sim_port_cut(struct sim_world *world, uint16_t port, bool cut)
{
	unsigned count = 0;
	remember_port(world, port, cut);
	for (unsigned i = 0; i < world->sock_count; i++) {
		struct sock *s = world->socks[i];
		if (s && s->kind == SOCK_CONNECTING && s->port == port && !cut)
			visit_at(world, world->now_ns + delay_ns(world), connect_arrives, s->fd, 0);
		if (!is_server_end(s, port))
			continue;
		sim_sock_cut(world, s->fd, cut);
		count++;
	}
	return count;
}

int sim_flag_open(struct sim_world *world)
{
	return ((struct sock *)must(sock_new(world, SOCK_FLAG)))->fd;
}

void sim_flag_set(struct sim_world *world, int fd, bool readable)
{
	struct sock *s = sock_open(world, fd);
	if (s && s->kind == SOCK_FLAG)
		s->set = readable;
}

void sim_flag_close(struct sim_world *world, int fd)
{
	struct sock *s = sock_of(world, fd);
	if (s && s->kind == SOCK_FLAG)
		s->closed = true;
}

/* ---- what requests do; each returns -EAGAIN as long as it has to wait ---- */

static size_t cut_at_random(struct sim_world *world, size_t len)
{
	if (!world->net.split || len <= 1 || kv_prng_below(&world->prng, 4) != 0)
		return len;
	return 1 + (size_t)kv_prng_below(&world->prng, len);
}

static size_t take_bytes(struct sock *s, char *out, size_t len)
{
	size_t have = 0;
	while (have < len && !kv_list_empty(&s->arrived)) {
		struct seg *seg = KV_LIST_ENTRY(s->arrived.next, struct seg, node);
		size_t n = KV_MIN(len - have, seg->len - seg->taken);
		memcpy(out + have, seg->data + seg->taken, n);
		have += n;
		seg->taken += n;
		if (seg->taken < seg->len)
			break;
		kv_list_del(&seg->node);
		free(seg);
	}
	s->bytes -= have;
	return have;
}

static int64_t try_read(struct sim_world *world, struct sock *s, struct ring_op *op)
{
	if (s->error)
		return s->error;
	if (s->kind != SOCK_OPEN)
		return s->kind == SOCK_FLAG ? -EINVAL : -ENOTCONN;
	if (op->len > 0 && !kv_list_empty(&s->arrived))
		return (int64_t)take_bytes(s, op->in, cut_at_random(world, op->len));
	return op->len == 0 || s->end_seen ? 0 : -EAGAIN;
}

static int64_t try_write(struct sim_world *world, struct sock *s, struct ring_op *op)
{
	struct sock *peer = sock_of(world, s->peer);
	if (s->error)
		return s->error;
	if (s->kind != SOCK_OPEN)
		return s->kind == SOCK_FLAG ? -EINVAL : -ENOTCONN;
	if (s->end_sent || !peer)
		return -EPIPE;
	if (op->len == 0)
		return 0;
	if (peer->bytes >= world->net.window_bytes)
		return -EAGAIN;
	size_t n = cut_at_random(world, KV_MIN(op->len, world->net.window_bytes - peer->bytes));
	send_seg(world, peer, SEG_DATA, op->out, n);
	return (int64_t)n;
}

static void fill_peer(struct sockaddr_storage *out, int fd)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	memset(out, 0, sizeof(*out));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons((uint16_t)(20000 + fd % 20000));
}

static int64_t try_accept(struct sim_world *world, struct sock *s, struct ring_op *op)
{
	(void)world;
	if (s->kind != SOCK_LISTEN || s->end_seen)
		return -EINVAL;
	if (s->backlog_len == 0)
		return -EAGAIN;
	int fd = s->backlog[0];
	s->backlog_len--;
	memmove(s->backlog, s->backlog + 1, s->backlog_len * sizeof(s->backlog[0]));
	if (op->peer)
		fill_peer(op->peer, sock_of(world, fd)->peer);
	return fd;
}

static struct sock *listener_of(struct sim_world *world, uint16_t port)
{
	for (unsigned i = 0; i < world->sock_count; i++) {
		struct sock *s = world->socks[i];
		if (s && s->kind == SOCK_LISTEN && s->port == port && !s->closed && !s->end_seen)
			return s;
	}
	return NULL;
}

/* Event: a SYN has arrived. The connection is open for both at once. */
static void connect_arrives(void *arg)
{
	struct visit v = *(struct visit *)arg;
	free(arg);
	struct sock *s = sock_open(v.world, v.fd);
	if (!s || s->kind != SOCK_CONNECTING || port_is_cut(v.world, s->port))
		return;
	struct sock *listener = listener_of(v.world, s->port);
	struct sock *other = listener && listener->backlog_len < BACKLOG_MAX ? sock_new(v.world, SOCK_OPEN) : NULL;
	if (!other) {
		s->kind = SOCK_NEW;
		s->error = -ECONNREFUSED;
		return;
	}
	s->kind = SOCK_OPEN;
	s->peer = other->fd;
	other->peer = s->fd;
	other->port = s->port;
	other->owner = listener->owner;
	listener->backlog[listener->backlog_len++] = other->fd;
}

static int64_t try_connect(struct sim_world *world, struct sock *s, struct ring_op *op)
{
	if (s->error)
		return s->error;
	if (s->kind == SOCK_OPEN)
		return 0;
	if (s->kind == SOCK_NEW) {
		/* Port and sin6_port lie at the same place. */
		s->port = ntohs(((const struct sockaddr_in *)op->to)->sin_port);
		s->kind = SOCK_CONNECTING;
		visit_at(world, world->now_ns + delay_ns(world), connect_arrives, s->fd, 0);
	}
	return -EAGAIN;
}

static int64_t try_poll(struct sim_world *world, struct sock *s, struct ring_op *op)
{
	const struct sock *peer = sock_of(world, s->peer);
	short ready = 0;
	if (s->kind == SOCK_FLAG && s->set)
		ready |= POLLIN;
	if (s->kind == SOCK_LISTEN && s->backlog_len > 0)
		ready |= POLLIN;
	if (s->kind == SOCK_OPEN && (!kv_list_empty(&s->arrived) || s->end_seen))
		ready |= POLLIN;
	if (s->kind == SOCK_OPEN && peer && peer->bytes < world->net.window_bytes)
		ready |= POLLOUT;
	ready &= op->events;
	if (s->error)
		ready |= POLLERR | POLLHUP;
	return ready ? ready : -EAGAIN;
}

static int64_t try_op(struct ring *ring, struct ring_op *op)
{
	struct sim_world *world = ring->world;
	struct sock *s = sock_open(world, op->fd);
	if (!s)
		return -EBADF;
	if (s->kind == SOCK_LISTEN && !s->owner)
		s->owner = ring; /* of sim_local_listen */
	switch (op->kind) {
	case RING_READ:
		return try_read(world, s, op);
	case RING_WRITE:
		return try_write(world, s, op);
	case RING_ACCEPT:
		return try_accept(world, s, op);
	case RING_CONNECT:
		return try_connect(world, s, op);
	case RING_POLL:
		return try_poll(world, s, op);
	case RING_READ_AT:
	case RING_WRITE_AT:
		break; /* a simulated device has no ring */
	}
	return -EINVAL;
}

/* ---- the ring ---- */

enum { OP_WAITING = 1, OP_CANCELLED };

int ring_create(const struct ring_options *options, struct ring **out, struct kv_error *err)
{
	(void)options;
	if (!here)
		return kv_fail(err, -KV_EINVAL, "sim: loop_create without a world; call sim_world_create first");
	struct ring *ring = must(calloc(1, sizeof(*ring)));
	ring->world = here;
	ring->wake_ns = KV_NEVER;
	kv_list_init(&ring->ops);
	kv_list_add_tail(&here->rings, &ring->node);
	*out = ring;
	return 0;
}

void ring_destroy(struct ring **ring)
{
	if (!*ring)
		return;
	kv_list_del(&(*ring)->node);
	free(*ring);
	*ring = NULL;
}

/* A turn that does not come to ring_wait wants the next one at once. */
int ring_adopt(struct ring *ring)
{
	ring->wake_ns = ring->world->now_ns;
	return 0;
}

const struct kv_error *ring_fallback(const struct ring *ring)
{
	(void)ring;
	return NULL;
}

void ring_settle(struct ring *ring)
{
	(void)ring;
}

void ring_unsettle(struct ring *ring)
{
	(void)ring;
}

const struct kv_clock *ring_clock(const struct ring *ring)
{
	return &ring->world->clock;
}

void ring_submit(struct ring *ring, struct ring_op *op)
{
	op->state = OP_WAITING;
	op->closed = false;
	kv_list_add_tail(&ring->ops, &op->node);
}

void ring_cancel(struct ring *ring, struct ring_op *op)
{
	(void)ring;
	op->state = OP_CANCELLED;
}

void ring_flush(struct ring *ring)
{
	(void)ring;
}

void ring_wait(struct ring *ring, uint64_t wait_ns)
{
	ring->wake_ns = kv_deadline(ring->world->now_ns, wait_ns);
	if (ring->bell)
		ring->wake_ns = ring->world->now_ns;
	ring->bell = false;
}

void ring_relax(struct ring *ring)
{
	ring->wake_ns = ring->world->now_ns + SPIN_NS;
}

void ring_wake(struct ring *ring)
{
	ring->bell = true;
}

/* done() may submit and cancel (it closes nothing), so each request is judged from a batch that only we touch; what
 * must wait goes back, in order. */
int ring_reap(struct ring *ring)
{
	struct kv_list batch, waiting, *node;
	int count = 0;
	kv_list_init(&batch);
	kv_list_init(&waiting);
	kv_list_splice_tail(&batch, &ring->ops);
	while ((node = kv_list_pop(&batch))) {
		struct ring_op *op = KV_LIST_ENTRY(node, struct ring_op, node);
		int64_t result = op->state == OP_CANCELLED ? -ECANCELED : try_op(ring, op);
		if (result == -EAGAIN) {
			kv_list_add_tail(&waiting, node);
			continue;
		}
		trace(ring->world, 2 + (uint64_t)op->kind, (uint64_t)result);
		op->result = result;
		count += !op->quiet;
		op->done(op);
	}
	kv_list_splice_tail(&waiting, &ring->ops);
	kv_list_splice_tail(&ring->ops, &waiting);
	return count;
}

int ring_socket(struct ring *ring, int family, int *out_fd)
{
	(void)family;
	struct sock *s = sock_new(ring->world, SOCK_NEW);
	if (!s)
		return -EMFILE;
	s->owner = ring;
	*out_fd = s->fd;
	return 0;
}

int ring_listen(struct ring *ring, struct sockaddr_storage *addr, socklen_t len, int *out_fd)
{
	struct sim_world *world = ring->world;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	uint16_t port = ntohs(in->sin_port);
	(void)len;
	if (port == 0)
		port = world->next_port++;
	if (listener_of(world, port))
		return -EADDRINUSE;
	struct sock *s = sock_new(world, SOCK_LISTEN);
	if (!s)
		return -EMFILE;
	s->owner = ring;
	s->port = port;
	in->sin_port = htons(port);
	*out_fd = s->fd;
	return 0;
}

int sim_local_listen(struct sim_world *world, int *out_fd, uint16_t *out_port)
{
	struct sock *s = sock_new(world, SOCK_LISTEN);
	if (!s)
		return -EMFILE;
	s->port = world->next_local++;
	*out_fd = s->fd;
	*out_port = s->port;
	return 0;
}

int ring_nodelay(struct ring *ring, int fd)
{
	(void)ring;
	(void)fd;
	return 0;
}

int ring_user_timeout(struct ring *ring, int fd, unsigned timeout_ms)
{
	struct sock *s = sock_open(ring->world, fd);
	if (!s)
		return -EBADF;
	s->user_timeout_ns = (uint64_t)timeout_ms * 1000000;
	return 0;
}

void ring_shutdown(struct ring *ring, int fd)
{
	struct sock *s = sock_open(ring->world, fd);
	if (!s)
		return;
	s->end_seen = true;
	send_end(ring->world, s, SEG_FIN);
}

/* As TCP does: an unread rest makes the end a reset. */
static void sock_close(struct sim_world *world, struct sock *s)
{
	send_end(world, s, kv_list_empty(&s->arrived) ? SEG_FIN : SEG_RST);
	s->closed = true;
	while (s->kind == SOCK_LISTEN && s->backlog_len > 0)
		sim_sock_kill(world, s->backlog[--s->backlog_len]);
}

void ring_close(struct ring *ring, int fd)
{
	struct sock *s = sock_open(ring->world, fd);
	if (!s)
		return;
	KV_LIST_EACH (n, &ring->ops) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd != fd)
			continue;
		op->closed = true;
		op->state = OP_CANCELLED;
	}
	sock_close(ring->world, s);
}

/* The linker sends calls of close here (tests/suites.mk): Unix sockets are closed by threads without a loop. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct sock *s = here && fd >= FD_FIRST ? sock_open(here, fd) : NULL;
	if (fd < FD_FIRST)
		return __real_close(fd);
	if (s)
		sock_close(here, s);
	return 0;
}
