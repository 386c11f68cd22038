/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h -- what a loop wants of the kernel, and nothing more. Internal to loop/ and to the simulation.
 *
 * Chosen at link time: loop/ring_kernel.c (io_uring, or epoll where it is forbidden) or tests/sim/ring_sim.c (virtual
 * sockets, virtual time).
 * Everything here is called on the thread that turns the loop, except ring_create and ring_wake (any thread), and
 * ring_destroy (that thread, or any other after that thread has ended). */
#ifndef KVRAIL_LOOP_RING_H
#define KVRAIL_LOOP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"

struct ring;

enum ring_kind { RING_READ, RING_WRITE, RING_ACCEPT, RING_CONNECT, RING_POLL };

/* struct ring_op -- one request. The caller fills the first part and keeps the memory in place from ring_submit until
 * done() runs, exactly once, in a later ring_reap. Buffers and addresses likewise. */
struct ring_op {
	enum ring_kind kind;
	int fd;
	union {
		void *in;                          /* read: len bytes */
		const void *out;                   /* write: len bytes, never with SIGPIPE on a socket */
		struct sockaddr_storage *peer;     /* accept; may be NULL */
		const struct sockaddr_storage *to; /* connect: len bytes of it */
	};
	size_t len;
	short events; /* poll: of poll(2) */
	bool quiet;   /* ring_reap does not count it: its completion is no work by itself */
	void (*done)(struct ring_op *op);
	int64_t result; /* bytes, descriptor or mask; or a negative code. -ECANCELED: see `closed` */
	bool closed;    /* it ended because ring_close closed its descriptor */

	struct kv_list node; /* the members below are the ring's */
	uint8_t state;
	bool plain; /* a descriptor that turned out to be no socket; epoll, connect: a socket that was made non-blocking
		     */
	socklen_t peer_len;
	uint32_t armed; /* epoll: which order to wait for the descriptor covers it */
};

struct ring_options {
	bool any_thread; /* turned by one thread after another */
	const struct kv_log *log;
};

int ring_create(const struct ring_options *options, struct ring **out, struct kv_error *err);

/* ring_destroy -- the kernel is finished with every request when it returns; their done() does not run. */
void ring_destroy(struct ring **ring);

/* ring_fallback -- why the ring is made of epoll, with a sentence that names the way out; NULL: it is io_uring. */
const struct kv_error *ring_fallback(const struct ring *ring);

/* ring_adopt -- this thread turns the ring now. Called at each turn. 0, or -KV_EINVAL: it belongs to another thread. */
int ring_adopt(struct ring *ring);
/* ring_settle, ring_unsettle -- this thread will be the only one for a long time (makes entering the kernel cheaper).
 */
void ring_settle(struct ring *ring);
void ring_unsettle(struct ring *ring);

const struct kv_clock *ring_clock(const struct ring *ring);

void ring_submit(struct ring *ring, struct ring_op *op);
/* ring_cancel -- end a submitted request early. It completes as every request does: with -ECANCELED (or -EINTR), or
 * with the result that it had reached. May be repeated. */
void ring_cancel(struct ring *ring, struct ring_op *op);

/* ring_flush -- hand the submitted requests to the kernel; does not wait. */
void ring_flush(struct ring *ring);
/* ring_wait -- flush, then sleep until a request completes, ring_wake is called or wait_ns passed. KV_NEVER has no
 * limit. */
void ring_wait(struct ring *ring, uint64_t wait_ns);
/* ring_relax -- the loop spins and found nothing: yield the processor. */
void ring_relax(struct ring *ring);
/* ring_reap -- run done() of the requests that have completed. Returns how many. */
int ring_reap(struct ring *ring);
/* ring_wake -- make the present or next ring_wait return. Any thread. */
void ring_wake(struct ring *ring);

/* Plain system calls, here so that a simulation has them too. 0 or -errno unless said. */
int ring_socket(struct ring *ring, int family, int *out_fd);
int ring_listen(struct ring *ring, struct sockaddr_storage *addr, socklen_t len, int *out_fd);
int ring_nodelay(struct ring *ring, int fd);
int ring_user_timeout(struct ring *ring, int fd, unsigned timeout_ms);
void ring_shutdown(struct ring *ring, int fd);
/* ring_close -- requests on fd end with -ECANCELED and `closed`; the number is free at once, and no request can hit its
 * successor. */
void ring_close(struct ring *ring, int fd);

#endif
