/* SPDX-License-Identifier: Apache-2.0 */
/* put_memory.h -- memory for the value of a PUT, and the PUTs waiting for it. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PUT_MEMORY_H
#define KVRAIL_KVSERVER_OPS_PUT_MEMORY_H

#include <stdint.h>

#include "base/base.h"

struct link;
struct shard;
struct wire_request;

enum { PUT_WAIT_BYTES = KV_INLINE_MAX + 768 }; /* struct put_wait fits */

enum wait_state {
	WAIT_CLEARING, /* for its turn to search and clear (put_turn) */
	WAIT_BLOCKED,  /* until a block or leases in the way are free: put_tick retries it */
	WAIT_QUEUED,   /* until another wait ends, or a value being written is stored: put_tick retries it as well */
	WAIT_STATES
};

/* put_memory -- q begins a new value under an unused key: get memory for it and begin, now or later, or refuse. */
void put_memory(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* put_turn -- continue to clear memory for waiting values, a bounded number of blocks. put_tick -- retry the blocked
 * and queued ones. */
void put_turn(struct shard *s);
void put_tick(struct shard *s);

#endif
