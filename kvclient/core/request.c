/* SPDX-License-Identifier: Apache-2.0 */
/* request.c -- the table of a client's requests, their states, and the map from ids. request/life.c makes most state
 * changes, request/frames.c sends, and request/end.c ends attachments.
 * An entry's index is the slot of its immediates, and its generation grows with each use: one array access finds an
 * immediate's request. An entry is reused when each write of its last use has arrived or was fenced, or its piece is in
 * quarantine, so generations guard against lost or faulty peers only. Immediates may arrive before the reply: they are
 * counted from the start and compared with `posted` later.
 * The map: open addressing, linear probing, backward-shift deletion, at most half full. */
#include "kvclient/core/request.h"

#include <stdlib.h>

#define TO(state) (1u << KC_REQ_##state)

/* State changes:
 *
 *           taken        submitted       in a frame       cancelled          its call left
 *   FREE ----------> HELD --------> QUEUED --------> SENT ----------> GIVEN_UP ------------> ORPHAN
 *    ^                |               |               |                  |                      |
 *    |                | (1)           | (2)           | (3)              | (3)                  | (3)
 *    |                v               v               v                  v                      v
 *    |               DONE <-----------+---------------+------------------+                     LATE
 *    |                |  \                                                                    ^   |
 *    |  its call left |   `----- its call left, and a message may still name it --------------'   | (4)
 *    +----------------+---------------------------------------------------------------------------+
 *
 *   SENT, GIVEN_UP --its endpoint is given up--> LIMBO --the endpoint is closed--> DONE
 *   HELD --released--> FREE
 *
 * (1) Its attachment has ended.
 * (2) It was cancelled, its deadline has passed, it fits no frame, or its attachment has ended.
 * (3) All its writes were counted and its read has ended; a fence made its memory safe; or its attachment has ended.
 * (4) No message can name it any more. */
const uint16_t kc_req_next[KC_REQ_STATES] = {
	[KC_REQ_FREE] = TO(HELD),
	[KC_REQ_HELD] = TO(QUEUED) | TO(DONE) | TO(FREE),
	[KC_REQ_QUEUED] = TO(SENT) | TO(DONE),
	[KC_REQ_SENT] = TO(GIVEN_UP) | TO(DONE) | TO(LIMBO),
	[KC_REQ_GIVEN_UP] = TO(ORPHAN) | TO(DONE) | TO(LIMBO),
	[KC_REQ_ORPHAN] = TO(LATE),
	[KC_REQ_LATE] = TO(FREE),
	[KC_REQ_DONE] = TO(LATE) | TO(FREE),
	[KC_REQ_LIMBO] = TO(DONE),
};

int kc_reqs_init(struct kc_reqs *t, uint32_t count)
{
	memset(t, 0, sizeof(*t));
	kv_list_init(&t->free);
	if (count == 0 || count > 65536)
		return -KV_EINVAL;
	t->entry = calloc(count, sizeof(*t->entry));
	if (!t->entry)
		return -KV_ENOMEM;
	t->count = count;
	for (uint32_t i = 0; i < count; i++) {
		t->entry[i].index = i;
		kv_list_init(&t->entry[i].cancel_node);
		kv_list_add_tail(&t->free, &t->entry[i].node);
	}
	return 0;
}

void kc_reqs_fini(struct kc_reqs *t)
{
	free(t->entry);
	memset(t, 0, sizeof(*t));
}

struct kc_req *kc_reqs_take(struct kc_reqs *t)
{
	struct kv_list *n = kv_list_pop(&t->free);
	struct kc_req *r;
	if (!n)
		return NULL;
	r = KV_LIST_ENTRY(n, struct kc_req, node);
	t->used++;
	r->generation++;
	kc_req_advance(r, KC_REQ_HELD);
	r->link = NULL;
	r->session = NULL;
	r->wait = NULL;
	r->id = r->cancel_id = 0;
	r->said = KC_SAID_NOTHING;
	r->mem.callers = r->mem.leased = false;
	r->mem.lease = (struct kc_lease){0};
	r->status = 0;
	r->trace = NULL;
	r->mem.region = NULL;
	r->mem.pull = NULL;
	r->mem.push = NULL;
	r->mem.landing = (struct kc_piece){0};
	r->mem.small = r->mem.filled = false;
	r->mem.pack = NULL;
	r->at = (struct kc_stamps){0};
	r->mem.arrived = r->mem.posted = r->room.imms = 0;
	r->mem.piece = (struct kc_piece){0};
	r->place = (struct kc_target){0};
	memset(&r->wire, 0, sizeof(r->wire));
	return r;
}

void kc_reqs_give(struct kc_reqs *t, struct kc_req *r)
{
	KV_ASSERT_HOT(r->id == 0 && r->cancel_id == 0 && !r->mem.pull && !r->mem.push); /* rules 12 and 26 */
	KV_ASSERT_HOT(r->mem.piece.len_bytes == 0 && !r->mem.lease.local);
	kv_list_del(&r->node);
	kv_list_del(&r->cancel_node);
	kc_req_advance(r, KC_REQ_FREE);
	r->link = NULL;
	r->wait = NULL;
	t->used--;
	/* To the end: a rested entry is less likely to meet a stray immediate. */
	kv_list_add_tail(&t->free, &r->node);
}

struct kc_req *kc_reqs_immediate(struct kc_reqs *t, uint32_t imm)
{
	uint32_t slot = imm & 0xFFFF;
	struct kc_req *r = slot < t->count ? &t->entry[slot] : NULL;
	if (KV_UNLIKELY(!r || r->state == KC_REQ_FREE || r->generation != imm >> 16)) {
		t->stray_immediates++;
		return NULL;
	}
	r->mem.arrived++;
	return r;
}

/* ---- the map ---- */

int kc_map_init(struct kc_map *m, uint32_t max)
{
	uint32_t size = 16;
	while (size < (uint64_t)max * 2)
		size *= 2;
	m->entry = calloc(size, sizeof(*m->entry));
	m->mask = size - 1;
	m->shift = 64 - (uint32_t)__builtin_ctz(size);
	m->used = 0;
	return m->entry ? 0 : -KV_ENOMEM;
}

void kc_map_fini(struct kc_map *m)
{
	free(m->entry);
	memset(m, 0, sizeof(*m));
}

/* Consecutive ids would form one run, which each removal walks to its end. Steps of the golden section keep them apart.
 */
static uint32_t home(const struct kc_map *m, uint64_t id)
{
	return (uint32_t)(id * 0x9E3779B97F4A7C15ull >> m->shift);
}

void kc_map_put(struct kc_map *m, uint64_t id, struct kc_req *r)
{
	uint32_t i = home(m, id);
	while (m->entry[i].id)
		i = (i + 1) & m->mask;
	m->entry[i].id = id;
	m->entry[i].req = r;
	m->used++;
}

/* Ends because the map is never full. */
static uint32_t map_find(const struct kc_map *m, uint64_t id)
{
	uint32_t i = home(m, id);
	while (m->entry[i].id && m->entry[i].id != id)
		i = (i + 1) & m->mask;
	return m->entry[i].id ? i : UINT32_MAX;
}

struct kc_req *kc_map_get(const struct kc_map *m, uint64_t id)
{
	uint32_t i = id ? map_find(m, id) : UINT32_MAX;
	return i == UINT32_MAX ? NULL : m->entry[i].req;
}

bool kc_map_del(struct kc_map *m, uint64_t id)
{
	uint32_t hole = id ? map_find(m, id) : UINT32_MAX, i = hole;
	if (hole == UINT32_MAX)
		return false;
	m->used--;
	/* Fill the hole with each later entry of the run whose home is not between the hole and itself. */
	for (;;) {
		i = (i + 1) & m->mask;
		if (!m->entry[i].id)
			break;
		if (((i - home(m, m->entry[i].id)) & m->mask) < ((i - hole) & m->mask))
			continue;
		m->entry[hole] = m->entry[i];
		hole = i;
	}
	m->entry[hole] = (struct kc_map_entry){0};
	return true;
}
