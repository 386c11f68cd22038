/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h -- CANCEL. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_CANCEL_H
#define KVRAIL_KVSERVER_OPS_CANCEL_H

#include <stdint.h>

struct link;
struct wire_request;

/* cancel_begin -- begin_fn of CANCEL. The id in it was not checked before. */
void cancel_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

#endif
