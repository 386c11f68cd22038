/* SPDX-License-Identifier: Apache-2.0 */
/* bell.c -- the descriptor a host waits on: an epoll of an eventfd (completions wait) and a timer (deadlines of calls
 * no loop has started; a stalled loop cannot time them out, so the reaping thread does). `rung` is set before the
 * eventfd is written and cleared after it was read, so many completions cost one write. A ringing thread pushes its
 * completion before it looks at `rung`; the reaping thread clears `rung` and looks at the list again: one of the two
 * sees the other. The same holds for counted parts (KVC_QUEUE_PARTS), which the host looks at after the reap; so
 * clearing `rung` acquires what was written before it was set. The timer stands at the earliest requested deadline.
 * Threads that set it may overtake each other, so each checks afterwards that its time is still right. */
#include "kvclient/queue/bell.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int bell_add(const struct kc_bell *b, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	return epoll_ctl(b->fd, EPOLL_CTL_ADD, fd, &e);
}

int kc_bell_open(struct kc_bell *b, struct kv_error *err)
{
	atomic_init(&b->rung, false);
	atomic_init(&b->watch_ns, KV_NEVER);
	b->event_fd = b->timer_fd = -1;
	b->fd = epoll_create1(EPOLL_CLOEXEC);
	if (b->fd < 0)
		goto err_open;
	b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->event_fd < 0)
		goto err_open;
	b->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (b->timer_fd < 0)
		goto err_open;
	if (bell_add(b, b->event_fd) == 0 && bell_add(b, b->timer_fd) == 0)
		return 0;
err_open:
	kv_fail(err, -KV_ELIMIT, "a queue needs three descriptors: %s; look at ulimit -n", kv_strerror(-errno));
	kc_bell_close(b);
	return -KV_ELIMIT;
}

void kc_bell_close(struct kc_bell *b)
{
	int *const fd[] = {&b->fd, &b->event_fd, &b->timer_fd};
	for (unsigned i = 0; i < KV_COUNT(fd); i++) {
		if (*fd[i] >= 0)
			close(*fd[i]);
		*fd[i] = -1;
	}
}

void kc_bell_ring(struct kc_bell *b)
{
	const uint64_t one = 1;
	if (!atomic_exchange(&b->rung, true))
		(void)!write(b->event_fd, &one, sizeof(one));
}

bool kc_bell_rung(const struct kc_bell *b)
{
	return atomic_load(&b->rung);
}

void kc_bell_still(struct kc_bell *b)
{
	uint64_t count;
	(void)!read(b->event_fd, &count, sizeof(count));
	(void)atomic_exchange(&b->rung, false);
}

/* Set the timer to `watch_ns`, also if another thread changes it. A time in the past fires at once; KV_NEVER disarms
 * it. */
static void timer_set(struct kc_bell *b, const struct kv_clock *clock)
{
	uint64_t when;
	do {
		struct itimerspec t = {0};
		when = atomic_load(&b->watch_ns);
		if (when != KV_NEVER) {
			uint64_t now = kv_clock_now(clock), left = when > now ? when - now : 1;
			t.it_value.tv_sec = (time_t)(left / 1000000000);
			t.it_value.tv_nsec = (long)(left % 1000000000);
		}
		(void)timerfd_settime(b->timer_fd, 0, &t, NULL);
	} while (atomic_load(&b->watch_ns) != when);
}

static bool watch_lower(struct kc_bell *b, uint64_t when_ns)
{
	uint64_t watch = atomic_load(&b->watch_ns);
	while (when_ns < watch)
		if (atomic_compare_exchange_weak(&b->watch_ns, &watch, when_ns))
			return true;
	return false;
}

void kc_bell_watch(struct kc_bell *b, uint64_t when_ns, const struct kv_clock *clock)
{
	if (KV_UNLIKELY(watch_lower(b, when_ns)))
		timer_set(b, clock);
}

bool kc_bell_due(struct kc_bell *b, uint64_t now_ns)
{
	if (now_ns < atomic_load(&b->watch_ns))
		return false;
	atomic_store(&b->watch_ns, KV_NEVER);
	return true;
}

void kc_bell_watched(struct kc_bell *b, const struct kv_clock *clock)
{
	timer_set(b, clock);
}
