/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a client's requests: states, table entries, and the map from ids. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_REQUEST_H
#define KVRAIL_KVCLIENT_CORE_REQUEST_H

#include "base/base.h"
#include "kvclient/core/buffer.h"
#include "kvclient/core/local_server.h"
#include "kvclient/core/target.h"
#include "kvclient/copy.h"
#include "wire/wire.h"

struct co;
struct kc_link;
struct kc_pack;
struct kc_pull;
struct kc_push;
struct te_region;
struct kc_room_share;
struct kc_session_at;
struct kc_trace;

/* Transitions: request.c. */
enum kc_req_state {
	KC_REQ_FREE,
	KC_REQ_HELD,
	KC_REQ_QUEUED,   /* waits for a credit; no id yet */
	KC_REQ_SENT,     /* has an id; bytes may move */
	KC_REQ_GIVEN_UP, /* the same; its call gave up, a CANCEL is due, out or answered */
	KC_REQ_ORPHAN,   /* the same; its call has left */
	KC_REQ_LATE,     /* memory safe, call gone; a message may still name it */
	KC_REQ_DONE,     /* memory safe, `status` final, its call has it */
	KC_REQ_LIMBO,    /* sent over an endpoint given up and not closed: bytes may move until it is */
	KC_REQ_STATES
};

/* The answer so far; each includes those before it. */
enum kc_req_said {
	KC_SAID_NOTHING,
	KC_SAID_WRITES, /* the number of writes (`mem.posted`), by the answer to a CANCEL */
	KC_SAID_REPLY   /* or none will come */
};

/* A coroutine waiting for requests, and the number not done. */
struct kc_wait {
	struct co *co;
	uint32_t left;
	struct kc_trace *trace;
};

/* A request's times on the loop's clock, in order; 0: not happened. */
struct kc_stamps {
	uint64_t asked_ns;
	uint64_t made_ns; /* has room, waits for a credit */
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

struct kc_stats {
	uint64_t value[WIRE_STAT_END];
};

struct kc_req {
	struct kv_list node; /* free list; queue of a link or lane; link's sent; client's limbo */
	uint32_t index;      /* also the slot of its immediates */
	uint16_t generation;
	uint8_t state; /* enum kc_req_state; changed by kc_req_advance alone */
	uint8_t said;  /* enum kc_req_said */

	/* For its link. */
	struct kc_link *link;          /* NULL: not submitted, or no id in the link's map */
	struct kc_session_at *session; /* until the reply; NULL: the connection's own */
	uint64_t id, cancel_id;        /* 0: not in the map */
	struct kv_list cancel_node;    /* link's list of cancels to send */
	uint64_t deadline_ns;
	struct wire_request wire; /* its pointers are the call's */

	/* Memory a peer, or a read of ours, may still touch. */
	struct {
		struct kc_piece piece;
		struct te_region *region; /* of dest (our read) or source (our write) */
		struct kc_pull *pull;     /* our read under way */
		struct kc_push *push;     /* our write under way, from `region` at `source` */
		uint64_t source;
		struct kc_piece landing;  /* of the landing area, until the answer */
		bool filled;              /* a PUT whose value the caller wrote to the landing area */
		bool small;               /* a PUT whose value at `place` goes into a pack */
		struct kc_pack *pack;     /* that pack, until the answer */
		uint32_t arrived, posted; /* immediates; posted: final from KC_SAID_WRITES on */
		bool callers;             /* dest is the caller's once its call returns */
		bool leased;              /* a GET without dest: it asks for a lease */
		uint64_t most;            /* leased: the bytes that its call can take */
		struct kc_lease lease;    /* from the reply, until its call takes or releases it */
	} mem;

	/* Charged by admission (request/admission.c). */
	struct {
		struct kc_room_share *share;
		uint64_t bytes; /* of the piece */
		uint32_t imms;  /* not returned */
		bool background;
	} room;
	bool behind; /* background and not passed often enough: others go first */

	struct {
		struct kv_list node; /* client's orphans, oldest first */
		uint64_t since_ns;
	} orphan;

	struct kc_wait *wait;   /* notified when done; then NULL */
	struct kc_trace *trace; /* NULL: not traced */
	struct kc_stamps at;
	struct kc_target place; /* the caller's: target of a reply's bytes, or source of a pack's */
	int status;
	union {
		struct {
			uint64_t value_len, generation, checksum;
			bool inlined;
			bool hot;     /* the server reports many readers */
			bool on_tier; /* a miss: the server has the value on its tier */
		} get;
		struct {
			uint64_t stage, generation;
		} put;
		struct {
			uint32_t count;
			uint8_t bitmap[WIRE_EXISTS_BITMAP], deleted[WIRE_EXISTS_BITMAP], tier[WIRE_EXISTS_BITMAP];
		} exists;
		struct {
			uint64_t left_ms, age_ns, checksum;
		} touch;
		struct {
			uint64_t turns;
		} ping;
		struct {
			uint64_t generation;
		} clear;
		struct kc_stats *stat;  /* the caller's, set before submitting */
		struct kc_tombs *tombs; /* likewise */
		struct kc_rows *rows;   /* likewise */
	} reply;
};

/* Bits of the states that may follow each. */
extern const uint16_t kc_req_next[KC_REQ_STATES];

static inline void kc_req_advance(struct kc_req *r, enum kc_req_state to)
{
	KV_ASSERT_HOT(kc_req_next[r->state] >> to & 1);
	r->state = (uint8_t)to;
}

/* kc_req_out -- whether the server may act on it. */
static inline bool kc_req_out(const struct kc_req *r)
{
	return r->state >= KC_REQ_SENT && r->state <= KC_REQ_ORPHAN;
}

/* kc_req_orphaned -- whether its call has left; it is freed when nothing can arrive for it. */
static inline bool kc_req_orphaned(const struct kc_req *r)
{
	return r->state == KC_REQ_ORPHAN || r->state == KC_REQ_LATE;
}

/* ---- entries ---- */

struct kc_reqs {
	struct kc_req *entry;
	uint32_t count, used;
	struct kv_list free;
	uint64_t stray_immediates;
};

/* kc_reqs_init -- at most 65,536 entries. 0, -KV_EINVAL or -KV_ENOMEM. */
int kc_reqs_init(struct kc_reqs *t, uint32_t count);
void kc_reqs_fini(struct kc_reqs *t);

/* kc_reqs_take -- a HELD entry with a new generation; NULL: none free. */
struct kc_req *kc_reqs_take(struct kc_reqs *t);

/* kc_reqs_give -- free it. The caller has released piece, room, lists and ids. */
void kc_reqs_give(struct kc_reqs *t, struct kc_req *r);

static inline uint32_t kc_req_imm(const struct kc_req *r)
{
	return wire_imm(r->generation, (uint16_t)r->index);
}

/* kc_req_asked -- the most bytes a GET's answer may bring; without a length, the capacity of its destination. */
static inline uint64_t kc_req_asked(const struct kc_req *r)
{
	if (r->mem.leased && r->wire.get.length == 0)
		return r->mem.most;
	return r->wire.get.length ? r->wire.get.length : r->wire.dest.slice * r->wire.dest.count;
}

/* kc_reqs_immediate -- count an immediate. Returns its request; NULL: a stray. */
struct kc_req *kc_reqs_immediate(struct kc_reqs *t, uint32_t imm);

/* kc_req_lands -- a PUT we write to the server's landing area. */
static inline bool kc_req_lands(const struct kc_req *r)
{
	return r->wire.type == WIRE_PUT && r->wire.flags & WIRE_PUT_LANDED;
}

/* kc_req_quiet -- no byte can move any more. */
static inline bool kc_req_quiet(const struct kc_req *r)
{
	return r->said != KC_SAID_NOTHING && r->mem.arrived >= r->mem.posted && !r->mem.pull && !r->mem.push;
}

/* kc_req_unsafe -- whether the peer may still move bytes of it. */
static inline bool kc_req_unsafe(const struct kc_req *r)
{
	if (kc_req_lands(r))
		return r->mem.push != NULL; /* no peer reads our memory */
	return kc_req_out(r) && r->wire.dest.count > 0 && !kc_req_quiet(r);
}

/* ---- the map of a link: id -> request ---- */

struct kc_map {
	struct kc_map_entry {
		uint64_t id;
		struct kc_req *req;
	} *entry;
	uint32_t mask, shift, used;
};

/* kc_map_init -- for at most `max` ids. 0 or -KV_ENOMEM. */
int kc_map_init(struct kc_map *m, uint32_t max);
void kc_map_fini(struct kc_map *m);
void kc_map_put(struct kc_map *m, uint64_t id, struct kc_req *r); /* id: nonzero and new; there is room */
struct kc_req *kc_map_get(const struct kc_map *m, uint64_t id);
bool kc_map_del(struct kc_map *m, uint64_t id);

#endif
