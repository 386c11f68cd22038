/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a request that outlives its frame, because bytes move for it. */
#ifndef KVRAIL_KVSERVER_SHARD_REQUEST_H
#define KVRAIL_KVSERVER_SHARD_REQUEST_H

#include "kvserver/shard/attachment.h"

struct put_wait;
struct request;
struct stage;

/* An operation's functions for its requests: a const table per operation, or per part of its life. */
struct request_ops {
	/* done: nothing moves, and the request is unanswered; called last. (An answered request is freed then.) Not
	 * NULL where unanswered requests use moves. */
	void (*done)(struct request *r);
	/* These may be NULL. posted: every move has posted all that it will. progress: bytes of a read have arrived.
	 * stop: the operation ends its other work and waits. free: the request is freed, with the operation's data. */
	void (*posted)(struct request *r);
	void (*progress)(struct request *r);
	void (*stop)(struct request *r);
	void (*free)(struct request *r);
	/* cancel: stop the unanswered request, and answer CANCELED now, or as soon as the client's memory is no longer
	 * read. May free the request. */
	void (*cancel)(struct request *r);
	/* For an operation that moves bytes without the request's moves; else NULL. They answer request_running and
	 * request_block. */
	bool (*running)(const struct request *r);
	bool (*block)(const struct request *r, unsigned i, struct block **out);
};

/* A move is over (its `done` has run), or the engine has posted all of it, or may post more. */
enum move_state { MOVE_OVER, MOVE_POSTED, MOVE_POSTING };

/* A transfer of one request: the full slices, or the shorter last one. */
struct move {
	struct te_xfer xfer;
	uint32_t chunks;
	enum move_state state;
	int status; /* of done */
};

enum { REQUEST_MOVES = 2, REQUEST_SLICES_MAX = 65536 };

/* Drawn in request.c. */
enum request_state {
	REQUEST_OPEN,     /* working or waiting */
	REQUEST_STOPPED,  /* begins no more moves; answered when nothing moves */
	REQUEST_ANSWERED, /* its reply was sent; freed when nothing moves */
	REQUEST_FREE
};

/* A GET (drawn in get.c). */
enum get_state {
	GET_BEGUN,    /* no checksum, no move */
	GET_CHECKING, /* checking the whole value, because a client found it corrupt; nothing moves */
	GET_SUMMING,  /* summing the range before the client may read it by itself; nothing moves */
	GET_WRITING   /* writing; the range may be summed at the same time */
};

/* A PUT (drawn in put.c). */
enum put_state {
	PUT_WAITING, /* memory is being cleared for its value */
	PUT_MOVING,  /* a range of a stage, whose bytes arrive */
	PUT_LAST,    /* the range that ends the value has arrived, and waits for the others */
	PUT_LOST     /* its stage has ended; answered when nothing moves */
};

struct request {
	struct kv_list node; /* of the attachment */
	struct shard_attachment *attachment;
	struct session *session;
	struct link *link;
	const struct request_ops *ops;
	uint8_t type;    /* 0: request_disown */
	uint8_t state;   /* enum request_state; changed by request.c only */
	bool has_cancel; /* a CANCEL is answered with it. Independent of the state: an ending session stops it as well
			  */
	bool follows;    /* its write has no immediate: the reply follows it */
	uint64_t id, deadline_ns;
	uint64_t cancel_id;     /* of that CANCEL */
	uint64_t begun_ns;      /* the turn of its frame's arrival */
	uint64_t posted_ns;     /* when its last data operation was posted; 0: at the answer */
	struct block *block;    /* a reference; NULL: none */
	struct region_use *use; /* a reference; NULL: none */
	struct move move[REQUEST_MOVES];
	struct wire_reply reply;
	union {
		struct {
			struct kv_list hashing;
			const uint8_t *from;
			uint64_t left, length, offset;
			struct kv_hasher *hasher; /* NULL: no checksum is being made */
			uint8_t state;            /* enum get_state */
			bool more;                /* of a value that was counted before */
			bool of_range;            /* requested: the checksum of the range, whatever the state */
			bool pull;                /* requested: to read the bytes itself; tried once, then false */
			bool paid;                /* its tenant has paid for the bytes */
			uint32_t imm;
			struct wire_dest dest;
		} get;
		struct {
			uint8_t state; /* enum put_state */
			bool ends;     /* the range that ends its value, wherever it is */
			int32_t lost;  /* PUT_LOST: the end status of its stage */
			union {
				struct put_wait *wait; /* PUT_WAITING */
				struct stage *stage;   /* PUT_MOVING, PUT_LAST */
			};
		} put;
		uint32_t pack; /* index of the shard's buffer */
		struct {
			struct tier_waiter *waiter; /* ops/tier.c; NULL: it does not wait any longer */
		} tier;
	};
};

/* request_new -- an open request of this link, in the attachment's list; NULL: the shard has no more. */
struct request *request_new(struct link *l, const struct wire_request *q, const struct request_ops *ops,
			    uint64_t now_ns);

/* request_disown -- a new one moves bytes for several requests, is none itself, and gets no reply. */
void request_disown(struct request *r);

/* request_free -- free an answered request with nothing in flight. */
void request_free(struct request *r);

/* request_move -- start moving `length` bytes between the region's slices (from their first byte) and the request's
 * block at block_offset. Returns 0: callbacks will come (`posted` as well, perhaps at once: see request_posting).
 * -KV_EINVAL, -KV_EPEERDOWN: nothing started, no callback. If only the second of two transfers cannot start, the first
 * is cancelled and `done` comes with that status in move[1]. */
int request_move(struct request *r, enum te_dir dir, const struct wire_dest *dest, uint64_t block_offset,
		 uint64_t length, const uint32_t *imm);

/* request_write -- write `length` bytes of the block at `offset` to the destination now, without an immediate; the
 * caller sends the reply at once. -KV_EBUSY: not possible now, nothing started. */
int request_write(struct request *r, const struct wire_dest *dest, uint64_t block_offset, uint64_t length,
		  uint32_t imm);

/* request_write_move -- post the ordered write described by move[0]. 0 or -KV_EBUSY: nothing started. */
int request_write_move(struct request *r);

static inline bool request_posting(const struct request *r)
{
	return r->move[0].state == MOVE_POSTING || r->move[1].state == MOVE_POSTING;
}

/* request_posted_now -- record the time of the last posting of a request answered later. */
static inline void request_posted_now(struct request *r)
{
	r->posted_ns = loop_now(r->attachment->shard->loop);
}

/* request_running -- whether an operation of it is in flight. */
static inline bool request_running(const struct request *r)
{
	return r->ops->running ? r->ops->running(r) : r->move[0].state != MOVE_OVER || r->move[1].state != MOVE_OVER;
}

/* request_block -- its i-th block; NULL in *out: none at this index. False: no such index. */
static inline bool request_block(const struct request *r, unsigned i, struct block **out)
{
	if (r->ops->block)
		return r->ops->block(r, i, out);
	*out = r->block;
	return i == 0;
}

/* request_chunks -- writes wanted. request_posted -- writes made; final unless request_posting. request_status -- of
 * all moves: 0 or the first failure; when none is running. request_contiguous -- arrived bytes from the first on. */
static inline uint32_t request_chunks(const struct request *r)
{
	return r->move[0].chunks + r->move[1].chunks;
}

static inline uint32_t request_posted(const struct request *r)
{
	return r->move[0].xfer.posted + r->move[1].xfer.posted;
}

static inline int request_status(const struct request *r)
{
	return r->move[0].status ? r->move[0].status : r->move[1].status;
}

static inline uint64_t request_contiguous(const struct request *r)
{
	const struct te_xfer *a = &r->move[0].xfer, *b = &r->move[1].xfer;
	return a->contiguous < a->at.slice * a->at.count ? a->contiguous : a->contiguous + b->contiguous;
}

/* request_stop -- post nothing more. Then request_posted is final, `posted` does not run, and `done` comes unless
 * nothing moved. */
void request_stop(struct request *r);

/* request_answer -- send r->reply with this status, and the reply of a waiting CANCEL. Once. request_end -- the same,
 * and free the request, at once or after its last move. */
void request_answer(struct request *r, int32_t status);
void request_end(struct request *r, int32_t status);

#endif
