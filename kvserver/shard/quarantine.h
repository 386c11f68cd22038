/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h -- memory kept by transfers of gone clients. The shard's thread. */
#ifndef KVRAIL_KVSERVER_SHARD_QUARANTINE_H
#define KVRAIL_KVSERVER_SHARD_QUARANTINE_H

#include <stdint.h>

struct shard;

/* quarantined_bytes -- bytes not reusable because an operation is unresolved. */
uint64_t quarantined_bytes(struct shard *s);

/* ending_attachments -- ending attachments with operations in flight. */
unsigned ending_attachments(const struct shard *s);

/* shard_quarantine_check -- if transfers of clients gone for SHARD_QUARANTINE_NS exceed the budget, fence the client
 * with most: at most once in that time. Where they block all others (te_info.death_stalls), fence it after
 * SHARD_STALL_NS, whatever it holds. Called by the tick. */
void shard_quarantine_check(struct shard *s, uint64_t now_ns);

#endif
