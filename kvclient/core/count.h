/* SPDX-License-Identifier: Apache-2.0 */
/* count.h -- the counters of one client: written by its loop, read by any thread. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_COUNT_H
#define KVRAIL_KVCLIENT_CORE_COUNT_H

#include <stdatomic.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

/* The counters, in the order of reports: X(name in struct kvc_counters, group, unit, kind, how the clients' values make
 * the pool's). */
enum kc_merge {
	KC_SUM,
	KC_MOST, /* the largest */
	KC_APART /* views: of the client with the most voters; leases: of the pool */
};
#define KC_COUNTERS(X)                                                                                                 \
	X(gets, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                                 \
	X(hits, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                                 \
	X(misses, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                               \
	X(puts, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                                 \
	X(exists, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                               \
	X(deletes, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                              \
	X(bytes_in, "calls", "bytes", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(bytes_out, "calls", "bytes", KVC_STAT_COUNTER, KC_SUM)                                                       \
	X(errors, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                               \
	X(timeouts, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                             \
	X(retries, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                              \
	X(corrupt, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                              \
	X(slow, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                                 \
	X(pulls, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                                \
	X(pulls_expired, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(local_gets, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(local_bytes, "calls", "bytes", KVC_STAT_COUNTER, KC_SUM)                                                     \
	X(local_puts, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(local_refusals, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                       \
	X(pins_again, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(pins_lost, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                            \
	X(pins_moved, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(put_conflicts, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(failovers, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                            \
	X(stand_ins, "calls", "", KVC_STAT_COUNTER, KC_SUM)                                                            \
	X(requests, "waits", "", KVC_STAT_COUNTER, KC_SUM)                                                             \
	X(replies, "waits", "", KVC_STAT_COUNTER, KC_SUM)                                                              \
	X(room_waits, "waits", "", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(room_wait_ns, "waits", "ns", KVC_STAT_COUNTER, KC_SUM)                                                       \
	X(room_wait_max_ns, "waits", "ns", KVC_STAT_MAXIMUM, KC_MOST)                                                  \
	X(queue_ns, "waits", "ns", KVC_STAT_COUNTER, KC_SUM)                                                           \
	X(queue_max_ns, "waits", "ns", KVC_STAT_MAXIMUM, KC_MOST)                                                      \
	X(cancels, "memory", "", KVC_STAT_COUNTER, KC_SUM)                                                             \
	X(orphans, "memory", "", KVC_STAT_COUNTER, KC_SUM)                                                             \
	X(local_leases, "memory", "", KVC_STAT_GAUGE, KC_APART)                                                        \
	X(quarantined_bytes, "memory", "bytes", KVC_STAT_GAUGE, KC_SUM)                                                \
	X(fences, "connections", "", KVC_STAT_COUNTER, KC_SUM)                                                         \
	X(lost_connections, "connections", "", KVC_STAT_COUNTER, KC_SUM)                                               \
	X(reconnects, "connections", "", KVC_STAT_COUNTER, KC_SUM)                                                     \
	X(reattaches, "connections", "", KVC_STAT_COUNTER, KC_SUM)                                                     \
	X(view_epoch, "cluster", "", KVC_STAT_GAUGE, KC_MOST)                                                          \
	X(members, "cluster", "", KVC_STAT_GAUGE, KC_MOST)                                                             \
	X(views_old, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                          \
	X(views_doubted, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                      \
	X(view_resets, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(view_votes, "cluster", "", KVC_STAT_GAUGE, KC_APART)                                                         \
	X(view_voters, "cluster", "", KVC_STAT_GAUGE, KC_APART)                                                        \
	X(settle_hits, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(settle_misses, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                      \
	X(repairs, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                            \
	X(repair_bytes, "cluster", "bytes", KVC_STAT_COUNTER, KC_SUM)                                                  \
	X(repairs_dropped, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                    \
	X(copies, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                             \
	X(copy_bytes, "cluster", "bytes", KVC_STAT_COUNTER, KC_SUM)                                                    \
	X(copies_dropped, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                     \
	X(second_hits, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                        \
	X(copies_yielded, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                     \
	X(deletes_owed, "cluster", "", KVC_STAT_COUNTER, KC_SUM)                                                       \
	X(eagain, "fabric", "", KVC_STAT_COUNTER, KC_SUM)                                                              \
	X(stale_immediates, "fabric", "", KVC_STAT_COUNTER, KC_SUM)                                                    \
	X(bad_frames, "fabric", "", KVC_STAT_COUNTER, KC_SUM)                                                          \
	X(door_let_in, "fabric", "", KVC_STAT_COUNTER, KC_SUM)                                                         \
	X(door_turned, "fabric", "", KVC_STAT_COUNTER, KC_SUM)                                                         \
	X(door_aliens, "fabric", "", KVC_STAT_COUNTER, KC_SUM)

struct kc_count {
#define KC_FIELD(name, group, unit, kind, merge) _Atomic uint64_t name;
	KC_COUNTERS(KC_FIELD)
#undef KC_FIELD
	_Atomic uint64_t results[KVC_OPS][KVC_RESULTS];
	_Atomic uint64_t links, credits; /* of open attachments; fewest credits of one */
	_Atomic uint64_t pull_links;
	_Atomic uint64_t local_links;
};

/* kc_result_name -- the name of a column of `results`. */
const char *kc_result_name(unsigned column);

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
