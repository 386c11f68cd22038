/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h -- coroutines on an event loop: the public header of loop/.
 *
 * A loop is owned by the thread that turns it. Everything here that takes a `struct loop *` is called from that
 * thread (from a coroutine of the loop, a poller, a timer or a posted function), unless it says "any thread".
 * A function whose name ends in `_await` may park the calling coroutine; nothing else parks. It must be called
 * from a coroutine; from outside one it returns -KV_EINVAL. Deadlines are absolute, in loop_now() nanoseconds; KV_NEVER
 * waits for ever. After an _await anything that others may have changed must be looked at again. */
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
	/* A host calls loop_turn, perhaps from one thread after another (never two at once); its coroutines must not
	 * keep the address of a thread-local (errno) over an await. Otherwise the thread of the first turn is the only
	 * one: cheaper in the kernel. */
	bool host_turned;
	/* At most this long are pollers spun (with sched_yield) before a sleep, and only while the last rests were
	 * short; 0: never. */
	uint64_t spin_ns;
};

/* loop_create -- a loop that no thread owns yet. Errors: -KV_ENOMEM, -KV_ELIMIT (io_uring forbidden or files exhausted:
 * the text names the sysctl, seccomp profile or limit and the way out). */
int loop_create(const struct loop_options *options, struct loop **out, struct kv_error *err);

/* loop_destroy -- only after loop_run returned: on its thread, or on any other once that thread has ended (then the
 * kernel is finished with every request and buffer when loop_destroy returns). Coroutines still parked are dropped
 * without being run (their owners were to stop them first; their number is logged as a warning). *loop becomes NULL;
 * NULL is accepted. */
void loop_destroy(struct loop **loop);

/* loop_run -- own the loop on this thread and turn it until loop_stop (a stop that came before counts). Names the
 * thread while it runs. Returns 0, or -KV_EINVAL: another thread owns this loop, or this is called from inside a turn
 * of it. */
int loop_run(struct loop *loop);

/* loop_turn -- one turn: submit, reap, poll, expire timers, run ready coroutines; sleeps at most max_wait_ns, and only
 * when there is nothing to do. For hosts that turn the loop themselves, and for the simulation. Returns the number of
 * things done (0: nothing happened within max_wait_ns, or, while it spins, until now); -KV_EBUSY when a turn of this
 * loop is running already, on whatever thread; -KV_EINVAL on a thread that does not own the loop (see host_turned). */
int loop_turn(struct loop *loop, uint64_t max_wait_ns);

/* loop_stop -- make loop_run return after the present turn. Any thread. */
void loop_stop(struct loop *loop);

/* loop_post -- run fn(arg) on the loop's thread, in posting order. Any thread (signal handlers excepted). Wakes the
 * loop if it sleeps. Returns 0, or -KV_EBUSY when the queue is full (nothing was queued). */
int loop_post(struct loop *loop, void (*fn)(void *arg), void *arg);

/* loop_current -- the loop whose turn is running on this thread, or NULL. */
struct loop *loop_current(void);

uint64_t loop_now(const struct loop *loop);      /* the clock, read now */
uint64_t loop_turn_now(const struct loop *loop); /* the clock as read at this turn's start: cheap, for deadlines */
uint64_t loop_turns(const struct loop *loop);    /* turns made: the liveness counter. Any thread (relaxed atomic). */
struct kv_prng *loop_prng(struct loop *loop);
int loop_random(struct loop *loop, void *out, size_t n); /* secrets; 0 or -errno */
const struct kv_log *loop_log(const struct loop *loop);
void loop_set_spin(struct loop *loop, uint64_t spin_ns);

struct loop_stats {
	uint64_t turns, sleeps, spins, posts, coroutines, coroutines_peak, coroutines_max,
		stacks_touched; /* max: fewer than asked for where address space is short */
};
void loop_stats(const struct loop *loop, struct loop_stats *out);

/* ---- pollers: how an engine lives on a loop without the loop knowing it ---- */

struct loop_poller {
	/* poll -- do what is to be done without blocking. Returns the number of events handled; 0 means idle. */
	int (*poll)(struct loop_poller *p);
	/* arm -- the loop wants to sleep. 0: it may, wait_fd becomes readable when there is work;
	 * -EAGAIN: work is there already, do not sleep. NULL when wait_fd is -1. */
	int (*arm)(struct loop_poller *p);
	/* -1: cannot be waited for; while `active` returns true the loop spins, yields, then sleeps in steps of 50 us
	 * to 1 ms */
	int wait_fd;
	/* active -- whether something is outstanding (NULL: always). An inactive fd-less poller is polled every 10 ms
	 * at least. */
	bool (*active)(struct loop_poller *p);
	struct kv_list node; /* the loop's */
	void *priv;          /* the loop's */
};

/* loop_poller_add -- the poller stays the caller's memory, and must stay put until loop_poller_del. With pollers
 * present a loop never sleeps longer than 10 ms (providers do housekeeping in their CQ read). Returns 0 or -KV_ENOMEM.
 */
int loop_poller_add(struct loop *loop, struct loop_poller *p);
void loop_poller_del(struct loop *loop, struct loop_poller *p);
/* loop_poller_refd -- the poller's wait_fd changed (endpoint rebuilt): call after storing the new one. */
int loop_poller_refd(struct loop *loop, struct loop_poller *p);

/* ---- timers: intrusive, no allocation, exact order, O(log n) or better ---- */

struct loop_timer {
	void (*fire)(struct loop_timer *t); /* runs on the loop, outside any coroutine; may re-arm t */
	uint64_t when_ns;
	void *priv[4]; /* the loop's; all zero when not armed */
};

/* loop_timer_arm -- fire at when_ns (re-arms if armed). The timer is the caller's memory until it fires or is
 * cancelled. */
void loop_timer_arm(struct loop *loop, struct loop_timer *t, uint64_t when_ns);
void loop_timer_cancel(struct loop *loop, struct loop_timer *t); /* harmless when not armed */
bool loop_timer_armed(const struct loop_timer *t);

/* ---- coroutines ---- */

/* co_spawn -- a coroutine on this loop, first run in this or the next turn. arg is the caller's and must live as long
 * as fn needs it. name: a string literal, for the log. Errors: -KV_ENOMEM, -KV_EBUSY (coroutines_max). */
int co_spawn(struct loop *loop, void (*fn)(void *arg), void *arg, const char *name);
struct co *co_self(void); /* NULL outside a coroutine */

/* co_park_await -- park until co_wake, or the deadline. Returns 0 when woken, -KV_ETIMEOUT. A wake that came before the
 * park is kept (one). */
int co_park_await(uint64_t deadline_ns);
/* co_wake -- make a parked coroutine of this loop ready. Harmless when it is ready already. */
void co_wake(struct co *co);
int co_yield_await(void);                 /* let the other ready coroutines run; 0 */
int co_sleep_await(uint64_t deadline_ns); /* 0 at the deadline; co_wake does not end it */

/* A FIFO of waiting coroutines. */
struct co_queue {
	struct kv_list waiting;
};
void co_queue_init(struct co_queue *q);
int co_queue_wait_await(struct co_queue *q, uint64_t deadline_ns); /* 0 when woken, -KV_ETIMEOUT (no longer in q) */
bool co_queue_wake_one(struct co_queue *q);                        /* false: nobody waited */
void co_queue_wake_all(struct co_queue *q);
bool co_queue_empty(const struct co_queue *q);

/* ---- I/O: each parks until done or the deadline. On -KV_ETIMEOUT the kernel is finished with the buffer. ---- */

ssize_t io_read_await(int fd, void *buf, size_t len,
		      uint64_t deadline_ns); /* bytes, 0 at end of file, or a negative code */
/* bytes written (perhaps fewer). Without SIGPIPE on sockets; on a pipe without a reader SIGPIPE is the caller's matter.
 */
ssize_t io_write_await(int fd, const void *buf, size_t len, uint64_t deadline_ns);
int io_write_all_await(int fd, const void *buf, size_t len,
		       uint64_t deadline_ns); /* 0 or a negative code: an unknown part was written */
int io_accept_await(int listen_fd, int *out_fd, struct sockaddr_storage *out_peer, uint64_t deadline_ns);
int io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd,
		     uint64_t deadline_ns);                    /* TCP_NODELAY is set */
int io_poll_await(int fd, short events, uint64_t deadline_ns); /* the ready poll(2) mask, or a negative code */

/* io_listen -- bind and listen on a TCP address (port 0 picks one; *addr is updated). Does not park. Returns 0 or a
 * code with *err. */
int io_listen(struct loop *loop, struct sockaddr_storage *addr, socklen_t len, int *out_fd, struct kv_error *err);
/* io_shutdown -- end reads, writes and accepts in progress on a socket: they return. */
void io_shutdown(struct loop *loop, int fd);
/* io_close -- what still waits on fd (on this loop) returns -KV_ECLOSED. */
void io_close(struct loop *loop, int fd);
/* io_interrupt -- while on, I/O of that coroutine of this loop ends with -KV_ECANCELED at once: what it parks in now,
 * and what it begins. A result that is there already is returned; bytes are not lost. */
void io_interrupt(struct co *co, bool on);
/* io_user_timeout -- TCP_USER_TIMEOUT and keepalive so that a vanished peer is noticed within timeout_ms. 0 or -errno.
 */
int io_user_timeout(struct loop *loop, int fd, unsigned timeout_ms);

/* loop_debug_overflow_handler -- for debug and test builds: a SIGSEGV handler (on an alternate stack of this thread)
 * that names the coroutine whose stack overflowed, before the process dies of it. Call it on each thread that turns
 * loops. The library never does. 0 or a code. */
int loop_debug_overflow_handler(void);

#endif
