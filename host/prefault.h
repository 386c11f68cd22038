/* SPDX-License-Identifier: Apache-2.0 */
/* prefault.h -- make the pages of large areas in the background. */
#ifndef KVRAIL_HOST_PREFAULT_H
#define KVRAIL_HOST_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct kv_area;
struct kv_prefault;

enum { KV_PREFAULT_AREAS_MAX = 64 };

/* Writable memory, mapped until kv_prefault_stop has returned. */
struct kv_prefault_area {
	void *base;
	uint64_t len_bytes;
	int node;
	const struct kv_area *area; /* that it is all of, whose huge pages kv_area_ready makes; NULL: it has none */
};

struct kv_prefault_state {
	uint64_t total_bytes, done_bytes; /* done: from the low end of each area */
	bool ended;                       /* all is done, or `status` says why not */
	int status;                       /* 0, or the kernel's -errno (-ENOMEM: no pages) */
};

/* kv_prefault_start -- make the pages of `count` areas, in its own thread.
 *
 * The thread takes at most `percent` (1 to 100) of a core, at the caller's priority, and treats all areas side by side
 * from their low ends. Others may use the memory; contents stay. *left (may be NULL): bytes still to do; 0 at the end,
 * also after a failure, which is logged. Thread: any. Owner: *out, *left and log until kv_prefault_stop. The array is
 * copied. Errors, with *err: -KV_EINVAL (no area, too many, a bad percent), -KV_ENOMEM (memory or thread). */
int kv_prefault_start(const struct kv_prefault_area *areas, unsigned count, unsigned percent, _Atomic uint64_t *left,
		      const struct kv_log *log, struct kv_prefault **out, struct kv_error *err);

/* kv_prefault_state -- the progress. Thread: any. */
void kv_prefault_state(const struct kv_prefault *p, struct kv_prefault_state *out);

/* kv_prefault_stop -- end the thread and wait for it, a few milliseconds. *p becomes NULL; NULL is accepted. Thread:
 * any, once. */
void kv_prefault_stop(struct kv_prefault **p);

#endif
