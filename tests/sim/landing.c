/* SPDX-License-Identifier: Apache-2.0 */
/* landing.c -- whether a write that is about to land in a client's memory may do so.
 *
 * A write carries its request's immediate, {generation, slot}; of one that the reply follows the sender's request
 * knows it. It may land where this request, which is out, has its destination; or in a piece of the receive buffer
 * that is in quarantine or limbo. Anything else was given back: to a caller, another request, or the free
 * pieces. */
#include "engine/inside.h"
#include "engine/rail.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "tests/sim/world.h"

#define PACKED UINT32_MAX /* kvserver/ops/pack.c says so of its writes; no request has this immediate */

/* The client whose endpoint this is, or NULL. */
static struct kvc_client *client_of(struct world *w, uint64_t fab)
{
	for (unsigned i = 0; i < w->options.pools; i++) {
		for (unsigned j = 0; w->pool[i].pool && j < w->options.clients; j++) {
			struct kvc_client *c = w->pool[i].pool->client[j];
			for (unsigned k = 0; c->opened && c->te && k < c->te->nrails; k++)
				if (c->te->rails[k].fab && sim_fabric_id(c->te->rails[k].fab) == fab)
					return c;
		}
	}
	return NULL;
}

/* Where the region of a destination begins, or NULL. */
static const uint8_t *region_base(const struct kvc_client *c, uint32_t id)
{
	for (unsigned i = 0; i < c->mems.count; i++)
		if (c->mems.at[i]->id == id)
			return c->mems.at[i]->base;
	return id == KC_REGION_BUFFER ? c->area.base : NULL;
}

static bool may_be_written(const struct kc_req *r)
{
	return kc_req_out(r) || r->state == KC_REQ_LIMBO;
}

static bool in_request(const struct kvc_client *c, uint32_t imm, const uint8_t *at, size_t len)
{
	uint32_t slot = imm & 0xFFFF;
	const struct kc_req *r = slot < c->reqs.count ? &c->reqs.entry[slot] : NULL;
	const struct wire_dest *d;
	const uint8_t *base;
	uint64_t pos, in;
	if (!r || !may_be_written(r) || r->generation != imm >> 16 || r->wire.dest.count == 0)
		return false;
	d = &r->wire.dest;
	/* A call that has given up leaves its piece with the request, and takes its own memory with it. */
	if (r->state == KC_REQ_ORPHAN && (d->region != KC_REGION_BUFFER || r->mem.piece.len_bytes == 0))
		return false;
	base = region_base(c, d->region);
	if (!base || at < base + d->offset)
		return false;
	pos = (uint64_t)(at - base) - d->offset;
	/* Slices without gaps are one, and may be written as one. */
	if (d->count > 1 && d->stride == d->slice)
		return pos + len <= d->count * d->slice;
	in = d->count > 1 ? pos % d->stride : pos;
	return (d->count > 1 ? pos / d->stride : 0) < d->count && in + len <= d->slice;
}

/* Up to where a request that is out holds the memory at `at` of the receive buffer; `at`: nobody does. */
static const uint8_t *held_to(const struct kvc_client *c, const uint8_t *at)
{
	for (uint32_t i = 0; i < c->reqs.count; i++) {
		const struct kc_req *r = &c->reqs.entry[i];
		const uint8_t *from = c->area.base + r->mem.piece.offset;
		if (kc_req_out(r) && r->wire.dest.region == KC_REGION_BUFFER && r->wire.dest.count == 1 && at >= from &&
		    at < from + r->mem.piece.len_bytes)
			return from + r->mem.piece.len_bytes;
	}
	return at;
}

static const uint8_t *listed_to(const struct kc_buffer *b, uint32_t first, const uint8_t *at)
{
	uint32_t left = b->units;
	for (uint32_t unit = first; unit != UINT32_MAX && left > 0; unit = b->next[unit], left--) {
		const uint8_t *piece = b->base + ((uint64_t)unit << KC_PIECE_SHIFT);
		const uint8_t *end = piece + ((uint64_t)KC_PIECE_MIN << (b->state[unit] & 0x3F));
		if (at >= piece && at < end)
			return end;
	}
	return at;
}

/* Up to where a piece in quarantine, or in limbo, holds it; `at`: none does. */
static const uint8_t *quarantined_to(const struct kvc_client *c, const uint8_t *at)
{
	const uint8_t *to = listed_to(&c->buffer, c->buffer.quarantine, at);
	return to > at ? to : listed_to(&c->buffer, c->buffer.limbo, at);
}

static bool in_quarantine(const struct kvc_client *c, const uint8_t *at, size_t len)
{
	return quarantined_to(c, at) >= at + len;
}

/* A pack: each of its bytes is some request's, or in quarantine. *out_late: some is. */
static bool pack_may_land(const struct kvc_client *c, const uint8_t *at, size_t len, bool *out_late)
{
	const uint8_t *end = at + len, *to;
	for (*out_late = false; at < end; at = to) {
		to = held_to(c, at);
		if (to > at)
			continue;
		*out_late = true;
		to = quarantined_to(c, at);
		if (to == at)
			return false;
	}
	return true;
}

bool world_mark(const struct fab_ctx *ctx, uint32_t *out_imm)
{
	const struct op *op = KV_CONTAINER(ctx, const struct op, ctx);
	if (op->kind != OP_WRITE || !op->of.xfer->ordered)
		return false;
	*out_imm = op->of.xfer->imm;
	return true;
}

void world_landing(void *arg, uint64_t id, const uint8_t *at, size_t len, const uint32_t *imm)
{
	struct world *w = arg;
	const struct kvc_client *c = client_of(w, id);
	bool late = true, fine = true;
	if (!c)
		return;
	w->landings++;
	if (len == 0)
		return;
	if (imm && *imm == PACKED)
		fine = pack_may_land(c, at, len, &late);
	else if (imm && in_request(c, *imm, at, len))
		late = false;
	else
		fine = in_quarantine(c, at, len);
	w->late_landings += late;
	if (!fine)
		world_wrong(
			w,
			"a write (immediate %08x) lands in memory of client %u that no request and no quarantine holds",
			imm ? *imm : 0, c->index);
}
