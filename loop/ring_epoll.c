/* SPDX-License-Identifier: Apache-2.0 */
/* ring_epoll.c -- the ring as epoll and non-blocking system calls, where io_uring is forbidden.
 *
 * A request: queued -> tried -> done, or -> waiting for its descriptor -> tried again ... -> done. A try is one system
 * call that does not block. Only ring_reap runs done(), and a done request stays done: a cancellation completes nothing
 * twice and loses no bytes.
 *
 * A descriptor is ordered for one event (EPOLLONESHOT) with all that its requests wait for, anew after each event. An
 * event with another number than the order's is of an earlier one, or of a file that a fork keeps alive, and is
 * dropped. Without requests a descriptor has no state here: its owner may close(2) it.
 *
 * Sockets get MSG_DONTWAIT, or become non-blocking to connect or listen; others are checked with poll(2) first. fork()
 * does not inherit the struct's pages: a child that turned our loop crashes instead of taking events. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loop/ring_files.h"
#include "loop/ring_kernel.h"

enum { EVENTS = 256 };

#define LOOK_NS 10000ull
#define BELL    UINT64_MAX

enum op_state { OP_IDLE, OP_QUEUED, OP_WAITING, OP_FILE, OP_DONE };

struct epring {
	struct ring base; /* the first member */
	int epoll_fd;
	pid_t owner;                           /* the thread that may turn it; 0: none yet, or any */
	bool any_thread, coarse, complained;   /* coarse: no epoll_pwait2 */
	uint32_t orders;                       /* given so far */
	uint32_t waiters;                      /* requests */
	uint64_t looked_ns;                    /* last look at the set */
	struct kv_list queued, done;           /* ring_op.node, by state */
	struct kv_list waiting[RING_FD_LISTS]; /* ... and by descriptor as well */
	struct ring_files *files;              /* NULL: no transfer yet */
	uint32_t transfers;                    /* of files, in flight */
	struct epoll_event events[EVENTS];
};

static struct epring *of(struct ring *base)
{
	return KV_CONTAINER(base, struct epring, base);
}

/* ---- one try ---- */

/* Whether a blocking descriptor will not block now. Errors show in the call that follows. */
static bool ready(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	return poll(&p, 1, 0) != 0;
}

static ssize_t try_read(struct ring_op *op)
{
	if (!op->plain) {
		ssize_t n = recv(op->fd, op->in, op->len, MSG_DONTWAIT);
		if (n >= 0 || errno != ENOTSOCK)
			return n;
		op->plain = true;
	}
	if (ready(op->fd, POLLIN))
		return read(op->fd, op->in, op->len);
	errno = EAGAIN;
	return -1;
}

static ssize_t try_write(struct ring_op *op)
{
	if (!op->plain) {
		ssize_t n = send(op->fd, op->out, op->len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0 || errno != ENOTSOCK)
			return n;
		op->plain = true;
	}
	if (ready(op->fd, POLLOUT))
		return write(op->fd, op->out, KV_MIN(op->len, (size_t)PIPE_BUF));
	errno = EAGAIN;
	return -1;
}

/* Returns whether it was blocking before. */
static bool unblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	return flags >= 0 && !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static void block_again(struct ring_op *op)
{
	int flags = fcntl(op->fd, F_GETFL);
	if (flags >= 0)
		fcntl(op->fd, F_SETFL, flags & ~O_NONBLOCK);
	op->plain = false;
}

static int try_accept(struct ring_op *op)
{
	op->peer_len = sizeof(*op->peer);
	unblock(op->fd);
	return accept4(op->fd, (struct sockaddr *)op->peer, op->peer ? &op->peer_len : NULL, SOCK_CLOEXEC);
}

/* A second connect(2) returns the result of the first one. */
static int try_connect(struct ring_op *op)
{
	if (unblock(op->fd))
		op->plain = true;
	int rc = connect(op->fd, (const struct sockaddr *)op->to, (socklen_t)op->len);
	if (rc == 0 || errno == EISCONN)
		return 0;
	if (errno == EINPROGRESS || errno == EALREADY || errno == EINTR)
		errno = EAGAIN;
	return -1;
}

static int64_t try_once(struct ring_op *op)
{
	switch (op->kind) {
	case RING_READ:
		return try_read(op);
	case RING_WRITE:
		return try_write(op);
	case RING_ACCEPT:
		return try_accept(op);
	case RING_CONNECT:
		return try_connect(op);
	case RING_POLL:
	case RING_READ_AT:
	case RING_WRITE_AT:
	default:
		errno = EAGAIN; /* its order will look */
		return -1;
	}
}

/* ---- states ---- */

static void finish(struct epring *ring, struct ring_op *op, int64_t result)
{
	KV_ASSERT_HOT(op->state == OP_QUEUED || op->state == OP_WAITING); /* done() runs once */
	if (op->state == OP_WAITING)
		ring->waiters--;
	if (op->kind == RING_CONNECT && op->plain)
		block_again(op);
	kv_list_del(&op->node);
	kv_list_add_tail(&ring->done, &op->node);
	op->state = OP_DONE;
	op->result = result;
}

/* Returns whether the request must wait (again). */
static bool attempt(struct epring *ring, struct ring_op *op)
{
	int64_t rc;
	do
		rc = try_once(op);
	while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno == EAGAIN)
		return true;
	finish(ring, op, rc < 0 ? -errno : rc);
	return false;
}

static struct kv_list *waiting_list(struct epring *ring, int fd)
{
	return &ring->waiting[(unsigned)fd % RING_FD_LISTS];
}

static void complain(struct epring *ring, const char *what, int rc)
{
	if (ring->complained)
		return;
	ring->complained = true;
	kv_error_log(ring->base.log, "%s: %s; requests of this loop fail or are late%s", what, kv_strerror(rc),
		     rc == -ENOSPC ? ": raise the sysctl fs.epoll.max_user_watches" : "");
}

/* ---- orders ---- */

static uint32_t wanted(const struct ring_op *op)
{
	switch (op->kind) {
	case RING_POLL:
		return (unsigned short)op->events | EPOLLERR | EPOLLHUP;
	case RING_WRITE:
	case RING_CONNECT:
		return EPOLLOUT | EPOLLERR | EPOLLHUP;
	case RING_READ:
	case RING_ACCEPT:
	default:
		return EPOLLIN | EPOLLERR | EPOLLHUP;
	}
}

static int order(struct epring *ring, int fd, uint32_t mask)
{
	uint64_t number = ++ring->orders;
	struct epoll_event e = {.events = mask | EPOLLONESHOT, .data.u64 = number << 32 | (uint32_t)fd};
	if (epoll_ctl(ring->epoll_fd, EPOLL_CTL_MOD, fd, &e) == 0)
		return 0;
	if (errno == ENOENT && epoll_ctl(ring->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0)
		return 0;
	return -errno;
}

/* Files without events (regular ones) are always ready. */
static void end_unordered(struct epring *ring, struct ring_op *op, int rc)
{
	if (rc == -EPERM && op->kind == RING_POLL)
		finish(ring, op, op->events & (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM));
	else
		finish(ring, op, rc);
}

/* Order all that the waiting requests of fd wait for. */
static void order_all(struct epring *ring, int fd)
{
	struct kv_list *list = waiting_list(ring, fd);
	uint32_t mask = 0;
	KV_LIST_EACH (n, list) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd == fd)
			mask |= wanted(op);
	}
	if (mask == 0)
		return;
	int rc = order(ring, fd, mask);
	if (rc < 0 && rc != -EPERM && rc != -EBADF)
		complain(ring, "epoll_ctl", rc);
	KV_LIST_EACH_SAFE (n, list) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd != fd)
			continue;
		op->armed = ring->orders;
		if (rc < 0)
			end_unordered(ring, op, rc);
	}
}

static void happened(struct epring *ring, const struct epoll_event *e)
{
	int fd = (int)(uint32_t)e->data.u64;
	uint32_t number = (uint32_t)(e->data.u64 >> 32);
	bool more = false;
	KV_LIST_EACH_SAFE (n, waiting_list(ring, fd)) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		uint32_t got = e->events & wanted(op);
		if (op->fd != fd || op->armed != number)
			continue;
		if (got && op->kind == RING_POLL)
			finish(ring, op, got);
		else
			more |= !got || attempt(ring, op);
	}
	if (more)
		order_all(ring, fd);
}

/* ---- looking at the set ---- */

static int pwait(struct epring *ring, uint64_t wait_ns)
{
	const uint64_t second = 1000000000ull;
	struct timespec ts = {.tv_sec = (time_t)(wait_ns / second), .tv_nsec = (long)(wait_ns % second)};
#ifdef SYS_epoll_pwait2
	if (!ring->coarse) {
		int n = (int)syscall(SYS_epoll_pwait2, ring->epoll_fd, ring->events, EVENTS, &ts, NULL, 0);
		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return n;
		ring->coarse = true; /* before Linux 5.11, or an older seccomp profile */
	}
#endif
	struct pollfd p = {.fd = ring->epoll_fd, .events = POLLIN};
	int rc = ppoll(&p, 1, &ts, NULL);
	return rc <= 0 ? rc : epoll_wait(ring->epoll_fd, ring->events, EVENTS, 0);
}

static void look(struct epring *ring, uint64_t wait_ns)
{
	int n = wait_ns ? pwait(ring, wait_ns) : epoll_wait(ring->epoll_fd, ring->events, EVENTS, 0);
	if (n < 0 && errno != EINTR)
		complain(ring, "epoll_wait", -errno);
	for (int i = 0; i < n; i++) {
		const struct epoll_event *e = &ring->events[i];
		uint64_t count;
		if (e->data.u64 != BELL)
			happened(ring, e);
		else if (read(ring->base.bell_fd, &count, sizeof(count)) < 0 && errno != EINTR)
			complain(ring, "reading the bell", -errno);
	}
	ring->looked_ns = kv_clock_now(&kv_clock_monotonic);
}

/* ---- files ---- */

static void file_begin(struct epring *ring, struct ring_op *op)
{
	int rc;
	kv_list_del(&op->node);
	rc = ring_files_submit(&ring->files, ring->base.bell_fd, op);
	if (rc == 0) {
		op->state = OP_FILE;
		ring->transfers++;
		return;
	}
	kv_list_add_tail(&ring->queued, &op->node);
	finish(ring, op, rc);
}

static void files_take(struct epring *ring)
{
	struct kv_list ended, *n;
	kv_list_init(&ended);
	ring_files_ended(ring->files, &ended);
	while ((n = kv_list_pop(&ended)) != NULL) {
		KV_LIST_ENTRY(n, struct ring_op, node)->state = OP_DONE;
		kv_list_add_tail(&ring->done, n);
		ring->transfers--;
	}
}

/* ---- the ring ---- */

static int epring_create(const struct ring_options *options, int bell_fd, struct ring **out, struct kv_error *err)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = BELL};
	struct epring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return kv_fail(err, -KV_ENOMEM, "no memory for a ring");
	(void)madvise(ring, sizeof(*ring), MADV_DONTFORK);
	ring->base = (struct ring){.kind = &ring_epoll, .log = options->log, .bell_fd = bell_fd};
	ring->any_thread = options->any_thread;
	kv_list_init(&ring->queued);
	kv_list_init(&ring->done);
	for (unsigned i = 0; i < RING_FD_LISTS; i++)
		kv_list_init(&ring->waiting[i]);
	ring->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int rc = ring->epoll_fd < 0 ? ring_refuse_files(-errno, "epoll_create1", err) : 0;
	if (rc < 0)
		goto err_unmap;
	if (epoll_ctl(ring->epoll_fd, EPOLL_CTL_ADD, bell_fd, &e) < 0) {
		rc = kv_fail(err, -KV_ELIMIT, "epoll_ctl: %s; raise the sysctl fs.epoll.max_user_watches",
			     kv_strerror(-errno));
		goto err_close;
	}
	*out = &ring->base;
	return 0;

err_close:
	close(ring->epoll_fd);
err_unmap:
	munmap(ring, sizeof(*ring));
	return rc;
}

static void epring_destroy(struct ring *base)
{
	struct epring *ring = of(base);
	ring_files_destroy(&ring->files);
	close(ring->epoll_fd);
	munmap(ring, sizeof(*ring));
}

static int epring_adopt(struct ring *base)
{
	static _Thread_local pid_t self;
	struct epring *ring = of(base);
	if (ring->any_thread)
		return 0;
	if (!self)
		self = gettid();
	if (!ring->owner)
		ring->owner = self;
	return ring->owner == self ? 0 : -KV_EINVAL;
}

static void epring_settle(struct ring *base)
{
	(void)base; /* it would save nothing */
}

static void epring_submit(struct ring *base, struct ring_op *op)
{
	KV_ASSERT_HOT(op->state == OP_IDLE);
	op->closed = op->plain = false;
	op->state = OP_QUEUED;
	kv_list_init(&op->node);
	kv_list_add_tail(&of(base)->queued, &op->node);
}

static void epring_cancel(struct ring *base, struct ring_op *op)
{
	if (op->kind < RING_READ_AT && (op->state == OP_QUEUED || op->state == OP_WAITING))
		finish(of(base), op, -ECANCELED);
}

static void epring_flush(struct ring *base)
{
	struct epring *ring = of(base);
	while (!kv_list_empty(&ring->queued)) {
		struct ring_op *op = KV_LIST_ENTRY(ring->queued.next, struct ring_op, node);
		if (op->kind >= RING_READ_AT) {
			file_begin(ring, op);
			continue;
		}
		if (!attempt(ring, op))
			continue;
		kv_list_del(&op->node);
		kv_list_add_tail(waiting_list(ring, op->fd), &op->node);
		op->state = OP_WAITING;
		ring->waiters++;
		order_all(ring, op->fd);
	}
}

static void epring_wait(struct ring *base, uint64_t wait_ns)
{
	const uint64_t hour_ns = 3600 * 1000000000ull;
	struct epring *ring = of(base);
	epring_flush(base);
	if (kv_list_empty(&ring->done))
		look(ring, KV_MIN(wait_ns, hour_ns));
}

/* Only requests done at the start: done() may add more. */
static int epring_reap(struct ring *base)
{
	struct epring *ring = of(base);
	struct kv_list batch, *node;
	int count = 0;
	if (ring->transfers)
		files_take(ring);
	if (ring->waiters > 0 && kv_clock_now(&kv_clock_monotonic) - ring->looked_ns >= LOOK_NS)
		look(ring, 0);
	if (kv_list_empty(&ring->done))
		return 0;
	kv_list_init(&batch);
	kv_list_splice_tail(&batch, &ring->done);
	while ((node = kv_list_pop(&batch))) {
		struct ring_op *op = KV_LIST_ENTRY(node, struct ring_op, node);
		op->state = OP_IDLE;
		count += !op->quiet;
		op->done(op);
	}
	return count;
}

static void end_for_close(struct epring *ring, struct kv_list *list, int fd)
{
	KV_LIST_EACH_SAFE (n, list) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd != fd || op->kind >= RING_READ_AT)
			continue;
		op->closed = true;
		finish(ring, op, -ECANCELED);
	}
}

static void epring_close(struct ring *base, int fd)
{
	struct epring *ring = of(base);
	end_for_close(ring, &ring->queued, fd);
	end_for_close(ring, waiting_list(ring, fd), fd);
	/* The set keeps the file while a fork or dup has it. */
	(void)epoll_ctl(ring->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

const struct ring_calls ring_epoll = {.create = epring_create,
				      .destroy = epring_destroy,
				      .adopt = epring_adopt,
				      .settle = epring_settle,
				      .unsettle = epring_settle,
				      .submit = epring_submit,
				      .cancel = epring_cancel,
				      .flush = epring_flush,
				      .wait = epring_wait,
				      .reap = epring_reap,
				      .close = epring_close};
