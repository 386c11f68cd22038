/* SPDX-License-Identifier: Apache-2.0 */
/* retire.c -- endpoints that cannot close at once are abandoned, and closed when none of their operations is posted.
 *
 *   in use --fab_rebuild, fab_shut--> abandoned --fab_retire, nothing posted--> a thread closes it
 *          --> closed, seen by fab_retiring --> freed
 *
 * EFA's fi_close waits for the completions of all sends: for a dead host some seconds, with a lock of the domain held.
 * The fence holds only after fi_close, but the loop continues with a fresh endpoint, and discards the old one's
 * completions. Once all have come, a thread closes the old one. After FAB_OUT_MAX_NS it does so anyway, with a warning:
 * memory must become safe.
 * fab_close joins the threads, at most two per rail. Without a thread or memory, an endpoint closes where it is
 * abandoned. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fabric/private.h"

enum { READS = 4, READ_ENTRIES = 32 };

struct retired {
	struct kv_list node;
	const struct fab *fab; /* for its name and log, which outlive this */
	struct fab_ends ends;
	uint32_t out;      /* operations without a completion */
	uint64_t until_ns; /* when they are ignored; 0: fab_retire was not called yet */
	bool counted;      /* in the census */
	bool running;      /* thread is valid, and not joined */
	pthread_t thread;
	atomic_bool closed;
};

void fab_leak_log(const struct fab *fab, const char *what, int rc)
{
	if (rc)
		kv_warn(fab->options.log, "%s: closing the %s: %s; it is leaked", fab->caps.domain, what,
			fi_strerror(-rc));
}

void fab_ends_close(const struct fab *fab, const struct fab_ends *ends)
{
	if (ends->ep)
		fab_leak_log(fab, "endpoint", fi_close(&ends->ep->fid));
	if (ends->cq)
		fab_leak_log(fab, "completion queue", fi_close(&ends->cq->fid));
	if (ends->av)
		fab_leak_log(fab, "address vector", fi_close(&ends->av->fid));
	if (ends->eq)
		fab_leak_log(fab, "event queue", fi_close(&ends->eq->fid));
}

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
	if (!fab->ends.ep)
		return;
	r = calloc(1, sizeof(*r));
	if (!r) {
		fab_ends_close(fab, &fab->ends);
		if (fab->counted)
			fab_census_add(fab->caps.domain, -1);
	} else {
		r->fab = fab;
		r->ends = fab->ends;
		r->counted = fab->counted;
		r->out = fab->abandoned.out;
		kv_list_add_tail(&fab->abandoned.list, &r->node);
		fab->abandoned.count++;
	}
	memset(&fab->ends, 0, sizeof(fab->ends));
	fab->wait_fd = -1;
	fab->dead_due = fab->counted = false;
}

static bool is_ours(uint64_t flags)
{
	return !(flags & (FI_RECV | FI_REMOTE_CQ_DATA));
}

static bool completions_read(struct retired *r)
{
	struct fi_cq_data_entry entry[READ_ENTRIES];
	struct fi_cq_err_entry error = {0};
	uint32_t over = 0;
	ssize_t n = fi_cq_read(r->ends.cq, entry, READ_ENTRIES);
	for (ssize_t i = 0; i < n; i++)
		over += is_ours(entry[i].flags);
	if (n == -FI_EAVAIL)
		over = fi_cq_readerr(r->ends.cq, &error, 0) > 0 && error.op_context && is_ours(error.flags);
	else if (n < 0 && n != -FI_EAGAIN)
		over = r->out; /* the queue is dead */
	r->out -= KV_MIN(over, r->out);
	return n > 0 || n == -FI_EAVAIL;
}

static bool drained(struct retired *r)
{
	for (int i = 0; i < READS && r->out && completions_read(r); i++)
		;
	if (r->out && kv_clock_now(&kv_clock_monotonic) >= r->until_ns) {
		kv_warn(r->fab->options.log,
			"%s: %u operations of an abandoned endpoint have not "
			"ended within %llu s: closing it may block its loop",
			r->fab->caps.domain, r->out, FAB_OUT_MAX_NS / 1000000000);
		r->out = 0;
	}
	return r->out == 0;
}

/* The thread handles no signal of the host process. */
static void close_begin(struct retired *r)
{
	sigset_t before;
	if (r->running || atomic_load(&r->closed))
		return;
	kv_signals_block(&before);
	r->running = pthread_create(&r->thread, NULL, close_run, r) == 0;
	kv_signals_restore(&before);
	if (!r->running)
		close_run(r);
}

void fab_posted(struct fab *fab, uint32_t operations)
{
	fab->abandoned.out = operations;
}

void fab_retire(struct fab *fab)
{
	KV_LIST_EACH (n, &fab->abandoned.list) {
		struct retired *r = KV_LIST_ENTRY(n, struct retired, node);
		if (r->until_ns == 0)
			r->until_ns = kv_clock_now(&kv_clock_monotonic) + FAB_OUT_MAX_NS;
	}
}

static void forget(struct fab *fab, struct retired *r)
{
	if (r->running)
		pthread_join(r->thread, NULL);
	kv_list_del(&r->node);
	fab->abandoned.count--;
	free(r);
}

bool fab_retiring(struct fab *fab)
{
	KV_LIST_EACH_SAFE (n, &fab->abandoned.list) {
		struct retired *r = KV_LIST_ENTRY(n, struct retired, node);
		if (atomic_load(&r->closed))
			forget(fab, r);
		else if (r->until_ns && !r->running && drained(r))
			close_begin(r);
	}
	return fab->abandoned.count > 0;
}

void fab_retire_end(struct fab *fab)
{
	KV_LIST_EACH (n, &fab->abandoned.list)
		close_begin(KV_LIST_ENTRY(n, struct retired, node));
	while (!kv_list_empty(&fab->abandoned.list))
		forget(fab, KV_LIST_ENTRY(fab->abandoned.list.next, struct retired, node));
}
