/* SPDX-License-Identifier: Apache-2.0 */
/* count.h -- the counters of one client: written by its loop, read by any thread. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_COUNT_H
#define KVRAIL_KVCLIENT_CORE_COUNT_H

#include <stdatomic.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

struct kc_count {
	_Atomic uint64_t gets, puts, exists, deletes, hits, misses, errors, timeouts, retries, corrupt, reconnects,
		reattaches, fences;
	_Atomic uint64_t bytes_in, bytes_out, stale_immediates, bad_frames, cancels, quarantined_bytes, eagain;
	_Atomic uint64_t door_let_in, door_turned, door_aliens;
	_Atomic uint64_t requests, replies, room_waits, room_wait_ns, room_wait_max_ns, queue_ns, queue_max_ns, orphans;
	_Atomic uint64_t lost_connections, slow, pulls, pulls_expired, pins_again, pins_lost, put_conflicts;
	_Atomic uint64_t pins_moved;
	_Atomic uint64_t failovers, stand_ins;
	_Atomic uint64_t view_epoch, members, views_old, views_doubted, view_resets, view_votes, view_voters;
	_Atomic uint64_t settle_hits, settle_misses, repairs, repair_bytes, repairs_dropped;
	_Atomic uint64_t copies, copy_bytes, copies_dropped, second_hits, copies_yielded, deletes_owed;
	_Atomic uint64_t results[KVC_OPS][KVC_RESULTS];
	_Atomic uint64_t links, credits; /* of open attachments; fewest credits of one */
	_Atomic uint64_t pull_links;     /* of attachments with pulled GETs */
};

/* One thread writes, so no locked instruction is needed. */
static inline void kc_set(_Atomic uint64_t *c, uint64_t v)
{
	atomic_store_explicit(c, v, memory_order_relaxed);
}

static inline void kc_add(_Atomic uint64_t *c, uint64_t n)
{
	kc_set(c, atomic_load_explicit(c, memory_order_relaxed) + n);
}

static inline void kc_max(_Atomic uint64_t *c, uint64_t v)
{
	if (v > atomic_load_explicit(c, memory_order_relaxed))
		kc_set(c, v);
}

#endif
