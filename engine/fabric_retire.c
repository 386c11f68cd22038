/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_retire.c -- endpoints that take long to close, and the threads that close them.
 *
 *   in use --fab_rebuild, fab_shut--> given up --fab_retire--> a thread closes it --> closed, seen by fab_retiring --> freed
 *
 * EFA's endpoint waits in fi_close until everything that it sent has its completion, and for a host that died the device takes seconds. Only when fi_close
 * has returned can nothing late land, so the fence is over no sooner; but the loop, with its other engines, its heartbeats and its other peers, does not wait
 * for it: it goes on with a fresh endpoint. Domain and regions are shared by both; libfabric was asked for FI_THREAD_SAFE, so that one thread may close an
 * endpoint while another uses the next one. No descriptor of an endpoint is closed while a loop may still wait for it, hence the two steps.
 *
 * One thread for one endpoint, joined when it has said that it is done, and by fab_close in any case. At most two are given up at a time (fab_rebuild), so a
 * rail has two threads at most. Where there is no thread, or no memory to remember an endpoint by, it is closed where it is given up: slow, and as safe.
 *
 * Rejected: a spare endpoint, open and announced from the beginning. Opening takes milliseconds, a spare takes the device's queues and completion queue for
 * good, from a device whose endpoints are counted; and requests that were out are to be made anew either way. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/fabric_inside.h"

struct retired {
	struct kv_list node;
	const struct fab *fab; /* for its name and log, which outlive this */
	struct fab_ends ends;
	bool counted;          /* in the census */
	bool running;          /* thread is valid, and not joined */
	pthread_t thread;
	atomic_bool closed;
};

static void *close_run(void *arg)
{
	struct retired *r = arg;
	fab_ends_close(r->fab, &r->ends);
	if (r->counted)
		fab_census_add(r->fab->caps.domain, -1);
	atomic_store(&r->closed, true);
	return NULL;
}

void fab_retire_now(struct fab *fab)
{
	struct retired *r;
	if (!fab->ep)
		return;
	r = calloc(1, sizeof(*r));
	if (!r) {
		const struct fab_ends ends = {fab->ep, fab->cq, fab->av, fab->eq};
		fab_ends_close(fab, &ends);
		if (fab->counted)
			fab_census_add(fab->caps.domain, -1);
	} else {
		r->fab = fab;
		r->ends = (struct fab_ends){fab->ep, fab->cq, fab->av, fab->eq};
		r->counted = fab->counted;
		kv_list_add_tail(&fab->retired, &r->node);
		fab->num_retired++;
	}
	fab->ep = NULL;
	fab->cq = NULL;
	fab->av = NULL;
	fab->eq = NULL;
	fab->wait_fd = -1;
	fab->dead_due = fab->counted = false;
}

/* The host's signals are handled by its own threads. */
static void close_begin(struct retired *r)
{
	sigset_t all, before;
	if (r->running || atomic_load(&r->closed))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r->running = pthread_create(&r->thread, NULL, close_run, r) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!r->running)
		close_run(r);
}

void fab_retire(struct fab *fab)
{
	KV_LIST_EACH (n, &fab->retired)
		close_begin(KV_LIST_ENTRY(n, struct retired, node));
}

static void forget(struct fab *fab, struct retired *r)
{
	if (r->running)
		pthread_join(r->thread, NULL);
	kv_list_del(&r->node);
	fab->num_retired--;
	free(r);
}

bool fab_retiring(struct fab *fab)
{
	KV_LIST_EACH_SAFE (n, &fab->retired) {
		struct retired *r = KV_LIST_ENTRY(n, struct retired, node);
		if (atomic_load(&r->closed))
			forget(fab, r);
	}
	return fab->num_retired > 0;
}

void fab_retire_end(struct fab *fab)
{
	fab_retire(fab);
	while (!kv_list_empty(&fab->retired))
		forget(fab, KV_LIST_ENTRY(fab->retired.next, struct retired, node));
}
