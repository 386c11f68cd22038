/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h -- the kernel, as a loop uses it. Internal to loop/ and the simulation.
 *
 * Chosen at link time: loop/ring_kernel.c (io_uring, or epoll) or tests/sim/ring_sim.c (virtual sockets and time).
 * Thread: the one that turns the loop; ring_create and ring_wake: any; ring_destroy: also any after that thread has
 * ended. */
#ifndef KVRAIL_LOOP_RING_H
#define KVRAIL_LOOP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"

struct ring;

/* READ_AT and WRITE_AT: of a file or disk, at an offset. They cannot be cancelled: ring_cancel and ring_close leave
 * them. */
enum ring_kind { RING_READ, RING_WRITE, RING_ACCEPT, RING_CONNECT, RING_POLL, RING_READ_AT, RING_WRITE_AT };

/* struct ring_op -- one request. The caller fills the first part. It and its buffers stay in place from ring_submit
 * until done() runs, exactly once, in a later ring_reap. */
struct ring_op {
	enum ring_kind kind;
	int fd;
	union {
		void *in;                          /* read: len bytes */
		const void *out;                   /* write: len bytes, never with SIGPIPE on a socket */
		struct sockaddr_storage *peer;     /* accept; may be NULL */
		const struct sockaddr_storage *to; /* connect: its first len bytes */
	};
	size_t len;
	uint64_t at;     /* read_at, write_at */
	bool durable;    /* write_at: it reaches the medium */
	bool background; /* ... of the lowest priority that is not idle, where the kernel knows one */
	short events;    /* poll: of poll(2) */
	bool quiet;      /* not counted by ring_reap */
	void (*done)(struct ring_op *op);
	int64_t result; /* bytes, descriptor or mask; or a negative code */
	bool closed;    /* ring_close ended it */

	struct kv_list node; /* from here on the ring's */
	uint8_t state;
	bool plain; /* no socket; epoll, connect: a socket made non-blocking */
	socklen_t peer_len;
	uint32_t armed; /* epoll: the order that covers it */
};

struct ring_options {
	bool any_thread; /* turned on changing threads */
	const struct kv_log *log;
};

int ring_create(const struct ring_options *options, struct ring **out, struct kv_error *err);

/* ring_destroy -- afterwards the kernel has no request; their done() does not run. */
void ring_destroy(struct ring **ring);

/* ring_fallback -- why the ring is epoll's, with the way out; NULL: it is io_uring. */
const struct kv_error *ring_fallback(const struct ring *ring);

/* ring_adopt -- this thread turns the ring now. At each turn. 0, or -KV_EINVAL: it belongs to another thread. */
int ring_adopt(struct ring *ring);
/* ring_settle, ring_unsettle -- this thread stays the only one for long: makes system calls cheaper. */
void ring_settle(struct ring *ring);
void ring_unsettle(struct ring *ring);

const struct kv_clock *ring_clock(const struct ring *ring);

void ring_submit(struct ring *ring, struct ring_op *op);
/* ring_cancel -- end a request early. It completes with -ECANCELED, -EINTR, or its result. May be repeated. */
void ring_cancel(struct ring *ring, struct ring_op *op);

/* ring_flush -- submit to the kernel; does not wait. */
void ring_flush(struct ring *ring);
/* ring_wait -- flush, then sleep until a completion, ring_wake, or wait_ns (KV_NEVER: no limit). */
void ring_wait(struct ring *ring, uint64_t wait_ns);
/* ring_relax -- yield the processor between looks. */
void ring_relax(struct ring *ring);
/* ring_reap -- run done() of completed requests. Returns how many. */
int ring_reap(struct ring *ring);
/* ring_wake -- end the current or next ring_wait. Any thread. */
void ring_wake(struct ring *ring);

/* Plain system calls, which a simulation replaces. 0 or -errno unless said. */
int ring_socket(struct ring *ring, int family, int *out_fd);
int ring_listen(struct ring *ring, struct sockaddr_storage *addr, socklen_t len, int *out_fd);
int ring_nodelay(struct ring *ring, int fd);
int ring_user_timeout(struct ring *ring, int fd, unsigned timeout_ms);
void ring_shutdown(struct ring *ring, int fd);
/* ring_close -- requests on fd end with -ECANCELED and `closed`. The number is free at once; no request can reach its
 * successor. */
void ring_close(struct ring *ring, int fd);

#endif
