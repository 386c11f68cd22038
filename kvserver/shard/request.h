/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a request that outlives the frame it came in, because bytes move for it. */
#ifndef KVRAIL_KVSERVER_SHARD_REQUEST_H
#define KVRAIL_KVSERVER_SHARD_REQUEST_H

#include "kvserver/shard/session.h"

struct bench;
struct put_wait;
struct request;
struct stage;

/* What an operation does for its requests: a const table per operation, or per part of its life. */
struct request_ops {
	/* done: nothing moves, and the request is not answered; called last. (An answered request is freed then.) Not
	 * NULL where moves of a request that is not answered are used. */
	void (*done)(struct request *r);
	/* Any of these may be NULL: then nothing is done. posted: every move has posted all that it will. progress:
	 * bytes of a read have arrived. stop: the operation gives up what it does or waits for beside its moves. free:
	 * the request goes, and with it what is the operation's. */
	void (*posted)(struct request *r);
	void (*progress)(struct request *r);
	void (*stop)(struct request *r);
	void (*free)(struct request *r);
	/* cancel: stop the request, and answer CANCELED: now, or as soon as the client's memory is not read any more.
	 * May free the request. Called of a request that is not answered. */
	void (*cancel)(struct request *r);
	/* For an operation that moves bytes by other means than the request's moves; else NULL. They answer for
	 * request_running and request_block. */
	bool (*running)(const struct request *r);
	bool (*block)(const struct request *r, unsigned i, struct block **out);
};

/* A move is over (its `done` has run), or the engine has posted all of it, or may post more. */
enum move_state { MOVE_OVER, MOVE_POSTED, MOVE_POSTING };

/* A transfer of one request: full slices and the part of a slice that is left are one each. */
struct move {
	struct te_xfer xfer;
	uint32_t chunks; /* data writes that it will make */
	enum move_state state;
	int status; /* of done */
};

enum { REQUEST_MOVES = 2, REQUEST_SLICES_MAX = 65536 };

/* request.c draws how they follow each other. */
enum request_state {
	REQUEST_OPEN,     /* it works, or waits for something */
	REQUEST_STOPPED,  /* it begins no more moves; it is answered when nothing of it moves */
	REQUEST_ANSWERED, /* its reply was given out; it is freed when nothing of it moves */
	REQUEST_FREE
};

/* A GET (get.c draws it). */
enum get_state {
	GET_BEGUN,    /* nothing is summed up, nothing moves */
	GET_CHECKING, /* the whole value is summed up, because a client found it corrupt; nothing moves */
	GET_SUMMING,  /* the range is summed up before the client may read it by itself; nothing moves */
	GET_WRITING   /* its writes are on their way, and the range may be summed up beside them */
};

/* A PUT (put.c draws it). */
enum put_state {
	PUT_WAITING, /* memory is being cleared for its value */
	PUT_MOVING,  /* a range of a stage, whose bytes come */
	PUT_LAST,    /* the range that ends the value is there, and waits for the others */
	PUT_LOST     /* its stage has ended; it is answered when nothing of it moves */
};

struct request {
	struct kv_list node; /* of the session */
	struct session *session;
	struct owner *owner;
	struct link *link;
	const struct request_ops *ops;
	uint8_t type;    /* 0: request_disown */
	uint8_t state;   /* enum request_state; changed by request.c only */
	bool has_cancel; /* a CANCEL is answered with it. Apart from the state: an owner that ends stops it, too */
	bool follows;    /* its write has no immediate: the reply goes behind it. A fact about its write alone */
	uint64_t id, deadline_ns;
	uint64_t cancel_id;  /* of that CANCEL */
	uint64_t begun_ns;   /* the turn that its frame arrived in */
	uint64_t posted_ns;  /* when its last data operation was posted; 0: that was or is the moment of the answer */
	struct block *block; /* one reference is ours; NULL: none */
	struct region_use *use; /* likewise */
	struct move move[REQUEST_MOVES];
	struct wire_reply reply;
	union {
		struct {
			struct kv_list hashing; /* of the shard, while a checksum is being made */
			const uint8_t *from;
			uint64_t left, length, offset;
			struct kv_hasher *hasher; /* NULL: no checksum is being made */
			uint8_t state;            /* enum get_state */
			bool of_range;            /* asked for: the checksum of the range, whatever the state */
			bool pull;                /* asked for: to read the bytes itself; tried once, then false */
			uint32_t imm;
			struct wire_dest dest;
		} get;
		struct {
			uint8_t state; /* enum put_state */
			bool ends;     /* it is the range that ends its value, wherever it is */
			int32_t lost;  /* PUT_LOST: what its stage has ended with */
			union {
				struct put_wait *wait; /* PUT_WAITING */
				struct stage *stage;   /* PUT_MOVING, PUT_LAST */
			};
		} put;
		struct bench *bench;
		uint32_t pack; /* which buffer of the shard */
	};
};

/* request_new -- an open request of this link, in the session's list; NULL when the shard has no more. */
struct request *request_new(struct link *l, const struct wire_request *q, const struct request_ops *ops,
			    uint64_t now_ns);

/* request_disown -- of a new one: it moves bytes for several requests, is none itself, and gets no reply. */
void request_disown(struct request *r);

/* request_free -- it is answered, and nothing of it is in flight. */
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
	return r->move[0].state == MOVE_POSTING || r->move[1].state == MOVE_POSTING;
}

/* request_posted_now -- note the time: the last data operation of a request that is not answered at once has been
 * posted. */
static inline void request_posted_now(struct request *r)
{
	r->posted_ns = loop_now(r->session->shard->loop);
}

/* request_running -- something of it is in flight. */
static inline bool request_running(const struct request *r)
{
	return r->ops->running ? r->ops->running(r) : r->move[0].state != MOVE_OVER || r->move[1].state != MOVE_OVER;
}

/* request_block -- the i-th block that it refers to; NULL in *out: none at this place. False: there is no i-th place.
 */
static inline bool request_block(const struct request *r, unsigned i, struct block **out)
{
	if (r->ops->block)
		return r->ops->block(r, i, out);
	*out = r->block;
	return i == 0;
}

/* request_chunks -- writes wanted. request_posted -- writes made; final unless request_posting. request_status -- of
 * all moves: 0 or the first failure; when none is running. request_contiguous -- bytes from the first on that have
 * arrived. */
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

/* request_stop -- post nothing more. Afterwards request_posted is final, `posted` does not run any more, and `done`
 * comes unless nothing moved. */
void request_stop(struct request *r);

/* request_answer -- give out r->reply with this status, and the reply of a CANCEL that waited for it. Once.
 * request_end -- the same, and free the request if nothing of it is in flight; else that comes with its last move. */
void request_answer(struct request *r, int32_t status);
void request_end(struct request *r, int32_t status);

#endif
