/* SPDX-License-Identifier: Apache-2.0 */
/* get.h -- GET. The shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_GET_H
#define KVRAIL_KVSERVER_OPS_GET_H

#include <stdint.h>

struct block;
struct link;
struct request;
struct wire_reply;
struct wire_request;

/* get_begin -- begin_fn of GET. */
void get_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* get_alone -- write `length` bytes of the block to the destination of the request, and answer with *reply plus the
 * outcome. For GETs not packed with others (pack.h). */
void get_alone(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	       const struct wire_reply *reply, uint64_t now_ns);

/* get_hash -- continue the checksum of a request in work.hash_gets, at most *budget bytes; lowers it. May free the
 * request. */
void get_hash(struct request *r, uint64_t *budget);

#endif
