/* SPDX-License-Identifier: Apache-2.0 */
/* ring_uring.c -- the ring as io_uring. The only file that includes liburing.
 *
 * Life of a request: queued (in our list) -> kernel (an SQE was made) -> completed; a cancellation adds a detour
 * through `cancels`. SQEs are made only inside ring_flush, right before submission, so ring_close can still take back
 * what waits for its descriptor: otherwise a new socket with the same number would receive the old one's request. Our
 * own list also makes a full SQ no error.
 *
 * Flags are tried from the best down: SINGLE_ISSUER | DEFER_TASKRUN lets completions be processed only when we look,
 * without interrupting the thread; TASKRUN_FLAG then tells us, without a system call, that looking is worth one. A
 * single issuer is the thread that enables the ring, which is that of the first turn (ring_adopt), not the creator's;
 * so the ring starts disabled. A ring that many threads turn one after another gets none of these.
 *
 * The bell is an eventfd with a read always pending: one write(2) from any thread, signal handlers included, no ring
 * needed by the writer. MSG_RING is 6 us faster one way but needs a ring in every posting thread.
 *
 * A request is carried out by the thread that submitted it, or by kernel workers that end with that thread. When it has
 * exited, its requests can only end as cancelled (a little later, in the background) and touch no memory any more. So
 * ring_destroy on another thread than the owner's needs the owner to have ended and then has nothing to wait for; on
 * the owner's it cancels everything itself and waits. */
#include "loop/ring.h"

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	SQ_ENTRIES = 256,
	CQ_ENTRIES = 4096, /* more are kept by the kernel (FEAT_NODROP) */
	FD_LISTS = 1024    /* a power of two */
};

#define DRAIN_NS       2000000000ull
#define DRAIN_AGAIN_NS 10000000ull

enum op_state { OP_IDLE, OP_QUEUED, OP_KERNEL, OP_CANCEL, OP_DONE };

struct ring {
	struct io_uring uring;
	const struct kv_log *log;
	pid_t owner;                          /* the only thread that may submit; 0: any */
	bool single;                          /* SINGLE_ISSUER was granted */
	bool disabled;                        /* until the first turn */
	bool draining;                        /* done() is not called any more */
	bool complained;                      /* about a submit that failed */
	struct kv_list queued, cancels, done; /* ring_op.node, by state */
	struct kv_list kernel[FD_LISTS]; /* ... those that the kernel has by descriptor too: there are thousands, and
					    closing one must not look at all */
	int bell_fd;
	uint64_t bell_count;
	struct ring_op bell;
};

/* ---- creation ---- */

static int read_sysctl_disabled(void)
{
	int value = 0;
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%d", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

static int refuse_forbidden(int rc, struct kv_error *err)
{
	int disabled = read_sysctl_disabled();
	if (disabled)
		return kv_fail(err, -KV_ELIMIT,
			       "io_uring_setup: %s; io_uring is forbidden by the sysctl kernel.io_uring_disabled=%d: "
			       "set it to 0, or to 1 and put "
			       "this process in the group of kernel.io_uring_group",
			       kv_strerror(rc), disabled);
	return kv_fail(err, -KV_ELIMIT,
		       "io_uring_setup: %s; io_uring is forbidden, most likely by the seccomp profile of a container: "
		       "allow io_uring_setup, "
		       "io_uring_enter and io_uring_register in it (Docker: --security-opt seccomp=PROFILE.json)%s",
		       kv_strerror(rc), rc == -ENOSYS ? ", or the kernel is built without CONFIG_IO_URING" : "");
}

static int refuse(int rc, const char *what, struct kv_error *err)
{
	struct rlimit limit = {0};
	switch (rc) {
	case -EPERM:
	case -EACCES:
	case -ENOSYS:
		return refuse_forbidden(rc, err);
	case -EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		return kv_fail(
			err, -KV_ELIMIT,
			"%s: this process has all of its %llu files open; raise the limit (ulimit -n, LimitNOFILE)",
			what, (unsigned long long)limit.rlim_cur);
	case -ENFILE:
		return kv_fail(err, -KV_ELIMIT, "%s: the machine has no more files; raise the sysctl fs.file-max",
			       what);
	case -ENOMEM:
		getrlimit(RLIMIT_MEMLOCK, &limit);
		return kv_fail(err, -KV_ELIMIT,
			       "%s: no memory, or more than the %llu KiB that this user may lock; raise the memlock "
			       "limit (ulimit -l, LimitMEMLOCK)",
			       what, (unsigned long long)limit.rlim_cur >> 10);
	default:
		return kv_fail(err, rc, "%s: %s", what, kv_strerror(rc));
	}
}

static int setup(struct ring *ring, bool any_thread)
{
	static const unsigned tiers[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED, /* Linux 6.1 */
		IORING_SETUP_SUBMIT_ALL,                                   /* 5.18 */
		0,
	};
	int rc = -EINVAL;
	for (size_t i = any_thread ? 1 : 0; i < KV_COUNT(tiers) && rc == -EINVAL; i++) {
		struct io_uring_params params = {.flags = tiers[i] | IORING_SETUP_CQSIZE, .cq_entries = CQ_ENTRIES};
		rc = io_uring_queue_init_params(SQ_ENTRIES, &ring->uring, &params);
	}
	if (rc < 0)
		return rc;
	/* A child of fork() that turned our loop would make our operations: it shall rather crash. */
	(void)io_uring_ring_dontfork(&ring->uring);
	ring->single = ring->uring.flags & IORING_SETUP_SINGLE_ISSUER;
	ring->disabled = ring->uring.flags & IORING_SETUP_R_DISABLED;
	return 0;
}

static void on_bell(struct ring_op *op);

static void start_bell(struct ring *ring)
{
	ring->bell = (struct ring_op){.kind = RING_READ,
				      .fd = ring->bell_fd,
				      .in = &ring->bell_count,
				      .len = sizeof(ring->bell_count),
				      .quiet = true,
				      .done = on_bell};
	ring_submit(ring, &ring->bell);
}

static void on_bell(struct ring_op *op)
{
	start_bell(KV_CONTAINER(op, struct ring, bell));
}

int ring_create(const struct ring_options *options, struct ring **out, struct kv_error *err)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	if (!ring)
		return kv_fail(err, -KV_ENOMEM, "no memory for a ring");
	ring->log = options->log;
	kv_list_init(&ring->queued);
	for (unsigned i = 0; i < FD_LISTS; i++)
		kv_list_init(&ring->kernel[i]);
	kv_list_init(&ring->cancels);
	kv_list_init(&ring->done);
	ring->bell_fd = eventfd(0, EFD_CLOEXEC);
	int rc = ring->bell_fd < 0 ? refuse(-errno, "eventfd", err) : 0;
	if (rc < 0)
		goto err_free;
	rc = setup(ring, options->any_thread);
	if (rc < 0) {
		rc = refuse(rc, "io_uring_setup", err);
		goto err_bell;
	}
	if (!(ring->uring.features & IORING_FEAT_EXT_ARG)) {
		rc = kv_fail(err, -KV_ENOTSUP,
			     "io_uring of this kernel is too old (no timed waits); Linux 5.11 or newer is needed, 6.1 "
			     "is best");
		goto err_ring;
	}
	start_bell(ring);
	*out = ring;
	return 0;

err_ring:
	io_uring_queue_exit(&ring->uring);
err_bell:
	close(ring->bell_fd);
err_free:
	free(ring);
	return rc;
}

int ring_adopt(struct ring *ring)
{
	static _Thread_local pid_t self;
	if (!ring->single)
		return 0;
	if (!self)
		self = gettid();
	if (ring->disabled) {
		/* liburing 2.3 declares io_uring_enable_rings but does not export it. */
		if (syscall(__NR_io_uring_register, ring->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
			return -errno;
		ring->disabled = false;
		ring->owner = self;
	}
	return ring->owner == self ? 0 : -KV_EINVAL;
}

void ring_settle(struct ring *ring)
{
	/* Registered per thread: without it each entry looks up the descriptor; a kernel that refuses costs only that.
	 */
	io_uring_register_ring_fd(&ring->uring);
}

void ring_unsettle(struct ring *ring)
{
	/* By the thread that registered it: another one's table may have another ring under the same number. */
	io_uring_unregister_ring_fd(&ring->uring);
}

const struct kv_clock *ring_clock(const struct ring *ring)
{
	(void)ring;
	return &kv_clock_monotonic;
}

/* ---- requests ---- */

static void move(struct kv_list *to, struct ring_op *op, enum op_state state)
{
	kv_list_del(&op->node);
	kv_list_add_tail(to, &op->node);
	op->state = state;
}

void ring_submit(struct ring *ring, struct ring_op *op)
{
	kv_list_init(&op->node);
	op->closed = op->plain = false;
	move(&ring->queued, op, OP_QUEUED);
}

static void end_early(struct ring *ring, struct ring_op *op)
{
	op->result = -ECANCELED;
	move(&ring->done, op, OP_DONE);
}

void ring_cancel(struct ring *ring, struct ring_op *op)
{
	if (op->state == OP_QUEUED)
		end_early(ring, op);
	else if (op->state == OP_KERNEL)
		move(&ring->cancels, op, OP_CANCEL);
}

static void prepare(struct io_uring_sqe *sqe, struct ring_op *op)
{
	switch (op->kind) {
	case RING_READ:
		io_uring_prep_read(sqe, op->fd, op->in, (unsigned)op->len, (uint64_t)-1);
		break;
	case RING_WRITE:
		/* A write to a socket would raise SIGPIPE; a send does not, but works on sockets only. */
		if (op->plain)
			io_uring_prep_write(sqe, op->fd, op->out, (unsigned)op->len, (uint64_t)-1);
		else
			io_uring_prep_send(sqe, op->fd, op->out, op->len, MSG_NOSIGNAL);
		break;
	case RING_ACCEPT:
		op->peer_len = sizeof(*op->peer);
		io_uring_prep_accept(sqe, op->fd, (struct sockaddr *)op->peer, op->peer ? &op->peer_len : NULL,
				     SOCK_CLOEXEC);
		break;
	case RING_CONNECT:
		io_uring_prep_connect(sqe, op->fd, (const struct sockaddr *)op->to, (socklen_t)op->len);
		break;
	case RING_POLL:
		io_uring_prep_poll_add(sqe, op->fd, (unsigned short)op->events);
		break;
	}
	io_uring_sqe_set_data(sqe, op);
}

static struct kv_list *kernel_list(struct ring *ring, int fd)
{
	return &ring->kernel[(unsigned)fd % FD_LISTS];
}

/* As many SQEs as there is room for; requests first, since a cancellation must come after its request. */
static void fill(struct ring *ring)
{
	struct io_uring_sqe *sqe;
	while (!kv_list_empty(&ring->queued) && (sqe = io_uring_get_sqe(&ring->uring))) {
		struct ring_op *op = KV_LIST_ENTRY(ring->queued.next, struct ring_op, node);
		prepare(sqe, op);
		move(kernel_list(ring, op->fd), op, OP_KERNEL);
	}
	while (!kv_list_empty(&ring->cancels) && (sqe = io_uring_get_sqe(&ring->uring))) {
		struct ring_op *op = KV_LIST_ENTRY(ring->cancels.next, struct ring_op, node);
		io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)op, 0);
		io_uring_sqe_set_data(sqe, NULL);
		move(kernel_list(ring, op->fd), op, OP_KERNEL);
	}
}

static bool transient(int rc)
{
	return rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY;
}

static void complain(struct ring *ring, int rc)
{
	if (rc >= 0 || transient(rc) || ring->complained)
		return;
	ring->complained = true;
	kv_error_log(ring->log, "io_uring_enter: %s; requests of this loop are stuck", kv_strerror(rc));
}

void ring_flush(struct ring *ring)
{
	do {
		fill(ring);
		if (io_uring_sq_ready(&ring->uring) == 0)
			break;
		int rc = io_uring_submit(&ring->uring);
		complain(ring, rc);
		if (rc < 0)
			break; /* it stays in the SQ; the next flush tries again */
	} while (!kv_list_empty(&ring->queued) || !kv_list_empty(&ring->cancels));
}

void ring_wait(struct ring *ring, uint64_t wait_ns)
{
	const uint64_t second = 1000000000ull, max_ns = 3600 * second;
	uint64_t ns = KV_MIN(wait_ns, max_ns);
	struct __kernel_timespec ts = {.tv_sec = (int64_t)(ns / second), .tv_nsec = (int64_t)(ns % second)};
	struct io_uring_cqe *cqe;
	fill(ring);
	if (!kv_list_empty(&ring->queued) || !kv_list_empty(&ring->cancels) || !kv_list_empty(&ring->done)) {
		ring_flush(ring);
		return;
	}
	complain(ring, io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &ts, NULL));
}

void ring_relax(struct ring *ring)
{
	(void)ring;
	sched_yield();
}

/* ---- completions ---- */

static int finish(struct ring *ring, struct ring_op *op)
{
	kv_list_del(&op->node);
	op->state = OP_IDLE;
	if (ring->draining)
		return 0;
	bool quiet = op->quiet;
	op->done(op);
	return quiet ? 0 : 1;
}

static int complete(struct ring *ring, struct ring_op *op, int result)
{
	if (op->kind == RING_WRITE && result == -ENOTSOCK && !op->plain && !op->closed) {
		op->plain = true;
		move(&ring->queued, op, OP_QUEUED);
		return 0;
	}
	op->result = op->closed && op->fd < 0 ? -ECANCELED : result; /* defused: it did nothing */
	return finish(ring, op);
}

/* What ended early is taken as it was at the start: done() may add to the list. */
static int reap_done(struct ring *ring)
{
	struct kv_list batch, *node;
	int count = 0;
	kv_list_init(&batch);
	kv_list_splice_tail(&batch, &ring->done);
	while ((node = kv_list_pop(&batch)))
		count += finish(ring, KV_LIST_ENTRY(node, struct ring_op, node));
	return count;
}

int ring_reap(struct ring *ring)
{
	int count = kv_list_empty(&ring->done) ? 0 : reap_done(ring);
	unsigned head, seen = 0;
	struct io_uring_cqe *cqe;
	if (IO_URING_READ_ONCE(*ring->uring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
		io_uring_get_events(&ring->uring);
	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		struct ring_op *op = io_uring_cqe_get_data(cqe);
		seen++;
		if (op)
			count += complete(ring, op, cqe->res);
	}
	io_uring_cq_advance(&ring->uring, seen);
	return count;
}

void ring_wake(struct ring *ring)
{
	uint64_t one = 1;
	ssize_t n = write(ring->bell_fd, &one, sizeof(one)); /* fails only when 2^64 - 2 bells are pending */
	(void)n;
}

static void cancel_all(struct ring *ring)
{
	KV_LIST_EACH_SAFE (n, &ring->queued)
		end_early(ring, KV_LIST_ENTRY(n, struct ring_op, node));
	for (unsigned i = 0; i < FD_LISTS; i++)
		KV_LIST_EACH_SAFE (n, &ring->kernel[i])
			ring_cancel(ring, KV_LIST_ENTRY(n, struct ring_op, node));
}

static bool drained(const struct ring *ring)
{
	for (unsigned i = 0; i < FD_LISTS; i++)
		if (!kv_list_empty(&ring->kernel[i]))
			return false;
	return kv_list_empty(&ring->queued) && kv_list_empty(&ring->cancels);
}

/* Cancelling is repeated, as it may miss a request that changes places, but not without pause: some end in the
 * background. */
static void drain(struct ring *ring)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic), give_up = now + DRAIN_NS;
	ring->draining = true;
	while (!drained(ring) && now < give_up) {
		uint64_t again = now + DRAIN_AGAIN_NS;
		cancel_all(ring);
		for (; !drained(ring) && now < again; now = kv_clock_now(&kv_clock_monotonic)) {
			ring_wait(ring, again - now);
			ring_reap(ring);
		}
	}
	if (!drained(ring))
		kv_error_log(
			ring->log,
			"io_uring requests could not be cancelled within 2 s; their buffers may still be written to");
}

void ring_destroy(struct ring **ring)
{
	struct ring *r = *ring;
	if (!r)
		return;
	if (!r->disabled && ring_adopt(r) == 0)
		drain(r);
	io_uring_queue_exit(&r->uring);
	close(r->bell_fd);
	free(r);
	*ring = NULL;
}

/* ---- plain system calls ---- */

int ring_socket(struct ring *ring, int family, int *out_fd)
{
	(void)ring;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	*out_fd = fd;
	return 0;
}

int ring_listen(struct ring *ring, struct sockaddr_storage *addr, socklen_t len, int *out_fd)
{
	socklen_t bound_len = sizeof(*addr);
	int fd = -1, on = 1, rc = ring_socket(ring, addr->ss_family, &fd);
	if (rc < 0)
		return rc;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)addr, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)addr, &bound_len) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

int ring_nodelay(struct ring *ring, int fd)
{
	int on = 1;
	(void)ring;
	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ? -errno : 0;
}

int ring_user_timeout(struct ring *ring, int fd, unsigned timeout_ms)
{
	/* Unacknowledged data is covered by the user timeout; an idle connection by keepalive, whose steps are whole
	 * seconds. */
	int on = 1, idle_s = (int)KV_MAX(timeout_ms / 3000, 1u), probes = 3;
	(void)ring;
	if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) < 0)
		return -errno;
	return 0;
}

void ring_shutdown(struct ring *ring, int fd)
{
	(void)ring; /* a request that the kernel does not have yet will find the socket shut */
	shutdown(fd, SHUT_RDWR);
}

static void end_for_close(struct ring *ring, struct kv_list *list, int fd)
{
	KV_LIST_EACH_SAFE (n, list) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd != fd)
			continue;
		op->closed = true;
		ring_cancel(ring, op);
	}
}

/* SQEs that a failed submit left behind would find the successor of fd: make them do nothing. */
static void defuse_leftovers(struct ring *ring, int fd)
{
	struct io_uring_sq *sq = &ring->uring.sq;
	for (unsigned i = *sq->khead; i != sq->sqe_tail; i++) {
		struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
		struct ring_op *op = (struct ring_op *)(uintptr_t)sqe->user_data;
		if (!op || sqe->fd != fd || sqe->opcode == IORING_OP_ASYNC_CANCEL)
			continue;
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, op);
		op->fd = -1;
	}
}

void ring_close(struct ring *ring, int fd)
{
	end_for_close(ring, &ring->queued, fd);
	end_for_close(ring, &ring->cancels, fd);
	end_for_close(ring, kernel_list(ring, fd), fd);
	defuse_leftovers(ring, fd);
	close(fd);
}
