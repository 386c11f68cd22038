/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_door.c -- the doorkeeper of the tcp providers' endpoints.
 *
 * libfabric's tcp providers trust whoever connects: a few bytes of a stranger's crash the process, block its loop or
 * eat its receive buffers (docs/guide/security.md). So the calls that they make on sockets are ours (fabric_import.c),
 * and accept   hands over a connection only when its source has an endpoint that a peer of ours announced over its
 *            authenticated connection, when a whole connect request lies in the socket, when that claims one of those
 *            endpoints, and when that endpoint has no connection yet;
 *   recv     goes through the connection's guard (fabric_stream.c), also on connections that libfabric made itself;
 *   connect  and send tell which endpoint a connection that libfabric makes is for; close, that one is gone.
 * A descriptor that is none of these is passed on: libfabric may have other users in this process.
 *
 * A connection that was accepted is, at the door:
 *   stranger --> reset at once
 *   waiting (at most WAITING_MAX, for WAITING_NS) --request is whole, its endpoint is free--> handed over
 *           --close--> gone
 * An honest peer sends its request with the first segment, and the kernel says that there is a connection only when
 * some of it is there (TCP_DEFER_ACCEPT). Otherwise it waits here, where nothing is blocked: door_poll looks at it. But
 * the provider calls accept only when its listening socket is readable; so the doorkeeper knocks, with a connection of
 * its own to that socket, and hands over the one that waited when the provider answers.
 *
 * An endpoint that is connected, by us or by itself, keeps its connection: whoever claims it as well waits for its end,
 * then goes. So nobody on a peer's host takes the place of that peer; the peer itself comes back only when its first
 * connection has gone, which both ends see: where one did not, because a packet was lost, the kernel is told to ask
 * (conn_probe). That holds while we forget the peer for a moment, too: its endpoint is kept until its connections are
 * closed.
 *
 * A cut (door_cut) ends one endpoint for the provider, at once: the fence of one peer. Its connections, accepted and
 * made, hand nothing more on and are shut; whoever claims the endpoint waits outside until a door_allow, or goes. What
 * the provider was handed before may still lie in a buffer of its own, on its way to memory. But the provider asks for
 * more only when that buffer is empty; so the connection is quiet once the provider has asked and was told the end.
 * door_cut says how many are not quiet yet, and its caller polls the provider until there are none. A connection is
 * known by the endpoint's address, not by its place there: one that is over, but not closed yet, has lost that place to
 * its successor, and its last bytes may be unread. One that we make is known to be this door's from what is sent on it
 * first; so that is looked at before it is sent. Rejected: closing the descriptors ourselves, which are the provider's.
 *
 * A descriptor finds its connection in a table of two levels (`watch`), read without a lock: a descriptor is entered
 * before the provider has it and taken out before it is closed. All else that is shared is under one lock for the
 * process; it is taken for what happens once per connection.
 *
 * A door outlives its endpoint until the last of its connections was closed: it is counted. Rejected: a filter of the
 * kernel's on the listening socket (SO_ATTACH_FILTER), which newer kernels keep for CAP_NET_ADMIN and which sees no
 * connect request; functions of our own named accept and recv (fabric_import.c). */
#include "engine/fabric_door.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/fabric_import.h"
#include "engine/fabric_stream.h"

enum {
	WAITING_MAX = 64,  /* connections at one door that are not handed over yet */
	ACCEPTS_MAX = 256, /* looked at for one call of the provider's */
	BUCKETS = 256,     /* of a door's endpoints, and of their hosts */
	WATCH_PAGE = 4096, /* descriptors of one page of the table */
	WATCH_PAGES = 512,
	DEFER_S = 1, /* for which the kernel keeps a connection that says nothing to itself */
	LINE_MAX_LEN = 80,
	LINES_MAX = 4 /* that one call is told at most */
};
#define WAITING_NS   5000000000ull
#define GONE_NS      5000000000ull /* after the last peer with an endpoint has gone its connection stays so long */
#define GONE_LOOK_NS 250000000ull
#define KNOCK_NS     200000000ull
#define CUT_NS       60000000000ull /* so long an endpoint that was cut is no stranger's */

struct endpoint {
	struct kv_list node; /* of door.ends */
	struct sockaddr_storage addr;
	uint32_t refs;     /* peers of ours that have it */
	uint64_t gone_ns;  /* since when refs is 0 */
	bool cut;          /* until it is allowed again nobody gets in, and nothing goes out */
	struct conn *conn; /* accepted from it; NULL: none */
	struct conn *made; /* by us, to it; NULL: none */
};

struct host {
	struct kv_list node;          /* of door.hosts */
	struct sockaddr_storage addr; /* port 0 */
	uint32_t endpoints;
};

enum kind { LISTENER, CONN };

/* What the table says about a descriptor. */
struct watched {
	enum kind kind;
	struct door *door;
};

struct conn {
	struct watched watched;
	struct kv_list node; /* of door.conns */
	struct stream stream;
	struct endpoint *end; /* at the other side; NULL: not known yet, or forgotten */
	int fd;
	bool accepted;     /* else we made it */
	bool set_up;       /* what we had to send for it was seen */
	bool probed;       /* the kernel asks the other side whether it still has it */
	atomic_bool cut;   /* nothing more of it is handed on */
	atomic_bool quiet; /* ... and the provider has asked since */
	struct sockaddr_storage peer;
	struct sockaddr_storage claim; /* the endpoint's address: `end` or not */
};

struct waiting {
	int fd;
	struct sockaddr_storage peer;
	uint64_t since_ns;
	bool twice; /* it waits for the end of another connection */
	bool early; /* it waits for the end of a cut */
};

struct door {
	struct watched listener;
	struct kv_list node; /* of all_doors */
	struct guard_rules rules;
	uint32_t refs; /* its endpoint, and its connections */
	int fd;        /* the provider's listening socket; -1: none */
	bool open;
	struct sockaddr_storage name;
	socklen_t name_len;
	struct kv_list ends[BUCKETS], hosts[BUCKETS], conns;
	struct waiting waiting[WAITING_MAX];
	unsigned num_waiting, num_gone;
	uint64_t gone_looked_ns;
	uint32_t polls;
	int knock_fd;
	bool knocked; /* its byte is sent */
	uint64_t knock_ns;
	struct sockaddr_storage knock_name;
	atomic_bool attention; /* door_poll has something to look at */
	atomic_uint_fast64_t let_in, turned[DOOR_REASONS];
	const struct kv_log *log;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kv_list all_doors = {&all_doors, &all_doors};
static int spare_fd = -1; /* to have one left when there is none */

static _Atomic(_Atomic(struct watched *) *) watch_page[WATCH_PAGES];

/* ---- what libfabric imports ---- */

static int our_accept(int fd, struct sockaddr *addr, socklen_t *len);
static int our_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
static ssize_t our_recv(int fd, void *buf, size_t len, int flags);
static ssize_t our_recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
static ssize_t our_recvmsg(int fd, struct msghdr *msg, int flags);
static ssize_t our_send(int fd, const void *buf, size_t len, int flags);
static ssize_t our_sendmsg(int fd, const struct msghdr *msg, int flags);
static int our_connect(int fd, const struct sockaddr *addr, socklen_t len);
static int our_close(int fd);

enum {
	CALL_ACCEPT,
	CALL_ACCEPT4,
	CALL_RECV,
	CALL_RECV_CHK,
	CALL_RECVMSG,
	CALL_SEND,
	CALL_SENDMSG,
	CALL_CONNECT,
	CALL_CLOSE,
	CALLS
};

/* A function's address as the table of imports has it. */
#define AS_DATA(function) ((void *)(uintptr_t)(function))

static struct import imports[CALLS] = {
	[CALL_ACCEPT] = {"accept", AS_DATA(our_accept), AS_DATA(accept), true, NULL, 0},
	[CALL_ACCEPT4] = {"accept4", AS_DATA(our_accept4), AS_DATA(accept4), false, NULL, 0},
	[CALL_RECV] = {"recv", AS_DATA(our_recv), AS_DATA(recv), true, NULL, 0},
	/* What recv is called where a compiler was asked to look at sizes (_FORTIFY_SOURCE). */
	[CALL_RECV_CHK] = {"__recv_chk", AS_DATA(our_recv_chk), AS_DATA(recv), false, NULL, 0},
	[CALL_RECVMSG] = {"recvmsg", AS_DATA(our_recvmsg), AS_DATA(recvmsg), true, NULL, 0},
	[CALL_SEND] = {"send", AS_DATA(our_send), AS_DATA(send), true, NULL, 0},
	[CALL_SENDMSG] = {"sendmsg", AS_DATA(our_sendmsg), AS_DATA(sendmsg), true, NULL, 0},
	[CALL_CONNECT] = {"connect", AS_DATA(our_connect), AS_DATA(connect), true, NULL, 0},
	[CALL_CLOSE] = {"close", AS_DATA(our_close), AS_DATA(close), true, NULL, 0},
};

/* What libfabric called before. */
static struct {
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	struct stream_calls receive;
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*close)(int);
} before;

#define BEFORE(member, call) (before.member = (__typeof__(before.member))(uintptr_t)imports[call].before)

static void before_take(void)
{
	BEFORE(accept, CALL_ACCEPT);
	BEFORE(accept4, CALL_ACCEPT4);
	BEFORE(receive.recv, CALL_RECV);
	BEFORE(receive.recvmsg, CALL_RECVMSG);
	BEFORE(send, CALL_SEND);
	BEFORE(sendmsg, CALL_SENDMSG);
	BEFORE(connect, CALL_CONNECT);
	BEFORE(close, CALL_CLOSE);
}

static int imports_take(const char **why)
{
	static bool taken;
	int rc;
	if (taken)
		return 0;
	/* Ours may be called from the first replaced slot on. */
	for (unsigned i = 0; i < CALLS; i++)
		imports[i].before = imports[i].ordinary;
	before_take();
	rc = import_replace(imports, CALLS, why);
	if (rc)
		return rc;
	before_take();
	taken = true;
	return 0;
}

/* ---- the table of descriptors ---- */

static struct watched *watch_find(int fd)
{
	_Atomic(struct watched *) *page;
	if (KV_UNLIKELY((unsigned)fd >= WATCH_PAGE * WATCH_PAGES))
		return NULL;
	page = atomic_load_explicit(&watch_page[fd / WATCH_PAGE], memory_order_acquire);
	return page ? atomic_load_explicit(&page[fd % WATCH_PAGE], memory_order_acquire) : NULL;
}

static struct conn *conn_find(int fd)
{
	struct watched *w = watch_find(fd);
	return w && w->kind == CONN ? KV_CONTAINER(w, struct conn, watched) : NULL;
}

/* Locked. */
static int watch_set(int fd, struct watched *w)
{
	_Atomic(struct watched *) *page;
	if ((unsigned)fd >= WATCH_PAGE * WATCH_PAGES)
		return -KV_ENOMEM;
	page = atomic_load_explicit(&watch_page[fd / WATCH_PAGE], memory_order_acquire);
	if (!page) {
		page = calloc(WATCH_PAGE, sizeof(*page));
		if (!page)
			return -KV_ENOMEM;
		atomic_store_explicit(&watch_page[fd / WATCH_PAGE], page, memory_order_release);
	}
	atomic_store_explicit(&page[fd % WATCH_PAGE], w, memory_order_release);
	return 0;
}

/* ---- addresses ---- */

static bool known_family(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(a->ss_family == AF_INET ? ((const struct sockaddr_in *)a)->sin_port
					     : ((const struct sockaddr_in6 *)a)->sin6_port);
}

static const void *host_bytes(const struct sockaddr_storage *a, size_t *len)
{
	*len = a->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	return a->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
				       : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t la, lb;
	const void *pa = host_bytes(a, &la), *pb = host_bytes(b, &lb);
	return a->ss_family == b->ss_family && memcmp(pa, pb, la) == 0;
}

static unsigned bucket_of(const struct sockaddr_storage *a, uint16_t port)
{
	size_t len;
	const void *p = host_bytes(a, &len);
	return (unsigned)(kv_hash_key(p, len, port) % BUCKETS);
}

/* A copy with nothing in it but family, host and port. */
static bool address_take(const void *addr, size_t len, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (len > sizeof(*out) || len < sizeof(struct sockaddr_in))
		return false;
	memcpy(out, addr, len);
	return known_family(out) && (out->ss_family == AF_INET || len >= sizeof(struct sockaddr_in6));
}

static struct endpoint *endpoint_find(struct door *d, const struct sockaddr_storage *host, uint16_t port)
{
	KV_LIST_EACH (n, &d->ends[bucket_of(host, port)]) {
		struct endpoint *e = KV_LIST_ENTRY(n, struct endpoint, node);
		if (port_of(&e->addr) == port && same_host(&e->addr, host))
			return e;
	}
	return NULL;
}

static struct host *host_find(struct door *d, const struct sockaddr_storage *host)
{
	KV_LIST_EACH (n, &d->hosts[bucket_of(host, 0)]) {
		struct host *h = KV_LIST_ENTRY(n, struct host, node);
		if (same_host(&h->addr, host))
			return h;
	}
	return NULL;
}

static int host_add(struct door *d, const struct sockaddr_storage *addr)
{
	struct host *h = host_find(d, addr);
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return -KV_ENOMEM;
		h->addr = *addr;
		kv_list_add_tail(&d->hosts[bucket_of(addr, 0)], &h->node);
	}
	h->endpoints++;
	return 0;
}

static void host_del(struct door *d, const struct sockaddr_storage *addr)
{
	struct host *h = host_find(d, addr);
	if (h && --h->endpoints == 0) {
		kv_list_del(&h->node);
		free(h);
	}
}

static struct endpoint *endpoint_add(struct door *d, const struct sockaddr_storage *addr)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	if (host_add(d, addr)) {
		free(e);
		return NULL;
	}
	e->addr = *addr;
	kv_list_add_tail(&d->ends[bucket_of(addr, port_of(addr))], &e->node);
	return e;
}

static void endpoint_del(struct door *d, struct endpoint *e)
{
	if (e->conn)
		e->conn->end = NULL;
	if (e->made)
		e->made->end = NULL;
	if (e->refs == 0)
		d->num_gone--;
	host_del(d, &e->addr);
	kv_list_del(&e->node);
	free(e);
}

/* It is of no use any more. One that was cut is known some time longer (gone_end). */
static void endpoint_tidy(struct door *d, struct endpoint *e)
{
	if (e->refs == 0 && !e->conn && !e->made && !e->cut)
		endpoint_del(d, e);
}

/* ---- what is told ---- */

static const char *const reasons[DOOR_REASONS] = {
	[DOOR_STRANGER] = "no peer has an endpoint at that address",
	[DOOR_CLAIM] = "it claims an endpoint that no peer announced",
	[DOOR_TWICE] = "the endpoint that it claims is connected already",
	[DOOR_SILENT] = "it sent no whole connect request in time",
	[DOOR_FULL] = "too many connections wait, or descriptors are short",
	[DOOR_ALIEN] = "it sent what no peer sends",
};

/* A line that is to be logged once the lock is given back: whoever logs may wait for what a thread holds that waits for
 * the lock. */
struct line {
	const struct kv_log *log;
	char text[LINE_MAX_LEN * 5];
};

static _Thread_local struct {
	struct line line[LINES_MAX];
	unsigned count;
	bool locked;
} told;

static void lines_log(void)
{
	for (unsigned i = 0; i < told.count; i++)
		kv_warn(told.line[i].log, "%s", told.line[i].text);
	told.count = 0;
}

static void door_lock(void)
{
	pthread_mutex_lock(&lock);
	told.locked = true;
}

static void door_unlock(void)
{
	told.locked = false;
	pthread_mutex_unlock(&lock);
	if (KV_UNLIKELY(told.count > 0))
		lines_log();
}

void door_fork(bool hold)
{
	if (hold)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

/* Strangers cause these: the log grows with their logarithm. */
static void tell(struct door *d, enum door_reason reason, const struct sockaddr_storage *peer, const char *why)
{
	uint64_t count = atomic_fetch_add(&d->turned[reason], 1) + 1;
	char from[LINE_MAX_LEN], ours[LINE_MAX_LEN];
	struct line *l = &told.line[told.count];
	if (count & (count - 1) || told.count == LINES_MAX || !kv_log_on(d->log, KV_LOG_WARN))
		return;
	kv_sockaddr_format(peer, from, sizeof(from));
	kv_sockaddr_format(&d->name, ours, sizeof(ours));
	told.count++;
	l->log = d->log;
	snprintf(l->text, sizeof(l->text), "fabric port %s: a connection of %s is ended: %s (%llu so)", ours, from,
		 why ? why : reasons[reason], (unsigned long long)count);
	if (!told.locked)
		lines_log();
}

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static void attend(struct door *d)
{
	atomic_store_explicit(&d->attention, d->num_waiting || d->num_gone || d->knock_fd >= 0, memory_order_relaxed);
}

/* ---- connections ---- */

/* So that nothing of it stays, on either side. */
static void reset(int fd)
{
	const struct linger at_once = {1, 0};
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	(void)before.close(fd);
}

static void door_unref(struct door *d)
{
	if (--d->refs == 0)
		free(d);
}

/* end: that it was accepted for; NULL: we make it. */
static struct conn *conn_make(struct door *d, int fd, const struct sockaddr_storage *peer, struct endpoint *end)
{
	struct conn *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->watched = (struct watched){CONN, d};
	c->fd = fd;
	c->peer = *peer;
	c->end = end;
	c->accepted = end != NULL;
	c->claim = end ? end->addr : *peer;
	stream_init(&c->stream, &d->rules, c->accepted);
	if (watch_set(fd, &c->watched)) {
		free(c);
		return NULL;
	}
	if (end)
		end->conn = c;
	kv_list_add_tail(&d->conns, &c->node);
	d->refs++;
	return c;
}

static void conn_free(struct conn *c)
{
	struct door *d = c->watched.door;
	(void)watch_set(c->fd, NULL);
	if (c->end) {
		struct endpoint *e = c->end;
		if (c->accepted)
			e->conn = NULL;
		else
			e->made = NULL;
		endpoint_tidy(d, e);
	}
	kv_list_del(&c->node);
	stream_fini(&c->stream);
	free(c->stream.guard.asked);
	free(c);
	attend(d);
	door_unref(d);
}

/* ---- who waits ---- */

static void waiting_del(struct door *d, unsigned i)
{
	d->waiting[i] = d->waiting[--d->num_waiting];
}

static void turn_away(struct door *d, int fd, const struct sockaddr_storage *peer, enum door_reason reason,
		      const char *why)
{
	reset(fd);
	tell(d, reason, peer, why);
}

/* Whether the connection that an endpoint has can still be one. */
static bool conn_lives(const struct conn *c)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

/* One connection is enough, whoever made it. While ours is being set up the provider decides which of two is kept. */
static bool endpoint_taken(const struct endpoint *e)
{
	return (e->conn && conn_lives(e->conn)) || (e->made && e->made->stream.guard.begun && conn_lives(e->made));
}

/* Its other side may have ended it without our hearing so: the packet was lost, or the host. Its kernel answers a probe
 * at once, with a reset if it knows nothing of the connection. */
static void conn_probe(struct conn *c)
{
	const int on = 1, seconds = 1, times = 10;
	if (!c || c->probed)
		return;
	c->probed = true;
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* 1: it may be handed over, to *end. 0: it waits on. -1: it was turned away, and is not in the list any more. */
static int waiting_judge(struct door *d, unsigned i, struct endpoint **end)
{
	uint8_t data[GUARD_REQUEST_MAX + 1];
	struct waiting *w = &d->waiting[i];
	const char *why = NULL;
	uint16_t port = 0;
	ssize_t n = before.receive.recv(w->fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
	int rc = n > 0 ? guard_request(&d->rules, data, (size_t)n, &port, &why) : 0;
	struct waiting gone = *w;
	*end = rc == 1 ? endpoint_find(d, &w->peer, port) : NULL;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		waiting_del(d, i); /* it left by itself */
		reset(gone.fd);
		return -1;
	}
	if (rc == 1 && *end && (*end)->cut) {
		w->early = true;
		return 0;
	}
	if (rc < 0 || (rc == 1 && (!*end || (*end)->refs == 0))) {
		waiting_del(d, i);
		turn_away(d, gone.fd, &gone.peer, DOOR_CLAIM, why);
		return -1;
	}
	if (rc == 1 && endpoint_taken(*end)) {
		w->twice = true;
		conn_probe((*end)->conn);
		conn_probe((*end)->made);
		return 0;
	}
	return rc;
}

/* Hand one over that may be. Its descriptor; -1: there is none. */
static int waiting_take(struct door *d)
{
	for (unsigned i = 0; i < d->num_waiting;) {
		struct waiting w = d->waiting[i];
		struct endpoint *end;
		int rc = waiting_judge(d, i, &end);
		if (rc < 0)
			continue;
		if (rc == 0) {
			i++;
			continue;
		}
		waiting_del(d, i);
		if (end->conn)
			end->conn->end = NULL; /* it is over, and libfabric has not closed it yet */
		if (!conn_make(d, w.fd, &w.peer, end)) {
			end->conn = NULL;
			turn_away(d, w.fd, &w.peer, DOOR_FULL, NULL);
			continue;
		}
		atomic_fetch_add(&d->let_in, 1);
		return w.fd;
	}
	return -1;
}

/* The oldest makes room. */
static void waiting_room(struct door *d)
{
	struct waiting oldest;
	unsigned at = 0;
	if (d->num_waiting < WAITING_MAX)
		return;
	for (unsigned i = 1; i < d->num_waiting; i++)
		if (d->waiting[i].since_ns < d->waiting[at].since_ns)
			at = i;
	oldest = d->waiting[at];
	waiting_del(d, at);
	turn_away(d, oldest.fd, &oldest.peer, DOOR_FULL, NULL);
}

static void waiting_expire(struct door *d, uint64_t now)
{
	for (unsigned i = 0; i < d->num_waiting;) {
		struct waiting w = d->waiting[i];
		if (now - w.since_ns < WAITING_NS) {
			i++;
			continue;
		}
		waiting_del(d, i);
		if (w.early)
			reset(w.fd); /* a peer of ours: it has done nothing wrong */
		else
			turn_away(d, w.fd, &w.peer, w.twice ? DOOR_TWICE : DOOR_SILENT, NULL);
	}
}

static bool waiting_ready(struct door *d)
{
	struct endpoint *end;
	for (unsigned i = 0; i < d->num_waiting;) {
		int rc = waiting_judge(d, i, &end);
		if (rc == 1)
			return true;
		if (rc == 0)
			i++;
	}
	return false;
}

/* ---- knocking ---- */

static void knock_end(struct door *d)
{
	if (d->knock_fd >= 0)
		reset(d->knock_fd);
	d->knock_fd = -1;
}

/* A connection of our own, so that the provider calls accept. Its byte is what the kernel defers for. */
static void knock(struct door *d, uint64_t now)
{
	socklen_t len = sizeof(d->knock_name);
	if (d->knock_fd >= 0 && now - d->knock_ns > KNOCK_NS)
		knock_end(d);
	if (d->knock_fd < 0) {
		d->knock_fd = socket(d->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (d->knock_fd < 0)
			return;
		d->knock_ns = now;
		d->knocked = false;
		if ((before.connect(d->knock_fd, (const struct sockaddr *)&d->name, d->name_len) &&
		     errno != EINPROGRESS) ||
		    getsockname(d->knock_fd, (struct sockaddr *)&d->knock_name, &len)) {
			knock_end(d);
			return;
		}
	}
	if (!d->knocked)
		d->knocked = before.send(d->knock_fd, "k", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static bool is_knock(const struct door *d, const struct sockaddr_storage *peer)
{
	return d->knock_fd >= 0 && port_of(&d->knock_name) == port_of(peer) && same_host(&d->knock_name, peer);
}

/* ---- accepting ---- */

/* Descriptors are given out from the lowest on. */
static bool files_short(int fd)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	       (rlim_t)fd + KV_MIN((rlim_t)KV_FILES_RESERVE, limit.rlim_cur / 16) >= limit.rlim_cur;
}

/* No descriptor is left: give up the spare one for a moment, so that whoever knocks does not do so for ever. */
static void shed(struct door *d)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	int fd;
	if (spare_fd < 0)
		return;
	(void)before.close(spare_fd);
	fd = before.accept4(d->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
		turn_away(d, fd, &peer, DOOR_FULL, "no descriptor is left (ulimit -n)");
	spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The next connection of the kernel's. False: there is none. */
static bool accept_one(struct door *d)
{
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	int fd = before.accept4(d->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			shed(d);
		return errno == ECONNABORTED || errno == EINTR;
	}
	if (is_knock(d, &peer)) {
		reset(fd);
		knock_end(d);
	} else if (!d->open || !known_family(&peer) || !host_find(d, &peer)) {
		turn_away(d, fd, &peer, DOOR_STRANGER, NULL);
	} else if (files_short(fd)) {
		turn_away(d, fd, &peer, DOOR_FULL, "descriptors are short (ulimit -n)");
	} else {
		waiting_room(d);
		d->waiting[d->num_waiting++] = (struct waiting){.fd = fd, .peer = peer, .since_ns = now_ns()};
	}
	return true;
}

static int door_accept(struct door *d)
{
	int fd = -1;
	door_lock();
	for (unsigned i = 0; fd < 0 && i < ACCEPTS_MAX && accept_one(d); i++)
		fd = waiting_take(d);
	if (fd < 0)
		fd = waiting_take(d);
	attend(d);
	door_unlock();
	if (fd < 0)
		errno = EAGAIN;
	return fd;
}

static int our_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct watched *w = watch_find(fd);
	int got;
	if (!w || w->kind != LISTENER)
		return before.accept(fd, addr, len);
	got = door_accept(w->door);
	if (got >= 0 && addr)
		(void)getpeername(got, addr, len);
	return got;
}

static int our_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct watched *w = watch_find(fd);
	return w && w->kind == LISTENER ? our_accept(fd, addr, len) : before.accept4(fd, addr, len, flags);
}

/* ---- receiving and sending ---- */

static ssize_t conn_recv(struct conn *c, int fd, const struct iovec *iov, size_t n, int flags)
{
	const char *why;
	ssize_t got;
	if (KV_UNLIKELY(atomic_load_explicit(&c->cut, memory_order_acquire))) {
		atomic_store_explicit(&c->quiet, true, memory_order_release);
		errno = ECONNRESET;
		return -1;
	}
	got = stream_recv(&c->stream, fd, iov, n, flags, &before.receive, &why);
	if (KV_UNLIKELY(why != NULL)) {
		int error = errno;
		(void)shutdown(fd, SHUT_RDWR);
		tell(c->watched.door, DOOR_ALIEN, &c->peer, why);
		errno = error;
	}
	return got;
}

static ssize_t our_recv(int fd, void *buf, size_t len, int flags)
{
	struct conn *c = conn_find(fd);
	const struct iovec iov = {buf, len};
	return c && !(flags & MSG_PEEK) ? conn_recv(c, fd, &iov, 1, flags) : before.receive.recv(fd, buf, len, flags);
}

/* A caller whose buffer is too small would be ended by the C library; here it is told. */
static ssize_t our_recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	return our_recv(fd, buf, KV_MIN(len, room), flags);
}

static ssize_t our_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct conn *c = conn_find(fd);
	if (!c || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return before.receive.recvmsg(fd, msg, flags);
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	return conn_recv(c, fd, msg->msg_iov, msg->msg_iovlen, flags);
}

static void conn_cut(struct conn *c)
{
	atomic_store_explicit(&c->cut, true, memory_order_release);
	(void)shutdown(c->fd, SHUT_RDWR);
}

/* The door of the endpoint that a connection of ours is for: its port is in what we send first. */
static void conn_settle(struct conn *c, uint16_t port)
{
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);
	if (c->accepted || c->end || port == 0 || getsockname(c->fd, (struct sockaddr *)&own, &len))
		return;
	door_lock();
	KV_LIST_EACH (n, &all_doors) {
		struct door *d = KV_LIST_ENTRY(n, struct door, node), *was = c->watched.door;
		if (!d->open || port_of(&d->name) != port || !same_host(&d->name, &own))
			continue;
		kv_list_del(&c->node);
		kv_list_add_tail(&d->conns, &c->node);
		c->watched.door = d;
		c->stream.guard.rules = &d->rules;
		c->end = endpoint_find(d, &c->peer, port_of(&c->peer));
		if (c->end && c->end->made)
			c->end->made->end = NULL;
		if (c->end)
			c->end->made = c;
		if (c->end && c->end->cut)
			conn_cut(c);
		d->refs++;
		door_unref(was);
		break;
	}
	door_unlock();
}

/* What sets the connection up is looked at before it goes out. */
static void conn_set_up(struct conn *c, const void *buf, size_t n)
{
	uint16_t port;
	guard_setup_sent(&c->stream.guard, buf, n, &port);
	conn_settle(c, port);
}

static void conn_sent(struct conn *c, size_t n)
{
	c->set_up = true;
	guard_answered(&c->stream.guard, n);
}

static ssize_t our_send(int fd, const void *buf, size_t len, int flags)
{
	struct conn *c = conn_find(fd);
	ssize_t n;
	if (c && KV_UNLIKELY(!c->set_up))
		conn_set_up(c, buf, len);
	n = before.send(fd, buf, len, flags);
	if (c && n > 0)
		conn_sent(c, (size_t)n);
	return n;
}

static ssize_t our_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct conn *c = conn_find(fd);
	ssize_t n = before.sendmsg(fd, msg, flags);
	if (c && n > 0)
		guard_answered(&c->stream.guard, (uint64_t)n);
	return n;
}

/* ---- connecting and closing ---- */

/* False: it would go unguarded, for want of memory. */
static bool conn_expect(int fd, const struct sockaddr_storage *peer)
{
	struct conn *stale = conn_find(fd); /* closed by somebody who is not libfabric */
	bool good = true;
	door_lock();
	if (stale)
		conn_free(stale);
	KV_LIST_EACH (n, &all_doors) {
		struct door *d = KV_LIST_ENTRY(n, struct door, node);
		if (!d->open || !endpoint_find(d, peer, port_of(peer)))
			continue;
		good = conn_make(d, fd, peer, NULL) != NULL;
		break;
	}
	door_unlock();
	return good;
}

static int our_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage peer;
	if (address_take(addr, len, &peer) && !conn_expect(fd, &peer)) {
		errno = ENOMEM;
		return -1;
	}
	return before.connect(fd, addr, len);
}

static int our_close(int fd)
{
	struct watched *w = watch_find(fd);
	if (w) {
		door_lock();
		if (w->kind == CONN) {
			conn_free(KV_CONTAINER(w, struct conn, watched));
		} else {
			(void)watch_set(fd, NULL);
			w->door->fd = -1;
		}
		door_unlock();
	}
	return before.close(fd);
}

/* ---- for fabric.c ---- */

int door_create(enum guard_format format, bool reads, uint32_t eager_bytes, const struct kv_log *log, struct door **out,
		const char **why)
{
	struct door *d;
	int rc;
	door_lock();
	rc = imports_take(why);
	if (rc)
		goto out;
	d = calloc(1, sizeof(*d));
	if (!d) {
		*why = "no memory";
		rc = -KV_ENOMEM;
		goto out;
	}
	if (spare_fd < 0)
		spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	d->listener = (struct watched){LISTENER, d};
	d->rules = (struct guard_rules){.format = format, .reads = reads, .eager_bytes = eager_bytes};
	d->refs = 1;
	d->fd = d->knock_fd = -1;
	d->log = log;
	for (unsigned i = 0; i < BUCKETS; i++) {
		kv_list_init(&d->ends[i]);
		kv_list_init(&d->hosts[i]);
	}
	kv_list_init(&d->conns);
	kv_list_add_tail(&all_doors, &d->node);
	*out = d;
out:
	door_unlock();
	return rc;
}

int door_listen(struct door *d, int fd, const struct sockaddr *name, socklen_t len)
{
	const int defer = DEFER_S;
	int rc = -KV_EINVAL;
	door_lock();
	if (address_take(name, len, &d->name))
		rc = watch_set(fd, &d->listener);
	if (rc == 0) {
		d->name_len = len;
		d->fd = fd;
		d->open = true;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof(defer));
	}
	door_unlock();
	return rc;
}

/* The provider sees the end of its connections, and closes them. */
static void endpoint_shut(struct endpoint *e)
{
	if (e->conn)
		(void)shutdown(e->conn->fd, SHUT_RDWR);
	if (e->made)
		(void)shutdown(e->made->fd, SHUT_RDWR);
}

static void endpoints_void(struct door *d)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		KV_LIST_EACH_SAFE (n, &d->ends[i])
			endpoint_del(d, KV_LIST_ENTRY(n, struct endpoint, node));
}

void door_shut(struct door *d)
{
	door_lock();
	d->open = false;
	knock_end(d);
	while (d->num_waiting)
		reset(d->waiting[--d->num_waiting].fd);
	endpoints_void(d);
	attend(d);
	door_unlock();
}

void door_release(struct door **door)
{
	struct door *d = *door;
	if (!d)
		return;
	door_shut(d);
	door_lock();
	if (d->fd >= 0) /* leaked by libfabric: it goes on accepting nobody */
		d->refs++;
	kv_list_del(&d->node);
	door_unref(d);
	door_unlock();
	*door = NULL;
}

int door_allow(struct door *d, const void *addr, size_t len)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	int rc = 0;
	if (!address_take(addr, len, &a))
		return 0;
	door_lock();
	e = endpoint_find(d, &a, port_of(&a));
	if (!e) {
		e = endpoint_add(d, &a);
		d->num_gone += e != NULL;
	}
	if (!e)
		rc = -KV_ENOMEM;
	else if (e->refs++ == 0)
		d->num_gone--;
	if (e)
		e->cut = false;
	attend(d);
	door_unlock();
	return rc;
}

void door_forbid(struct door *d, const void *addr, size_t len, bool used)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	if (!address_take(addr, len, &a))
		return;
	door_lock();
	e = endpoint_find(d, &a, port_of(&a));
	if (e && e->refs && --e->refs == 0) {
		d->num_gone++;
		e->gone_ns = now_ns();
		if (!used)
			endpoint_shut(e);
		endpoint_tidy(d, e);
	}
	attend(d);
	door_unlock();
}

/* Those at one door with an endpoint that the provider has not been told the end of. At another door one that we made
 * may be ours as long as nothing has said whose it is: it is better ended than forgotten. */
static unsigned conns_cut(struct door *at, const struct door *d, const struct sockaddr_storage *end, bool *loose)
{
	unsigned left = 0;
	KV_LIST_EACH (n, &at->conns) {
		struct conn *c = KV_LIST_ENTRY(n, struct conn, node);
		if (port_of(&c->claim) != port_of(end) || !same_host(&c->claim, end) ||
		    (at != d && (c->accepted || c->end)))
			continue;
		if (!atomic_load_explicit(&c->cut, memory_order_relaxed))
			conn_cut(c);
		if (atomic_load_explicit(&c->quiet, memory_order_acquire))
			continue;
		left++;
		*loose |= atomic_load_explicit(&c->stream.loose, memory_order_relaxed);
	}
	return left;
}

unsigned door_cut(struct door *d, const void *addr, size_t len, bool *out_loose)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	unsigned left = 0;
	*out_loose = false;
	if (!address_take(addr, len, &a))
		return 0;
	door_lock();
	e = endpoint_find(d, &a, port_of(&a));
	if (e)
		e->cut = true;
	KV_LIST_EACH (n, &all_doors)
		left += conns_cut(KV_LIST_ENTRY(n, struct door, node), d, &a, out_loose);
	door_unlock();
	return left;
}

void door_mend(struct door *d, const void *addr, size_t len)
{
	struct sockaddr_storage a;
	struct endpoint *e;
	if (!address_take(addr, len, &a))
		return;
	door_lock();
	e = endpoint_find(d, &a, port_of(&a));
	if (e)
		e->cut = false;
	door_unlock();
}

void door_readable(struct door *d)
{
	door_lock();
	d->rules.readable = true;
	door_unlock();
}

/* The provider keeps one of the two; what is noted with the other is never asked for. */
static struct guard *guards_of(struct door *d, const void *addr, size_t len, struct guard **out_other)
{
	struct sockaddr_storage a;
	struct endpoint *e = address_take(addr, len, &a) ? endpoint_find(d, &a, port_of(&a)) : NULL;
	*out_other = e && e->conn && e->made ? &e->made->stream.guard : NULL;
	return !e ? NULL : e->conn ? &e->conn->stream.guard : e->made ? &e->made->stream.guard : NULL;
}

static bool ask_room(struct guard *g)
{
	if (g && !g->asked)
		g->asked = calloc(GUARD_ASKED_MAX, sizeof(g->asked[0]));
	return !g || guard_may_ask(g);
}

bool door_may_read(struct door *d, const void *addr, size_t len)
{
	struct guard *g, *other;
	bool room;
	door_lock();
	g = guards_of(d, addr, len, &other);
	room = ask_room(g) && ask_room(other);
	door_unlock();
	return room;
}

void door_reads(struct door *d, const void *addr, size_t len, uint64_t bytes)
{
	struct guard *g, *other;
	door_lock();
	g = guards_of(d, addr, len, &other);
	if (g)
		guard_ask(g, bytes);
	if (other)
		guard_ask(other, bytes);
	door_unlock();
}

/* The connections of those who have gone. */
static void gone_end(struct door *d, uint64_t now)
{
	/* All endpoints are looked at: with thousands of them, in each poll, that would be most of what this thread
	 * does. */
	if (now - d->gone_looked_ns < GONE_LOOK_NS)
		return;
	d->gone_looked_ns = now;
	for (unsigned i = 0; d->num_gone && i < BUCKETS; i++)
		KV_LIST_EACH_SAFE (n, &d->ends[i]) {
			struct endpoint *e = KV_LIST_ENTRY(n, struct endpoint, node);
			if (e->refs || now - e->gone_ns < GONE_NS)
				continue;
			endpoint_shut(e);
			e->cut = e->cut && now - e->gone_ns < CUT_NS;
			endpoint_tidy(d, e);
		}
}

void door_poll(struct door *d)
{
	enum { SELDOM = 256 };
	uint64_t now;
	if (KV_LIKELY(!atomic_load_explicit(&d->attention, memory_order_relaxed)))
		return;
	/* Those who have gone are in no hurry. */
	if (d->num_waiting == 0 && d->knock_fd < 0 && ++d->polls % SELDOM)
		return;
	door_lock();
	now = now_ns();
	waiting_expire(d, now);
	if (d->num_waiting && waiting_ready(d))
		knock(d, now);
	else if (d->knock_fd >= 0 && now - d->knock_ns > KNOCK_NS)
		knock_end(d);
	gone_end(d, now);
	attend(d);
	door_unlock();
}

void door_counts(const struct door *d, struct door_counts *out)
{
	out->let_in = atomic_load(&d->let_in);
	for (unsigned i = 0; i < DOOR_REASONS; i++)
		out->turned[i] = atomic_load(&d->turned[i]);
}
