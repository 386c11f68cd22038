/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the functions of ops/ for each other. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_PRIVATE_H
#define KVRAIL_KVSERVER_OPS_PRIVATE_H

#include "kvserver/shard/shard.h"

/* Of get.c, put.c, cancel.c, and small.c with the requests answered immediately. */
begin_fn get_begin, put_begin, cancel_begin;
begin_fn exists_begin, delete_begin, touch_begin, pin_begin, stat_begin, tombs_begin, ping_begin;
begin_fn clear_begin, spaces_begin, tenants_begin, leases_list_begin;

/* get_alone -- write `length` bytes of the block to the destination of the request, and answer with *reply plus the
 * outcome. For GETs not packed with others (pack.h). */
void get_alone(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	       const struct wire_reply *reply, uint64_t now_ns);

/* get_hash -- continue the checksum of a request in work.hash_gets, at most *budget bytes; lowers it. May free the
 * request. */
void get_hash(struct request *r, uint64_t *budget);

enum { COPY_ALIGN = 16 };

/* copy_digest -- copy a whole value to its block, `to`; returns its checksum. copy_sum -- copy a part, and continue the
 * checksum. `from` may change during the call: the stored bytes are summed. `to` is a multiple of COPY_ALIGN. */
uint64_t copy_digest(uint8_t *to, const uint8_t *from, uint64_t len);
void copy_sum(struct kv_hasher *h, uint8_t *to, const uint8_t *from, uint64_t len);

#endif
