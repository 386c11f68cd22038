/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h -- coroutines on an event loop. A loop uses io_uring, or epoll where that is forbidden; both behave alike.
 *
 * Threads: the thread that turns a loop owns it. Functions with a `struct loop *` are called on that thread (by a
 * coroutine of the loop, a poller, a timer or a posted function), unless "Thread: any" is said.
 *
 * Parking: only functions named _await park. They are called from a coroutine; elsewhere they return -KV_EINVAL. After
 * an _await, check again all state that others may have changed.
 *
 * Deadlines are absolute, in nanoseconds of loop_now(); KV_NEVER: none. */
#ifndef KVRAIL_LOOP_LOOP_H
#define KVRAIL_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/base.h"

struct loop;
struct co;

struct loop_options {
	const char *name; /* 15 bytes at most, for the thread and the log; copied */
	const struct kv_log *log;
	const struct kv_clock *clock;     /* NULL: monotonic; the simulated ring has its own */
	const struct kv_entropy *entropy; /* NULL: the kernel's */
	uint64_t seed;                    /* of the loop's PRNG; 0: from entropy */
	uint32_t stack_bytes;             /* of a coroutine; 0: 64 KiB (256 KiB under ASan and TSan) */
	uint32_t coroutines_max;          /* 0: 16384; reserves only address space */
	uint32_t post_depth;              /* of the cross-thread queue, a power of two; 0: 4096 */
	/* True: a host calls loop_turn on changing threads; coroutines must not keep the address of a thread-local
	 * (errno) over an await. False: only the first turn's thread, which is cheaper in the kernel. */
	bool host_turned;
	/* Spin at most this long before a sleep (spin.c); always while an active poller has no wait_fd. 0: never. */
	uint64_t spin_ns;
};

/* loop_create -- a loop without an owner yet. Thread: any. Owner: log, clock and entropy must outlive the loop. *out
 * until loop_destroy. Errors:
 *   -KV_EINVAL     post_depth is no power of two of at least 2
 *   -KV_ENOMEM     memory or address space
 *   -KV_ELIMIT     no file descriptor; the text names the limit and the way out */
int loop_create(const struct loop_options *options, struct loop **out, struct kv_error *err);

/* loop_fallback -- why this loop uses epoll, and the way out; NULL: it uses io_uring. Codes: -KV_ENOMEM locked memory,
 * -KV_ENOTSUP old kernel, else -KV_ELIMIT. Thread: any. Owner: the loop's. */
const struct kv_error *loop_fallback(const struct loop *loop);

/* loop_destroy -- end a loop outside of a turn. Afterwards the kernel uses no request or buffer of it.
 *
 * Thread: the loop's, after loop_run returned, or any after that thread has ended. Parked coroutines are dropped with a
 * warning: stop them first. *loop becomes NULL; NULL is accepted. */
void loop_destroy(struct loop **loop);

/* loop_run -- own the loop on this thread, which gets its name, and turn it until loop_stop, also an earlier one.
 * Returns 0. Errors: -KV_EINVAL: another thread owns the loop, or it is in a turn. */
int loop_run(struct loop *loop);

/* loop_turn -- one turn. Sleeps at most max_wait_ns, and only without work. Returns the number of things done. Errors:
 *   -KV_EBUSY      a turn of this loop runs already, on any thread
 *   -KV_EINVAL     this thread does not own the loop (host_turned) */
int loop_turn(struct loop *loop, uint64_t max_wait_ns);

/* loop_stop -- have loop_run return after this turn. Thread: any. */
void loop_stop(struct loop *loop);

/* loop_post -- run fn(arg) on the loop's thread, in posting order, and wake the loop. Thread: any, but no signal
 * handler. Owner: arg must live until fn has run. Errors:
 *   -KV_EBUSY      the queue is full: fn never runs */
int loop_post(struct loop *loop, void (*fn)(void *arg), void *arg);

/* loop_current -- the loop whose turn runs on this thread, or NULL. Thread: any. */
struct loop *loop_current(void);

uint64_t loop_now(const struct loop *loop);      /* the clock, read now. Thread: any */
uint64_t loop_turn_now(const struct loop *loop); /* the clock as this turn last read it: cheap, for deadlines */
uint64_t loop_turns(const struct loop *loop);    /* turns made: the liveness counter. Thread: any */
struct kv_prng *loop_prng(struct loop *loop);
int loop_random(struct loop *loop, void *out, size_t n); /* secrets; 0 or -errno */
void loop_set_spin(struct loop *loop, uint64_t spin_ns);

struct loop_stats {
	/* coroutines_max: fewer than asked for where address space is short. */
	uint64_t turns, sleeps, spins, posts, coroutines, coroutines_peak, coroutines_max, stacks_touched;
};
void loop_stats(const struct loop *loop, struct loop_stats *out);

/* ---- pollers: how an engine lives on a loop without the loop knowing it ---- */

struct loop_poller {
	/* poll -- do the work, without blocking. Returns the number of events handled; 0: idle. */
	int (*poll)(struct loop_poller *p);
	/* arm -- before a sleep. 0: wait_fd becomes readable when there is work. -EAGAIN: there is work already. NULL
	 * if wait_fd is -1. */
	int (*arm)(struct loop_poller *p);
	/* -1: none. Then, while `active`, the loop spins, later sleeps in steps of 50 us to 1 ms. */
	int wait_fd;
	/* active -- whether something is outstanding; NULL: always. */
	bool (*active)(struct loop_poller *p);
	struct kv_list node; /* the loop's */
	void *priv;          /* the loop's */
};

/* loop_poller_add -- poll this one in every turn, and at least every 10 ms. Owner: the caller's memory until
 * loop_poller_del. Errors: -KV_ENOMEM. */
int loop_poller_add(struct loop *loop, struct loop_poller *p);
/* loop_poller_del -- also from its own `poll`. Harmless if it was not added. */
void loop_poller_del(struct loop *loop, struct loop_poller *p);
/* loop_poller_refd -- after storing a changed wait_fd. Errors: -KV_ENOMEM; the old one is still watched. */
int loop_poller_refd(struct loop *loop, struct loop_poller *p);

/* ---- timers: intrusive, no allocation, exact order, O(log n) or better ---- */

struct loop_timer {
	void (*fire)(struct loop_timer *t); /* on the loop, outside of coroutines; may re-arm t */
	uint64_t when_ns;
	void *priv[4]; /* the loop's; zeroed when not armed */
};

/* loop_timer_arm -- fire at when_ns; a past time means the next pass. Replaces an earlier arming. Owner: the caller's
 * memory until the timer fires or is cancelled. */
void loop_timer_arm(struct loop *loop, struct loop_timer *t, uint64_t when_ns);
void loop_timer_cancel(struct loop *loop, struct loop_timer *t); /* harmless when not armed */
bool loop_timer_armed(const struct loop_timer *t);

/* ---- coroutines ---- */

/* co_spawn -- run fn(arg) as a coroutine, first in this turn or the next. Owner: arg must outlive fn. name: a string
 * literal, for the log. Errors: -KV_ENOMEM; -KV_EBUSY: there are coroutines_max already. */
int co_spawn(struct loop *loop, void (*fn)(void *arg), void *arg, const char *name);
struct co *co_self(void); /* NULL outside a coroutine. Thread: any */

/* co_set_mark -- leave a pointer for functions that the running coroutine calls. co_mark -- that pointer, or NULL.
 * Thread: any. */
void co_set_mark(const void *mark);
const void *co_mark(void);

/* co_park_await -- park until co_wake or the deadline. One earlier wake counts, so check the condition again. Returns 0
 * when woken. Errors: -KV_ETIMEOUT. */
int co_park_await(uint64_t deadline_ns);
/* co_wake -- end the current or next co_park_await of a coroutine of this loop, which must not have ended. It ends no
 * other _await. */
void co_wake(struct co *co);
int co_yield_await(void);                 /* run the other ready coroutines; 0 */
int co_sleep_await(uint64_t deadline_ns); /* 0 at the deadline; co_wake does not end it */

/* A FIFO of coroutines. co_wake does not end a wait in it. */
struct co_queue {
	struct kv_list waiting;
};
void co_queue_init(struct co_queue *q);
int co_queue_wait_await(struct co_queue *q, uint64_t deadline_ns); /* 0 when woken, -KV_ETIMEOUT (no longer in q) */
bool co_queue_wake_one(struct co_queue *q);                        /* false: none waited */
void co_queue_wake_all(struct co_queue *q);
bool co_queue_empty(const struct co_queue *q);

/* ---- I/O ---- Each _await parks until done or the deadline. Afterwards the kernel does not use the buffer. Errors of
 * each:
 *   -KV_ETIMEOUT   the deadline has passed
 *   -KV_ECLOSED    io_close on this descriptor
 *   -KV_ECANCELED  io_interrupt
 *   -errno */

/* io_read_await -- bytes read, at most 1 GiB; 0: end of file. */
ssize_t io_read_await(int fd, void *buf, size_t len, uint64_t deadline_ns);
/* io_write_await -- bytes written, maybe fewer than len. No SIGPIPE on sockets; on pipes the caller handles it. */
ssize_t io_write_await(int fd, const void *buf, size_t len, uint64_t deadline_ns);
/* io_write_all_await -- 0: all is written. After a failure an unknown part is. */
int io_write_all_await(int fd, const void *buf, size_t len, uint64_t deadline_ns);
/* io_accept_await -- accept a connection, with TCP_NODELAY. *out_fd is the caller's; out_peer may be NULL. */
int io_accept_await(int listen_fd, int *out_fd, struct sockaddr_storage *out_peer, uint64_t deadline_ns);
/* io_connect_await -- connect to an address, with TCP_NODELAY. *out_fd is the caller's. */
int io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns);
/* io_poll_await -- the ready poll(2) mask. */
int io_poll_await(int fd, short events, uint64_t deadline_ns);

/* io_listen -- bind and listen on a TCP address. Port 0: *addr gets a free one. 0, or -errno with *err. An accepted
 * peer that does not read holds at most 256 KiB of kernel memory. */
int io_listen(struct loop *loop, struct sockaddr_storage *addr, socklen_t len, int *out_fd, struct kv_error *err);
/* io_shutdown -- end all reads, writes and accepts on a socket. */
void io_shutdown(struct loop *loop, int fd);
/* io_close -- close fd. Requests on it (of this loop) end with -KV_ECLOSED. */
void io_close(struct loop *loop, int fd);
/* io_interrupt -- on: I/O of that coroutine of this loop, current and new, ends with -KV_ECANCELED, until a call with
 * false. Results already there are returned. */
void io_interrupt(struct co *co, bool on);
/* io_user_timeout -- notice a vanished peer within timeout_ms (TCP_USER_TIMEOUT, keepalive). 0 or -errno. */
int io_user_timeout(struct loop *loop, int fd, unsigned timeout_ms);

/* ---- files and disks ---- */

/* A read or write of a regular file or a disk at an offset. Zero it; fill in the first part. It and its buffer stay in
 * place from io_at_submit until done() runs, once, in a later turn. There is no way to cancel it: until then the file
 * stays open. */
struct io_at {
	int fd;
	bool write;
	bool background; /* of low priority */
	bool durable;    /* write: it holds when power fails (RWF_DSYNC) */
	void *buf;
	size_t len; /* at most 1 GiB */
	uint64_t offset;
	void (*done)(struct io_at *io, int64_t result); /* bytes, maybe fewer than len; or -errno */
	uint64_t priv[24];
};

/* io_at_submit -- start it. With epoll two threads do it; without any thread done() comes with an error. */
void io_at_submit(struct loop *loop, struct io_at *io);

/* loop_debug_overflow_handler -- name the coroutine whose stack overflowed on this thread (SIGSEGV). loop_run does so
 * with MODE=debug. Errors: -KV_ENOMEM, -errno. */
int loop_debug_overflow_handler(void);

#endif
