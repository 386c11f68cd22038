/* SPDX-License-Identifier: Apache-2.0 */
/* prefault.h -- have the kernel make the pages of large areas in the background, before they are used. */
#ifndef KVRAIL_HOST_PREFAULT_H
#define KVRAIL_HOST_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct kv_prefault;

enum { KV_PREFAULT_AREAS_MAX = 64 };

/* Memory whose pages are to be made: mapped, writable, and mapped until kv_prefault_stop has returned. */
struct kv_prefault_area {
	void *base;
	uint64_t len_bytes;
	int node; /* the NUMA node near which the pages are made; KV_NODE_ANY: anywhere */
};

struct kv_prefault_state {
	uint64_t total_bytes, done_bytes; /* done: pages that were looked at, from the low end of each area */
	bool ended;                       /* nothing more will be done: all is done, or `status` says why not */
	int status;                       /* 0, or -errno of the kernel (-ENOMEM: it has no pages) */
};

/* kv_prefault_start -- begin to make the pages of `count` areas, in one thread of its own.
 *
 * The thread takes at most `percent` (1 to 100) of a core, at the priority of the caller. It goes through all areas
 * side by side, from their low ends, so that what an arena uses first is ready first. Others may read and write the
 * memory meanwhile: contents do not change. *left (may be NULL) is kept at the bytes that are still to be done: 0 when
 * it has ended, however. If the kernel has no pages left, the thread ends and says so in the log. Thread: any. Owner:
 * *out until kv_prefault_stop, and *left and log as long. The array is copied. Errors, with *err: -KV_EINVAL (no area,
 * more than KV_PREFAULT_AREAS_MAX, a percent out of range), -KV_ENOMEM (no memory, or no thread). */
int kv_prefault_start(const struct kv_prefault_area *areas, unsigned count, unsigned percent, _Atomic uint64_t *left,
		      const struct kv_log *log, struct kv_prefault **out, struct kv_error *err);

/* kv_prefault_state -- how far it is. Thread: any. */
void kv_prefault_state(const struct kv_prefault *p, struct kv_prefault_state *out);

/* kv_prefault_stop -- end the thread, done or not, and wait for it: a few milliseconds. *p becomes NULL; NULL is
 * accepted. Thread: any, once. */
void kv_prefault_stop(struct kv_prefault **p);

#endif
