/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h -- coroutines on an event loop: the public header of loop/. A loop is on io_uring, or, where the machine
 * forbids that, on epoll; both do the same.
 *
 * Threads. A loop is owned by the thread that turns it. What takes a `struct loop *` is called from that thread (from a
 * coroutine of the loop, a poller, a timer or a posted function), unless it says "Thread: any".
 *
 * Parking. Only functions whose names end in _await park. They are called from a coroutine and park it; called from
 * elsewhere they return -KV_EINVAL. After an _await look again at whatever others may have changed.
 *
 * Deadlines are absolute, in nanoseconds of loop_now(); KV_NEVER waits for ever. */
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
	const char *name; /* at most 15 bytes, for the thread and the log; copied */
	const struct kv_log *log;
	const struct kv_clock *clock;     /* NULL: monotonic (the simulated ring brings its own) */
	const struct kv_entropy *entropy; /* NULL: the kernel's */
	uint64_t seed;                    /* of the loop's PRNG; 0: from entropy */
	uint32_t stack_bytes;             /* of a coroutine; 0: 64 KiB (256 KiB under ASan and TSan) */
	uint32_t coroutines_max;          /* 0: 16384; only address space is reserved */
	uint32_t post_depth;              /* of the cross-thread queue, a power of two; 0: 4096 */
	/* True: a host calls loop_turn, perhaps from one thread after another, never from two at once. Its coroutines
	 * must not keep the address of a thread-local (errno) over an await. False: the thread of the first turn is the
	 * only one, which is cheaper in the kernel. */
	bool host_turned;
	/* Before it sleeps, the loop spins at most this long (sched_yield, and look again) while a poller is active. It
	 * does so while the last rests were short, and always while an active poller has no wait_fd. 0: never. */
	uint64_t spin_ns;
};

/* loop_create -- a loop that no thread owns yet.
 * Thread: any. Owner: log, clock and entropy must live as long as the loop. *out until loop_destroy.
 * Errors:
 *   -KV_EINVAL     post_depth is no power of two of at least 2
 *   -KV_ENOMEM     memory or address space
 *   -KV_ELIMIT     files are exhausted: the text names the limit and the way out */
int loop_create(const struct loop_options *options, struct loop **out, struct kv_error *err);

/* loop_fallback -- why this loop is one on epoll: the sysctl, seccomp profile or limit that forbids io_uring, and the
 * way out. NULL: it is on io_uring. code is -KV_ENOMEM for locked memory, -KV_ENOTSUP for an old kernel, else
 * -KV_ELIMIT. Thread: any. Owner: the loop's, until loop_destroy. */
const struct kv_error *loop_fallback(const struct loop *loop);

/* loop_destroy -- end a loop that is not being turned. The kernel is finished with every request and buffer when it
 * returns.
 *
 * Thread: the loop's, after loop_run returned; or any other once that thread has ended. Coroutines that are still
 * parked are dropped without being run, with a warning that counts them: stop them first. *loop becomes NULL; NULL is
 * accepted. */
void loop_destroy(struct loop **loop);

/* loop_run -- own the loop on this thread and turn it until loop_stop; a stop that came before counts. The thread has
 * the loop's name meanwhile.
 * Blocks. Thread: the loop's. Returns 0.
 * Errors:
 *   -KV_EINVAL     another thread owns the loop, or it is being turned already */
int loop_run(struct loop *loop);

/* loop_turn -- one turn: reap, poll, run what was posted, expire timers, run ready coroutines, submit. It sleeps at
 * most max_wait_ns, and only when there is nothing to do. For hosts that turn the loop themselves, and for the
 * simulation.
 *
 * Returns the number of things done; 0: nothing happened within max_wait_ns or, while it spins, until now.
 * Errors:
 *   -KV_EBUSY      a turn of this loop is running already, on whichever thread
 *   -KV_EINVAL     this thread does not own the loop (see host_turned) */
int loop_turn(struct loop *loop, uint64_t max_wait_ns);

/* loop_stop -- make loop_run return after the present turn. Thread: any. */
void loop_stop(struct loop *loop);

/* loop_post -- run fn(arg) on the loop's thread, in posting order. It wakes the loop if it sleeps.
 * Thread: any (signal handlers excepted). Owner: arg must live until fn has run.
 * Errors:
 *   -KV_EBUSY      the queue is full: fn never runs */
int loop_post(struct loop *loop, void (*fn)(void *arg), void *arg);

/* loop_current -- the loop whose turn is running on this thread, or NULL. Thread: any. */
struct loop *loop_current(void);

uint64_t loop_now(const struct loop *loop);      /* the clock, read now. Thread: any */
uint64_t loop_turn_now(const struct loop *loop); /* the clock as this turn last read it: cheap, for deadlines */
uint64_t loop_turns(const struct loop *loop);    /* turns made: the liveness counter. Thread: any */
struct kv_prng *loop_prng(struct loop *loop);
int loop_random(struct loop *loop, void *out, size_t n); /* secrets; 0 or -errno */
const struct kv_log *loop_log(const struct loop *loop);
void loop_set_spin(struct loop *loop, uint64_t spin_ns); /* see loop_options.spin_ns */

struct loop_stats {
	/* coroutines_max: fewer than asked for where address space is short. */
	uint64_t turns, sleeps, spins, posts, coroutines, coroutines_peak, coroutines_max, stacks_touched;
};
void loop_stats(const struct loop *loop, struct loop_stats *out);

/* ---- pollers: how an engine lives on a loop without the loop knowing it ---- */

struct loop_poller {
	/* poll -- do what there is to do, without blocking. Returns the number of events handled; 0: idle. */
	int (*poll)(struct loop_poller *p);
	/* arm -- the loop wants to sleep. 0: it may, and wait_fd becomes readable when there is work. -EAGAIN: there is
	 * work already, do not sleep. NULL when wait_fd is -1. */
	int (*arm)(struct loop_poller *p);
	/* -1: cannot be waited for. Then, while `active` returns true, the loop spins and after that sleeps in steps of
	 * 50 us to 1 ms. */
	int wait_fd;
	/* active -- whether something is outstanding; NULL: always. A poller without wait_fd that is not active is
	 * polled every 10 ms at least. */
	bool (*active)(struct loop_poller *p);
	struct kv_list node; /* the loop's */
	void *priv;          /* the loop's */
};

/* loop_poller_add -- poll this one in every turn. With pollers a loop never sleeps longer than 10 ms, because providers
 * do housekeeping when their CQ is read.
 * Owner: the poller is the caller's memory, and must stay in place until loop_poller_del.
 * Errors: -KV_ENOMEM. */
int loop_poller_add(struct loop *loop, struct loop_poller *p);
/* loop_poller_del -- from its own `poll`, too. Harmless when it was not added. */
void loop_poller_del(struct loop *loop, struct loop_poller *p);
/* loop_poller_refd -- the poller's wait_fd has changed (its endpoint was rebuilt): call it after storing the new one.
 * Errors: -KV_ENOMEM; the old one is still watched. */
int loop_poller_refd(struct loop *loop, struct loop_poller *p);

/* ---- timers: intrusive, no allocation, exact order, O(log n) or better ---- */

struct loop_timer {
	void (*fire)(struct loop_timer *t); /* runs on the loop, outside any coroutine; may re-arm t */
	uint64_t when_ns;
	void *priv[4]; /* the loop's; zero them first. All zero when not armed */
};

/* loop_timer_arm -- fire at when_ns; a time that has passed means the next pass. An armed timer is armed anew.
 * Owner: the timer is the caller's memory, and must stay in place until it fires or is cancelled. */
void loop_timer_arm(struct loop *loop, struct loop_timer *t, uint64_t when_ns);
void loop_timer_cancel(struct loop *loop, struct loop_timer *t); /* harmless when not armed */
bool loop_timer_armed(const struct loop_timer *t);

/* ---- coroutines ---- */

/* co_spawn -- a coroutine fn(arg) on this loop, run first in this turn or the next. It ends when fn returns.
 * Owner: arg must live as long as fn needs it. name: a string literal, for the log.
 * Errors:
 *   -KV_ENOMEM
 *   -KV_EBUSY      there are coroutines_max of them */
int co_spawn(struct loop *loop, void (*fn)(void *arg), void *arg, const char *name);
struct co *co_self(void); /* NULL outside a coroutine. Thread: any */

/* co_set_mark -- leave a pointer with the running coroutine, for functions that it calls. co_mark -- that pointer;
 * NULL: none was set, or the caller is no coroutine. Thread: any. */
void co_set_mark(const void *mark);
const void *co_mark(void);

/* co_park_await -- park until co_wake or the deadline. A wake that came before is kept, once, and ends it at once; so
 * look again at what you wait for. Returns 0 when woken. Errors: -KV_ETIMEOUT. */
int co_park_await(uint64_t deadline_ns);
/* co_wake -- end the co_park_await of a coroutine of this loop; if it is not in one, its next. It ends no other _await.
 * The coroutine must not have ended. */
void co_wake(struct co *co);
int co_yield_await(void);                 /* let the other ready coroutines run; 0 */
int co_sleep_await(uint64_t deadline_ns); /* 0 at the deadline; co_wake does not end it */

/* A FIFO of waiting coroutines. co_wake does not end a wait in it. */
struct co_queue {
	struct kv_list waiting;
};
void co_queue_init(struct co_queue *q);
int co_queue_wait_await(struct co_queue *q, uint64_t deadline_ns); /* 0 when woken, -KV_ETIMEOUT (no longer in q) */
bool co_queue_wake_one(struct co_queue *q);                        /* false: none waited */
void co_queue_wake_all(struct co_queue *q);
bool co_queue_empty(const struct co_queue *q);

/* ---- I/O ----
 * Each _await parks until done or the deadline. When it has returned, the kernel is finished with the buffer.
 * Errors of each:
 *   -KV_ETIMEOUT   the deadline has passed
 *   -KV_ECLOSED    io_close on this descriptor
 *   -KV_ECANCELED  io_interrupt
 *   -errno */

/* io_read_await -- bytes read, at most 1 GiB; 0: end of file. */
ssize_t io_read_await(int fd, void *buf, size_t len, uint64_t deadline_ns);
/* io_write_await -- bytes written, perhaps fewer than len. Without SIGPIPE on sockets; on a pipe without a reader
 * SIGPIPE is the caller's matter. */
ssize_t io_write_await(int fd, const void *buf, size_t len, uint64_t deadline_ns);
/* io_write_all_await -- 0: all was written. After a failure an unknown part was. */
int io_write_all_await(int fd, const void *buf, size_t len, uint64_t deadline_ns);
/* io_accept_await -- accept a connection, with TCP_NODELAY. *out_fd is the caller's; out_peer may be NULL. */
int io_accept_await(int listen_fd, int *out_fd, struct sockaddr_storage *out_peer, uint64_t deadline_ns);
/* io_connect_await -- connect to an address, with TCP_NODELAY. *out_fd is the caller's. */
int io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns);
/* io_poll_await -- the ready poll(2) mask. */
int io_poll_await(int fd, short events, uint64_t deadline_ns);

/* io_listen -- bind and listen on a TCP address. Port 0 picks one, and *addr is updated. Returns 0, or -errno with *err
 * (which process holds the port, and the way out). The peer of an accepted connection that reads nothing holds
 * 256 KiB of the kernel's memory at most. */
int io_listen(struct loop *loop, struct sockaddr_storage *addr, socklen_t len, int *out_fd, struct kv_error *err);
/* io_shutdown -- end reads, writes and accepts in progress on a socket: they return. */
void io_shutdown(struct loop *loop, int fd);
/* io_close -- close fd. What still waits on it (on this loop) ends with -KV_ECLOSED. */
void io_close(struct loop *loop, int fd);
/* io_interrupt -- on: I/O of that coroutine of this loop ends with -KV_ECANCELED at once, both what it parks in now and
 * what it begins, until this is called with false. A result that is there already is returned: no byte is lost. */
void io_interrupt(struct co *co, bool on);
/* io_user_timeout -- set TCP_USER_TIMEOUT and keepalive, so that a vanished peer is noticed within timeout_ms. 0 or
 * -errno. */
int io_user_timeout(struct loop *loop, int fd, unsigned timeout_ms);

/* loop_debug_overflow_handler -- for debug and test builds: install a SIGSEGV handler, on an alternate stack of this
 * thread, that names the coroutine whose stack overflowed before the process dies of it. Call it on each thread that
 * turns loops. Only a MODE=debug build of the library does so itself (loop_run).
 * Errors: -KV_ENOMEM, -errno. */
int loop_debug_overflow_handler(void);

#endif
