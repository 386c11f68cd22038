/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h -- a stage: an incoming value, with its memory, the arrived ranges, and the checksum over them. */
#ifndef KVRAIL_KVSERVER_OPS_STAGE_H
#define KVRAIL_KVSERVER_OPS_STAGE_H

#include "base/base.h"
#include "kvserver/shard/attachment.h"

struct request;

enum { STAGE_EXTENTS = 512 }; /* ranges with gaps between them, arrived or on their way */

struct extent {
	uint64_t from, to;
	struct request *by;
};

/* Drawn in stage.c. */
enum stage_state {
	STAGE_FILLING, /* ranges arrive */
	STAGE_ENDING,  /* the only range that ends the value has begun */
	STAGE_ENDED    /* that range has arrived; after the others, and the checksum, the value is committed */
};

struct stage {
	struct kv_hasher hasher;
	struct kv_list node;    /* of the attachment */
	struct kv_list hashing; /* of the shard, while arrived bytes are not summed */
	struct shard_attachment *attachment;
	struct session *session;
	uint64_t id, total, checksum, hashed;
	uint64_t touched_ns, deadline_ns; /* touched: the last progress. deadline: the latest of its ranges */
	uint64_t born_ns;                 /* put_born */
	uint32_t ttl_s;
	bool spare; /* WIRE_PUT_SPARE */
	bool sum_last;
	uint64_t size;       /* bytes of the arena */
	struct block *block; /* a reference */
	enum stage_state state;
	struct request *last; /* STAGE_ENDED: waits for the value to be whole; else NULL */
	unsigned extents;
	struct extent extent[STAGE_EXTENTS]; /* ascending, with gaps between them */
};

/* stage_allowed -- whether this session may stage a value of this many bytes. 0; -KV_EBUSY (too much is staged or
 * leased); -KV_ENOMEM (pins leave no room). */
int stage_allowed(const struct session *o, uint64_t total);

/* stage_count -- so many more bytes of the arena are for values that a session puts. stage_uncount -- so many less. */
void stage_count(struct session *o, uint64_t bytes);
void stage_uncount(struct session *o, uint64_t bytes);

/* stage_begin -- open a stage for the value that q begins, with memory b, and begin its first range. r: the request
 * that waited for the memory, or NULL. 0: b is the stage's, and q is or will be answered. -KV_EBUSY: b stays the
 * caller's, and q is not answered. */
int stage_begin(struct link *l, const struct wire_request *q, struct request *r, struct block *b, uint64_t now_ns);

/* stage_range -- begin or refuse a further range of a value. */
void stage_range(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* stage_open -- without a range yet. 0 or -KV_EBUSY, as stage_begin. stage_find -- of this session; NULL: none. */
int stage_open(struct session *o, const struct wire_request *q, struct block *b, uint64_t now_ns, struct stage **out);
struct stage *stage_find(const struct session *o, uint64_t id);

/* stage_advance -- after a change: queue bytes for the checksum; commit a whole value, which ends the stage. stage_hash
 * -- of one in work.hashing: sum at most *budget arrived bytes, and lower it; then stage_advance. */
void stage_advance(struct stage *st);
void stage_hash(struct stage *st, uint64_t *budget);

/* stage_kill -- drop the value: its requests are stopped and end with this status, except `but` (may be NULL), which
 * only forgets it. */
void stage_kill(struct stage *st, int32_t status, const struct request *but);

/* stages_drop -- drop the stages of an attachment. stages_drop_session -- those of one of its sessions. stages_tick --
 * those without progress, or past their time. */
void stages_drop(struct shard_attachment *s);
void stages_drop_session(struct shard_attachment *s, const struct session *o);
void stages_tick(struct shard_attachment *s, uint64_t now_ns);

#endif
