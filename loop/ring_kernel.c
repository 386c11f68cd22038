/* SPDX-License-Identifier: Apache-2.0 */
/* ring_kernel.c -- the choice between the rings of the kernel, and their bell.
 *
 * io_uring first. Where the machine forbids or lacks it (seccomp, sysctl, locked memory), epoll; the log reports it
 * once per process. The bell is an eventfd with a pending read: one write(2) from any thread or signal handler wakes
 * the ring. */
#include "loop/ring_kernel.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void say_once(const struct kv_log *log, const struct kv_error *why)
{
	static atomic_bool said;
	if (kv_log_on(log, KV_LOG_INFO) && !atomic_exchange(&said, true))
		kv_info(log, "loops use epoll, which takes a little more processor time: %s", why->text);
}

int ring_create(const struct ring_options *options, struct ring **out, struct kv_error *err)
{
	struct kv_error why = {0};
	struct ring *ring = NULL;
	int bell_fd = eventfd(0, EFD_CLOEXEC);
	if (bell_fd < 0)
		return ring_refuse_files(-errno, "eventfd", err);
	int rc = ring_uring.create(options, bell_fd, &ring, &why);
	if (rc > 0)
		rc = ring_epoll.create(options, bell_fd, &ring, err);
	else if (rc < 0)
		kv_fail(err, rc, "%s", why.text);
	if (rc < 0) {
		close(bell_fd);
		return rc;
	}
	ring->fallback = why;
	if (why.code)
		say_once(options->log, &why);
	*out = ring;
	return 0;
}

void ring_destroy(struct ring **ring)
{
	struct ring *r = *ring;
	if (!r)
		return;
	int bell_fd = r->bell_fd;
	r->kind->destroy(r);
	close(bell_fd);
	*ring = NULL;
}

const struct kv_error *ring_fallback(const struct ring *ring)
{
	return ring->fallback.code ? &ring->fallback : NULL;
}

int ring_adopt(struct ring *ring)
{
	return ring->kind->adopt(ring);
}

void ring_settle(struct ring *ring)
{
	ring->kind->settle(ring);
}

void ring_unsettle(struct ring *ring)
{
	ring->kind->unsettle(ring);
}

const struct kv_clock *ring_clock(const struct ring *ring)
{
	(void)ring;
	return &kv_clock_monotonic;
}

void ring_submit(struct ring *ring, struct ring_op *op)
{
	ring->kind->submit(ring, op);
}

void ring_cancel(struct ring *ring, struct ring_op *op)
{
	ring->kind->cancel(ring, op);
}

void ring_flush(struct ring *ring)
{
	ring->kind->flush(ring);
}

void ring_wait(struct ring *ring, uint64_t wait_ns)
{
	ring->kind->wait(ring, wait_ns);
}

int ring_reap(struct ring *ring)
{
	return ring->kind->reap(ring);
}

void ring_relax(struct ring *ring)
{
	(void)ring;
	sched_yield();
}

void ring_wake(struct ring *ring)
{
	uint64_t one = 1;
	ssize_t n = write(ring->bell_fd, &one, sizeof(one)); /* fails only with 2^64 - 2 bells pending */
	(void)n;
}

void ring_close(struct ring *ring, int fd)
{
	ring->kind->close(ring, fd);
	close(fd);
}
