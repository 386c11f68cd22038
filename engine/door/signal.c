/* SPDX-License-Identifier: Apache-2.0 */
/* signal.c -- keep the signals of completion queues from the kernel while nobody sleeps.
 *
 * A queue with a descriptor has a signal: a socket pair, into which the provider writes a byte with a completion, and
 * from which it reads that byte again, a third of a single worker's system calls per GET. So its write and read on such
 * pairs are ours. While the endpoint is polled (awake), a written byte is noted here (`owed`); at rest, from door_rest
 * to the next door_poll, bytes pass through the kernel.
 *
 * Before a sleep the loop calls door_rest, lets libfabric check its queues (fi_trywait), and writes the rest of the
 * owed bytes (door_rested). After that nothing is owed: either a thread of libfabric saw the endpoint at rest, or we
 * see its note. Hence the order of the stores and loads below. */
#include "engine/door/private.h"

#include <unistd.h>

struct signal {
	struct watched watched;
	struct kv_list node; /* of door.signals */
	uint8_t open;        /* descriptors */
	atomic_int fd;       /* the written one */
	atomic_bool owed;
};

static _Thread_local struct door *opening; /* the door whose queue or endpoint this thread opens */

static struct signal *signal_of(struct watched *w)
{
	return KV_CONTAINER(w, struct signal, watched);
}

void door_signals_begin(struct door *d)
{
	opening = d;
}

void door_signals_end(void)
{
	opening = NULL;
}

/* A descriptor closed by other code than libfabric's is still in the table. */
static void stale_drop(int fd)
{
	struct watched *w = door_watch_find(fd);
	if (w && w->kind == CONN)
		door_conn_free(KV_CONTAINER(w, struct door_conn, watched));
	else if (w && w->kind == SIGNAL)
		door_signal_close(w, fd);
}

/* Without memory the pair's bytes pass through the kernel. */
void door_signal_made(const int fds[2])
{
	struct signal *s;
	if (!opening)
		return;
	s = calloc(1, sizeof(*s));
	if (!s)
		return;
	door_lock();
	stale_drop(fds[0]);
	stale_drop(fds[1]);
	s->watched = (struct watched){SIGNAL, opening};
	if (door_watch_set(fds[0], &s->watched)) {
		free(s);
	} else if (door_watch_set(fds[1], &s->watched)) {
		(void)door_watch_set(fds[0], NULL);
		free(s);
	} else {
		s->open = 2;
		kv_list_add_tail(&opening->signals, &s->node);
		opening->refs++;
	}
	door_unlock();
}

void door_signal_close(struct watched *w, int fd)
{
	struct signal *s = signal_of(w);
	struct door *d = w->door;
	(void)door_watch_set(fd, NULL);
	if (--s->open)
		return;
	if (atomic_load(&s->owed))
		atomic_fetch_sub(&d->owed, 1);
	kv_list_del(&s->node);
	free(s);
	door_unref(d);
}

bool door_signal_take(struct watched *w)
{
	if (!atomic_load_explicit(&signal_of(w)->owed, memory_order_relaxed) ||
	    !atomic_exchange(&signal_of(w)->owed, false))
		return false;
	atomic_fetch_sub(&w->door->owed, 1);
	return true;
}

bool door_signal_keep(struct watched *w, int fd)
{
	struct signal *s = signal_of(w);
	if (!atomic_load_explicit(&w->door->awake, memory_order_relaxed))
		return false;
	atomic_store_explicit(&s->fd, fd, memory_order_relaxed);
	atomic_fetch_add(&w->door->owed, 1);
	if (atomic_exchange(&s->owed, true))
		atomic_fetch_sub(&w->door->owed, 1); /* one is enough */
	/* The endpoint came to rest: the byte must be written, by us unless door_rested was faster. */
	return atomic_load(&w->door->awake) || !door_signal_take(w);
}

void door_rest(struct door *d)
{
	atomic_store(&d->awake, false);
}

void door_signals_pay(struct door *d)
{
	KV_LIST_EACH (n, &d->signals) {
		struct signal *s = KV_LIST_ENTRY(n, struct signal, node);
		if (door_signal_take(&s->watched))
			(void)!door_before.write(atomic_load(&s->fd), "", 1);
	}
}

void door_rested(struct door *d)
{
	if (KV_LIKELY(atomic_load(&d->owed) == 0))
		return;
	door_lock();
	door_signals_pay(d);
	door_unlock();
}
