/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_retire.c -- endpoints that cannot be closed at once: they are given up, and closed when no operation of theirs
 * is out.
 *
 *   in use --fab_rebuild, fab_shut--> given up --fab_retire, nothing out--> a thread closes it
 *       --> closed, seen by fab_retiring --> freed
 *
 * EFA's endpoint waits in fi_close until all its sends have their completions, and for a host that died the device
 * takes seconds. Worse, it holds a lock of the domain meanwhile (caps.close_max_ns), so that a loop that uses the next
 * endpoint of this domain waits as well. Only when fi_close has returned can nothing late land, so the fence is over no
 * sooner. But the loop, with its other engines, its heartbeats and its other peers, need not wait for it. It goes on
 * with a fresh endpoint. In between it reads the completions of the old one, and tells of none, until there is none
 * left to come. Then fi_close has nothing to wait for. The rest of its work (a queue pair is destroyed, memory is given
 * back) takes a thread milliseconds. libfabric was asked for FI_THREAD_SAFE, so one thread may close an endpoint while
 * another uses the next one. No descriptor of an endpoint is closed while a loop may still wait for it, hence the two
 * steps.
 *
 * A peer that hangs may keep an operation out for ever. After FAB_OUT_MAX_NS the endpoint is closed as it is, with a
 * warning: a loop that stands still for a while is a lesser evil than memory that is never safe. Such operations should
 * not exist: peers post more receives than we send.
 *
 * There is one thread for one endpoint. It is joined when it has said that it is done, and by fab_close in any case. At
 * most two endpoints are given up at a time (fab_rebuild), so a rail has two threads at most. Where there is no thread,
 * or no memory to remember an endpoint by, it is closed where it is given up: slow, and as safe.
 *
 * Rejected: a spare endpoint, open and announced from the beginning. Opening takes milliseconds; a spare takes the
 * device's queues and completion queue for good, from a device whose endpoints are counted; and requests that were out
 * are made again either way. Also rejected: a domain for each endpoint, so that no lock of the other's would hold it
 * up. All memory would have to be registered in each. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fabric_inside.h"

enum { READS = 4, READ_ENTRIES = 32 };

struct retired {
	struct kv_list node;
	const struct fab *fab; /* for its name and log, which outlive this */
	struct fab_ends ends;
	uint32_t out;      /* operations without a completion */
	uint64_t until_ns; /* when they do not matter any more; 0: fab_retire was not called yet */
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
		r->out = fab->given_up.out;
		kv_list_add_tail(&fab->given_up.list, &r->node);
		fab->given_up.count++;
	}
	memset(&fab->ends, 0, sizeof(fab->ends));
	fab->wait_fd = -1;
	fab->dead_due = fab->counted = false;
}

static bool is_ours(uint64_t flags)
{
	return !(flags & (FI_RECV | FI_REMOTE_CQ_DATA));
}

/* Read some of the completions that are there. False: there was none, or never will be. */
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

/* Whether closing would wait for nothing any more. */
static bool drained(struct retired *r)
{
	for (int i = 0; i < READS && r->out && completions_read(r); i++)
		;
	if (r->out && kv_clock_now(&kv_clock_monotonic) >= r->until_ns) {
		kv_warn(r->fab->options.log,
			"%s: %u operations of an endpoint that was given up have not ended within %llu s: closing it "
			"may hold up its loop",
			r->fab->caps.domain, r->out, FAB_OUT_MAX_NS / 1000000000);
		r->out = 0;
	}
	return r->out == 0;
}

/* The thread handles no signal of the host's. */
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
	fab->given_up.out = operations;
}

void fab_retire(struct fab *fab)
{
	KV_LIST_EACH (n, &fab->given_up.list) {
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
	fab->given_up.count--;
	free(r);
}

bool fab_retiring(struct fab *fab)
{
	KV_LIST_EACH_SAFE (n, &fab->given_up.list) {
		struct retired *r = KV_LIST_ENTRY(n, struct retired, node);
		if (atomic_load(&r->closed))
			forget(fab, r);
		else if (r->until_ns && !r->running && drained(r))
			close_begin(r);
	}
	return fab->given_up.count > 0;
}

void fab_retire_end(struct fab *fab)
{
	KV_LIST_EACH (n, &fab->given_up.list)
		close_begin(KV_LIST_ENTRY(n, struct retired, node));
	while (!kv_list_empty(&fab->given_up.list))
		forget(fab, KV_LIST_ENTRY(fab->given_up.list.next, struct retired, node));
}
