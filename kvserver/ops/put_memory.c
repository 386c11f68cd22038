/* SPDX-License-Identifier: Apache-2.0 */
/* put_memory.c -- memory for a new value: found at once, or cleared in several turns; then the value begins.
 *
 *   put_memory --> there is a hole -----------------------------------------+--> small: copy, check, commit
 *   |                                                                       +--> else: a stage (stage.c)
 *   +--> CLEARING <--> BLOCKED, QUEUED;  CLEARING -- memory is free --------+
 *   |
 *   +--> refused: none can be cleared, its deadline is over, or its request is stopped
 *
 * A waiting PUT has a request (PUT_WAITING) and a copy of its frame's content. Its list in work.rooms is the state of
 * its wait; only wait_enter changes it. */
#include "kvserver/ops/put_memory.h"

#include <errno.h>

#include "host/host.h"
#include "kvserver/ops/private.h"
#include "kvserver/ops/put_commit.h"
#include "kvserver/ops/stage.h"
#include "kvserver/ops/work.h"
#include "kvserver/shard/request.h"

/* ---- memory is found ---- */

static bool put_whole(const struct wire_request *q)
{
	return (q->flags & WIRE_PUT_LAST) && q->put.inline_data.len == q->put.total;
}

static void put_small(struct link *l, const struct wire_request *q, struct request *r, struct block *b)
{
	struct shard *s = l->attachment->shard;
	uint64_t generation = 0, digest = copy_digest(store_data(&s->store, b), q->put.inline_data.data, b->len);
	int32_t status = put_commit(s, b, digest, q->put.checksum, q->put.ttl_s, put_born(s, q), &generation);
	if (KV_UNLIKELY(q->flags & WIRE_PUT_SPARE) && b->state == BLOCK_LIVE)
		store_last(&s->store, b);
	if (b->state == BLOCK_STAGED)
		store_drop(&s->store, b);
	block_unref(&s->store, b);
	put_answer(l, q, r, status, generation);
}

/* Memory was found for the value that q begins: copy and commit it, or open its stage. */
static void put_placed(struct link *l, const struct wire_request *q, struct request *r, struct block *b,
		       uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	int rc;
	kv_area_ready(&s->area, b->offset, b->len);
	if (put_whole(q)) {
		put_small(l, q, r, b);
		return;
	}
	rc = stage_begin(l, q, r, b, now_ns);
	if (rc == 0)
		return;
	store_drop(&s->store, b);
	block_unref(&s->store, b);
	put_answer(l, q, r, put_error(s, q->put.total, rc), 0);
}

/* ---- waiting for memory ---- */

/* A PUT whose memory takes several turns to clear (store/room.c). Belongs to its request. */
struct put_wait {
	struct kv_list node;
	struct request *r;
	struct room *room; /* NULL: the store has ended it */
	uint64_t charged;  /* to the attachment's stages */
	struct wire_request q;
	uint8_t key[KV_KEY_MAX], data[KV_INLINE_MAX];
};

_Static_assert(sizeof(struct put_wait) <= PUT_WAIT_BYTES, "their slab has room for them");

static void wait_enter(struct shard *s, struct put_wait *w, enum wait_state to)
{
	if (KV_UNLIKELY(w->room->leased))
		leases_rest(&s->work->leases, w->room->size, loop_turn_now(s->loop));
	kv_list_del(&w->node);
	kv_list_add_tail(&s->work->rooms[to], &w->node);
}

static const struct request_ops wait_ops;

static void wait_begin(struct link *l, const struct wire_request *q, struct room *room, uint64_t now_ns)
{
	struct shard_attachment *attachment = l->attachment;
	struct shard *s = attachment->shard;
	struct put_wait *w = attachment->stage_count < ATTACHMENT_STAGES_MAX ? slab_get(&s->work->waits) : NULL;
	struct request *r = w ? request_new(l, q, &wait_ops, now_ns) : NULL;
	if (!r) {
		if (w)
			slab_put(&s->work->waits, w);
		store_stage_end(&s->store, room);
		put_reply(l, q, WIRE_BUSY, 0);
		return;
	}
	w->r = r;
	w->room = room;
	w->q = *q;
	w->q.key.data = memcpy(w->key, q->key.data, q->key.len);
	if (q->put.inline_data.len && !(q->flags & WIRE_PUT_LANDED)) /* landed bytes stay in place until the answer */
		w->q.put.inline_data.data = memcpy(w->data, q->put.inline_data.data, q->put.inline_data.len);
	w->charged = arena_round(q->put.total);
	stage_count(l->session, w->charged);
	attachment->stage_count++;
	kv_list_init(&w->node);
	wait_enter(s, w, WAIT_CLEARING);
	r->put.state = PUT_WAITING;
	r->put.wait = w;
	shard_count(s, WIRE_STAT_ROOMS);
}

/* Its wait ends. Another PUT may have waited for just that (ROOMS_AT_ONCE). */
static void wait_leave(struct shard *s, struct put_wait *w)
{
	struct kv_list *queued = &s->work->rooms[WAIT_QUEUED];
	kv_list_del(&w->node);
	stage_uncount(w->r->session, w->charged);
	w->r->attachment->stage_count--;
	w->r->put.wait = NULL;
	if (w->room)
		store_stage_end(&s->store, w->room);
	if (!kv_list_empty(queued))
		wait_enter(s, KV_LIST_ENTRY(queued->next, struct put_wait, node), WAIT_CLEARING);
}

static void wait_stop(struct request *r)
{
	struct shard *s = r->attachment->shard;
	struct put_wait *w = r->put.wait;
	if (!w)
		return;
	wait_leave(s, w);
	slab_put(&s->work->waits, w);
}

static void wait_cancel(struct request *r)
{
	request_stop(r);
	request_end(r, WIRE_CANCELED);
}

static const struct request_ops wait_ops = {.stop = wait_stop, .cancel = wait_cancel};

/* Its memory is found or refused. The request continues without w, whose copy of the frame is needed until then. */
static void wait_over(struct shard *s, struct put_wait *w, struct block *b, int rc, uint64_t now_ns)
{
	struct request *r = w->r;
	wait_leave(s, w);
	if (rc == 0)
		put_placed(r->link, &w->q, r, b, now_ns);
	else
		put_answer(r->link, &w->q, r, put_error(s, w->q.put.total, rc), 0);
	slab_put(&s->work->waits, w);
}

/* Continue one wait. */
static void wait_step(struct shard *s, struct put_wait *w, unsigned *budget, uint64_t now_ns)
{
	struct block *b = w->room->block;
	int late = w->room->leased ? -KV_ENOMEM : -KV_ETIMEOUT, rc = now_ns >= w->r->deadline_ns ? late : 0;
	if (!s->te)
		rc = -KV_ECLOSED;
	if (rc == 0) {
		rc = store_stage_step(&s->store, w->room, budget);
		if (rc == -EAGAIN) {
			enum wait_state blocked = w->room->begun || w->room->rests ? WAIT_BLOCKED : WAIT_QUEUED;
			wait_enter(s, w, w->room->waits ? blocked : WAIT_CLEARING);
			return;
		}
		w->room = NULL; /* the store ended it */
	}
	wait_over(s, w, b, rc, now_ns);
}

void put_turn(struct shard *s)
{
	struct kv_list *clearing = &s->work->rooms[WAIT_CLEARING];
	uint64_t now_ns = loop_turn_now(s->loop);
	for (unsigned budget = STORE_STEPS_AT_ONCE; budget && !kv_list_empty(clearing);)
		wait_step(s, KV_LIST_ENTRY(clearing->next, struct put_wait, node), &budget, now_ns);
}

void put_tick(struct shard *s)
{
	kv_list_splice_tail(&s->work->rooms[WAIT_CLEARING], &s->work->rooms[WAIT_BLOCKED]);
	kv_list_splice_tail(&s->work->rooms[WAIT_CLEARING], &s->work->rooms[WAIT_QUEUED]);
}

/* ---- begin ---- */

void put_memory(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	enum arena_end end = q->put.ttl_s ? ARENA_HIGH : ARENA_LOW;
	struct room *room;
	struct block *b;
	int rc = put_whole(q) ? 0 : stage_allowed(l->session, q->put.total);
	if (rc == 0 && q->flags & WIRE_PUT_SPARE) {
		rc = store_stage_spare(&s->store, q->key.data, q->key.len, q->put.total, end, &b);
		if (rc == -KV_ENOMEM) { /* no trouble of this server */
			put_reply(l, q, WIRE_NOMEM, 0);
			return;
		}
	} else if (rc == 0) {
		rc = store_stage(&s->store, q->key.data, q->key.len, q->put.total, end, &b, &room);
	}
	if (rc == 0)
		put_placed(l, q, NULL, b, now_ns);
	else if (rc == -EAGAIN)
		wait_begin(l, q, room, now_ns);
	else
		put_reply(l, q, put_error(s, q->put.total, rc), 0);
}
