/* SPDX-License-Identifier: Apache-2.0 */
/* request.c -- the table of outstanding requests.
 *
 * Entries come from one array, made once. An entry's index is the slot of its immediates and its generation goes up
 * with every use, so that an immediate finds its request by one array access and one of an earlier use is recognised.
 * An entry is used again only when every write of its last use has arrived or was fenced, so the 16 bits of generation
 * guard against a peer that is wrong, not against the fabric.
 *
 * Immediates may arrive before the reply: they are counted from the moment the entry is taken, and the reply's `posted`
 * is compared afterwards.
 *
 * The map is open addressing with linear probing and backward-shift deletion, at most half full: ids of a link ascend
 * by one, so that they fill it without collisions unless some request is much older than the rest. Bounded by the
 * link's credits. */
#include "kvclient/core/request.h"

#include <stdlib.h>

int kvc_reqs_init(struct kvc_reqs *t, uint32_t count)
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

void kvc_reqs_fini(struct kvc_reqs *t)
{
	free(t->entry);
	memset(t, 0, sizeof(*t));
}

struct kvc_req *kvc_reqs_take(struct kvc_reqs *t)
{
	struct kv_list *n = kv_list_pop(&t->free);
	struct kvc_req *r;
	if (!n)
		return NULL;
	r = KV_LIST_ENTRY(n, struct kvc_req, node);
	t->used++;
	r->generation++;
	r->state = KVC_REQ_HELD;
	r->link = NULL;
	r->sub = NULL;
	r->wait = NULL;
	r->id = r->cancel_id = 0;
	r->orphan = r->replied = r->final = r->cancelling = r->caller_memory = r->in_lane = r->inlined = false;
	r->status = 0;
	r->trace = NULL;
	r->region = NULL;
	r->pull = NULL;
	r->limbo = false;
	r->at = (struct kvc_stamps){0};
	r->arrived = r->posted = r->imms = 0;
	r->piece = (struct kvc_piece){0};
	r->inline_to = (struct kvc_target){0};
	memset(&r->wire, 0, sizeof(r->wire));
	return r;
}

void kvc_reqs_give(struct kvc_reqs *t, struct kvc_req *r)
{
	kv_list_del(&r->node);
	kv_list_del(&r->cancel_node);
	r->state = KVC_REQ_FREE;
	r->link = NULL;
	r->wait = NULL;
	t->used--;
	/* To the end: the longer an entry rests, the less likely does a stray immediate meet its next use. */
	kv_list_add_tail(&t->free, &r->node);
}

struct kvc_req *kvc_reqs_immediate(struct kvc_reqs *t, uint32_t imm)
{
	uint32_t slot = imm & 0xFFFF;
	struct kvc_req *r = slot < t->count ? &t->entry[slot] : NULL;
	if (KV_UNLIKELY(!r || r->state == KVC_REQ_FREE || r->generation != imm >> 16)) {
		t->stray_immediates++;
		return NULL;
	}
	r->arrived++;
	return r;
}

/* ---- the map ---- */

int kvc_map_init(struct kvc_map *m, uint32_t max)
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

void kvc_map_fini(struct kvc_map *m)
{
	free(m->entry);
	memset(m, 0, sizeof(*m));
}

/* Ids are consecutive. Side by side they would be one run, which every removal walks to its end: 480 instructions
 * per reply while values of 64 KiB were stored over tcp, 37 so. Steps of the golden section keep them apart. */
static uint32_t home(const struct kvc_map *m, uint64_t id)
{
	return (uint32_t)(id * 0x9E3779B97F4A7C15ull >> m->shift);
}

void kvc_map_put(struct kvc_map *m, uint64_t id, struct kvc_req *r)
{
	uint32_t i = home(m, id);
	while (m->entry[i].id)
		i = (i + 1) & m->mask;
	m->entry[i].id = id;
	m->entry[i].req = r;
	m->used++;
}

/* The place of id, or UINT32_MAX. Ends, since the map is never full. */
static uint32_t map_find(const struct kvc_map *m, uint64_t id)
{
	uint32_t i = home(m, id);
	while (m->entry[i].id && m->entry[i].id != id)
		i = (i + 1) & m->mask;
	return m->entry[i].id ? i : UINT32_MAX;
}

struct kvc_req *kvc_map_get(const struct kvc_map *m, uint64_t id)
{
	uint32_t i = id ? map_find(m, id) : UINT32_MAX;
	return i == UINT32_MAX ? NULL : m->entry[i].req;
}

bool kvc_map_del(struct kvc_map *m, uint64_t id)
{
	uint32_t hole = id ? map_find(m, id) : UINT32_MAX, i = hole;
	if (hole == UINT32_MAX)
		return false;
	m->used--;
	/* Move up every later entry of the run that may lie at the hole: its home is not between the hole and itself.
	 */
	for (;;) {
		i = (i + 1) & m->mask;
		if (!m->entry[i].id)
			break;
		if (((i - home(m, m->entry[i].id)) & m->mask) < ((i - hole) & m->mask))
			continue;
		m->entry[hole] = m->entry[i];
		hole = i;
	}
	m->entry[hole] = (struct kvc_map_entry){0};
	return true;
}
