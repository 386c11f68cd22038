/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h -- struct kvc_queue: calls that a program submits, and reaps when they are over. Private to kvclient/.
 *
 *   queue -> entries, one for each id -> parts, one for each client that works on it
 *   queue -> lanes, one for each client: parts that its loop has, and coroutines that make them
 *
 * Threads that submit, the thread that reaps and the loops meet in atomics alone; queue.c says how. */
#ifndef KVRAIL_KVCLIENT_QUEUE_QUEUE_H
#define KVRAIL_KVCLIENT_QUEUE_QUEUE_H

#include <stdatomic.h>

#include "kvclient/core/client.h"
#include "kvclient/queue/bell.h"

enum {
	KVC_QUEUE_DEPTH = 1024,     /* the default */
	KVC_QUEUE_DEPTH_BITS = 16,  /* of an id, for the index of its entry */
	KVC_QUEUE_COROUTINES = 128, /* of one lane: parts that a client makes at a time */
	KVC_REAP_STEPS = 512,       /* parts and entries that one call of kvc_reap looks at, besides those it returns */
};

struct kvc_queue;
struct kvc_queue_entry;

/* What becomes of a part. In `state`, with the id of the entry's present use above it, so that nobody takes a part for
 * that of an earlier or later use. */
enum kvc_part_state {
	KVC_PART_OVER,      /* its items have their results, or there is none */
	KVC_PART_POSTED,    /* nothing was begun: whoever changes the state gives it its results */
	KVC_PART_STARTED,   /* a coroutine of its loop makes it */
	KVC_PART_TAKEN_BACK /* it was given up before its loop came to it, and the loop still has its address */
};

struct kvc_queue_part {
	_Atomic uint64_t state;
	_Atomic uint64_t deadline_ns;
	_Atomic uint32_t lane;
	struct kvc_queue_entry *entry;
	struct kvc_item *items;
	unsigned n;
	/* The loop's alone. */
	struct kv_list node; /* in its lane, while it waits for a coroutine */
	bool stop;
	_Atomic uint64_t stop_id; /* of the latest use that was to be stopped */
};

struct kvc_queue_entry {
	struct kvc_queue *queue;
	struct kvc_queue_entry *next; /* among those that are over */
	_Atomic uint32_t next_free;   /* index + 1 */
	uint32_t index;
	/* Of the present use. */
	uint64_t id, tag;
	enum kvc_op op;
	struct kvc_item *items;
	unsigned n;
	struct kvc_call call;
	uint32_t parts; /* that were made of it */
	_Atomic uint32_t parts_left;
	_Atomic uint32_t refs; /* one of the completion, and one of each part whose address a loop has */
	struct kvc_queue_part *part;
};

/* Parts for one client. Its loop's alone. */
struct kvc_queue_lane {
	_Alignas(KV_LINES) struct kvc_queue *queue;
	struct kvc_client *client;
	struct kv_list waiting, behind;          /* behind: those of calls in the background */
	unsigned coroutines, background, passed; /* background: parts of such calls that are being made */
	uint32_t untold;                         /* ids that are over and that the bell is still to be rung for */
};

struct kvc_queue {
	unsigned born;         /* kvc_forks when it was opened */
	struct kvc_pool *pool; /* NULL: it is closed and gone */
	const struct kv_clock *clock;
	struct kv_list node; /* of the pool, under its lock */
	uint32_t depth, parts_max, lanes;
	struct kvc_queue_entry *entry;
	struct kvc_queue_part *part;
	struct kvc_queue_lane *lane;
	_Atomic uint32_t *load; /* of each lane: items that were submitted and not reaped. No loop touches it */
	struct kvc_bell bell;
	_Alignas(KV_LINES) _Atomic uint64_t free; /* entries: index + 1 of the first, and above it a count of changes */
	_Atomic uint32_t background;              /* entries of calls in the background */
	_Alignas(KV_LINES) _Atomic(struct kvc_queue_entry *) done; /* entries that are over, last one first */
	_Alignas(KV_LINES) _Atomic uint32_t callers;               /* threads that submit or cancel */
	_Atomic bool stopped;                                      /* none may any more */
	_Atomic uint32_t under_way;                                /* entries without a completion; a futex */
	_Atomic uint32_t refs; /* one of the handle, and one of each entry in use, coroutine and order to stop */
	/* The thread that reaps has these. */
	_Alignas(KV_LINES) _Atomic bool reaping;
	struct kvc_queue_entry *ready; /* in the order of their ends */
	struct kvc_queue_entry *turning,
		*turned;  /* on their way there: last one first, and those of them turned round */
	bool looking;     /* for parts whose deadline is over: ... */
	uint32_t looked;  /* ... so many were looked at */
	uint64_t next_ns; /* the earliest deadline of those that is still to come */
};

static inline uint64_t kvc_part_word(uint64_t id, enum kvc_part_state state)
{
	return id << 2 | (uint64_t)state;
}

/* kvc_part_turn -- change the state of a part of this id: true if it was `from`, and is the caller's to go on with. Any
 * thread. */
static inline bool kvc_part_turn(struct kvc_queue_part *p, uint64_t id, enum kvc_part_state from,
				 enum kvc_part_state to)
{
	uint64_t word = kvc_part_word(id, from);
	return atomic_compare_exchange_strong(&p->state, &word, kvc_part_word(id, to));
}

/* kvc_queue_enter -- a thread begins to submit or to cancel: 0 or -KV_ECLOSED. The pool is there until
 * kvc_queue_leave. */
int kvc_queue_enter(struct kvc_queue *q);
void kvc_queue_leave(struct kvc_queue *q);

/* kvc_queue_hold, kvc_queue_unhold -- of `refs`. The last one frees the queue. Any thread. */
void kvc_queue_hold(struct kvc_queue *q);
void kvc_queue_unhold(struct kvc_queue *q);

/* kvc_entry_take -- an entry for this call that is free, or NULL. kvc_entry_drop -- one that was just taken, unused. */
struct kvc_queue_entry *kvc_entry_take(struct kvc_queue *q, const struct kvc_call *call);
void kvc_entry_drop(struct kvc_queue_entry *e);
/* kvc_entry_unload -- its items are no load of their lanes any more. */
void kvc_entry_unload(const struct kvc_queue_entry *e);
/* kvc_entry_end -- all items of the entry have their results. kvc_entry_unhold -- of its `refs`. */
void kvc_entry_end(struct kvc_queue_entry *e);
void kvc_entry_unhold(struct kvc_queue_entry *e);
/* kvc_entry_next -- the next entry that is over, or NULL: there is none, or the steps do not suffice to find it; *steps
 * is lowered by those that were taken. The thread that reaps. */
struct kvc_queue_entry *kvc_entry_next(struct kvc_queue *q, uint32_t *steps);

/* kvc_part_end -- the items have their results; rc below 0: each gets this one. The caller has it (kvc_part_turn). */
void kvc_part_end(struct kvc_queue_part *p, int rc);
/* kvc_part_end_untold -- the same, but the bell is not rung. True: one more id is over, and kvc_queue_told is to come.
 * kvc_queue_told -- ring for n ids that are over. The caller holds the queue. */
bool kvc_part_end_untold(struct kvc_queue_part *p, int rc);
void kvc_queue_told(struct kvc_queue *q, uint32_t n);

/* kvc_lane_post -- give the part to its loop. 0, or -KV_EBUSY: its queue is full. Any thread.
 * kvc_lane_stop -- tell the loop to stop the part of this id, if it is still under way when the loop comes to it. 0 or
 * -KV_EBUSY. Any thread. */
int kvc_lane_post(struct kvc_queue_part *p);
int kvc_lane_stop(struct kvc_queue_part *p, uint64_t id);

/* kvc_entry_cancel -- give up what was not begun of this id, and stop the rest. 0; -KV_ENOTFOUND: it is over;
 * -KV_EBUSY: a loop could not be told. Between kvc_queue_enter and kvc_queue_leave, or on closing. */
int kvc_entry_cancel(struct kvc_queue_entry *e, uint64_t id);

/* kvc_queues_stop -- the pool begins to close: nothing more is submitted, and what was is given to the loops before
 * they are told. kvc_queues_leave -- the pool is gone. */
void kvc_queues_stop(struct kvc_pool *p);
void kvc_queues_leave(struct kvc_pool *p);

#endif
