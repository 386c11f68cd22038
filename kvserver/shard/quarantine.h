/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h -- the memory that transfers of clients that are gone keep from use. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_QUARANTINE_H
#define KVRAIL_KVSERVER_SHARD_QUARANTINE_H

#include <stdint.h>

struct shard;

/* quarantined_bytes -- the bytes that may not be reused because an operation is unresolved. */
uint64_t quarantined_bytes(struct shard *s);

/* ending_sessions -- the number of sessions that end but have something in flight. */
unsigned ending_sessions(const struct shard *s);

/* shard_quarantine_check -- if transfers of clients that are gone for SHARD_QUARANTINE_NS hold more than the budget,
 * fence the one that holds most: at most once in that time. Where they hold up all others (te_info.death_stalls), fence
 * it whatever they hold, after SHARD_STALL_NS. Called by the tick. */
void shard_quarantine_check(struct shard *s, uint64_t now_ns);

#endif
