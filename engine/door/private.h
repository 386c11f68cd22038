/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the body of struct door, for the files of engine/door/ only.
 *
 * Unless a comment says otherwise, functions need the lock of all doors (door_lock). */
#ifndef KVRAIL_ENGINE_DOOR_PRIVATE_H
#define KVRAIL_ENGINE_DOOR_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/door/door.h"
#include "engine/door/stream.h"

enum {
	WAITING_MAX = 64, /* connections at one door not passed to the provider yet */
	DOOR_BUCKETS = 256,
	WATCH_PAGE = 4096,
	WATCH_PAGES = 512
};

struct endpoint {
	struct kv_list node; /* of door.ends */
	struct sockaddr_storage addr;
	uint32_t refs;
	uint64_t gone_ns;       /* when refs became 0 */
	bool cut;               /* until it is allowed again, no connection of it is admitted or made */
	struct door_conn *conn; /* accepted from it; NULL: none */
	struct door_conn *made; /* by us, to it; NULL: none */
};

struct host {
	struct kv_list node;          /* of door.hosts */
	struct sockaddr_storage addr; /* port 0 */
	uint32_t endpoints;
};

enum watched_kind { LISTENER, CONN, SIGNAL };

struct watched {
	enum watched_kind kind;
	struct door *door;
};

/* A connection known to the provider. */
struct door_conn {
	struct watched watched;
	struct kv_list node; /* of door.conns */
	struct stream stream;
	struct endpoint *end; /* the other side's; NULL: not known yet, or forgotten */
	int fd;
	bool accepted; /* else we made it */
	bool set_up;
	bool probed;       /* the kernel probes whether the other side still has it */
	atomic_bool cut;   /* nothing more is passed on */
	atomic_bool quiet; /* ... and the provider has asked since */
	struct sockaddr_storage peer;
	struct sockaddr_storage claim; /* the endpoint's address, even without `end` */
};

/* A connection not known to the provider yet. */
struct waiting {
	int fd;
	struct sockaddr_storage peer;
	uint64_t since_ns;
	bool twice; /* it waits for the end of another connection */
	bool early; /* it waits for the end of a cut */
};

struct door {
	struct watched listener;
	struct kv_list node; /* of door_all */
	struct guard_rules rules;
	uint32_t refs; /* its endpoint, its connections, and the signals of its queues */
	int fd;        /* the provider's listening socket; -1: none */
	bool open;
	struct sockaddr_storage name;
	socklen_t name_len;
	struct kv_list ends[DOOR_BUCKETS], hosts[DOOR_BUCKETS], conns, signals;
	struct waiting waiting[WAITING_MAX];
	unsigned num_waiting;
	unsigned num_gone; /* endpoints without a peer of ours */
	uint64_t gone_looked_ns;
	uint32_t polls;
	int knock_fd;
	bool knocked; /* its byte is sent */
	uint64_t knock_ns;
	struct sockaddr_storage knock_name;
	atomic_bool more;      /* see door_more */
	atomic_bool attention; /* door_poll has work */
	atomic_bool awake;     /* polled since door_rest */
	atomic_uint owed;      /* noted bytes of signals, not in the kernel */
	atomic_uint_fast64_t let_in, turned[DOOR_REASONS];
	const struct kv_log *log;
};

static inline void door_attend(struct door *d)
{
	atomic_store_explicit(&d->attention, d->num_waiting || d->num_gone || d->knock_fd >= 0, memory_order_relaxed);
}

static inline void door_unref(struct door *d)
{
	if (--d->refs == 0)
		free(d);
}

static inline uint64_t door_now(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* ---- door/shared.c ---- */

extern struct kv_list door_all;

/* libfabric's original functions. */
struct door_calls {
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	struct stream_calls receive;
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*close)(int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*read)(int, void *, size_t);
	int (*socketpair)(int, int, int, int[2]);
};
extern struct door_calls door_before;

/* door_lock, door_unlock -- the lock of all doors. door_unlock logs the lines of door_tell. */
void door_lock(void);
void door_unlock(void);

/* door_tell -- count and log an ended connection of this peer. why: NULL is the reason's own text. Locked or not. */
void door_tell(struct door *d, enum door_reason reason, const struct sockaddr_storage *peer, const char *why);

/* door_watch_set -- enter a descriptor into the table and let exec close it; w NULL: remove it. 0 or -KV_ENOMEM. */
int door_watch_set(int fd, struct watched *w);

/* door_watch_find, door_conn_find -- the entry of a descriptor, its connection; or NULL. Not locked: for each call of
 * the provider. */
extern _Atomic(_Atomic(struct watched *) *) door_watch_page[WATCH_PAGES];

static inline struct watched *door_watch_find(int fd)
{
	_Atomic(struct watched *) *page;
	if (KV_UNLIKELY((unsigned)fd >= WATCH_PAGE * WATCH_PAGES))
		return NULL;
	page = atomic_load_explicit(&door_watch_page[fd / WATCH_PAGE], memory_order_acquire);
	return page ? atomic_load_explicit(&page[fd % WATCH_PAGE], memory_order_acquire) : NULL;
}

static inline struct door_conn *door_conn_find(int fd)
{
	struct watched *w = door_watch_find(fd);
	return w && w->kind == CONN ? KV_CONTAINER(w, struct door_conn, watched) : NULL;
}

/* ---- door/ends.c ---- */

/* IPv4 and IPv6 only. door_address_take -- copy family, host and port alone; false: another kind of address. Not
 * locked. */
bool door_family_known(const struct sockaddr_storage *a);
uint16_t door_port_of(const struct sockaddr_storage *a);
bool door_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
bool door_address_take(const void *addr, size_t len, struct sockaddr_storage *out);

/* door_end_find, door_host_find -- the endpoint at this port of a host, the host; NULL: no peer announced one. */
struct endpoint *door_end_find(struct door *d, const struct sockaddr_storage *host, uint16_t port);
struct host *door_host_find(struct door *d, const struct sockaddr_storage *host);

/* door_end_add -- a new one, with no refs; NULL: no memory. door_end_del -- free it; its connections live on.
 * door_end_tidy -- free it if it is unused. */
struct endpoint *door_end_add(struct door *d, const struct sockaddr_storage *addr);
void door_end_del(struct door *d, struct endpoint *e);
void door_end_tidy(struct door *d, struct endpoint *e);

/* ---- door/conn.c ---- */

/* door_reset -- close a descriptor and discard its connection's state on both sides. */
void door_reset(int fd);

/* door_conn_make -- a connection accepted for this endpoint (NULL: the provider makes it). NULL: no memory.
 * door_conn_free -- the provider closes it. */
struct door_conn *door_conn_make(struct door *d, int fd, const struct sockaddr_storage *peer, struct endpoint *end);
void door_conn_free(struct door_conn *c);

/* door_conn_expect -- the provider is about to connect this descriptor to a peer. False: it would be unguarded, for
 * lack of memory. door_conn_set_up -- it is about to send the first bytes. door_conn_sent -- it has sent n bytes.
 * door_conn_recv -- it receives. None of them is locked. */
bool door_conn_expect(int fd, const struct sockaddr_storage *peer);
void door_conn_set_up(struct door_conn *c, const void *buf, size_t n);
void door_conn_sent(struct door_conn *c, size_t n);
ssize_t door_conn_recv(struct door_conn *c, int fd, const struct iovec *iov, size_t n, int flags);

/* door_conns_cut -- cut the connections at one door with this endpoint of door d. Returns how many the provider has not
 * seen end; *loose as door_cut. */
unsigned door_conns_cut(struct door *at, const struct door *d, const struct sockaddr_storage *end, bool *loose);

/* ---- door/wait.c ---- */

/* door_accept -- the provider accepts at this door: returns its descriptor, or -1 with EAGAIN. Not locked. */
int door_accept(struct door *d);

/* door_wait_poll -- check the waiting connections. door_wait_end -- end all of them. */
void door_wait_poll(struct door *d, uint64_t now);
void door_wait_end(struct door *d);

/* door_spare -- keep a spare descriptor for when none is left. */
void door_spare(void);

/* ---- door/signal.c ---- */

/* door_signal_made -- the provider made a pair of sockets. door_signal_close -- it closes one of a signal's. */
void door_signal_made(const int fds[2]);
void door_signal_close(struct watched *w, int fd);

/* door_signal_keep -- a byte is written to this descriptor of a signal: whether it is noted, and need not be written.
 * door_signal_take -- one is read: whether it was only noted. Neither is locked. */
bool door_signal_keep(struct watched *w, int fd);
bool door_signal_take(struct watched *w);

/* door_signals_pay -- write the owed bytes. */
void door_signals_pay(struct door *d);

/* ---- door/calls.c ---- */

/* door_calls_take -- replace the calls in libfabric's import table, once for the process. 0, or as import_replace. */
int door_calls_take(const char **why);

#endif
