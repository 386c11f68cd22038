/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c -- pooled stacks in one reserved area.
 *
 * A slot is a guard page and a stack above it. The area is reserved without access, free even where overcommit is
 * forbidden, and opened in steps of STACK_OPEN_STEP slots. A slot gets its guard at its first use: MADV_GUARD_INSTALL
 * (Linux 6.13) marks the page table; mprotect, the fallback, splits the mapping (vm.max_map_count).
 *
 * A returned stack keeps its pages while fewer than STACK_HOT_MAX do; otherwise they are freed at once. The list of
 * idle slots lies outside of the stacks, since a link inside would touch a page each. */
#include "loop/stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop/sanitize.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static char *slot_at(const struct stack_pool *pool, uint32_t slot)
{
	return pool->base + (size_t)slot * pool->slot_bytes;
}

/* Valgrind must know the stacks, or it takes a switch for a frame of megabytes. Without memory for the ids it does not.
 */
static void valgrind_begin(struct stack_pool *pool)
{
#if KV_VALGRIND
	if (RUNNING_ON_VALGRIND)
		pool->valgrind = calloc(pool->max, sizeof(*pool->valgrind));
#else
	(void)pool;
#endif
}

static void valgrind_add(struct stack_pool *pool, uint32_t slot)
{
#if KV_VALGRIND
	char *low = slot_at(pool, slot) + pool->page_bytes;
	if (pool->valgrind)
		pool->valgrind[slot] = VALGRIND_STACK_REGISTER(low, low + pool->stack_bytes);
#else
	(void)pool, (void)slot;
#endif
}

static void valgrind_end(struct stack_pool *pool)
{
#if KV_VALGRIND
	for (uint32_t i = 0; pool->valgrind && i < pool->fresh; i++)
		VALGRIND_STACK_DEREGISTER(pool->valgrind[i]);
#endif
	free(pool->valgrind);
}

/* Address space left for this process. */
static uint64_t address_space_room(size_t page_bytes)
{
	unsigned long long pages = 0;
	struct rlimit limit;
	FILE *f;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	f = fopen("/proc/self/statm", "re");
	if (!f || fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return limit.rlim_cur - KV_MIN((uint64_t)limit.rlim_cur, (uint64_t)pages * page_bytes);
}

static char *reserve(const struct stack_pool *pool)
{
	return mmap(NULL, pool->slot_bytes * pool->max, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
}

int stack_pool_init(struct stack_pool *pool, size_t stack_bytes, uint32_t max, enum stack_guard guard,
		    struct kv_error *err)
{
	*pool = (struct stack_pool){.page_bytes = (size_t)sysconf(_SC_PAGESIZE), .max = max, .guard = guard};
	pool->stack_bytes = kv_align_up(KV_MAX(stack_bytes, (size_t)1 << 13), pool->page_bytes);
	pool->slot_bytes = pool->stack_bytes + pool->page_bytes;
	/* If address space is short, take fewer stacks, and leave some for threads, buffers and the provider. */
	uint64_t share = address_space_room(pool->page_bytes) / STACK_SHARE;
	while (pool->slot_bytes * pool->max > share && pool->max > STACK_FEWEST)
		pool->max = KV_MAX(pool->max / 2, (uint32_t)STACK_FEWEST);
	char *base = reserve(pool);
	while (base == MAP_FAILED && pool->max > STACK_FEWEST) {
		pool->max = KV_MAX(pool->max / 2, (uint32_t)STACK_FEWEST);
		base = reserve(pool);
	}
	if (base == MAP_FAILED)
		return kv_fail(err, -KV_ENOMEM,
			       "reserving %zu MiB of address space for %u coroutine stacks: %s; raise the address "
			       "space limit (ulimit -v): %zu MiB for each loop are enough for all of %u",
			       pool->slot_bytes * pool->max >> 20, pool->max, kv_strerror(-errno),
			       pool->slot_bytes * max >> 20, max);
	madvise(base, pool->slot_bytes * pool->max, MADV_NOHUGEPAGE); /* fails only on kernels without huge pages */
	pool->base = base;
	pool->idle = malloc(pool->max * sizeof(*pool->idle));
	if (!pool->idle) {
		max = pool->max;
		stack_pool_fini(pool);
		return kv_fail(err, -KV_ENOMEM, "no memory for the list of %u coroutine stacks", max);
	}
	valgrind_begin(pool);
	return 0;
}

void stack_pool_fini(struct stack_pool *pool)
{
	valgrind_end(pool);
	if (pool->base) {
#if KV_ASAN
		__asan_unpoison_memory_region(pool->base, (size_t)pool->opened * pool->slot_bytes);
#endif
		munmap(pool->base, (size_t)pool->max * pool->slot_bytes);
	}
	free(pool->idle);
	*pool = (struct stack_pool){0};
}

static int open_slots(struct stack_pool *pool)
{
	uint32_t count = KV_MIN(pool->max - pool->opened, (uint32_t)STACK_OPEN_STEP);
	if (mprotect(slot_at(pool, pool->opened), count * pool->slot_bytes, PROT_READ | PROT_WRITE) < 0)
		return -KV_ENOMEM;
	pool->opened += count;
	return 0;
}

static int guard_slot(struct stack_pool *pool, uint32_t slot)
{
	char *page = slot_at(pool, slot);
	/* EINVAL also comes with locked memory (mlockall): then mprotect works. */
	if (pool->guard == STACK_GUARD_MADVISE && madvise(page, pool->page_bytes, MADV_GUARD_INSTALL) == 0)
		return 0;
	pool->guard = STACK_GUARD_MPROTECT;
	return mprotect(page, pool->page_bytes, PROT_NONE) == 0 ? 0 : -KV_ENOMEM;
}

static int fresh_slot(struct stack_pool *pool, uint32_t *out_slot)
{
	if (pool->fresh == pool->max)
		return -KV_EBUSY;
	int rc = pool->fresh == pool->opened ? open_slots(pool) : 0;
	if (rc == 0)
		rc = guard_slot(pool, pool->fresh);
	if (rc < 0)
		return rc;
	valgrind_add(pool, pool->fresh);
	*out_slot = pool->fresh++;
	return 0;
}

int stack_get(struct stack_pool *pool, struct stack *out)
{
	uint32_t slot = 0;
	if (pool->idle_count > 0) {
		slot = pool->idle[--pool->idle_count];
		pool->cold_count = KV_MIN(pool->cold_count, pool->idle_count);
	} else {
		int rc = fresh_slot(pool, &slot);
		if (rc < 0)
			return rc;
	}
	out->slot = slot;
	out->low = slot_at(pool, slot) + pool->page_bytes;
	out->top = out->low + pool->stack_bytes;
#if KV_ASAN
	__asan_unpoison_memory_region(out->low, pool->stack_bytes); /* its last user did not return from its frames */
#endif
	return 0;
}

void stack_put(struct stack_pool *pool, uint32_t slot)
{
	bool hot = pool->idle_count - pool->cold_count < STACK_HOT_MAX;
	if (!hot)
		hot = madvise(slot_at(pool, slot) + pool->page_bytes, pool->stack_bytes, MADV_DONTNEED) < 0;
	pool->idle[pool->idle_count++] = slot;
	if (hot)
		return;
	uint32_t first_hot = pool->idle[pool->cold_count];
	pool->idle[pool->cold_count++] = slot;
	pool->idle[pool->idle_count - 1] = first_hot;
}

uint32_t stack_touched(const struct stack_pool *pool)
{
	return pool->fresh - pool->cold_count;
}

bool stack_in_guard(const struct stack_pool *pool, const void *addr)
{
	uintptr_t base = (uintptr_t)pool->base, at = (uintptr_t)addr;
	if (at < base || at >= base + (size_t)pool->fresh * pool->slot_bytes)
		return false;
	return (at - base) % pool->slot_bytes < pool->page_bytes;
}
