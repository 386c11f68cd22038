/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c -- preloaded under valgrind: waiting on a ring with poll(2).
 *
 * Valgrind runs one thread at a time and hands over when a thread enters a system call that may block. Version 3.19
 * does not count io_uring_enter as one: a loop that waits in it stops every other thread of the process, for good if it
 * waits for one of them. poll(2) it knows. The descriptor of a ring becomes readable when it has completions, but not
 * when it has deferred task work (IORING_SETUP_DEFER_TASKRUN) that would make some: so the wait is cut in slices.
 *
 * Nor does it know what the kernel writes when a request of a ring completes. What a request may write counts as
 * written from its submission on: what is read of a buffer beyond what came is not found here. */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>
#include <valgrind/memcheck.h>

enum { SLICE_MS = 2 };

#define SHOWN __attribute__((visibility("default")))

static void written(const struct io_uring_sqe *sqe)
{
	if (sqe->opcode == IORING_OP_READ || sqe->opcode == IORING_OP_RECV)
		(void)VALGRIND_MAKE_MEM_DEFINED(sqe->addr, sqe->len);
	else if (sqe->opcode == IORING_OP_ACCEPT && sqe->addr)
		(void)VALGRIND_MAKE_MEM_DEFINED(sqe->addr, sizeof(struct sockaddr_storage));
	if (sqe->opcode == IORING_OP_ACCEPT && sqe->addr2)
		(void)VALGRIND_MAKE_MEM_DEFINED(sqe->addr2, sizeof(socklen_t));
}

SHOWN int io_uring_submit(struct io_uring *ring)
{
	static int (*real)(struct io_uring *ring);
	if (!real)
		real = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
		written(&ring->sq.sqes[i & *ring->sq.kring_mask]);
	return real(ring);
}

SHOWN int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe_ptr, unsigned wait_nr,
					   struct __kernel_timespec *ts, sigset_t *sigmask)
{
	long long left_ms = ts ? ts->tv_sec * 1000 + (ts->tv_nsec + 999999) / 1000000 : -1;
	int rc = io_uring_submit(ring);
	(void)wait_nr, (void)sigmask;
	while (rc >= 0 && !io_uring_cq_ready(ring) && left_ms != 0) {
		struct pollfd p = {.fd = ring->ring_fd, .events = POLLIN};
		if (poll(&p, 1, SLICE_MS) < 0)
			return -errno;
		io_uring_get_events(ring);
		left_ms = left_ms < 0 ? left_ms : left_ms > SLICE_MS ? left_ms - SLICE_MS : 0;
	}
	if (rc < 0)
		return rc;
	return io_uring_peek_cqe(ring, cqe_ptr) == 0 ? rc : -ETIME;
}
