/* SPDX-License-Identifier: Apache-2.0 */
/* shared.c -- shared by all doors of a process: the lock and the lines logged after it, the table of
 * descriptors, the list of doors, and libfabric's original calls.
 *
 * A descriptor finds its connection or door in a two-level table, read without a lock: it is entered before the
 * provider has it, and removed before it is closed. Everything else is under the lock, taken once per connection. */
#include "engine/door/private.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_LEN = 80, LINES_MAX = 4 /* at most, of one call */ };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
struct kv_list door_all = {&door_all, &door_all};
struct door_calls door_before;
_Atomic(_Atomic(struct watched *) *) door_watch_page[WATCH_PAGES];

int door_watch_set(int fd, struct watched *w)
{
	_Atomic(struct watched *) *page;
	if ((unsigned)fd >= WATCH_PAGE * WATCH_PAGES)
		return -KV_ENOMEM;
	page = atomic_load_explicit(&door_watch_page[fd / WATCH_PAGE], memory_order_acquire);
	if (!page) {
		page = calloc(WATCH_PAGE, sizeof(*page));
		if (!page)
			return -KV_ENOMEM;
		atomic_store_explicit(&door_watch_page[fd / WATCH_PAGE], page, memory_order_release);
	}
	atomic_store_explicit(&page[fd % WATCH_PAGE], w, memory_order_release);
	if (w) /* libfabric does not set it: a program executed by the host would keep the connection open */
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

/* ---- log lines ---- */

static const char *const reasons[DOOR_REASONS] = {
	[DOOR_STRANGER] = "no peer has an endpoint at that address",
	[DOOR_CLAIM] = "it claims an endpoint that no peer announced",
	[DOOR_TWICE] = "the endpoint that it claims is connected already",
	[DOOR_SILENT] = "it sent no whole connect request in time",
	[DOOR_FULL] = "too many connections wait, or descriptors are short",
	[DOOR_ALIEN] = "it sent bytes that no peer sends",
};

/* A line logged after the lock is released: the log may wait for a thread that waits for the lock. */
struct line {
	const struct kv_log *log;
	char text[LINE_MAX_LEN * 5];
};

static _Thread_local struct {
	struct line line[LINES_MAX];
	unsigned count;
	bool locked;
} told;

static void lines_log(void)
{
	for (unsigned i = 0; i < told.count; i++)
		kv_warn(told.line[i].log, "%s", told.line[i].text);
	told.count = 0;
}

void door_lock(void)
{
	pthread_mutex_lock(&mutex);
	told.locked = true;
}

void door_unlock(void)
{
	told.locked = false;
	pthread_mutex_unlock(&mutex);
	if (KV_UNLIKELY(told.count > 0))
		lines_log();
}

void door_fork(bool hold)
{
	if (hold)
		pthread_mutex_lock(&mutex);
	else
		pthread_mutex_unlock(&mutex);
}

/* Strangers cause these lines: log only every power of two. */
void door_tell(struct door *d, enum door_reason reason, const struct sockaddr_storage *peer, const char *why)
{
	uint64_t count = atomic_fetch_add(&d->turned[reason], 1) + 1;
	char from[LINE_MAX_LEN], ours[LINE_MAX_LEN];
	struct line *l = &told.line[told.count];
	if (count & (count - 1) || told.count == LINES_MAX || !kv_log_on(d->log, KV_LOG_WARN))
		return;
	kv_sockaddr_format(peer, from, sizeof(from));
	kv_sockaddr_format(&d->name, ours, sizeof(ours));
	told.count++;
	l->log = d->log;
	snprintf(l->text, sizeof(l->text), "fabric port %s: ended a connection from %s: %s (%llu for this reason)",
		 ours, from, why ? why : reasons[reason], (unsigned long long)count);
	if (!told.locked)
		lines_log();
}
