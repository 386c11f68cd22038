/* SPDX-License-Identifier: Apache-2.0 */
/* request.h -- a request that outlives the frame it came in, because bytes move for it. */
#ifndef KVRAIL_KVSERVER_SHARD_REQUEST_H
#define KVRAIL_KVSERVER_SHARD_REQUEST_H

#include "kvserver/shard/session.h"

struct bench;
struct put_wait;
struct request;
struct stage;

/* What an operation does for its requests: one const table per operation, which request_new is given. */
struct request_ops {
	/* NULL: nothing is done then. posted: every move's posting is final. done: no move is in flight, and it is not
	 * answered; called last. (One that is answered is freed then.) progress: bytes of a read have arrived. stop: it
	 * is to go: give up what it does or waits for beside its moves. free: the request goes, and what is the
	 * operation's with it. */
	void (*posted)(struct request *r);
	void (*done)(struct request *r);
	void (*progress)(struct request *r);
	void (*stop)(struct request *r);
	void (*free)(struct request *r);
	/* cancel: stop it, and answer CANCELED, now or as soon as nothing of it may be read any more. May free it.
	 * Called once, of a request that is not answered. */
	void (*cancel)(struct request *r);
	/* Of an operation that moves bytes by other means than the request's moves; else NULL. running, block: what
	 * request_running, request_block are. */
	bool (*running)(const struct request *r);
	bool (*block)(const struct request *r, unsigned i, struct block **out);
};

/* A transfer of one request: full slices and the part of a slice that is left are one each. */
struct move {
	struct te_xfer xfer;
	uint32_t chunks; /* data writes that it will make */
	bool posting;    /* more may be posted */
	bool running;    /* done has not run */
	int status;      /* of done */
};

enum { REQUEST_MOVES = 2, REQUEST_SLICES_MAX = 65536 };

struct request {
	struct kv_list node; /* of the session */
	struct session *session;
	struct owner *owner;
	struct link *link;
	const struct request_ops *ops;
	uint8_t type;  /* 0: a pack, which is nobody's request */
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
struct request *request_new(struct link *l, const struct wire_request *q, const struct request_ops *ops,
			    uint64_t now_ns);
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
static inline void request_posted_now(struct request *r)
{
	r->posted_ns = loop_now(r->session->shard->loop);
}

/* request_running -- something of it is in flight. */
static inline bool request_running(const struct request *r)
{
	return r->ops->running ? r->ops->running(r) : r->move[0].running || r->move[1].running;
}

/* request_block -- the i-th block that it keeps, or NULL in *out for none at this place. False: there is no i-th place.
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

/* request_stop -- post nothing more: request_posted is final afterwards, `posted` does not run any more, `done` comes
 * unless nothing ran. */
void request_stop(struct request *r);

/* request_answer -- give out r->reply with this status, and the reply of a CANCEL that waited for it. Once. */
void request_answer(struct request *r, int32_t status);

#endif
