/* SPDX-License-Identifier: Apache-2.0 */
/* io.c -- read, write, accept and connect as calls that park.
 *
 * Request and timer live in the parked coroutine's frame, and the call returns only when the request has completed. At
 * the deadline the request is cancelled, and the call waits for the confirmation. So the kernel never uses a buffer
 * after the call. A result during the cancellation wins: no byte and no connection is lost.
 *
 * A cancellation can miss a request that changes queues in the kernel, so it is repeated. A request can also end as
 * cancelled because its thread has exited (host_turned): then it is submitted again. */
#include <errno.h>
#include <poll.h>

#include "loop/port_holder.h"
#include "loop/inside.h"

#define CANCEL_AGAIN_NS 10000000ull

enum { IO_AGAIN_MAX = 16, IO_LEN_MAX = 1 << 30 };

struct io_wait {
	struct ring_op op;
	struct loop_timer timer;
	struct loop *loop;
	struct co *co;
	bool finished, timed_out, interrupted;
};

static void on_done(struct ring_op *op)
{
	struct io_wait *wait = KV_CONTAINER(op, struct io_wait, op);
	wait->finished = true;
	co_unblock(wait->co);
}

static void cancel(struct io_wait *wait)
{
	ring_cancel(wait->loop->ring, &wait->op);
	loop_timer_arm(wait->loop, &wait->timer, loop_now(wait->loop) + CANCEL_AGAIN_NS);
}

static void on_deadline(struct loop_timer *t)
{
	struct io_wait *wait = KV_CONTAINER(t, struct io_wait, timer);
	if (wait->finished)
		return;
	wait->timed_out |= !wait->interrupted;
	cancel(wait);
}

void io_interrupt(struct co *co, bool on)
{
	struct co_io *io = co_io(co);
	struct io_wait *wait = io->wait;
	io->interrupted = on;
	if (!on || !wait || wait->finished)
		return;
	wait->interrupted = true;
	cancel(wait);
}

static void submit_await(struct io_wait *wait)
{
	wait->finished = false;
	ring_submit(wait->loop->ring, &wait->op);
	while (!wait->finished)
		co_block_await(wait->co, KV_NEVER);
}

/* Repeat the request while the kernel drops it. */
static void completed_await(struct io_wait *wait)
{
	struct co_io *io = co_io(wait->co);
	io->wait = wait;
	for (int again = 0; again < IO_AGAIN_MAX; again++) {
		submit_await(wait);
		if (wait->op.closed || wait->timed_out || wait->interrupted ||
		    (wait->op.result != -ECANCELED && wait->op.result != -EINTR))
			break;
	}
	io->wait = NULL;
}

/* Submit *op and wait. Returns its result, or a negative code. */
static int64_t op_await(const struct ring_op *op, uint64_t deadline_ns)
{
	struct io_wait wait = {.op = *op, .co = co_self(), .loop = loop_current(), .timer = {.fire = on_deadline}};
	if (!wait.co)
		return -KV_EINVAL;
	if (co_io(wait.co)->interrupted)
		return -KV_ECANCELED;
	wait.op.done = on_done;
	if (deadline_ns != KV_NEVER)
		loop_timer_arm(wait.loop, &wait.timer, deadline_ns);
	completed_await(&wait);
	loop_timer_cancel(wait.loop, &wait.timer);
	if (wait.op.result != -ECANCELED && wait.op.result != -EINTR)
		return wait.op.result;
	if (wait.op.closed)
		return -KV_ECLOSED;
	return wait.timed_out ? -KV_ETIMEOUT : -KV_ECANCELED;
}

/* With O_NONBLOCK the kernel does not wait until fd is ready; this call does. */
static int64_t op_ready_await(const struct ring_op *op, short events, uint64_t deadline_ns)
{
	for (;;) {
		int64_t rc = op_await(op, deadline_ns);
		if (rc != -EAGAIN)
			return rc;
		int ready = io_poll_await(op->fd, events, deadline_ns);
		if (ready < 0)
			return ready;
	}
}

ssize_t io_read_await(int fd, void *buf, size_t len, uint64_t deadline_ns)
{
	struct ring_op op = {.kind = RING_READ, .fd = fd, .in = buf, .len = KV_MIN(len, (size_t)IO_LEN_MAX)};
	return op_ready_await(&op, POLLIN, deadline_ns);
}

ssize_t io_write_await(int fd, const void *buf, size_t len, uint64_t deadline_ns)
{
	struct ring_op op = {.kind = RING_WRITE, .fd = fd, .out = buf, .len = KV_MIN(len, (size_t)IO_LEN_MAX)};
	return op_ready_await(&op, POLLOUT, deadline_ns);
}

int io_write_all_await(int fd, const void *buf, size_t len, uint64_t deadline_ns)
{
	for (const char *from = buf; len > 0;) {
		ssize_t n = io_write_await(fd, from, len, deadline_ns);
		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

int io_poll_await(int fd, short events, uint64_t deadline_ns)
{
	struct ring_op op = {.kind = RING_POLL, .fd = fd, .events = events};
	return (int)op_await(&op, deadline_ns);
}

int io_accept_await(int listen_fd, int *out_fd, struct sockaddr_storage *out_peer, uint64_t deadline_ns)
{
	struct ring_op op = {.kind = RING_ACCEPT, .fd = listen_fd, .peer = out_peer};
	int fd = (int)op_ready_await(&op, POLLIN, deadline_ns);
	if (fd < 0)
		return fd;
	ring_nodelay(loop_current()->ring, fd); /* not every listener is TCP */
	*out_fd = fd;
	return 0;
}

int io_connect_await(const struct sockaddr_storage *addr, socklen_t len, int *out_fd, uint64_t deadline_ns)
{
	struct loop *loop = loop_current();
	int fd = -1;
	if (!co_self())
		return -KV_EINVAL;
	int rc = ring_socket(loop->ring, addr->ss_family, &fd);
	if (rc < 0)
		return rc;
	struct ring_op op = {.kind = RING_CONNECT, .fd = fd, .to = addr, .len = len};
	rc = (int)op_await(&op, deadline_ns);
	if (rc < 0) {
		ring_close(loop->ring, fd);
		return rc;
	}
	ring_nodelay(loop->ring, fd);
	*out_fd = fd;
	return 0;
}

static const char *taken_advice(const struct sockaddr_storage *addr)
{
	switch (holder_find(addr)) {
	case HOLDER_LISTENS:
		return "; another process listens there: choose another port, or 0 for any free one";
	case HOLDER_CONNECTS:
		return "; no socket listens there, but an outgoing connection has this port: choose one outside "
		       "net.ipv4.ip_local_port_range, or reserve it "
		       "with net.ipv4.ip_local_reserved_ports";
	case HOLDER_LINGERS:
		return "; no socket listens there, but an outgoing connection had this port and the kernel keeps it "
		       "for a minute (TIME_WAIT): try again then, or choose a port outside "
		       "net.ipv4.ip_local_port_range";
	case HOLDER_UNSEEN:
	default:
		return "; no visible socket listens there, but a socket is bound "
		       "to this port: choose another, or 0 for "
		       "any free one";
	}
}

static const char *listen_advice(int rc, const struct sockaddr_storage *addr)
{
	switch (rc) {
	case -EADDRINUSE:
		return taken_advice(addr);
	case -EADDRNOTAVAIL:
		return "; no interface of this machine has this address";
	case -EACCES:
		return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	case -EMFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

int io_listen(struct loop *loop, struct sockaddr_storage *addr, socklen_t len, int *out_fd, struct kv_error *err)
{
	char text[KV_HOST_MAX + 8];
	int rc = ring_listen(loop->ring, addr, len, out_fd);
	if (rc == 0)
		return 0;
	kv_sockaddr_format(addr, text, sizeof(text));
	return kv_fail(err, rc, "listening on %s: %s%s", text, kv_strerror(rc), listen_advice(rc, addr));
}

void io_shutdown(struct loop *loop, int fd)
{
	ring_shutdown(loop->ring, fd);
}

void io_close(struct loop *loop, int fd)
{
	ring_close(loop->ring, fd);
}

int io_user_timeout(struct loop *loop, int fd, unsigned timeout_ms)
{
	return ring_user_timeout(loop->ring, fd, timeout_ms);
}

/* ---- files ---- */

struct at_op {
	struct ring_op op;
	struct io_at *io;
};

_Static_assert(sizeof(struct at_op) <= sizeof(((struct io_at *)0)->priv), "it has room in io_at");

static void at_done(struct ring_op *op)
{
	struct io_at *io = KV_CONTAINER(op, struct at_op, op)->io;
	io->done(io, op->result);
}

void io_at_submit(struct loop *loop, struct io_at *io)
{
	struct at_op *a = (struct at_op *)io->priv;
	*a = (struct at_op){.io = io,
			    .op = {.kind = io->write ? RING_WRITE_AT : RING_READ_AT,
				   .fd = io->fd,
				   .in = io->buf,
				   .len = io->len,
				   .at = io->offset,
				   .background = io->background,
				   .durable = io->durable,
				   .done = at_done}};
	ring_submit(loop->ring, &a->op);
}
