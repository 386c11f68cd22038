/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- copy bytes of a value to the arena and sum up the copy. Any thread. */
#ifndef KVRAIL_KVSERVER_OPS_COPY_H
#define KVRAIL_KVSERVER_OPS_COPY_H

#include "base/base.h"

enum { COPY_ALIGN = 16 };

/* copy_digest -- copy a whole value to its block, `to`; its checksum. copy_sum -- copy a part of one, and go on with
 * the checksum. `from` may be written meanwhile: what is summed up is what is stored. `to` is a multiple of COPY_ALIGN.
 */
uint64_t copy_digest(uint8_t *to, const uint8_t *from, uint64_t len);
void copy_sum(struct kv_hasher *h, uint8_t *to, const uint8_t *from, uint64_t len);

#endif
