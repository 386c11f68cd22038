/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a request that outlives the frame it came in, because bytes move for it. */
#ifndef KVRAIL_KVSERVER_OPS_REQUEST_H
#define KVRAIL_KVSERVER_OPS_REQUEST_H

#include "kvserver/shard/session.h"

struct bench;
struct put_wait;
struct shard;
struct stage;

/* A transfer of one request: full slices and the part of a slice that is left are one each. */
struct move {
	struct te_xfer xfer;
	uint32_t chunks; /* data writes that it will make */
	bool posting;    /* more may be posted */
	bool running;    /* done has not run */
	int status;      /* of done */
};

enum { PUT_WAIT_BYTES = KV_INLINE_MAX + 768 }; /* struct put_wait fits */

enum { REQUEST_MOVES = 2, REQUEST_SLICES_MAX = 65536 };

struct request {
	struct kv_list node; /* of the session */
	struct session *session;
	struct owner *owner;
	struct link *link;
	uint8_t type;  /* 0: a pack (pack.h) */
	bool answered; /* its reply was given out */
	bool canceled;
	uint64_t id, deadline_ns;
	uint64_t cancel_id; /* of a CANCEL to be answered with it; only if has_cancel */
	bool has_cancel;
	uint64_t begun_ns;   /* the turn that its frame arrived in */
	uint64_t posted_ns;  /* when its last data operation was posted; 0: that was or is the moment of the answer */
	struct block *block; /* one reference is ours; NULL: none */
	struct region_use *use; /* likewise */
	unsigned moves;
	struct move move[REQUEST_MOVES];
	bool follows; /* its write has no immediate: the reply goes behind it */
	struct wire_reply reply;
	/* posted: every move's posting is final. done: no move is in flight; called last, frees what is the type's. */
	void (*posted)(struct request *r);
	void (*done)(struct request *r);
	void (*progress)(struct request *r);
	union {
		struct {
			struct kv_list hashing; /* of the shard, while the range's checksum is being made */
			const uint8_t *from;
			uint64_t left, length, offset;
			struct kv_hasher *hasher; /* NULL: no checksum is being made */
			bool checking;            /* it is of the whole value, which is served afterwards: */
			bool of_range;
			bool pull; /* the client would rather read the bytes itself */
			uint32_t imm;
			struct wire_dest dest;
		} get;
		struct {
			struct stage *stage;   /* NULL: it is gone, and `failed` says why */
			struct put_wait *wait; /* memory is being cleared for it; NULL: no */
			uint64_t offset, length;
			uint8_t flags;
			int32_t failed;
		} put;
		struct bench *bench;
		uint32_t pack; /* which buffer of the shard */
	};
};

/* request_new -- a request of this link, in the session's list; NULL when the shard has no more. request_free --
 * nothing of it is in flight. */
struct request *request_new(struct link *l, const struct wire_request *q, uint64_t now_ns);
void request_free(struct request *r);

/* request_move -- start moving `length` bytes between the region's slices (from their first byte on) and the request's
 * block at block_offset. Returns 0: callbacks will come (`posted` too, though perhaps at once: see request_posting).
 * -KV_EINVAL, -KV_EPEERDOWN: nothing was started, no callback comes. When only the second of two transfers cannot
 * start, the first is cancelled and `done` comes with that status in move[1]. */
int request_move(struct request *r, enum te_dir dir, const struct wire_dest *dest, uint64_t block_offset,
		 uint64_t length, const uint32_t *imm);

/* request_push -- write `length` bytes of the block at `offset` to the destination now, without an immediate; the
 * reply is to be given out at once. -KV_EBUSY: not possible now, nothing was started. */
int request_push(struct request *r, const struct wire_dest *dest, uint64_t block_offset, uint64_t length, uint32_t imm);

/* request_push_move -- post the ordered write that move[0] describes. 0 or -KV_EBUSY: nothing was started. */
int request_push_move(struct request *r);

static inline bool request_posting(const struct request *r)
{
	return r->move[0].posting || r->move[1].posting;
}

/* request_posted_now -- the last data operation of a request that is not answered at once has been posted. */
void request_posted_now(struct request *r);

bool request_running(const struct request *r); /* something of it is in flight */

/* request_block -- the i-th block that it keeps, or NULL in *out for none at this place. False: there is no i-th place.
 */
bool request_block(const struct request *r, unsigned i, struct block **out);

uint32_t request_chunks(const struct request *r); /* writes wanted */
uint32_t request_posted(const struct request *r); /* writes made; final unless request_posting */
uint64_t request_contiguous(const struct request *r);
int request_status(const struct request *r); /* of all moves: 0 or the first failure; when none is running */

/* request_stop -- post nothing more: request_posted is final afterwards, `posted` does not run any more, `done` comes
 * unless nothing ran. */
void request_stop(struct request *r);

/* request_answer -- give out r->reply with this status, and the reply of a CANCEL that waited for it. Once. */
void request_answer(struct request *r, int32_t status);

/* ---- one entry per type: answers at once or begins a request ---- */

void get_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
/* get_move -- write `length` bytes of a block, which is there, to where the request wants them, and answer. */
void get_move(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	      const struct wire_reply *reply, uint64_t now_ns);
void put_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
/* put_turn -- go on clearing memory for values that wait for it, a bounded number of blocks. put_wait_end -- a request
 * that waits goes: give up the memory. */
void put_turn(struct shard *s);
void put_wait_end(struct put_wait *w);
void exists_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void delete_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void touch_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void pin_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void stat_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void cancel_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void ping_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);
void bench_begin(struct link *l, const struct wire_request *q, uint64_t now_ns);

/* ---- what a CANCEL does to each type; returns the writes made, final ---- */

uint32_t get_cancel(struct request *r);
bool put_cancel(struct request *r); /* false: answered when nothing is in flight any more */
uint32_t bench_cancel(struct request *r);
void bench_stop(struct request *r);
void bench_turn(struct shard *s); /* start the writes that are due, in bursts: once a turn */
bool bench_running(const struct request *r);
bool bench_block(const struct request *r, unsigned i, struct block **out);
void bench_free(struct request *r);

/* get_hash -- go on with a range's checksum, at most budget bytes; lowers it. */
void get_hash(struct request *r, uint64_t *budget);

#endif
