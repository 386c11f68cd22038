/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a client's requests: states, table entries, and the map from ids. Private to kvclient/. */
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

/* Transitions: request.c. */
enum kvc_req_state {
	KVC_REQ_FREE,
	KVC_REQ_HELD,
	KVC_REQ_QUEUED,   /* waits for a credit; no id yet */
	KVC_REQ_SENT,     /* has an id; bytes may move */
	KVC_REQ_GIVEN_UP, /* the same; its call gave up, a CANCEL is due, out or answered */
	KVC_REQ_ORPHAN,   /* the same; its call has left */
	KVC_REQ_LATE,     /* memory safe, call gone; a message may still name it */
	KVC_REQ_DONE,     /* memory safe, `status` final, its call has it */
	KVC_REQ_LIMBO,    /* sent over an endpoint given up and not closed: bytes may move until it is */
	KVC_REQ_STATES
};

/* The answer so far; each includes those before it. */
enum kvc_req_said {
	KVC_SAID_NOTHING,
	KVC_SAID_WRITES, /* the number of writes (`mem.posted`), by the answer to a CANCEL */
	KVC_SAID_REPLY   /* or none will come */
};

/* A coroutine waiting for requests, and the number not done. */
struct kvc_wait {
	struct co *co;
	uint32_t left;
	struct kvc_trace *trace; /* of the call, or NULL */
};

/* A request's times on the loop's clock, in order; 0: not happened. */
struct kvc_stamps {
	uint64_t asked_ns; /* waits for connection and room */
	uint64_t made_ns;  /* has room, waits for a credit */
	uint64_t sent_ns;
	uint64_t replied_ns;
	uint64_t given_up_ns;                         /* cancelled while out */
	uint64_t done_ns;                             /* last data write, or the call gave up */
	uint32_t server_posted_ns, server_replied_ns; /* by the server; see wire.h */
	uint16_t server, shard, link;
	uint8_t type; /* enum wire_type */
	uint8_t key_len;
	uint64_t bytes; /* asked for, or sent */
};

struct kvc_stats {
	uint64_t value[WIRE_STAT_END];
};

struct kvc_req {
	struct kv_list node; /* free list; queue of a link or lane; link's sent; client's limbo */
	uint32_t index;      /* also the slot of its immediates */
	uint16_t generation;
	uint8_t state; /* enum kvc_req_state; changed by kvc_req_advance alone */
	uint8_t said;  /* enum kvc_req_said */

	/* For its link. */
	struct kvc_link *link;          /* NULL: not submitted, or no id in the link's map */
	struct kvc_session_at *session; /* until the reply; NULL: the connection's own */
	uint64_t id, cancel_id;         /* 0: not in the map */
	struct kv_list cancel_node;     /* link's list of cancels to send */
	uint64_t deadline_ns;
	struct wire_request wire; /* its pointers are the call's */

	/* Memory a peer, or a read of ours, may still touch. */
	struct {
		struct kvc_piece piece;
		struct te_region *region; /* of dest (our read) or source (our write) */
		struct kvc_pull *pull;    /* our read under way */
		struct kvc_push *push;    /* our write under way, from `region` at `source` */
		uint64_t source;
		struct kvc_piece landing; /* of the landing area, until the answer */
		bool small;               /* a PUT whose value at `place` goes into a pack */
		struct kvc_pack *pack;    /* that pack, until the answer */
		uint32_t arrived, posted; /* immediates; posted: final from KVC_SAID_WRITES on */
		bool callers;             /* dest is the caller's once its call returns */
	} mem;

	/* Charged by admission (request/admission.c). */
	struct {
		struct kvc_room_share *share;
		uint64_t bytes; /* of the piece */
		uint32_t imms;  /* not returned */
		bool background;
	} room;
	bool behind; /* background and not passed often enough: others go first */

	struct {
		struct kv_list node; /* client's orphans, oldest first */
		uint64_t since_ns;
	} orphan;

	struct kvc_wait *wait;   /* notified when done; then NULL */
	struct kvc_trace *trace; /* NULL: not traced */
	struct kvc_stamps at;
	struct kvc_target place; /* the caller's: target of a reply's bytes, or source of a pack's */
	int status;
	union {
		struct {
			uint64_t value_len, generation, checksum;
			bool inlined; /* the bytes came in the reply and are in `place` */
			bool hot;     /* the server reports many readers */
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
		struct kvc_stats *stat;  /* the caller's, set before submitting */
		struct kvc_tombs *tombs; /* likewise */
	} reply;
};

/* Deleted keys of a shard. */
struct kvc_tombs {
	uint64_t next;     /* 0: no more follow */
	uint64_t since_ns; /* the shard remembers all later ones */
	unsigned count;
	struct kvc_tomb tomb[WIRE_TOMBS_MAX];
};

/* Bits of the states that may follow each. */
extern const uint16_t kvc_req_next[KVC_REQ_STATES];

static inline void kvc_req_advance(struct kvc_req *r, enum kvc_req_state to)
{
	assert(kvc_req_next[r->state] >> to & 1);
	r->state = (uint8_t)to;
}

/* kvc_req_out -- whether the server may act on it. */
static inline bool kvc_req_out(const struct kvc_req *r)
{
	return r->state >= KVC_REQ_SENT && r->state <= KVC_REQ_ORPHAN;
}

/* kvc_req_orphaned -- whether its call has left; it is freed when nothing can arrive for it. */
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

/* kvc_reqs_init -- at most 65,536 entries. 0, -KV_EINVAL or -KV_ENOMEM. */
int kvc_reqs_init(struct kvc_reqs *t, uint32_t count);
void kvc_reqs_fini(struct kvc_reqs *t);

/* kvc_reqs_take -- a HELD entry with a new generation; NULL: none free. */
struct kvc_req *kvc_reqs_take(struct kvc_reqs *t);

/* kvc_reqs_give -- free it. The caller has released piece, room, lists and ids. */
void kvc_reqs_give(struct kvc_reqs *t, struct kvc_req *r);

static inline uint32_t kvc_req_imm(const struct kvc_req *r)
{
	return wire_imm(r->generation, (uint16_t)r->index);
}

/* kvc_req_asked -- the most bytes a GET's answer may bring; without a length, the capacity of its destination. */
static inline uint64_t kvc_req_asked(const struct kvc_req *r)
{
	return r->wire.get.length ? r->wire.get.length : r->wire.dest.slice * r->wire.dest.count;
}

/* kvc_reqs_immediate -- count an immediate. Returns its request; NULL: a stray. */
struct kvc_req *kvc_reqs_immediate(struct kvc_reqs *t, uint32_t imm);

/* kvc_req_lands -- a PUT we write to the server's landing area. */
static inline bool kvc_req_lands(const struct kvc_req *r)
{
	return r->wire.type == WIRE_PUT && r->wire.flags & WIRE_PUT_LANDED;
}

/* kvc_req_quiet -- no byte can move any more. */
static inline bool kvc_req_quiet(const struct kvc_req *r)
{
	return r->said != KVC_SAID_NOTHING && r->mem.arrived >= r->mem.posted && !r->mem.pull && !r->mem.push;
}

/* kvc_req_unsafe -- whether the peer may still move bytes of it. */
static inline bool kvc_req_unsafe(const struct kvc_req *r)
{
	if (kvc_req_lands(r))
		return r->mem.push != NULL; /* no peer reads our memory */
	return kvc_req_out(r) && r->wire.dest.count > 0 && !kvc_req_quiet(r);
}

/* ---- the map of a link: id -> request ---- */

struct kvc_map {
	struct kvc_map_entry {
		uint64_t id;
		struct kvc_req *req;
	} *entry;
	uint32_t mask, shift, used;
};

/* kvc_map_init -- for at most `max` ids. 0 or -KV_ENOMEM. */
int kvc_map_init(struct kvc_map *m, uint32_t max);
void kvc_map_fini(struct kvc_map *m);
void kvc_map_put(struct kvc_map *m, uint64_t id, struct kvc_req *r); /* id: nonzero and new; there is room */
struct kvc_req *kvc_map_get(const struct kvc_map *m, uint64_t id);
bool kvc_map_del(struct kvc_map *m, uint64_t id);

#endif
