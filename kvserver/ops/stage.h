/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h -- a value on its way in: private memory, what of it has arrived, and the checksum over it. */
#ifndef KVRAIL_KVSERVER_OPS_STAGE_H
#define KVRAIL_KVSERVER_OPS_STAGE_H

#include "base/base.h"
#include "kvserver/shard/session.h"

struct request;

enum { STAGE_EXTENTS = 512 }; /* ranges that may be there or on their way with gaps between them */

/* A range that a request claimed. */
struct extent {
	uint64_t from, to;
	struct request *by; /* still moving it; NULL: it is there */
};

struct stage {
	struct kv_hasher hasher;
	struct kv_list node;    /* of the session */
	struct kv_list hashing; /* of the shard, while arrived bytes are not summed up */
	struct session *session;
	struct owner *owner;
	uint64_t id, total, checksum, hashed;
	uint64_t touched_ns, deadline_ns; /* of the last progress; of the call, as its ranges tell it */
	uint32_t ttl_s;
	uint64_t size;        /* bytes of the arena */
	struct block *block;  /* one reference is ours */
	struct request *last; /* waits for the value to be whole */
	unsigned extents;
	struct extent extent[STAGE_EXTENTS]; /* ascending, apart */
};

/* stage_allowed -- whether a value of so many bytes may be staged by this session. 0; -KV_EBUSY (too much is staged, or
 * leased, already); -KV_ENOMEM (pins leave no room). */
int stage_allowed(const struct session *s, uint64_t total);

/* stage_open -- a stage for the value that q begins, whose memory b is; it is the stage's. 0; -KV_EBUSY: b stays the
 * caller's. */
int stage_open(struct owner *o, const struct wire_request *q, struct block *b, uint64_t now_ns, struct stage **out);
struct stage *stage_find(const struct owner *o, uint64_t id); /* of this owner */

/* stage_claim -- this request brings [offset, offset + length). 0; -KV_EINVAL (overlaps another), -KV_EBUSY (too
 * scattered). */
int stage_claim(struct stage *st, struct request *r, uint64_t offset, uint64_t length);

/* stage_time -- a range of it came with this deadline: the client waits at least so long. */
static inline void stage_time(struct stage *st, uint64_t deadline_ns)
{
	st->deadline_ns = KV_MAX(st->deadline_ns, deadline_ns);
}

/* stage_arrived -- what r claimed is there. */
void stage_arrived(struct stage *st, struct request *r);

/* stage_advance -- there may be bytes to sum up. True: the value is whole, and its end was announced: it is to be
 * committed (put.c). */
bool stage_advance(struct stage *st);

/* stage_hash -- sum up at most *budget bytes of what is there; lowers it. Returns what stage_advance says. */
bool stage_hash(struct stage *st, uint64_t *budget);

/* stage_kill -- give the value up: requests on it are stopped and end with this status, except `but` (may be NULL),
 * which only forgets it. */
void stage_kill(struct stage *st, int32_t status, const struct request *but);

/* stage_free -- committed or to be given up; no request refers to it. */
void stage_free(struct stage *st);

/* stages_drop -- give up those of a session; stages_drop_owner -- those of one owner; stages_tick -- those without
 * progress, and those whose time is over. */
void stages_drop(struct session *s);
void stages_drop_owner(struct session *s, const struct owner *o);
void stages_tick(struct session *s, uint64_t now_ns);

#endif
