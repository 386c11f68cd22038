/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- copy bytes of a value to the arena and checksum the copy. Any thread. */
#ifndef KVRAIL_KVSERVER_OPS_COPY_H
#define KVRAIL_KVSERVER_OPS_COPY_H

#include "base/base.h"

enum { COPY_ALIGN = 16 };

/* copy_digest -- copy a whole value to its block, `to`; returns its checksum. copy_sum -- copy a part, and continue the
 * checksum. `from` may change during the call: the stored bytes are summed. `to` is a multiple of COPY_ALIGN. */
uint64_t copy_digest(uint8_t *to, const uint8_t *from, uint64_t len);
void copy_sum(struct kv_hasher *h, uint8_t *to, const uint8_t *from, uint64_t len);

#endif
