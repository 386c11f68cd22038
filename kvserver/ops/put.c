/* SPDX-License-Identifier: Apache-2.0 */
/* put.c -- PUT begins: a new value, an existing one, or a further range.
 *
 *   FIRST --> the key exists -----------------> answered (put_commit.c)
 *    +--> PUT_WAITING, while memory is cleared (put_memory.c)
 *    |      +--> a small value in its message: copied, committed, answered
 *    v      v
 *   PUT_MOVING: a range of a stage, whose bytes are read, or copied (stage.c) <-- further ranges
 *    |      +-- its bytes have arrived -> answered
 *    |      +-- ... and it ends the value -> PUT_LAST, until the value is whole -> committed, answered
 *    v
 *   PUT_LOST: its stage has ended -- nothing of it moves -> answered with the stage's status
 *
 * A range is answered when its bytes have arrived (the client's source is free then); the last one when the value is
 * whole, checked and committed. After a stage ended, its ranges get its status, or STALE if that is unknown. */
#include "kvserver/ops/private.h"

#include "kvserver/ops/put_commit.h"
#include "kvserver/ops/put_memory.h"
#include "kvserver/ops/stage.h"
#include "kvserver/shard/attachment.h"

static void put_first(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	bool present = put_space(l, q, now_ns);
	struct block *holder = store_find(&s->store, q->key.data, q->key.len, now_ns);
	shard_count(s, WIRE_STAT_PUTS);
	if (!present) {
		put_reply(l, q, PUT_CLEARED, 0);
	} else if (q->put.total == 0) {
		put_reply(l, q, WIRE_INVALID, 0);
	} else if (q->put.total > s->opt.value_max) {
		put_reply(l, q, put_error(s, q->put.total, -KV_ETOOBIG), 0);
	} else {
		uint64_t generation = 0;
		int32_t status = holder ? put_compare(s, holder, q, &generation) : put_allowed(s, q, now_ns);
		if (status == PUT_YOUNGER || status == PUT_UNKNOWN || (status == WIRE_OK && !holder))
			put_memory(l, q, now_ns);
		else
			put_reply(l, q, status, generation);
	}
}

/* Landed bytes are handled like inline ones, once found. Copying them at most doubles a turn (landing_spend). */
static bool landed_find(const struct link *l, const struct wire_request *q, struct wire_request *out)
{
	const uint8_t *at = landing_at(l->attachment, &q->dest);
	*out = *q;
	out->put.inline_data = (struct wire_bytes){at, (uint32_t)q->put.length};
	return at != NULL;
}

void put_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct wire_request landed;
	if (q->flags & WIRE_PUT_LANDED) {
		if (!landed_find(l, q, &landed)) {
			put_reply(l, q, WIRE_INVALID, 0);
			return;
		}
		if (!landing_spend(l->attachment, q->put.length)) {
			put_reply(l, q, WIRE_BUSY, 0);
			return;
		}
		q = &landed;
		shard_count(l->attachment->shard, WIRE_STAT_PUTS_LANDED);
	}
	/* WELCOME said so: with this provider a client that dies while it answers a read would crash us. */
	if (l->attachment->shard->info.reads_refused && q->put.length > 0 && q->put.inline_data.len == 0) {
		put_reply(l, q, WIRE_NOTSUP, 0);
		return;
	}
	if (q->flags & WIRE_PUT_FIRST)
		put_first(l, q, now_ns);
	else
		stage_range(l, q, now_ns);
}
