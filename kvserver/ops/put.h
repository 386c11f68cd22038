/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- PUT. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PUT_H
#define KVRAIL_KVSERVER_OPS_PUT_H

#include <stdint.h>

#include "base/base.h"

struct link;
struct shard;
struct stage;
struct wire_request;

enum { PUT_WAIT_BYTES = KV_INLINE_MAX + 768 }; /* struct put_wait fits */

/* put_begin -- begin_fn of PUT. */
void put_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* put_turn -- go on clearing memory for values that wait for it, a bounded number of blocks. */
void put_turn(struct shard *s);

/* put_hash -- go on with the checksum of a stage in work.hashing, at most *budget bytes; lowers it. A value that is
 * whole then is committed, which ends the stage. */
void put_hash(struct stage *st, uint64_t *budget);

#endif
