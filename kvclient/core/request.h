/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- requests of one client: their entries, the immediates that belong to them, and the map from id to
 * request. */
#ifndef KVRAIL_KVCLIENT_CORE_REQUEST_H
#define KVRAIL_KVCLIENT_CORE_REQUEST_H

#include "base/base.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/target.h"
#include "wire/wire.h"

struct co;
struct kvc_link;
struct kvc_pull;
struct te_region;
struct kvc_room_share;
struct kvc_sub_at;
struct kvc_trace;

enum kvc_req_state {
	KVC_REQ_FREE,
	KVC_REQ_HELD,   /* a coroutine has it and has not submitted it */
	KVC_REQ_QUEUED, /* waits for a credit of its link; no id yet */
	KVC_REQ_SENT,   /* has an id; bytes may move */
	KVC_REQ_DONE    /* `status` is final and nothing touches its memory any more */
};

/* Who waits for requests: a coroutine, and how many of its requests are not done. */
struct kvc_wait {
	struct co *co;
	uint32_t left;
	struct kvc_trace *trace; /* of the call, or NULL */
};

/* When things happened to a request, on the loop's clock; 0: they did not. In this order. */
struct kvc_stamps {
	uint64_t asked_ns;   /* the call wanted to make it: now it waits for a connection and for room */
	uint64_t made_ns;    /* it has room, and waits for a credit */
	uint64_t sent_ns;    /* its frame was handed to the engine */
	uint64_t replied_ns; /* its reply arrived */
	uint64_t done_ns;    /* its last data write arrived, or it was given up */
	uint32_t server_posted_ns, server_replied_ns; /* what the server says that it spent; see wire.h */
	uint16_t server, shard, link;
	uint8_t type; /* enum wire_type */
	uint8_t key_len;
	uint64_t bytes; /* asked for, or sent */
};

/* Counters of a server, summed over its shards. */
struct kvc_stats {
	uint64_t value[WIRE_STAT_END];
};

struct kvc_req {
	struct kv_list node;        /* free list, queue or sent list of the link */
	struct kv_list cancel_node; /* the link's list of cancels to send */
	struct kv_list orphan_node; /* the client's list of orphans, oldest first */
	struct kvc_link *link;      /* NULL when not submitted, and once no id of it is in the link's map */
	struct kvc_sub_at *sub;     /* whose it is, until its reply came; NULL: the connection's own session */
	struct kvc_wait *wait;      /* told when it is done; NULL afterwards */
	uint64_t id, cancel_id;     /* 0: none in the map */
	uint32_t index;             /* of the entry: the slot of its immediates */
	uint16_t generation;
	uint8_t state;
	bool orphan;        /* nobody holds it any more: it is recycled when nothing can arrive for it */
	bool replied;       /* the one reply came, or never will */
	bool final;         /* `posted` is final */
	bool cancelling;    /* a cancel is queued or out, or was answered */
	bool limbo;         /* sent over an endpoint that is given up and not closed: in the client's list of these */
	bool caller_memory; /* bytes move from or to memory that is the caller's the moment its call returns */
	bool in_lane;       /* it counts as active in its session's lane */
	bool inlined;       /* the bytes came in the reply and are in `inline_to` */
	int status;
	uint32_t arrived, posted; /* immediates */
	uint32_t imms;            /* immediates budgeted for it and not yet returned */
	uint64_t deadline_ns;     /* of the call: what the server is told */
	uint64_t orphan_ns;       /* since when */
	struct te_region *region; /* where dest is, for a read of ours */
	struct kvc_pull *pull;    /* a read of ours is under way */
	struct kvc_stamps at;
	struct kvc_trace *trace;  /* of the call that holds it; NULL: nobody wants to know */
	struct wire_request wire; /* pointers are the caller's, who holds the request until it is sent */
	struct kvc_target inline_to;
	struct kvc_piece piece;       /* of the receive buffer; given back with the request */
	struct kvc_room_share *share; /* admission.c: who is charged with what it has */
	uint64_t charged_bytes;
	union {
		struct {
			uint64_t value_len, generation, checksum;
		} get;
		struct {
			uint64_t stage, generation;
		} put;
		struct {
			uint32_t count;
			uint8_t bitmap[WIRE_EXISTS_MAX / 8];
		} exists;
		struct {
			uint64_t left_ms;
		} touch;
		struct {
			uint64_t turns;
		} ping;
		struct kvc_stats *stat; /* the caller's, set before the request is submitted */
	} reply;
};

/* ---- entries ---- */

struct kvc_reqs {
	struct kvc_req *entry;
	uint32_t count, used;
	struct kv_list free;
	uint64_t stray_immediates;
};

/* kvc_reqs_init -- count entries, at most 65536. 0, -KV_EINVAL or -KV_ENOMEM. */
int kvc_reqs_init(struct kvc_reqs *t, uint32_t count);
void kvc_reqs_fini(struct kvc_reqs *t);

/* kvc_reqs_take -- an entry in state HELD with a generation of its own, or NULL: all are taken. */
struct kvc_req *kvc_reqs_take(struct kvc_reqs *t);

/* kvc_reqs_give -- back to the free list. The caller has taken care of piece, budget, lists and ids. */
void kvc_reqs_give(struct kvc_reqs *t, struct kvc_req *r);

/* kvc_req_imm -- the immediate that writes of this request carry. */
static inline uint32_t kvc_req_imm(const struct kvc_req *r)
{
	return wire_imm(r->generation, (uint16_t)r->index);
}

/* kvc_reqs_immediate -- count an arrived immediate. Returns its request, or NULL when it belongs to none (counted as
 * stray). */
struct kvc_req *kvc_reqs_immediate(struct kvc_reqs *t, uint32_t imm);

/* kvc_req_quiet -- whether no byte of it can move any more: its number of writes is final, all of them have arrived,
 * and no read of ours is under way. */
static inline bool kvc_req_quiet(const struct kvc_req *r)
{
	return r->final && r->arrived >= r->posted && !r->pull;
}

/* kvc_req_unsafe -- whether the peer may still move bytes of a request that is out. */
static inline bool kvc_req_unsafe(const struct kvc_req *r)
{
	return r->state == KVC_REQ_SENT && r->wire.dest.count > 0 && !kvc_req_quiet(r);
}

/* ---- the map of one link: id -> request ---- */

struct kvc_map {
	struct kvc_map_entry {
		uint64_t id;
		struct kvc_req *req;
	} *entry;
	uint32_t mask, shift, used;
};

/* kvc_map_init -- for at most `max` ids at a time. 0 or -KV_ENOMEM. */
int kvc_map_init(struct kvc_map *m, uint32_t max);
void kvc_map_fini(struct kvc_map *m);
void kvc_map_put(struct kvc_map *m, uint64_t id, struct kvc_req *r); /* id is not 0 and not there; there is room */
struct kvc_req *kvc_map_get(const struct kvc_map *m, uint64_t id);
bool kvc_map_del(struct kvc_map *m, uint64_t id);

#endif
