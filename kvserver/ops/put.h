/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- PUT. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PUT_H
#define KVRAIL_KVSERVER_OPS_PUT_H

#include <stdint.h>

struct link;
struct wire_request;

/* put_begin -- begin_fn of PUT. */
void put_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

#endif
