/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c -- an engine on a loop; the only file of engine/ that includes loop/.
 *
 * The poller waits for the CQ's descriptor, or for an epoll descriptor over the CQs of all rails and the bells of local
 * peers; if one rail lacks a descriptor, the loop polls. Before a sleep each CQ is armed (fi_trywait), and each local
 * peer is asked to ring, also for room in a full ring. No event announces a new connection, so a stalled link keeps the
 * loop awake for some milliseconds, and is then retried in each turn. An engine without descriptors is active while it
 * has a peer. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/inside.h"
#include "engine/local_peers.h"
#include "engine/rail.h"
#include "loop/loop.h"

struct attached {
	struct te_watch watch; /* te.watch; NULL while the engine is on no loop */
	struct te *te;
	struct loop *loop;
	struct loop_poller poller;
	int epoll_fd; /* -1: one rail without local peers, or no descriptors */
};

static bool callbacks_due(const struct te *te)
{
	return te->ended.ops || !kv_list_empty(&te->ended.xfers) || !kv_list_empty(&te->ended.msgs) ||
	       (te->fence.reset_due && !te->fence.quiet_until);
}

static int on_arm(struct loop_poller *p)
{
	struct te *te = KV_CONTAINER(p, struct attached, poller)->te;
	if (callbacks_due(te) || te->locals.changed)
		return -EAGAIN;
	if (!kv_list_empty(&te->backlog.stalled) && te_now(te) - te->backlog.stalled_since < TE_STALL_SPIN_NS)
		return -EAGAIN;
	for (unsigned i = 0; i < te->nrails; i++) {
		if (!kv_list_empty(&te->rails[i].ready) &&
		    te->rails[i].pool.credits > te->rails[i].pool.withheld + te->rails[i].pool.reserve)
			return -EAGAIN;
		if (rail_up(&te->rails[i]) && fab_arm(te->rails[i].fab))
			return -EAGAIN;
	}
	return locals_sleep(&te->locals);
}

static bool on_active(struct loop_poller *p)
{
	const struct te *te = KV_CONTAINER(p, struct attached, poller)->te;
	return te_busy(te) || fence_limbo(&te->fence) || !kv_list_empty(&te->peers);
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int watch_all(const struct te *te, int epoll_fd)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < te->nrails; i++)
		if (rail_up(&te->rails[i]))
			rc = watch(epoll_fd, fab_wait_fd(te->rails[i].fab));
	for (uint32_t i = 0; rc == 0 && i < te->locals.count; i++)
		rc = watch(epoll_fd, local_wait_fd(te->locals.at[i].channel));
	return rc;
}

/* The descriptor to wait for: the rail's own, or a fresh epoll descriptor over all rails in use and all bells. A fresh
 * one, because an entry for a bell lives until the peer has closed the bell as well. -1: none. */
static int combine(struct attached *a)
{
	struct te *te = a->te;
	unsigned n = 0;
	int only = -1;
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	a->epoll_fd = -1;
	te->locals.changed = false;
	for (unsigned i = 0; i < te->nrails; i++) {
		if (!rail_up(&te->rails[i]))
			continue;
		only = fab_wait_fd(te->rails[i].fab);
		n++;
		if (only < 0)
			return -1;
	}
	if (n == 0 || (n == 1 && te->locals.count == 0))
		return only;
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll_fd >= 0 && watch_all(te, a->epoll_fd)) {
		close(a->epoll_fd);
		a->epoll_fd = -1;
	}
	return a->epoll_fd;
}

static void set_fd(struct attached *a)
{
	a->poller.wait_fd = combine(a);
	a->poller.arm = a->poller.wait_fd >= 0 ? on_arm : NULL;
}

static void on_refd(struct te_watch *w)
{
	struct attached *a = KV_CONTAINER(w, struct attached, watch);
	set_fd(a);
	/* If the loop cannot take the new descriptor it polls: slower, but correct. */
	if (loop_poller_refd(a->loop, &a->poller))
		kv_warn(a->te->log, "the loop cannot wait for the rebuilt endpoint; it is polled");
}

static int on_poll(struct loop_poller *p)
{
	struct attached *a = KV_CONTAINER(p, struct attached, poller);
	locals_wake(&a->te->locals);
	if (KV_UNLIKELY(a->te->locals.changed))
		on_refd(&a->watch);
	return te_poll(a->te);
}

static struct attached *attached_of(const struct te *te)
{
	return te->watch ? KV_CONTAINER(te->watch, struct attached, watch) : NULL;
}

int te_attach(struct te *te, struct loop *loop)
{
	if (te->watch)
		return -KV_EINVAL;
	struct attached *a = calloc(1, sizeof(*a));
	if (!a)
		return -KV_ENOMEM;
	a->watch = (struct te_watch){.refd = on_refd};
	a->te = te;
	a->loop = loop;
	a->epoll_fd = -1;
	a->poller.poll = on_poll;
	a->poller.active = on_active;
	set_fd(a);
	int rc = loop_poller_add(loop, &a->poller);
	if (rc) {
		if (a->epoll_fd >= 0)
			close(a->epoll_fd);
		free(a);
		return rc;
	}
	te->watch = &a->watch;
	return 0;
}

void te_detach(struct te *te)
{
	struct attached *a = attached_of(te);
	if (!a)
		return;
	loop_poller_del(a->loop, &a->poller);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	free(a);
	te->watch = NULL;
}
