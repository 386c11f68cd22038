/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c -- small values of PUTs, written to a landing area together, then a frame with one LANDED PUT each. A write of
 * 4 KiB costs as much as one of 64 KiB.
 *
 * A pack is made when the frame is filled, so batches and calls share it. Values are copied, so calls may end at any
 * time. The pack owns its bytes until the write is done, and its place until all answers; a place without an answer is
 * not reused (landing.c).
 *
 * Each server has a part of the free packs, so stopped servers leave some. */
#include "kvclient/request/pack.h"

#include <stdlib.h>

#include "kvclient/request/attachment.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/link.h"
#include "kvclient/request/private.h"

enum { PACKS_SHARE = 8 /* divisor of the free ones for many servers */ };

int kc_packs_open(struct kvc_client *c, struct kv_error *err)
{
	struct kc_packs *p = &c->requests->packs;
	int rc;
	kv_list_init(&p->free);
	if (!c->info.ordered)
		return 0;
	p->pack = calloc(KC_PACKS, sizeof(*p->pack));
	if (!p->pack)
		return kv_fail(err, -KV_ENOMEM, "client %u: no memory for packs of small values", c->index);
	rc = kv_area_map_lazy((uint64_t)KC_PACKS * KC_PACK_BYTES, &p->area, err);
	if (rc == 0)
		rc = te_region_register(c->te, p->area.base, p->area.len_bytes, TE_LOCAL, 0, &p->region, err);
	if (rc < 0) {
		kc_packs_fini(c);
		return kv_fail_more(err, "client %u, packs of small values", c->index);
	}
	for (uint32_t i = KC_PACKS; i-- > 0;) {
		p->pack[i].index = i;
		kv_list_add_head(&p->free, &p->pack[i].node);
	}
	return 0;
}

void kc_packs_close(struct kvc_client *c)
{
	te_region_close(&c->requests->packs.region);
}

void kc_packs_fini(struct kvc_client *c)
{
	free(c->requests->packs.pack);
	kv_area_unmap(&c->requests->packs.area);
	c->requests->packs = (struct kc_packs){0};
}

uint64_t kc_pack_max(const struct kc_attachment *s, unsigned shard)
{
	return s->node->client->requests->packs.pack && !s->local
		       ? KV_MIN(kc_landing_max(s, shard), (uint64_t)KC_PACK_VALUE)
		       : 0;
}

static struct kc_landing *area_of(const struct kc_link *l)
{
	return &l->attachment->landing[l->shard];
}

/* ---- the life of a pack ---- */

static bool pack_allowed(const struct kvc_client *c, const struct kc_attachment *s)
{
	uint32_t servers = c->num_nodes, free = KC_PACKS - c->requests->packs.used;
	uint32_t parts = KV_MIN(servers - 1, (uint32_t)PACKS_SHARE);
	return free > 0 && (s->packs == 0 || (s->packs + 1) * parts <= free);
}

static struct kc_pack *pack_take(struct kvc_client *c, struct kc_link *l)
{
	struct kc_pack *p;
	if (!pack_allowed(c, l->attachment))
		return NULL;
	p = KV_LIST_ENTRY(kv_list_pop(&c->requests->packs.free), struct kc_pack, node);
	p->link = l;
	p->place = (struct kc_piece){0}; /* may be a lost pack's */
	p->bytes = p->left = 0;
	p->writing = p->lost = false;
	c->requests->packs.used++;
	l->attachment->packs++;
	return p;
}

static void pack_settle(struct kc_pack *p)
{
	struct kc_attachment *s = p->link->attachment;
	struct kc_packs *packs = &s->node->client->requests->packs;
	if (p->left > 0)
		return;
	if (!p->lost)
		kc_buffer_give(&area_of(p->link)->pieces, &p->place);
	if (p->writing)
		return;
	s->packs--;
	packs->used--;
	kv_list_add_head(&packs->free, &p->node);
}

static void pack_done(struct te_xfer *x, int status)
{
	struct kc_pack *p = x->arg;
	struct kc_link *l = p->link;
	(void)status; /* the answers have the result */
	p->writing = false;
	l->pushes--;
	pack_settle(p);
	kc_push_unpark(l);
	kc_attachment_unref(l->attachment);
}

/* ---- filling ---- */

static struct kc_req *next_small(const struct kc_link *l, const struct kc_req *r, uint64_t now_ns)
{
	struct kc_req *next = KV_LIST_ENTRY(r->node.next, struct kc_req, node);
	bool alone = r->session || !kv_list_empty(&l->turns); /* turns decide request by request */
	if (alone || r->node.next == &l->queue || !next->mem.small || next->deadline_ns <= now_ns)
		return NULL;
	return next;
}

/* Requests from r on that fit the frame and a pack; *out_bytes: of their values. */
static uint32_t pack_plan(const struct kc_link *l, const struct wire_writer *w, const struct kc_req *r, bool switches,
			  uint64_t now_ns, uint64_t *out_bytes)
{
	uint32_t room = wire_frame_room(w), before = switches ? WIRE_SESSION_BYTES : 0, n = 0;
	uint32_t most = KV_MIN(WIRE_RECORDS_MAX - w->records - (switches ? 1u : 0u), l->credits - l->reserve);
	uint64_t max = KV_MIN(kc_landing_max(l->attachment, l->shard), (uint64_t)KC_PACK_BYTES);
	room = room > before ? room - before : 0;
	for (*out_bytes = 0; r && n < most; r = next_small(l, r, now_ns), n++) {
		uint32_t size = wire_request_size(&r->wire);
		if (size > room || r->wire.put.length > max - *out_bytes)
			break;
		room -= size;
		*out_bytes += r->wire.put.length;
	}
	return n;
}

/* A place for n requests, or else for one. */
static int place_take(struct kc_link *l, const struct kc_req *r, uint32_t *n, uint64_t bytes, struct kc_piece *out)
{
	struct kc_landing *area = area_of(l);
	int rc = kc_buffer_take(&area->pieces, bytes, out);
	if (rc == -KV_EBUSY && *n > 1) {
		*n = 1;
		rc = kc_buffer_take(&area->pieces, r->wire.put.length, out);
	}
	if (rc == -KV_EBUSY && area->placed == 0)
		kc_link_redo(l->attachment->node, "lost frames occupy its landing area");
	return rc;
}

int kc_pack_make(struct kc_link *l, const struct wire_writer *w, struct kc_req *r, bool switches, uint64_t now_ns)
{
	struct kvc_client *c = kc_link_client(l);
	struct kc_pack *p;
	uint64_t bytes;
	uint32_t n = pack_plan(l, w, r, switches, now_ns, &bytes);
	int rc;
	if (n == 0)
		return -KV_EBUSY;
	p = pack_take(c, l);
	rc = p ? place_take(l, r, &n, bytes, &p->place) : -KV_EBUSY;
	if (rc < 0) {
		KV_ASSERT(!p || p->place.len_bytes == 0); /* rule 50: it has no place to give back */
		if (p)
			pack_settle(p);
		else
			kc_push_later(c); /* any server's pack may return */
		return rc == -KV_EBUSY ? 1 : rc;
	}
	for (p->left = n; n > 0; n--, r = KV_LIST_ENTRY(r->node.next, struct kc_req, node)) {
		uint8_t *to = (uint8_t *)c->requests->packs.area.base + (size_t)p->index * KC_PACK_BYTES + p->bytes;
		kc_target_read(&r->place, to, r->wire.put.length);
		r->mem.pack = p;
		r->wire.dest.offset = p->place.offset + p->bytes;
		p->bytes += (uint32_t)r->wire.put.length;
	}
	area_of(l)->placed += p->left;
	return 0;
}

void kc_pack_unmake(struct kc_link *l, struct kc_req *r)
{
	struct kc_pack *p = r->mem.pack;
	if (!p)
		return;
	area_of(l)->placed -= p->left;
	for (; p->left > 0; p->left--, r = KV_LIST_ENTRY(r->node.next, struct kc_req, node))
		r->mem.pack = NULL;
	pack_settle(p);
}

int kc_pack_write(struct kc_link *l, const struct kc_req *r)
{
	struct kc_attachment *s = l->attachment;
	struct kvc_client *c = kc_link_client(l);
	struct kc_pack *p = r->mem.pack;
	int rc;
	p->xfer = (struct te_xfer){.dir = TE_WRITE,
				   .peer = s->peer[l->shard],
				   .link = l->index,
				   .local = c->requests->packs.region,
				   .local_offset = (uint64_t)p->index * KC_PACK_BYTES,
				   .remote = &area_of(l)->remote,
				   .at = {p->place.offset, 0, p->bytes, 1},
				   .ordered = true,
				   .deadline_ns = KV_NEVER,
				   .done = pack_done,
				   .arg = p};
	rc = te_xfer_start(c->te, &p->xfer);
	if (rc == -KV_EBUSY || rc == -KV_EPEERDOWN) {
		kc_push_stick(c, l);
		return -KV_EBUSY;
	}
	if (rc < 0)
		return rc;
	p->writing = true;
	l->pushes++;
	s->refs++;
	return 0;
}

/* ---- answers ---- */

static void answer_over(struct kc_req *r, bool lost)
{
	struct kc_pack *p = r->mem.pack;
	struct kc_link *l = p->link;
	r->mem.pack = NULL;
	p->left--;
	p->lost |= lost;
	pack_settle(p);
	if (lost)
		kc_landing_lost(l);
	else
		area_of(l)->placed--;
}

void kc_pack_answered(struct kc_req *r, struct kc_link *l)
{
	if (!r->mem.pack)
		return;
	answer_over(r, false);
	kc_push_unpark(l);
}

void kc_pack_lost(struct kc_req *r)
{
	if (r->mem.pack)
		answer_over(r, true);
}
