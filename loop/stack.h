/* SPDX-License-Identifier: Apache-2.0 */
/* stack.h -- the stacks of one loop's coroutines. Internal to loop/. */
#ifndef KVRAIL_LOOP_STACK_H
#define KVRAIL_LOOP_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum {
	STACK_HOT_MAX = 64,   /* idle stacks that keep their pages */
	STACK_OPEN_STEP = 64, /* stacks opened by one mprotect */
	STACK_FEWEST = 64,    /* least pool size where address space is short, ... */
	STACK_SHARE = 4       /* ... which takes this part of the rest at most */
};

enum stack_guard { STACK_GUARD_MADVISE, STACK_GUARD_MPROTECT };

struct stack_pool {
	char *base; /* `max` slots of guard page + stack, `opened` of them readable, `fresh` used so far */
	size_t page_bytes, stack_bytes, slot_bytes;
	uint32_t max, opened, fresh;
	uint32_t *idle; /* idle_count slot numbers, first the cold_count without memory */
	uint32_t idle_count, cold_count;
	unsigned *valgrind; /* under valgrind: its id of each slot */
	enum stack_guard guard;
};

struct stack {
	char *low, *top; /* usable bytes are [low, top) */
	uint32_t slot;
};

/* stack_pool_init -- reserve address space for max stacks of at least stack_bytes. STACK_GUARD_MADVISE falls back to
 * mprotect. Where address space is short, pool->max is halved as needed. 0 or -KV_ENOMEM with *err. */
int stack_pool_init(struct stack_pool *pool, size_t stack_bytes, uint32_t max, enum stack_guard guard,
		    struct kv_error *err);
void stack_pool_fini(struct stack_pool *pool); /* harmless on a zeroed struct */

/* stack_get -- 0, -KV_EBUSY (all in use) or -KV_ENOMEM (no page or mapping left). */
int stack_get(struct stack_pool *pool, struct stack *out);
void stack_put(struct stack_pool *pool, uint32_t slot);

/* stack_touched -- stacks that may hold memory: in use or hot. */
uint32_t stack_touched(const struct stack_pool *pool);

/* stack_in_guard -- whether addr is in a guard page. Async-signal-safe. */
bool stack_in_guard(const struct stack_pool *pool, const void *addr);

#endif
