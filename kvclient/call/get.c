/* SPDX-License-Identifier: Apache-2.0 */
/* get.c -- a GET as ranges: plan, issue, take.
 *
 * The first range is asked for alone. Its reply tells the value's length and generation; what remains follows two
 * ranges at a time, taken in order, naming that generation, so that all bytes are of one value (another generation:
 * -KV_ESTALE, begin again).
 *
 * Who moves the bytes: the server, or, where the session says so, we (pull.c). A request is the same in both cases but
 * for a flag, and the server may move them all the same.
 *
 * Where a range lands: direct, in the caller's registered memory or in a view, and nothing is copied; or in a piece of
 * the receive buffer, from which it is copied; or, small and inside the reply, it was put into the destination by
 * reply.c.
 *
 * Verification is over what is delivered, at the place where it is delivered from: one hash for a value of one range, a
 * running one over several, and for a part of a value one per range, which the server makes for the purpose. What is
 * corrupt is asked for once more, and the server told to look at its memory first (WIRE_GET_CHECK). */
#include "kvclient/call/get.h"

#include "kvclient/call/memory.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"

enum {
	PIECE_GUESS_MIN = 1 << 20,
	PACK_MIN = 512,
	PACK_MAX = 16 << 10, /* a copy costs less than an operation of the fabric */
	PULLS_STALE =
		2 /* after so many leases that ran out, the server moves the bytes: a lease may be too short for them */
};

int kvc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, void *dst, uint64_t len, uint64_t slice,
		 uint64_t stride, const struct kvc_call *call, uint64_t deadline_ns)
{
	uint64_t extent = len;
	memset(g, 0, sizeof(*g));
	if (!kvc_key_valid(key) || !dst || len == 0)
		return -KV_EINVAL;
	if (slice >= len)
		slice = 0;
	if (slice > 0 && (stride < slice || __builtin_mul_overflow((len - 1) / slice, stride, &extent) ||
			  __builtin_add_overflow(extent, len - (len - 1) / slice * slice, &extent)))
		return -KV_EINVAL;
	g->c = c;
	g->n = kvc_call_node(c, key);
	g->key = key;
	g->dst = (struct kvc_target){dst, slice, stride, 0};
	g->cap = len;
	g->mem = kvc_client_mem_at(c, dst, extent);
	if (g->mem) {
		g->mem->users++;
		g->direct = true;
		g->region = g->mem->id;
		g->region_offset = (uint64_t)((uint8_t *)dst - g->mem->base);
	}
	g->offset = call->offset;
	g->length = call->length;
	g->part = call->offset != 0 || call->length != 0;
	g->verify = !((c->pool->options.flags | call->flags) & KVC_NO_VERIFY);
	g->sub = call->session;
	g->deadline_ns = deadline_ns;
	g->own_wait.co = co_self();
	g->wait = &g->own_wait;
	return 0;
}

void kvc_get_fini(struct kvc_get *g)
{
	if (g->mem)
		g->mem->users--;
	g->mem = NULL;
}

/* ---- planning ---- */

/* How many bytes are to be asked for in all, as far as is known. */
static uint64_t get_goal(const struct kvc_get *g)
{
	if (g->known)
		return g->total;
	return g->length ? KV_MIN(g->length, g->cap) : g->cap;
}

/* Slices that one range may have without more immediates than there can be. */
static uint64_t slices_max(const struct kvc_get *g, const struct kvc_session *s)
{
	uint64_t each = KV_MAX(kvc_chunks(s, g->dst.slice, 1) - 2, 1u);
	return KV_MAX((kvc_room_imms(g->c) - 2) / each, 1u);
}

/* The next range from `issued` on: its length, and where a direct one goes. */
static uint64_t range_plan(const struct kvc_get *g, const struct kvc_session *s, struct wire_dest *dest)
{
	uint64_t left = get_goal(g) - g->issued, slice = g->dst.slice, in, count;
	uint64_t chunk_room = (uint64_t)(kvc_room_imms(g->c) - 2) * KV_MIN(s->chunk_bytes, g->c->info.chunk_bytes);
	/* (A view must be one piece, whatever its server's guarantee.) */
	uint64_t max = KV_MIN(g->direct || g->sized ? KV_RANGE_MAX : kvc_room_piece(g->c), chunk_room);
	/* A destination much larger than the value would take the buffer from others: the first piece is no larger than
	 * what values have been like. */
	if (!g->direct && !g->known && !g->sized)
		max = KV_MIN(max, KV_MAX(g->c->last_len, (uint64_t)PIECE_GUESS_MIN));
	if (!g->direct || slice == 0) {
		*dest = (struct wire_dest){g->region, 1, g->region_offset + g->issued, 0, KV_MIN(left, max)};
		return dest->slice;
	}
	in = g->issued % slice;
	*dest = (struct wire_dest){g->region, 1, g->region_offset + g->issued / slice * g->dst.stride + in, 0, 0};
	if (in > 0 || slice > max || left < slice) {
		dest->slice = KV_MIN(KV_MIN(slice - in, left), max);
		return dest->slice;
	}
	count = KV_MIN(KV_MIN(left, max) / slice, slices_max(g, s));
	dest->count = (uint32_t)count;
	dest->stride = count > 1 ? g->dst.stride : 0;
	dest->slice = slice;
	return count * slice;
}

/* ---- issuing ---- */

static void range_fill(struct kvc_get *g, struct kvc_req *r, uint64_t length, const struct wire_dest *dest, bool pull)
{
	struct wire_request *w = &r->wire;
	w->type = WIRE_GET;
	w->flags = WIRE_GET_INLINE | (g->part ? WIRE_GET_SUM_RANGE : 0) |
		   (g->check && g->generation == 0 ? WIRE_GET_CHECK : 0) | (pull ? WIRE_GET_PULL : 0);
	w->key = (struct wire_bytes){g->key.data, (uint32_t)g->key.len};
	w->dest = *dest;
	w->get.offset = g->offset + g->issued;
	w->get.length = length;
	w->get.generation = g->generation;
	w->get.imm = kvc_req_imm(r);
	r->deadline_ns = g->deadline_ns;
	r->caller_memory = g->direct;
	r->region = g->direct && g->mem ? g->mem->region : g->c->region;
	r->inline_to = g->dst;
	r->inline_to.skip = g->issued;
	if (!g->direct) {
		w->dest.region = KVC_REGION_BUFFER;
		w->dest.offset = r->piece.offset;
	}
}

/* Small items of a batch go to pieces side by side, from which they are copied wherever they belong: the server may
 * write several at once. Tiny ones come in the reply. */
static bool get_packed(const struct kvc_get *g)
{
	return g->row && g->c->info.ordered && g->issued == 0 && get_goal(g) > PACK_MIN && get_goal(g) <= PACK_MAX;
}

/* The destination is the whole piece, so that the next one begins where it ends. */
static void range_pack(struct kvc_req *r)
{
	r->wire.flags = (uint8_t)((r->wire.flags | WIRE_GET_PACK) & ~WIRE_GET_INLINE);
	r->wire.dest.slice = r->piece.len_bytes;
}

int kvc_get_issue_await(struct kvc_get *g, bool wait, struct kvc_req **out)
{
	struct kvc_session *s;
	struct wire_dest dest;
	struct kvc_need need;
	uint64_t length, asked_ns = loop_turn_now(g->c->loop);
	bool row = get_packed(g), pull, packed;
	unsigned shard;
	int rc;
	/* The plan needs the session's chunk size, the room needs the plan; a session that changed while we waited for
	 * room is planned for again, and so is one whose endpoints have smaller queues now. */
	do {
		rc = kvc_call_ready_await(g->n, g->sub, g->deadline_ns, wait, &s);
		if (rc < 0)
			return rc;
		shard = kvc_place_shard(s->shard_seed, s->shards, g->key.data, g->key.len);
		pull = s->pull && g->stale < PULLS_STALE;
		packed = row && !s->pull;
		if (packed || (pull && g->dst.slice))
			g->direct = false; /* a read of ours fills one place */
		length = range_plan(g, s, &dest);
		need = (struct kvc_need){.piece_bytes = g->direct ? 0 : length,
					 .next = packed ? &g->row[shard] : NULL,
					 .imms = kvc_chunks(s, dest.slice, dest.count),
					 .node = g->n,
					 .sub = g->sub};
		rc = kvc_call_take_await(g->n, s, &need, g->deadline_ns, wait, out);
	} while (rc == 1 || rc == -KV_ERESET);
	if (rc < 0)
		return rc;
	(*out)->at.asked_ns = asked_ns;
	range_fill(g, *out, length, &dest, pull);
	if (packed)
		range_pack(*out);
	g->issued += length;
	kvc_req_submit(packed ? kvc_link_keep(s, shard, g->turn) : kvc_link_pick(s, shard), *out, g->wait);
	return 0;
}

/* ---- taking ---- */

static int first_take(struct kvc_get *g, const struct kvc_req *r)
{
	uint64_t there;
	g->value_len = r->reply.get.value_len;
	g->generation = r->reply.get.generation;
	g->checksum = r->reply.get.checksum;
	if (g->value_len > KV_VALUE_MAX)
		return -KV_EPROTO;
	there = g->offset < g->value_len ? g->value_len - g->offset : 0;
	g->total = g->length ? KV_MIN(g->length, there) : there;
	g->known = true;
	g->c->last_len = g->total;
	return g->total > g->cap ? -KV_ETOOBIG : 0;
}

/* Bring n bytes at `pos` of the value's part to the destination, and hash them if h is given. */
static void range_bring_await(struct kvc_get *g, const struct kvc_req *r, uint64_t pos, uint64_t n, struct kv_hasher *h)
{
	const uint8_t *from = g->direct || r->inlined ? NULL : kvc_buffer_at(&g->c->buffer, &r->piece);
	struct kvc_target to = g->dst;
	for (uint64_t done = 0, step; done < n; done += step) {
		step = KV_MIN(n - done, (uint64_t)KVC_STEP_BYTES);
		to.skip = pos + done;
		if (h && from)
			kv_hasher_update(h, from + done, step);
		else if (h)
			kvc_target_hash(&to, step, h);
		if (from)
			kvc_target_write(&to, from + done, step);
		if (done + step < n)
			co_yield_await();
	}
}

/* The usual case: a whole value, one range, at one place. */
static bool small_bring(struct kvc_get *g, const struct kvc_req *r, uint64_t n, int *out_rc)
{
	bool copy = !g->direct && !r->inlined;
	const uint8_t *from = copy ? kvc_buffer_at(&g->c->buffer, &r->piece) : g->dst.at;
	if (n > KVC_STEP_BYTES || (g->dst.slice && !copy))
		return false;
	*out_rc = g->verify && kv_hash_block(from, n) != r->reply.get.checksum ? -KV_ECORRUPT : 0;
	if (copy && *out_rc == 0)
		kvc_target_write(&g->dst, from, n);
	return true;
}

static int range_take_await(struct kvc_get *g, struct kvc_req *r, struct kv_hasher *running)
{
	uint64_t n = KV_MIN(r->wire.get.length, g->total - g->taken);
	bool whole = n == g->total, own_sum = whole || g->part;
	uint64_t sum = r->reply.get.checksum;
	struct kv_hasher own, *h = !g->verify ? NULL : own_sum ? &own : running;
	int rc = 0;
	if (whole && small_bring(g, r, n, &rc))
		goto out;
	if (h == &own)
		kv_hasher_init(&own);
	range_bring_await(g, r, g->taken, n, h);
	if (h == &own)
		rc = kv_hasher_digest(&own) == sum ? 0 : -KV_ECORRUPT;
	else if (h && g->taken + n == g->total)
		rc = kv_hasher_digest(h) == g->checksum ? 0 : -KV_ECORRUPT;
out:
	if (rc == 0)
		g->taken += n;
	else {
		kvc_add(&g->c->count.corrupt, 1);
		g->check = true;
	}
	return rc;
}

int kvc_get_take_await(struct kvc_get *g, struct kvc_req *r, int status, struct kv_hasher *hasher)
{
	int rc;
	/* Too big for the range asked for: nothing was moved, but now we know the length. */
	if (status == -KV_ETOOBIG && !g->known) {
		rc = first_take(g, r);
		g->issued = 0;
		return rc;
	}
	g->stale += status == -KV_ESTALE && g->stale < PULLS_STALE;
	if (status < 0)
		return status == -KV_ETOOBIG ? -KV_EPROTO : status;
	if (!g->known) {
		rc = first_take(g, r);
		if (rc < 0)
			return rc;
		g->issued = KV_MIN(r->wire.get.length, g->total);
	} else if (r->reply.get.generation != g->generation || r->reply.get.value_len != g->value_len) {
		return -KV_ESTALE;
	}
	if (!hasher && g->issued < g->total)
		return 0; /* the caller has it made again as a whole */
	return range_take_await(g, r, hasher);
}

/* ---- the whole ---- */

static int64_t get_once_await(struct kvc_get *g)
{
	struct kvc_window out = {0};
	struct kv_hasher hasher;
	struct kvc_req *r;
	int rc = 0;
	g->known = false;
	g->issued = g->taken = g->generation = 0;
	kv_hasher_init(&hasher);
	do {
		while (out.count < (g->known ? 2 : 1) && g->issued < get_goal(g)) {
			rc = kvc_get_issue_await(g, out.count == 0, &r);
			if (rc < 0)
				break;
			kvc_window_add(&out, r);
		}
		if (out.count == 0)
			break;
		rc = kvc_window_next_await(g->c, &out, g->deadline_ns, &r);
		rc = kvc_get_take_await(g, r, rc, &hasher);
		kvc_req_release(g->c, r);
	} while (rc == 0);
	/* What is left of a failure writes to the caller's memory: it is waited for. */
	kvc_window_drop_await(g->c, &out);
	return rc < 0 ? rc : (int64_t)g->total;
}

int64_t kvc_get_all_await(struct kvc_get *g)
{
	unsigned tries = 0;
	int64_t rc;
	do
		rc = get_once_await(g);
	while (rc < 0 && kvc_call_again_await(g->c, rc, g->deadline_ns, &tries));
	return kvc_call_code(g->c, rc);
}

void kvc_get_count(struct kvc_client *c, int64_t rc)
{
	kvc_add(&c->count.gets, 1);
	if (rc >= 0) {
		kvc_add(&c->count.hits, 1);
		kvc_add(&c->count.bytes_in, (uint64_t)rc);
	} else if (rc == -KV_ENOTFOUND) {
		kvc_add(&c->count.misses, 1);
	}
}
