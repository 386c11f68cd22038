/* SPDX-License-Identifier: Apache-2.0 */
/* prefault.c -- a thread that makes pages before they are needed, since faults halve the rate of the first PUTs.
 *
 * It makes one step (2 MiB) at a time and rests according to its share of a core, measured in its own processor time.
 * It has normal priority: while the kernel makes pages, it holds the lock of the process's address space, and must not
 * be preempted for seconds.
 *
 * Memory may be in use meanwhile: MADV_POPULATE_WRITE changes no contents; before Linux 5.14 an atomic OR of 0 makes a
 * page. */
#include "host/prefault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/memory.h"
#include "host/numa.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { STEP_BYTES = 2 << 20, PAGE_BYTES = 4096, STACK_BYTES = 256 << 10 };

struct kv_prefault {
	struct kv_prefault_area area[KV_PREFAULT_AREAS_MAX];
	unsigned count, percent;
	uint64_t total_bytes;
	_Atomic uint64_t done_bytes;
	_Atomic uint64_t *left; /* or NULL */
	const struct kv_log *log;
	_Atomic int status;
	_Atomic bool ended;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t woken;
	bool stop; /* under the lock */
};

/* Rest. False: stop. */
static bool rest(struct kv_prefault *p, uint64_t ns)
{
	struct timespec until;
	bool stop;
	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000u);
	until.tv_nsec = (long)(ns % 1000000000u);
	pthread_mutex_lock(&p->lock);
	while (!p->stop && pthread_cond_timedwait(&p->woken, &p->lock, &until) == 0)
		;
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

static uint64_t processor_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int touch(uint8_t *at, uint64_t len)
{
	if (madvise(at, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	for (uint64_t i = 0; i < len; i += PAGE_BYTES)
		__atomic_fetch_or(at + i, 0, __ATOMIC_RELAXED);
	return 0;
}

/* Returns its bytes (0: beyond the area) or -errno. */
static int64_t step(const struct kv_prefault_area *a, uint64_t offset)
{
	uint64_t len;
	int rc;
	if (offset >= a->len_bytes)
		return 0;
	len = KV_MIN(a->len_bytes - offset, (uint64_t)STEP_BYTES);
	if (a->area)
		kv_area_ready(a->area, offset, len);
	do
		rc = touch((uint8_t *)a->base + offset, len);
	while (rc == -EINTR);
	return rc < 0 ? rc : (int64_t)len;
}

static bool round_of_steps(struct kv_prefault *p, uint64_t offset, int *node)
{
	for (unsigned i = 0; i < p->count; i++) {
		const struct kv_prefault_area *a = &p->area[i];
		uint64_t began_ns = processor_ns(), took_ns;
		int64_t n;

		if (a->node != KV_NODE_ANY && a->node != *node) {
			(void)kv_numa_bind_thread("", a->node, NULL);
			*node = a->node;
		}
		n = step(a, offset);
		if (n < 0) {
			atomic_store(&p->status, (int)n);
			return false;
		}
		atomic_fetch_add(&p->done_bytes, (uint64_t)n);
		if (p->left)
			atomic_fetch_sub(p->left, (uint64_t)n);
		took_ns = processor_ns() - began_ns;
		if (n && !rest(p, took_ns * (100 - p->percent) / p->percent))
			return false;
	}
	return true;
}

static void *prefault_thread(void *arg)
{
	struct kv_prefault *p = arg;
	uint64_t longest = 0;
	int node = KV_NODE_ANY;
	pthread_setname_np(pthread_self(), "kv-prefault");
	for (unsigned i = 0; i < p->count; i++)
		longest = KV_MAX(longest, p->area[i].len_bytes);
	for (uint64_t offset = 0; offset < longest && round_of_steps(p, offset, &node); offset += STEP_BYTES)
		;
	if (p->status)
		kv_event(p->log, KV_LOG_WARN,
			 KV_EVENT("prefault_stopped", KV_NUMBER("bytes", p->done_bytes),
				  KV_NUMBER("of_bytes", p->total_bytes), KV_FIELD("reason", kv_strerror(p->status))),
			 "memory was made ready up to %llu MiB of %llu, then the kernel refused pages: %s",
			 (unsigned long long)(p->done_bytes >> 20), (unsigned long long)(p->total_bytes >> 20),
			 kv_strerror(p->status));
	if (p->left)
		atomic_store(p->left, 0);
	atomic_store(&p->ended, true);
	return NULL;
}

/* Without the host's signals. 0 or an errno. */
static int thread_start(struct kv_prefault *p)
{
	pthread_attr_t attr;
	sigset_t before;
	int rc = pthread_attr_init(&attr);
	if (rc)
		return rc;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	kv_signals_block(&before);
	rc = pthread_create(&p->thread, &attr, prefault_thread, p);
	kv_signals_restore(&before);
	pthread_attr_destroy(&attr);
	return rc;
}

int kv_prefault_start(const struct kv_prefault_area *areas, unsigned count, unsigned percent, _Atomic uint64_t *left,
		      const struct kv_log *log, struct kv_prefault **out, struct kv_error *err)
{
	struct kv_prefault *p;
	int rc;
	if (count == 0 || count > KV_PREFAULT_AREAS_MAX || percent == 0 || percent > 100)
		return kv_fail(err, -KV_EINVAL, "cannot prefault %u areas with %u %% of a core", count, percent);
	p = calloc(1, sizeof(*p));
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory for prefaulting");
	memcpy(p->area, areas, count * sizeof(areas[0]));
	p->count = count;
	p->percent = percent;
	for (unsigned i = 0; i < count; i++)
		p->total_bytes += areas[i].len_bytes;
	p->left = left;
	p->log = log;
	if (left)
		atomic_store(left, p->total_bytes);
	pthread_mutex_init(&p->lock, NULL);
	kv_cond_init(&p->woken);
	rc = thread_start(p);
	if (rc == 0) {
		*out = p;
		return 0;
	}
	pthread_cond_destroy(&p->woken);
	pthread_mutex_destroy(&p->lock);
	free(p);
	if (left)
		atomic_store(left, 0);
	return kv_fail(err, -KV_ENOMEM, "cannot start the thread that prefaults memory: %s", kv_strerror(rc));
}

void kv_prefault_state(const struct kv_prefault *p, struct kv_prefault_state *out)
{
	out->ended = atomic_load(&p->ended); /* first: then the others are final */
	out->status = atomic_load(&p->status);
	out->done_bytes = atomic_load(&p->done_bytes);
	out->total_bytes = p->total_bytes;
}

void kv_prefault_stop(struct kv_prefault **prefault)
{
	struct kv_prefault *p = *prefault;
	if (!p)
		return;
	*prefault = NULL;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->woken);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->woken);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
