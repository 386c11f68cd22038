/* SPDX-License-Identifier: Apache-2.0 */
/* put.c -- a PUT as ranges. FIRST goes alone, since its reply names the server's stage; then the middle ones, two at a
 * time; LAST goes alone and commits.
 *
 * Values up to KV_INLINE_MAX are in the request. Others are landed if the shard has a landing area for us (tcp,
 * request/landing.c), small ones packed in one write (request/pack.c; batches pack from KC_PACK_SMALL). Else the server
 * reads them; if it must not (see WELCOME), requests carry all bytes, many at a time after FIRST.
 *
 * Each range has the checksum of the whole value, and the server commits nothing else. So a PUT may be repeated, and
 * late reads do no harm. Of a sealed value only the last range has it: each range is sealed as it leaves. */
#include "kvclient/transfer/put.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/cleared.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/request/pack.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/memory.h"

enum {
	GATHER_MIN = KC_PACK_VALUE,
	READ_WINDOW = 2,
	INLINE_WINDOW = 32
}; /* ranges of one PUT in flight; the server keeps up to 64 pieces apart */

static void source_find(struct kvc_put *p)
{
	struct kvc_client *c = p->c;
	const uint8_t *base = c->area.base, *at = p->from.at;
	uint64_t extent = kc_target_extent(&p->from, p->len);
	if (p->len <= KV_INLINE_MAX || p->from.span)
		return;
	if (at >= base && at < base + c->buffer.len_bytes && extent <= c->buffer.len_bytes - (uint64_t)(at - base)) {
		p->found = true;
		p->region = KC_REGION_BUFFER;
		p->region_offset = (uint64_t)(at - base);
		return;
	}
	p->mem = kc_client_mem_at(c, at, extent);
	if (p->mem) {
		p->mem->users++;
		p->found = true;
		p->region = p->mem->id;
		p->region_offset = (uint64_t)(at - p->mem->base);
	}
}

int kc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const struct kc_target *from, uint64_t len,
		const struct kvc_call *call, uint64_t deadline_ns)
{
	memset(p, 0, offsetof(struct kvc_put, sealed.from));
	if (!kc_key_valid(key) || !(from->at || from->span) || len == 0)
		return -KV_EINVAL;
	if (len > KV_VALUE_MAX)
		return -KV_ETOOBIG;
	p->c = c;
	route_begin(&p->route, c, key, ROUTE_ONE, call->flags, deadline_ns);
	p->from = *from;
	p->len = len;
	p->ttl_s = call->ttl_s;
	p->session = call->session;
	p->background = call->flags & KVC_BACKGROUND;
	p->own_wait.co = co_self();
	p->wait = &p->own_wait;
	source_find(p);
	return 0;
}

void kc_put_copy(struct kvc_put *p, struct kc_node *to, uint64_t born_ns, uint64_t incarnation)
{
	p->route.n = to;
	p->route.kind = ROUTE_FIXED;
	p->born_ns = born_ns;
	p->incarnation = incarnation;
	p->found = p->found && p->c->info.peer_fence;
}

int kc_put_hide(struct kvc_put *p)
{
	if (kc_sealed_len(p->len) > KV_VALUE_MAX)
		return -KV_ETOOBIG;
	if (p->mem)
		p->mem->users--;
	p->mem = NULL;
	p->found = false;
	p->sealed.by = p->c->sealer;
	p->sealed.from = p->from;
	p->sealed.len = p->len;
	p->sealed.cut = NULL;
	p->from = (struct kc_target){0};
	p->len = kc_sealed_len(p->len);
	return 0;
}

void kc_put_fini(struct kvc_put *p)
{
	if (p->mem)
		p->mem->users--;
	p->mem = NULL;
	if (KV_UNLIKELY(p->sealed.by != NULL))
		free(p->sealed.cut);
}

/* The namespace's generation that the value is of, at the server asked. */
static uint64_t put_generation(const struct kvc_put *p)
{
	return kc_cleared_put(p->c->pool, p->route.n->index, p->wait->trace->begun_ns);
}

/* Seal as many of the next pieces as fit `room`. Their stored bytes, or a code. */
static int64_t pieces_seal_await(struct kvc_put *p, uint8_t *to, uint64_t room)
{
	return kc_seal_await(p->sealed.by, &p->sealed.value, &p->sealed.from, room, to, &p->sealed.hasher);
}

/* Seal the next piece, which the end of a range cuts. */
static int cut_seal_await(struct kvc_put *p)
{
	int64_t n;
	if (!p->sealed.cut)
		p->sealed.cut = malloc(KC_SEAL_STORED);
	if (!p->sealed.cut)
		return -KV_ENOMEM;
	n = pieces_seal_await(p, p->sealed.cut, KC_SEAL_STORED);
	p->sealed.cut_from = 0;
	p->sealed.cut_end = n > 0 ? (uint64_t)n : 0;
	return (int)KV_MIN(n, (int64_t)0);
}

static void seal_begin(struct kvc_put *p)
{
	p->sealed.value =
		(struct kc_seal_value){.key = p->route.key, .len = p->sealed.len, .generation = put_generation(p)};
	p->sealed.cut_from = p->sealed.cut_end = 0;
	kv_hasher_init(&p->sealed.hasher);
}

/* Make the stored bytes of a range. Ranges are made in order, so the checksum is known with the last one. */
static int put_seal_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint8_t *to)
{
	uint8_t *end = to + length;
	if (offset == 0)
		seal_begin(p);
	while (to < end) {
		uint64_t room = (uint64_t)(end - to), n = KV_MIN(p->sealed.cut_end - p->sealed.cut_from, room);
		int64_t sealed = (int64_t)n;
		if (n > 0)
			memcpy(to, p->sealed.cut + p->sealed.cut_from, n);
		else
			sealed = pieces_seal_await(p, to, room);
		p->sealed.cut_from += n;
		if (sealed == 0)
			sealed = cut_seal_await(p);
		if (sealed < 0)
			return (int)sealed;
		to += sealed;
	}
	p->checksum = offset + length == p->len ? kv_hasher_digest(&p->sealed.hasher) : 0;
	return 0;
}

static unsigned put_shard(const struct kvc_put *p, const struct kc_attachment *s)
{
	return kc_place_shard(s->shard_seed, s->shards, p->route.key.data, p->route.key.len);
}

/* Whether one part of the region has it all. No ordered write crosses parts. */
static bool source_whole(const struct kvc_put *p)
{
	struct te_region_info info;
	uint64_t last = p->region_offset + kc_target_extent(&p->from, p->len) - 1;
	te_region_info(p->mem ? p->mem->region : p->c->region, &info);
	return p->region_offset / info.part_bytes == last / info.part_bytes;
}

/* Whether it is sent from its place, not from a copy in a piece. */
static bool source_direct(const struct kvc_put *p)
{
	uint64_t slice = p->from.slice;
	if (p->local)
		return true;
	if (!p->found || p->by == KC_BY_PACK || p->by == KC_BY_INLINE)
		return false;
	if (p->by == KC_BY_LAND)
		return (slice == 0 || slice >= p->land_max) && source_whole(p);
	return slice == 0 || slice >= GATHER_MIN;
}

/* land_max: largest landing in bytes, or 0. */
static enum kc_put_by by_of(const struct kvc_put *p, const struct kc_attachment *s, uint64_t land_max)
{
	uint64_t small = p->batched ? KC_PACK_SMALL : KV_INLINE_MAX;
	if (p->len > small && p->len <= kc_pack_max(s, put_shard(p, s)))
		return KC_BY_PACK;
	if (p->len <= KV_INLINE_MAX)
		return KC_BY_INLINE;
	if (land_max > 0)
		return KC_BY_LAND;
	return s->flags & WIRE_WELCOME_INLINE_PUT ? KC_BY_INLINE : KC_BY_READ;
}

static void way_plan(struct kvc_put *p, const struct kc_attachment *s)
{
	p->land_max = p->len > KV_INLINE_MAX ? kc_landing_max(s, put_shard(p, s)) : 0;
	p->by = by_of(p, s, p->land_max);
	p->local = p->by == KC_BY_LAND && s->local;
	p->filled = p->local && kc_target_flat(&p->from) &&
		    kc_landing_has(s, put_shard(p, s), p->from.at, p->len, &p->land_offset);
	if (p->filled)
		p->land_max = KV_RANGE_MAX;
	p->direct = source_direct(p);
	p->attaches = p->route.n->attaches;
}

static uint64_t range_max(const struct kvc_put *p)
{
	if (p->by == KC_BY_PACK)
		return p->len;
	if (p->by == KC_BY_INLINE)
		return KV_INLINE_MAX;
	return KV_MIN(p->direct && KV_LIKELY(!p->sealed.by) ? KV_RANGE_MAX : kc_room_piece(p->c),
		      p->by == KC_BY_LAND ? p->land_max : UINT64_MAX);
}

/* Bytes of the range at `offset`. A direct range of slices has whole ones, or the rest of one; a range of a sealed
 * value has whole pieces. */
static uint64_t range_len(const struct kvc_put *p, uint64_t offset)
{
	uint64_t slice = p->direct && !p->local ? p->from.slice : 0, max = range_max(p), left = p->len - offset;
	uint64_t n = KV_MIN(left, max), in = slice ? offset % slice : 0;
	if (KV_UNLIKELY(p->sealed.by != NULL) && n < left && n >= KC_SEAL_STORED)
		return n / KC_SEAL_STORED * KC_SEAL_STORED;
	if (slice == 0)
		return n;
	return in > 0 || n < slice ? KV_MIN(n, slice - in) : n / slice * slice;
}

bool kc_put_single(struct kvc_put *p)
{
	if (p->route.n->state == KC_NODE_UP)
		way_plan(p, p->route.n->attachment);
	return range_len(p, 0) == p->len;
}

/* Compute the value's checksum at first use. Parks for large values. */
static void put_sum_await(struct kvc_put *p)
{
	if (!p->summed)
		p->checksum = kc_hash_await(&p->from, p->len);
	p->summed = true;
}

static uint64_t source_at(const struct kvc_put *p, uint64_t offset)
{
	uint64_t slice = p->from.slice;
	return p->region_offset + (slice ? offset / slice * p->from.stride + offset % slice : offset);
}

static struct wire_dest source_dest(const struct kvc_put *p, uint64_t offset, uint64_t length)
{
	uint64_t slice = p->from.slice, count = slice ? KV_MAX(length / slice, (uint64_t)1) : 1;
	return (struct wire_dest){p->region, (uint32_t)count, source_at(p, offset), count > 1 ? p->from.stride : 0,
				  length / count};
}

static void range_fill(struct kvc_put *p, struct kc_req *r, uint64_t offset, uint64_t length, uint64_t stage)
{
	struct wire_request *w = &r->wire;
	uint8_t *piece = kc_buffer_at(&p->c->buffer, &r->mem.piece); /* the copy, if there is one */
	struct kc_target at = p->from;
	at.skip = offset;
	if (KV_UNLIKELY(p->sealed.by != NULL))
		at = (struct kc_target){.at = piece};
	w->type = WIRE_PUT;
	w->flags = (offset == 0 ? WIRE_PUT_FIRST : 0) | (offset + length == p->len ? WIRE_PUT_LAST : 0);
	w->key = (struct wire_bytes){p->route.key.data, (uint32_t)p->route.key.len};
	w->put.total = p->len;
	w->put.offset = offset;
	w->put.length = length;
	w->put.checksum = p->checksum;
	w->put.stage = stage;
	w->put.ttl_s = p->ttl_s;
	if (KV_LIKELY(!p->born_ns) && offset == 0)
		w->put.space = put_generation(p);
	if (KV_UNLIKELY(p->sealed.by != NULL) && offset == 0 && length < p->len)
		w->flags |= WIRE_PUT_SUM_LAST;
	if (KV_UNLIKELY(p->born_ns) && offset == 0) {
		w->flags |= WIRE_PUT_COPY | (p->spare ? WIRE_PUT_SPARE : 0);
		w->put.born_ns = kc_clock_at(&p->route.n->clock, p->born_ns);
	}
	r->deadline_ns = p->route.deadline_ns;
	switch (p->by) {
	case KC_BY_PACK:
		w->flags |= WIRE_PUT_LANDED;
		w->dest = (struct wire_dest){0, 1, 0, 0, length};
		r->mem.small = true;
		r->place = at;
		break;
	case KC_BY_INLINE:
		w->put.inline_data =
			(struct wire_bytes){kc_target_flat(&at) ? at.at + at.skip : piece, (uint32_t)length};
		break;
	case KC_BY_LAND:
		w->flags |= WIRE_PUT_LANDED;
		w->dest = (struct wire_dest){0, 1, 0, 0, length};
		if (p->filled)
			w->dest.offset = p->land_offset + offset;
		r->mem.filled = p->filled;
		r->place = at;
		r->mem.callers = p->direct && !p->local;
		r->mem.region = p->direct && p->mem ? p->mem->region : p->c->region;
		r->mem.source = p->direct ? source_at(p, offset) : r->mem.piece.offset;
		break;
	case KC_BY_READ:
		r->mem.callers = p->direct;
		w->dest = p->direct ? source_dest(p, offset, length)
				    : (struct wire_dest){KC_REGION_BUFFER, 1, r->mem.piece.offset, 0, length};
		break;
	}
}

int kc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
		       struct kc_req **out)
{
	bool flat = kc_target_flat(&p->from), seal = KV_UNLIKELY(p->sealed.by != NULL);
	bool copy = seal || (!p->direct && p->by != KC_BY_PACK && !(flat && p->by == KC_BY_INLINE));
	struct kc_target from = p->from;
	struct kc_need need = {.piece_bytes = copy ? length : 0,
			       .node = p->route.n,
			       .session = p->session,
			       .background = p->background};
	struct kc_attachment *s;
	unsigned shard;
	int rc;
	from.skip = offset;
	if (!seal)
		put_sum_await(p);
	rc = kc_call_room_await(p->route.n, &need, p->route.deadline_ns, wait, &s, out);
	if (rc < 0)
		return rc;
	if (seal)
		rc = put_seal_await(p, offset, length, kc_buffer_at(&p->c->buffer, &(*out)->mem.piece));
	else if (copy)
		kc_gather_await(kc_buffer_at(&p->c->buffer, &(*out)->mem.piece), &from, length);
	if (rc < 0) {
		kc_req_release(p->c, *out);
		return rc;
	}
	if (!kc_node_uses(p->route.n, p->attaches) ||
	    (seal && offset == 0 && p->sealed.value.generation != put_generation(p))) {
		kc_req_release(p->c, *out);
		return -KV_ERESET; /* its plan and stage went with the attachment, or it is of another generation */
	}
	range_fill(p, *out, offset, length, stage);
	shard = put_shard(p, s);
	kc_req_submit(p->by == KC_BY_PACK && p->batched ? kc_link_keep(s, shard, p->turn) : kc_link_pick(s, shard),
		      *out, p->wait);
	return 0;
}

/* Send one range and wait. *out_done: the value is committed, by us or by another client with the same bytes. */
static int range_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t *stage, bool *out_done)
{
	struct kc_req *r;
	int rc = kc_put_issue_await(p, offset, length, *stage, true, &r);
	if (rc < 0)
		return rc;
	rc = kc_call_done_await(p->c, r, p->route.deadline_ns);
	if (KV_UNLIKELY(rc == -KV_EDELETED) && !p->born_ns) {
		rc = kc_put_cleared(p->route.n, p->wait->trace, r);
		*out_done = true;
	} else if (rc == 0) {
		*stage = r->reply.put.stage;
		*out_done = offset + length == p->len || (r->reply.put.stage == 0 && r->reply.put.generation != 0);
		if (!*out_done && *stage == 0)
			rc = -KV_EPROTO;
	}
	kc_req_release(p->c, r);
	return rc;
}

static int ranges_await(struct kvc_put *p, uint64_t from, uint64_t to, uint64_t stage)
{
	struct kc_req *ranges[INLINE_WINDOW], *r;
	struct kc_window out = {.req = ranges, .size = INLINE_WINDOW, .one_value = true};
	int rc = 0;
	do {
		while (out.count < (p->by == KC_BY_INLINE ? INLINE_WINDOW : READ_WINDOW) && from < to) {
			uint64_t n = range_len(p, from);
			rc = kc_put_issue_await(p, from, n, stage, out.count == 0, &r);
			if (rc < 0)
				break;
			kc_window_add(&out, r);
			from += n;
		}
		if (out.count == 0)
			break;
		rc = kc_window_next_await(p->c, &out, p->route.deadline_ns, &r);
		if (KV_UNLIKELY(rc == -KV_EDELETED) && !p->born_ns)
			rc = kc_put_cleared(p->route.n, p->wait->trace, r);
		kc_req_release(p->c, r);
	} while (rc == 0);
	kc_window_drop_await(p->c, &out);
	return rc;
}

static int put_once_await(struct kvc_put *p)
{
	uint64_t first, last, stage = 0;
	struct kc_attachment *s;
	bool done = false;
	int rc = kc_node_ready_await(p->route.n, p->route.deadline_ns, &s);
	if (rc < 0)
		return rc;
	if (p->incarnation && p->incarnation != p->route.n->incarnation)
		return -KV_ECANCELED;
	way_plan(p, s);
	first = range_len(p, 0);
	for (last = 0; last + range_len(p, last) < p->len;)
		last += range_len(p, last);
	rc = range_await(p, 0, first, &stage, &done);
	if (rc < 0 || done)
		return rc;
	if (p->by == KC_BY_INLINE)
		return ranges_await(p, first, p->len, stage);
	rc = ranges_await(p, first, last, stage);
	if (rc < 0)
		return rc;
	return range_await(p, last, p->len - last, &stage, &done);
}

int kc_put_all_await(struct kvc_put *p)
{
	int rc;
	if (p->route.kind != ROUTE_FIXED)
		route_count(p->route.n, p->route.key);
	do
		rc = put_once_await(p);
	while (rc < 0 && kc_call_next_await(&p->route, rc));
	return rc == -KV_EDELETED && p->born_ns ? rc : (int)kc_call_code(p->c, rc);
}

int kc_put_cleared(struct kc_node *n, const struct kc_trace *t, const struct kc_req *r)
{
	struct kvc_client *c = n->client;
	uint64_t now_ns = loop_now(c->loop), by_ns = now_ns - KV_MIN(now_ns, r->reply.put.generation);
	kc_cleared_learn(c->pool, n->index, r->reply.put.stage, by_ns);
	return t->begun_ns >= by_ns ? -KV_ESTALE : 0;
}

void kc_put_count(struct kvc_client *c, int rc, uint64_t len)
{
	kc_add(&c->count.puts, 1);
	if (rc == 0)
		kc_add(&c->count.bytes_out, len);
}
