/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a request of a client: its states, its entry in the client's table, and the map from id to request.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_REQUEST_H
#define KVRAIL_KVCLIENT_CORE_REQUEST_H

#include <assert.h>

#include "base/base.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/target.h"
#include "kvclient/copy.h"
#include "wire/wire.h"

struct co;
struct kvc_link;
struct kvc_pack;
struct kvc_pull;
struct kvc_push;
struct te_region;
struct kvc_room_share;
struct kvc_session_at;
struct kvc_trace;

/* request.c draws how they follow one another. */
enum kvc_req_state {
	KVC_REQ_FREE,
	KVC_REQ_HELD,     /* a coroutine has it and has not submitted it */
	KVC_REQ_QUEUED,   /* waits for a credit of its link; no id yet */
	KVC_REQ_SENT,     /* has an id; bytes may move */
	KVC_REQ_GIVEN_UP, /* the same, and its call has given up: a CANCEL is to be sent, out or answered */
	KVC_REQ_ORPHAN,   /* the same, and its call has gone */
	KVC_REQ_LATE,     /* nothing touches its memory any more and its call has gone; a message may still name it */
	KVC_REQ_DONE,     /* nothing touches its memory any more; `status` is final, and its call has it */
	KVC_REQ_LIMBO,    /* sent over an endpoint that was given up and is not closed: bytes may move until it is */
	KVC_REQ_STATES
};

/* What the server has answered, while the request is out. Each of these includes those before it. */
enum kvc_req_said {
	KVC_SAID_NOTHING,
	KVC_SAID_WRITES, /* how many writes there are (`mem.posted`): by the answer to a CANCEL */
	KVC_SAID_REPLY   /* the one reply, or there will be none */
};

/* A coroutine that waits for requests, and how many of them are not done. */
struct kvc_wait {
	struct co *co;
	uint32_t left;
	struct kvc_trace *trace; /* of the call, or NULL */
};

/* When things happened to a request, on the loop's clock; 0: they did not. In order of time. */
struct kvc_stamps {
	uint64_t asked_ns;    /* the call wanted to make it, and begins to wait for a connection and for room */
	uint64_t made_ns;     /* it got its room, and begins to wait for a credit */
	uint64_t sent_ns;     /* its frame was handed to the engine */
	uint64_t replied_ns;  /* its reply arrived */
	uint64_t given_up_ns; /* it was cancelled while it was out */
	uint64_t done_ns;     /* its last data write arrived, or its call gave up */
	uint32_t server_posted_ns, server_replied_ns; /* how long the server says that it took; see wire.h */
	uint16_t server, shard, link;
	uint8_t type; /* enum wire_type */
	uint8_t key_len;
	uint64_t bytes; /* bytes asked for, or sent */
};

/* Counters of a server, summed over its shards. */
struct kvc_stats {
	uint64_t value[WIRE_STAT_END];
};

struct kvc_req {
	struct kv_list node; /* the free list; the queue of a link or lane; a link's sent list; the client's limbo */
	uint32_t index;      /* of the entry: the slot of its immediates */
	uint16_t generation;
	uint8_t state; /* enum kvc_req_state; kvc_req_advance alone changes it */
	uint8_t said;  /* enum kvc_req_said */

	/* What its link needs to send it, and to know it by its answers. */
	struct kvc_link *link;          /* NULL when not submitted, and once no id of it is in the link's map */
	struct kvc_session_at *session; /* whose it is, until its reply came; NULL: the connection's own session */
	uint64_t id, cancel_id;         /* 0: none in the map */
	struct kv_list cancel_node;     /* the link's list of cancels to send */
	uint64_t deadline_ns;           /* of the call: what the server is told */
	struct wire_request wire;       /* its pointers are of the call, which holds the request until it is sent */

	/* What a peer, or a read of ours, may still touch. */
	struct {
		struct kvc_piece piece; /* of the receive buffer; given back with the request */
		struct te_region
			*region;       /* where dest is, for a read of ours; where the bytes are, for a write of ours */
		struct kvc_pull *pull; /* a read of ours is under way */
		struct kvc_push *push; /* a write of ours is under way, from `region` at `source` */
		uint64_t source;
		struct kvc_piece landing; /* of the landing area, until the server has answered */
		bool small;               /* a PUT whose value, at `place`, is copied to a pack when it is sent */
		struct kvc_pack *pack;    /* that has it, until the server has answered */
		uint32_t arrived, posted; /* immediates; posted: final from KVC_SAID_WRITES on */
		bool callers;             /* dest is memory that is the caller's the moment its call returns */
	} mem;

	/* What admission gave it and takes back (request/admission.c). */
	struct {
		struct kvc_room_share *share; /* the share that is charged with it */
		uint64_t bytes;               /* of the piece */
		uint32_t imms;                /* immediates not returned yet */
		bool background;              /* it counts in what the background has */
	} room;
	bool behind; /* it waits behind others in its queues: in the background, and not passed often enough yet */

	/* Of one whose call has gone. */
	struct {
		struct kv_list node; /* the client's list of orphans, oldest first */
		uint64_t since_ns;
	} orphan;

	/* What its call waits for. */
	struct kvc_wait *wait;   /* told when it is done; NULL afterwards */
	struct kvc_trace *trace; /* of the call that has it; NULL: the call is not traced */
	struct kvc_stamps at;
	struct kvc_target place; /* the caller's: where bytes go that come in the reply, or where a pack takes them */
	int status;
	union {
		struct {
			uint64_t value_len, generation, checksum;
			bool inlined; /* the bytes came in the reply and are in `place`, in no memory of a peer's */
			bool hot;     /* the server says that the value is asked for often */
		} get;
		struct {
			uint64_t stage, generation;
		} put;
		struct {
			uint32_t count;
			uint8_t bitmap[WIRE_EXISTS_BITMAP], deleted[WIRE_EXISTS_BITMAP];
		} exists;
		struct {
			uint64_t left_ms, age_ns, checksum;
		} touch;
		struct {
			uint64_t turns;
		} ping;
		struct kvc_stats *stat;  /* the caller's, set before the request is submitted */
		struct kvc_tombs *tombs; /* the same */
	} reply;
};

/* Keys that a shard says were deleted. */
struct kvc_tombs {
	uint64_t next;     /* 0: these are the last ones */
	uint64_t since_ns; /* the shard remembers all that was deleted later */
	unsigned count;
	struct kvc_tomb tomb[WIRE_TOMBS_MAX];
};

/* A bit for each state that may follow one. */
extern const uint16_t kvc_req_next[KVC_REQ_STATES];

/* kvc_req_advance -- the one place where a request changes its state. */
static inline void kvc_req_advance(struct kvc_req *r, enum kvc_req_state to)
{
	assert(kvc_req_next[r->state] >> to & 1);
	r->state = (uint8_t)to;
}

/* kvc_req_out -- whether it has an id and is not over: its server may act on it. */
static inline bool kvc_req_out(const struct kvc_req *r)
{
	return r->state >= KVC_REQ_SENT && r->state <= KVC_REQ_ORPHAN;
}

/* kvc_req_orphaned -- whether its call has gone: it is recycled when nothing can arrive for it. */
static inline bool kvc_req_orphaned(const struct kvc_req *r)
{
	return r->state == KVC_REQ_ORPHAN || r->state == KVC_REQ_LATE;
}

/* ---- entries ---- */

struct kvc_reqs {
	struct kvc_req *entry;
	uint32_t count, used;
	struct kv_list free;
	uint64_t stray_immediates;
};

/* kvc_reqs_init -- make `count` entries, at most 65,536. 0, -KV_EINVAL or -KV_ENOMEM. */
int kvc_reqs_init(struct kvc_reqs *t, uint32_t count);
void kvc_reqs_fini(struct kvc_reqs *t);

/* kvc_reqs_take -- an entry in state HELD with a generation of its own, or NULL: all are taken. */
struct kvc_req *kvc_reqs_take(struct kvc_reqs *t);

/* kvc_reqs_give -- put it back into the free list. The caller has taken care of piece, room, lists and ids. */
void kvc_reqs_give(struct kvc_reqs *t, struct kvc_req *r);

/* kvc_req_imm -- the immediate that writes of this request carry. */
static inline uint32_t kvc_req_imm(const struct kvc_req *r)
{
	return wire_imm(r->generation, (uint16_t)r->index);
}

/* kvc_req_asked -- the most bytes that the answer to a GET may bring: those that it names, or, if it asks for all up to
 * the end of the value, as many as its destination takes. */
static inline uint64_t kvc_req_asked(const struct kvc_req *r)
{
	return r->wire.get.length ? r->wire.get.length : r->wire.dest.slice * r->wire.dest.count;
}

/* kvc_reqs_immediate -- count an immediate that arrived. Returns its request; or NULL: it belongs to none, and counts
 * as a stray. */
struct kvc_req *kvc_reqs_immediate(struct kvc_reqs *t, uint32_t imm);

/* kvc_req_lands -- it is a PUT whose bytes we write to the server's landing area. */
static inline bool kvc_req_lands(const struct kvc_req *r)
{
	return r->wire.type == WIRE_PUT && r->wire.flags & WIRE_PUT_LANDED;
}

/* kvc_req_quiet -- whether no byte of it can move any more: its number of writes is final, all of them have arrived,
 * and neither a read nor a write of ours is under way. */
static inline bool kvc_req_quiet(const struct kvc_req *r)
{
	return r->said != KVC_SAID_NOTHING && r->mem.arrived >= r->mem.posted && !r->mem.pull && !r->mem.push;
}

/* kvc_req_unsafe -- whether the peer may still move bytes of a request that is out. */
static inline bool kvc_req_unsafe(const struct kvc_req *r)
{
	if (kvc_req_lands(r))
		return r->mem.push != NULL; /* nobody else reads our memory */
	return kvc_req_out(r) && r->wire.dest.count > 0 && !kvc_req_quiet(r);
}

/* ---- the map of one link: id -> request ---- */

struct kvc_map {
	struct kvc_map_entry {
		uint64_t id;
		struct kvc_req *req;
	} *entry;
	uint32_t mask, shift, used;
};

/* kvc_map_init -- make it for at most `max` ids at a time. 0 or -KV_ENOMEM. */
int kvc_map_init(struct kvc_map *m, uint32_t max);
void kvc_map_fini(struct kvc_map *m);
void kvc_map_put(struct kvc_map *m, uint64_t id, struct kvc_req *r); /* id is not 0 and not there; there is room */
struct kvc_req *kvc_map_get(const struct kvc_map *m, uint64_t id);
bool kvc_map_del(struct kvc_map *m, uint64_t id);

#endif
