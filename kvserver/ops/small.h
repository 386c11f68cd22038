/* SPDX-License-Identifier: Apache-2.0 */
/* small.h -- requests answered immediately: a begin_fn for each. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_SMALL_H
#define KVRAIL_KVSERVER_OPS_SMALL_H

#include <stdint.h>

struct link;
struct wire_request;

void exists_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void delete_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void touch_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void pin_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void stat_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void tombs_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void tombs_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void ping_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

#endif
