/* SPDX-License-Identifier: Apache-2.0 */
/* ring_uring.c -- the ring as io_uring, the only user of liburing.
 *
 * A request: queued (in our list) -> kernel (it has an SQE) -> completed; cancellations go through `cancels`. SQEs are
 * made only in ring_flush, so that ring_close can take back requests of its descriptor.
 *
 * SINGLE_ISSUER | DEFER_TASKRUN: completions are processed only on request; TASKRUN_FLAG shows without a system call
 * whether there are any. The issuer is the first turn's thread (ring_adopt), so the ring starts disabled. Rings that
 * many threads turn lack these flags.
 *
 * Requests end with the thread that submitted them, as cancelled. So ring_destroy on another thread requires that the
 * owner has ended; on the owner's it cancels all and waits. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "loop/ring_kernel.h"

enum {
	SQ_ENTRIES = 256,
	CQ_ENTRIES = 4096, /* the kernel keeps more (FEAT_NODROP) */
	PROBE_ENTRIES = 4,
	PROBE_S = 2 /* for one request without effect */
};

/* linux/ioprio.h: class best effort (2), lowest level (7) */
#define BACKGROUND     (2 << 13 | 7)
#define DRAIN_NS       2000000000ull
#define STUCK_NAP_NS   1000000ull
#define DRAIN_AGAIN_NS 10000000ull

enum op_state { OP_IDLE, OP_QUEUED, OP_KERNEL, OP_CANCEL, OP_DONE };

struct uring {
	struct ring base; /* the first member */
	struct io_uring uring;
	pid_t owner;                          /* the thread that may submit; 0: any */
	bool single;                          /* SINGLE_ISSUER was granted */
	bool disabled;                        /* until the first turn */
	bool draining;                        /* done() is no longer called */
	bool complained;                      /* of a failed submit */
	struct kv_list queued, cancels, done; /* ring_op.node, by state */
	struct kv_list kernel[RING_FD_LISTS]; /* ... and in the kernel, by descriptor: closing one must not look at
						 thousands */
	uint64_t bell_count;
	struct ring_op bell;
};

static struct uring *of(struct ring *base)
{
	return KV_CONTAINER(base, struct uring, base);
}

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

static void refuse_forbidden(int rc, const char *call, struct kv_error *err)
{
	int disabled = read_sysctl_disabled();
	if (disabled)
		kv_fail(err, -KV_ELIMIT,
			"%s: %s; io_uring is forbidden by the sysctl kernel.io_uring_disabled=%d: "
			"set it to 0, or to 1 and put this process in the group of kernel.io_uring_group",
			call, kv_strerror(rc), disabled);
	else
		kv_fail(err, -KV_ELIMIT,
			"%s: %s; io_uring is forbidden, most likely by the seccomp profile of a container: "
			"allow io_uring_setup, io_uring_enter and io_uring_register in it (Docker: "
			"--security-opt seccomp=PROFILE.json)%s",
			call, kv_strerror(rc), rc == -ENOSYS ? ", or the kernel is built without CONFIG_IO_URING" : "");
}

static int refuse_old(struct kv_error *err)
{
	kv_fail(err, -KV_ENOTSUP,
		"io_uring of this kernel is too old (no timed waits); Linux 5.11 or newer is needed, 6.1 is best");
	return 1;
}

/* 1: io_uring is forbidden; else a code. */
static int refuse(int rc, struct kv_error *err)
{
	struct rlimit limit = {0};
	switch (rc) {
	case -ENOMEM:
		getrlimit(RLIMIT_MEMLOCK, &limit);
		kv_fail(err, -KV_ENOMEM,
			"io_uring_setup: no memory, or more than the %llu KiB that this user may lock; raise the "
			"memlock limit (ulimit -l, LimitMEMLOCK)",
			(unsigned long long)limit.rlim_cur >> 10);
		return 1;
	case -EINVAL: /* for any flags: before 5.5 */
		return refuse_old(err);
	case -EMFILE:
	case -ENFILE:
		return ring_refuse_files(rc, "io_uring_setup", err);
	default: /* a filter may return any code */
		refuse_forbidden(rc, "io_uring_setup", err);
		return 1;
	}
}

static int setup(struct io_uring *ring, unsigned entries, unsigned cq_entries, bool any_thread)
{
	static const unsigned tiers[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED, /* Linux 6.1 */
		IORING_SETUP_SUBMIT_ALL,                                   /* 5.18 */
		0,
	};
	int rc = -EINVAL;
	for (size_t i = any_thread ? 1 : 0; i < KV_COUNT(tiers) && rc == -EINVAL; i++) {
		struct io_uring_params params = {.flags = tiers[i] | IORING_SETUP_CQSIZE, .cq_entries = cq_entries};
		rc = io_uring_queue_init_params(entries, ring, &params);
	}
	return rc;
}

/* liburing 2.3 declares io_uring_enable_rings but does not export it. */
static int enable(const struct io_uring *ring)
{
	return syscall(__NR_io_uring_register, ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0 ? -errno : 0;
}

/* Register something harmless, as loops do. (The kernel may write to the buffer.) */
static int probe_register(const struct io_uring *ring)
{
	struct io_uring_probe room[4] = {0};
	int rc;
	if (ring->flags & IORING_SETUP_R_DISABLED)
		return enable(ring);
	rc = (int)syscall(__NR_io_uring_register, ring->ring_fd, IORING_REGISTER_PROBE, room, 1);
	return rc < 0 && errno != EINVAL ? -errno : 0; /* EINVAL: before 5.6 */
}

/* Run a request, as loops do. */
static int probe_enter(struct io_uring *ring)
{
	struct __kernel_timespec ts = {.tv_sec = PROBE_S};
	struct io_uring_cqe *cqe = NULL;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	int rc;
	if (!sqe)
		return -EIO;
	io_uring_prep_nop(sqe);
	do
		rc = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &ts, NULL);
	while (rc == -EINTR || rc == -EAGAIN);
	return rc < 0 ? rc : 0;
}

/* Use a ring: 0; a negative code; or 1: io_uring is forbidden, with the reason in *err. Other obstacles meet the loop's
 * ring as well. */
static int probe(bool any_thread, struct kv_error *err)
{
	struct io_uring ring;
	const char *call = "io_uring_register";
	int rc = setup(&ring, PROBE_ENTRIES, 2 * PROBE_ENTRIES, any_thread);
	if (rc < 0)
		return refuse(rc, err);
	if (!(ring.features & IORING_FEAT_EXT_ARG)) {
		rc = refuse_old(err);
		goto out;
	}
	rc = probe_register(&ring);
	if (rc == 0) {
		call = "io_uring_enter";
		rc = probe_enter(&ring);
	}
	if (rc < 0) {
		refuse_forbidden(rc, call, err);
		rc = 1;
	}
out:
	io_uring_queue_exit(&ring);
	return rc;
}

static void on_bell(struct ring_op *op);
static void uring_submit(struct ring *base, struct ring_op *op);

static void start_bell(struct uring *ring)
{
	ring->bell = (struct ring_op){.kind = RING_READ,
				      .fd = ring->base.bell_fd,
				      .in = &ring->bell_count,
				      .len = sizeof(ring->bell_count),
				      .quiet = true,
				      .done = on_bell};
	uring_submit(&ring->base, &ring->bell);
}

static void on_bell(struct ring_op *op)
{
	start_bell(KV_CONTAINER(op, struct uring, bell));
}

static int uring_create(const struct ring_options *options, int bell_fd, struct ring **out, struct kv_error *err)
{
	struct uring *ring = calloc(1, sizeof(*ring));
	if (!ring)
		return kv_fail(err, -KV_ENOMEM, "no memory for a ring");
	ring->base = (struct ring){.kind = &ring_uring, .log = options->log, .bell_fd = bell_fd};
	kv_list_init(&ring->queued);
	for (unsigned i = 0; i < RING_FD_LISTS; i++)
		kv_list_init(&ring->kernel[i]);
	kv_list_init(&ring->cancels);
	kv_list_init(&ring->done);
	int rc = probe(options->any_thread, err);
	if (rc)
		goto err_free;
	rc = setup(&ring->uring, SQ_ENTRIES, CQ_ENTRIES, options->any_thread);
	if (rc < 0) {
		rc = refuse(rc, err);
		goto err_free;
	}
	/* A child of fork() that turned our loop would run our operations: it crashes instead. */
	(void)io_uring_ring_dontfork(&ring->uring);
	ring->single = ring->uring.flags & IORING_SETUP_SINGLE_ISSUER;
	ring->disabled = ring->uring.flags & IORING_SETUP_R_DISABLED;
	start_bell(ring);
	*out = &ring->base;
	return 0;

err_free:
	free(ring);
	return rc;
}

static int uring_adopt(struct ring *base)
{
	static _Thread_local pid_t self;
	struct uring *ring = of(base);
	if (!ring->single)
		return 0;
	if (!self)
		self = gettid();
	if (ring->disabled) {
		int rc = enable(&ring->uring);
		if (rc < 0)
			return rc;
		ring->disabled = false;
		ring->owner = self;
	}
	return ring->owner == self ? 0 : -KV_EINVAL;
}

static void uring_settle(struct ring *ring)
{
	/* Without a registered ring each entry looks up the descriptor. A refusal costs only that. */
	io_uring_register_ring_fd(&of(ring)->uring);
}

static void uring_unsettle(struct ring *ring)
{
	/* Only the registering thread may undo it: another thread may have another ring under that number. */
	io_uring_unregister_ring_fd(&of(ring)->uring);
}

/* ---- requests ---- */

static void move(struct kv_list *to, struct ring_op *op, enum op_state state)
{
	kv_list_del(&op->node);
	kv_list_add_tail(to, &op->node);
	op->state = state;
}

static void uring_submit(struct ring *base, struct ring_op *op)
{
	KV_ASSERT_HOT(op->state == OP_IDLE);
	kv_list_init(&op->node);
	op->closed = op->plain = false;
	move(&of(base)->queued, op, OP_QUEUED);
}

static void end_early(struct uring *ring, struct ring_op *op)
{
	op->result = -ECANCELED;
	move(&ring->done, op, OP_DONE);
}

static void cancel(struct uring *ring, struct ring_op *op)
{
	if (op->kind >= RING_READ_AT && !ring->draining)
		return;
	if (op->state == OP_QUEUED)
		end_early(ring, op);
	else if (op->state == OP_KERNEL)
		move(&ring->cancels, op, OP_CANCEL);
}

static void uring_cancel(struct ring *ring, struct ring_op *op)
{
	cancel(of(ring), op);
}

static void prepare(struct io_uring_sqe *sqe, struct ring_op *op)
{
	switch (op->kind) {
	case RING_READ:
		io_uring_prep_read(sqe, op->fd, op->in, (unsigned)op->len, (uint64_t)-1);
		break;
	case RING_WRITE:
		/* A write to a socket would raise SIGPIPE; send does not, but needs a socket. */
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
	case RING_READ_AT:
		io_uring_prep_read(sqe, op->fd, op->in, (unsigned)op->len, op->at);
		break;
	case RING_WRITE_AT:
		io_uring_prep_write(sqe, op->fd, op->out, (unsigned)op->len, op->at);
		sqe->rw_flags = op->durable ? RWF_DSYNC : 0;
		break;
	}
	if (op->background)
		sqe->ioprio = BACKGROUND;
	io_uring_sqe_set_data(sqe, op);
}

static struct kv_list *kernel_list(struct uring *ring, int fd)
{
	return &ring->kernel[(unsigned)fd % RING_FD_LISTS];
}

/* Make SQEs while there is room: requests first, since a cancellation must follow its request. */
static void fill(struct uring *ring)
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

static void complain(struct uring *ring, int rc)
{
	if (rc >= 0 || transient(rc) || ring->complained)
		return;
	ring->complained = true;
	kv_error_log(ring->base.log, "io_uring_enter: %s; requests of this loop are stuck", kv_strerror(rc));
}

static void uring_flush(struct ring *base)
{
	struct uring *ring = of(base);
	do {
		fill(ring);
		if (io_uring_sq_ready(&ring->uring) == 0)
			break;
		int rc = io_uring_submit(&ring->uring);
		complain(ring, rc);
		if (rc < 0)
			break; /* stays in the SQ for the next flush */
	} while (!kv_list_empty(&ring->queued) || !kv_list_empty(&ring->cancels));
}

static void uring_wait(struct ring *base, uint64_t wait_ns)
{
	struct uring *ring = of(base);
	const uint64_t second = 1000000000ull, max_ns = 3600 * second;
	uint64_t ns = KV_MIN(wait_ns, max_ns);
	struct __kernel_timespec ts = {.tv_sec = (int64_t)(ns / second), .tv_nsec = (int64_t)(ns % second)};
	struct io_uring_cqe *cqe;
	fill(ring);
	if (!kv_list_empty(&ring->queued) || !kv_list_empty(&ring->cancels) || !kv_list_empty(&ring->done)) {
		uring_flush(base);
		return;
	}
	int rc = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &ts, NULL);
	complain(ring, rc);
	if (rc < 0 && !transient(rc)) { /* it did not sleep, and will not next time */
		const struct timespec nap = {.tv_nsec = (long)KV_MIN(ns, STUCK_NAP_NS)};
		nanosleep(&nap, NULL);
	}
}

/* ---- completions ---- */

static int finish(struct uring *ring, struct ring_op *op)
{
	KV_ASSERT_HOT(op->state != OP_IDLE); /* done() runs once */
	kv_list_del(&op->node);
	op->state = OP_IDLE;
	if (ring->draining)
		return 0;
	bool quiet = op->quiet;
	op->done(op);
	return quiet ? 0 : 1;
}

static int complete(struct uring *ring, struct ring_op *op, int result)
{
	if (op->kind == RING_WRITE && result == -ENOTSOCK && !op->plain && !op->closed) {
		op->plain = true;
		move(&ring->queued, op, OP_QUEUED);
		return 0;
	}
	op->result = op->closed && op->fd < 0 ? -ECANCELED : result; /* defused: without effect */
	return finish(ring, op);
}

/* Only requests that ended before this call: done() may add more. */
static int reap_done(struct uring *ring)
{
	struct kv_list batch, *node;
	int count = 0;
	kv_list_init(&batch);
	kv_list_splice_tail(&batch, &ring->done);
	while ((node = kv_list_pop(&batch)))
		count += finish(ring, KV_LIST_ENTRY(node, struct ring_op, node));
	return count;
}

static int uring_reap(struct ring *base)
{
	struct uring *ring = of(base);
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

static void cancel_all(struct uring *ring)
{
	KV_LIST_EACH_SAFE (n, &ring->queued)
		end_early(ring, KV_LIST_ENTRY(n, struct ring_op, node));
	for (unsigned i = 0; i < RING_FD_LISTS; i++)
		KV_LIST_EACH_SAFE (n, &ring->kernel[i])
			cancel(ring, KV_LIST_ENTRY(n, struct ring_op, node));
}

static bool drained(const struct uring *ring)
{
	for (unsigned i = 0; i < RING_FD_LISTS; i++)
		if (!kv_list_empty(&ring->kernel[i]))
			return false;
	return kv_list_empty(&ring->queued) && kv_list_empty(&ring->cancels);
}

/* Repeat the cancellation, with pauses: it may miss a request that moves, and some end in the background. */
static void drain(struct uring *ring)
{
	uint64_t now = kv_clock_now(&kv_clock_monotonic), give_up = now + DRAIN_NS;
	ring->draining = true;
	while (!drained(ring) && now < give_up) {
		uint64_t again = now + DRAIN_AGAIN_NS;
		cancel_all(ring);
		for (; !drained(ring) && now < again; now = kv_clock_now(&kv_clock_monotonic)) {
			uring_wait(&ring->base, again - now);
			uring_reap(&ring->base);
		}
	}
	if (!drained(ring))
		kv_error_log(
			ring->base.log,
			"io_uring requests could not be cancelled within 2 s; their buffers may still be written to");
}

static void uring_destroy(struct ring *base)
{
	struct uring *ring = of(base);
	if (!ring->disabled && uring_adopt(base) == 0)
		drain(ring);
	io_uring_queue_exit(&ring->uring);
	free(ring);
}

/* ---- closing ---- */

static void end_for_close(struct uring *ring, struct kv_list *list, int fd)
{
	KV_LIST_EACH_SAFE (n, list) {
		struct ring_op *op = KV_LIST_ENTRY(n, struct ring_op, node);
		if (op->fd != fd || op->kind >= RING_READ_AT)
			continue;
		op->closed = true;
		cancel(ring, op);
	}
}

/* SQEs left by a failed submit would reach the successor of fd: disarm them. */
static void defuse_leftovers(struct uring *ring, int fd)
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

static void uring_close(struct ring *base, int fd)
{
	struct uring *ring = of(base);
	end_for_close(ring, &ring->queued, fd);
	end_for_close(ring, &ring->cancels, fd);
	end_for_close(ring, kernel_list(ring, fd), fd);
	defuse_leftovers(ring, fd);
}

const struct ring_calls ring_uring = {.create = uring_create,
				      .destroy = uring_destroy,
				      .adopt = uring_adopt,
				      .settle = uring_settle,
				      .unsettle = uring_unsettle,
				      .submit = uring_submit,
				      .cancel = uring_cancel,
				      .flush = uring_flush,
				      .wait = uring_wait,
				      .reap = uring_reap,
				      .close = uring_close};
