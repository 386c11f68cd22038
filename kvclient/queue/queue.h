/* SPDX-License-Identifier: Apache-2.0 */
/* queue.h -- struct kvc_queue: submitted calls, reaped once they have ended. Private to kvclient/.
 *
 *   queue -> entries, one per id -> parts, one per client that works on it
 *   queue -> lanes, one per client: its loop's parts and coroutines */
#ifndef KVRAIL_KVCLIENT_QUEUE_QUEUE_H
#define KVRAIL_KVCLIENT_QUEUE_QUEUE_H

#include <stdatomic.h>

#include "kvclient/call/parts.h"
#include "kvclient/core/client.h"
#include "kvclient/queue/bell.h"

enum {
	KC_QUEUE_DEPTH = 1024,
	KC_QUEUE_DEPTH_BITS = 16,
	KC_QUEUE_COROUTINES = 128, /* per lane */
	KC_REAP_STEPS = 512,       /* looked at by one kvc_reap, besides the returned ones */
};

struct kvc_queue;
struct kc_queue_entry;

/* In `state` below the id of the entry's use, so that no thread mistakes the use. */
enum kc_part_state {
	KC_PART_OVER,
	KC_PART_POSTED, /* not begun: whoever changes the state gives the results */
	KC_PART_STARTED,
	KC_PART_TAKEN_BACK /* before its loop reached it; the loop has its address */
};

struct kc_queue_part {
	_Atomic uint64_t state;
	_Atomic uint64_t deadline_ns;
	_Atomic uint32_t lane;
	struct kc_queue_entry *entry;
	struct kvc_item *items;
	unsigned n;
	/* The loop's alone. */
	struct kv_list node; /* in its lane */
	bool stop;
	_Atomic uint64_t stop_id; /* latest use to stop */
};

struct kc_queue_entry {
	struct kvc_queue *queue;
	struct kc_queue_entry *next; /* ended */
	_Atomic uint32_t next_free;  /* index + 1 */
	uint32_t index;
	/* Of the present use. */
	uint64_t id, tag;
	enum kvc_op op;
	struct kvc_item *items;
	unsigned n;
	struct kvc_call call;
	uint64_t begun_ns;
	uint32_t parts; /* in use */
	_Atomic uint32_t parts_left;
	_Atomic uint32_t refs; /* the completion, and each part whose address a loop has */
	struct kc_queue_part *part;
};

/* Parts for one client. The loop's alone. */
struct kc_queue_lane {
	_Alignas(KV_LINES) struct kvc_queue *queue;
	struct kvc_client *client;
	struct kv_list waiting, behind;          /* behind: background calls */
	unsigned coroutines, background, passed; /* background: such parts being made */
	uint32_t untold;                         /* ended ids the bell is still to be rung for */
};

struct kvc_queue {
	unsigned born;         /* kc_forks at open */
	struct kvc_pool *pool; /* NULL: closed and gone */
	const struct kv_clock *clock;
	struct kv_list node; /* under the pool's lock */
	uint32_t depth, parts_max, lanes;
	struct kc_queue_entry *entry;
	struct kc_queue_part *part;
	struct kc_queue_lane *lane;
	_Atomic uint32_t *load; /* per lane: items not reaped; loops do not touch it */
	struct kc_bell bell;
	struct kc_parts_told told;                /* with KVC_QUEUE_PARTS it rings the bell */
	_Alignas(KV_LINES) _Atomic uint64_t free; /* index + 1 of the first entry; above it a count of changes */
	_Atomic uint32_t background;
	_Alignas(KV_LINES) _Atomic(struct kc_queue_entry *) done; /* ended entries, last one first */
	_Alignas(KV_LINES) _Atomic uint32_t callers;              /* threads inside submit or cancel */
	_Atomic bool stopped;
	_Atomic uint32_t under_way; /* entries without a completion; a futex */
	_Atomic uint32_t refs;      /* the handle, each entry in use, coroutine and stop order */
	/* The reaping thread's. */
	_Alignas(KV_LINES) _Atomic bool reaping;
	struct kc_queue_entry *ready;            /* in the order they ended */
	struct kc_queue_entry *turning, *turned; /* being reversed: the rest, and the reversed ones */
	bool looking;                            /* for parts past their deadline */
	uint32_t looked;
	uint64_t next_ns; /* earliest future deadline seen */
};

static inline uint64_t kc_part_word(uint64_t id, enum kc_part_state state)
{
	return id << 2 | (uint64_t)state;
}

/* kc_part_turn -- change the state of this id's part. True: it was `from`, and the caller now owns the part. Any
 * thread. */
static inline bool kc_part_turn(struct kc_queue_part *p, uint64_t id, enum kc_part_state from, enum kc_part_state to)
{
	uint64_t word = kc_part_word(id, from);
	return atomic_compare_exchange_strong(&p->state, &word, kc_part_word(id, to));
}

/* kc_queue_enter -- begin to submit or cancel: 0 or -KV_ECLOSED. The pool stays until kc_queue_leave. */
int kc_queue_enter(struct kvc_queue *q);
void kc_queue_leave(struct kvc_queue *q);

/* kc_queue_hold, kc_queue_unhold -- the last unhold frees the queue. Any thread. */
void kc_queue_hold(struct kvc_queue *q);
void kc_queue_unhold(struct kvc_queue *q);

/* kc_entry_take -- a free entry for this call, or NULL. kc_entry_drop -- free an entry without references. */
struct kc_queue_entry *kc_entry_take(struct kvc_queue *q, const struct kvc_call *call);
void kc_entry_drop(struct kc_queue_entry *e);
/* kc_entry_unload -- take its items off the load of their lanes. */
void kc_entry_unload(const struct kc_queue_entry *e);
/* kc_entry_end -- all items have their results. */
void kc_entry_end(struct kc_queue_entry *e);
void kc_entry_unhold(struct kc_queue_entry *e);
/* kc_entry_next -- the next ended entry; NULL: none within *steps, which it lowers. The reaping thread. */
struct kc_queue_entry *kc_entry_next(struct kvc_queue *q, uint32_t *steps);

/* kc_part_end -- the items have their results; rc below 0: set each to it. The caller owns the part (kc_part_turn).
 */
void kc_part_end(struct kc_queue_part *p, int rc);
/* kc_part_end_untold -- the same without ringing. True: the id has ended, and the caller owes kc_queue_told.
 * kc_queue_told -- ring for n ended ids. The caller holds the queue. */
bool kc_part_end_untold(struct kc_queue_part *p, int rc);
void kc_queue_told(struct kvc_queue *q, uint32_t n);

/* kc_lane_post -- post the part to its loop. kc_lane_stop -- make the loop stop the part if this id is still under
 * way. Both: 0 or -KV_EBUSY (the loop's queue is full). Any thread. */
int kc_lane_post(struct kc_queue_part *p);
int kc_lane_stop(struct kc_queue_part *p, uint64_t id);

/* kc_entry_cancel -- take back the unbegun parts of this id, and stop the rest. 0; -KV_ENOTFOUND: it has ended;
 * -KV_EBUSY: a loop's queue is full. Inside kc_queue_enter, or on closing. */
int kc_entry_cancel(struct kc_queue_entry *e, uint64_t id);

/* kc_queues_stop -- the pool closes: stop submitting; all submitted parts are posted. kc_queues_leave -- the pool is
 * gone. */
void kc_queues_stop(struct kvc_pool *p);
void kc_queues_leave(struct kvc_pool *p);

#endif
