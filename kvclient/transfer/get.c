/* SPDX-License-Identifier: Apache-2.0 */
/* get.c -- a GET as ranges: plan, ask, take.
 *
 * ASKING --(first reply)--> READING --(last range taken)--> WHOLE; each attempt begins at ASKING.
 *
 * The first range is out alone; its reply has the value's length and generation. The rest, two ranges at a time, taken
 * in order, name that generation, so all bytes are of one value; -KV_ESTALE starts the next attempt.
 *
 * The server moves the bytes, or the client reads them (pull.c): into the caller's registered memory, a borrowed piece,
 * or a piece of the receive buffer, then copied (enum kc_get_place). A server on this host leases the value as one
 * range instead, and the client copies it from the server's memory; if it gives no lease, the next attempt is the usual
 * one.
 *
 * Bytes are verified where they landed: a value by one running hash, a part by one for each range. A corrupt value is
 * asked for once more, with WIRE_GET_CHECK: the server checks its memory. */
#include "kvclient/transfer/get.h"

#include "kvclient/core/cleared.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/route/hot.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/memory.h"

enum {
	PIECE_GUESS_MIN = 1 << 20,
	SEALED_GUESS_MIN = 16 * KC_SEAL_STORED,
	PACK_MIN = 512,
	PACK_MAX = 16 << 10,     /* up to here a copy costs less than an operation of the fabric */
	STREAM_BYTES = 64 << 10, /* from here on a copy of leased bytes passes the caches, ... */
	STREAM_STEP = 4096,      /* hashed and then copied at a time, while the next step is prefetched */
	SEALED_STEP = 4,         /* pieces opened at a time: 256 KiB, less than 0.1 ms */
	PULLS_STALE = 2          /* expired leases after which the server moves the bytes */
};

/* The only place that changes the state. */
static void get_advance(struct kvc_get *g, enum kc_get_state to)
{
	KV_ASSERT_HOT(to == KC_GET_ASKING || to == g->state + 1);
	g->state = to;
}

int kc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, const struct kc_target *to, uint64_t len,
		const struct kvc_call *call, uint64_t deadline_ns)
{
	memset(g, 0, offsetof(struct kvc_get, sealed.offset));
	if (!kc_key_valid(key) || !(to->at || to->span) || len == 0)
		return -KV_EINVAL;
	g->c = c;
	route_begin(&g->route, c, key, ROUTE_READ, call->flags, deadline_ns);
	g->to.at = *to;
	g->to.cap = len;
	if (!to->span)
		g->to.mem = kc_client_mem_at(c, to->at, kc_target_extent(to, to->skip + len));
	if (g->to.mem) {
		g->to.mem->users++;
		g->to.place = KC_GET_DIRECT;
		g->to.region = g->to.mem->id;
		g->to.region_offset = (uint64_t)(to->at - g->to.mem->base);
	}
	g->ask.offset = call->offset;
	g->ask.length = call->length;
	g->ask.verify = !((c->pool->options.flags | call->flags) & KVC_NO_VERIFY);
	g->ask.exact = call->flags & KVC_EXACT ? len : 0;
	g->ask.session = call->session;
	g->ask.background = call->flags & KVC_BACKGROUND;
	g->ask.memory_only = call->flags & KVC_MEMORY_ONLY;
	g->own_wait.co = co_self();
	g->wait = &g->own_wait;
	return 0;
}

void kc_get_unseal(struct kvc_get *g)
{
	uint64_t in = g->ask.offset % KC_SEAL_PIECE;
	uint64_t want = in + (g->ask.length ? KV_MIN(g->ask.length, g->to.cap) : g->to.cap);
	kc_get_fini(g);
	g->to.place = KC_GET_COPIED;
	g->sealed.by = g->c->sealer;
	g->sealed.offset = g->ask.offset;
	g->sealed.length = g->ask.length;
	g->sealed.cap = g->to.cap;
	g->sealed.exact = g->ask.exact;
	g->sealed.chain = 0;
	g->ask.exact = 0;
	g->ask.offset = g->ask.offset / KC_SEAL_PIECE * KC_SEAL_STORED;
	if (g->ask.length)
		g->ask.length = (in + g->ask.length + KC_SEAL_PIECE - 1) / KC_SEAL_PIECE * KC_SEAL_STORED;
	g->to.cap = g->ask.length ? (want + KC_SEAL_PIECE - 1) / KC_SEAL_PIECE * KC_SEAL_STORED : kc_sealed_len(want);
}

void kc_get_fini(struct kvc_get *g)
{
	if (g->to.mem)
		g->to.mem->users--;
	g->to.mem = NULL;
}

void kc_get_begin(struct kvc_get *g)
{
	get_advance(g, KC_GET_ASKING);
	g->issued = g->taken = g->value.generation = 0;
}

/* ---- planning ---- */

static bool get_part(const struct kvc_get *g)
{
	return g->ask.offset != 0 || g->ask.length != 0;
}

static uint64_t get_goal(const struct kvc_get *g)
{
	if (g->state != KC_GET_ASKING)
		return g->value.total;
	return g->ask.length ? KV_MIN(g->ask.length, g->to.cap) : g->to.cap;
}

/* The most slices of one range, for its immediates. */
static uint64_t slices_max(const struct kvc_get *g, const struct kc_attachment *s)
{
	uint64_t each = KV_MAX(kc_chunks(s, g->to.at.slice, 1) - 2, 1u);
	return KV_MAX((kc_room_imms(g->c) - 2) / each, 1u);
}

/* Plan the next range, from `issued` on. Returns its length; *dest: target of a direct one. */
static uint64_t range_plan(const struct kvc_get *g, const struct kc_attachment *s, struct wire_dest *dest)
{
	uint64_t left = get_goal(g) - g->issued, pos = g->to.at.skip + g->issued, slice = g->to.at.slice, in, count;
	uint64_t chunk_room = (uint64_t)(kc_room_imms(g->c) - 2) * KV_MIN(s->chunk_bytes, g->c->info.chunk_bytes);
	uint64_t max = KV_MIN(g->to.place != KC_GET_COPIED ? KV_RANGE_MAX : kc_room_piece(g->c), chunk_room);
	/* Without a length from the caller, the first piece is no larger than the last value, or large destinations
	 * would fill the buffer. */
	if (g->to.place == KC_GET_COPIED && g->state == KC_GET_ASKING && g->ask.length == 0)
		max = KV_MIN(max, KV_MAX(g->c->hints.last_len,
					 (uint64_t)(g->sealed.by ? SEALED_GUESS_MIN : PIECE_GUESS_MIN)));
	if (KV_UNLIKELY(g->sealed.by != NULL) && left > max)
		max = KV_MAX(max / KC_SEAL_STORED, (uint64_t)1) * KC_SEAL_STORED;
	if (g->to.place != KC_GET_DIRECT || slice == 0) {
		*dest = (struct wire_dest){g->to.region, 1, g->to.region_offset + pos, 0, KV_MIN(left, max)};
		return dest->slice;
	}
	in = pos % slice;
	*dest = (struct wire_dest){g->to.region, 1, g->to.region_offset + pos / slice * g->to.at.stride + in, 0, 0};
	if (in > 0 || slice > max || left < slice) {
		dest->slice = KV_MIN(KV_MIN(slice - in, left), max);
		return dest->slice;
	}
	count = KV_MIN(KV_MIN(left, max) / slice, slices_max(g, s));
	dest->count = (uint32_t)count;
	dest->stride = count > 1 ? g->to.at.stride : 0;
	dest->slice = slice;
	return count * slice;
}

/* ---- issuing ---- */

#define LEASE_AGAIN_NS 5000000ull /* after a server gave no lease */

static uint64_t value_most(const struct kvc_get *g)
{
	if (get_part(g))
		return KV_VALUE_MAX;
	return g->to.place == KC_GET_LEASED && g->ask.guess ? g->ask.guess : g->to.cap;
}

/* Whether to ask for a lease: of all or nothing, so an attempt that began with ranges ends with ranges. All messages to
 * a server on this host use channels, so none follows its bytes. */
static bool get_leased(const struct kvc_get *g, const struct kc_attachment *s)
{
	const struct kc_node *n = g->route.n;
	if (!s->local || g->ask.moved || g->issued > 0)
		return false;
	return loop_turn_now(g->c->loop) >= n->lease_again_ns || (!g->refused && value_most(g) < n->lease_refused);
}

/* The server counts whole values. Its memory may still have room for a smaller one. */
static void lease_refused(struct kvc_get *g, uint64_t value_len)
{
	struct kc_node *n = g->route.n;
	uint64_t now = loop_turn_now(g->c->loop);
	kc_add(&g->c->count.local_refusals, 1);
	g->refused = true;
	n->lease_refused = now >= n->lease_again_ns ? value_len : KV_MIN(n->lease_refused, value_len);
	n->lease_again_ns = now + LEASE_AGAIN_NS;
}

static void lease_fill(const struct kvc_get *g, struct kc_req *r)
{
	bool lent = g->to.place == KC_GET_LEASED;
	r->mem.leased = true;
	r->mem.most = lent ? KV_VALUE_MAX : g->to.cap - g->issued;
	r->mem.callers = false;
	r->wire.dest = (struct wire_dest){.slice = lent ? 0 : r->mem.most};
	r->wire.flags |= WIRE_GET_PULL;
	if (lent || g->sealed.by)
		r->wire.flags &= (uint8_t)~WIRE_GET_INLINE;
}

/* The length that the request names. If one range must bring all, the server refuses a longer value, whose first bytes
 * would be useless. */
static uint64_t range_named(const struct kvc_get *g, uint64_t length, bool packed)
{
	bool all = g->state == KC_GET_ASKING && (g->ask.single || length == get_goal(g));
	if (packed || !all)
		return length;
	return g->ask.length <= length ? g->ask.length : 0; /* 0: to the end */
}

static void range_fill(struct kvc_get *g, struct kc_req *r, uint64_t named, const struct wire_dest *dest, bool pull)
{
	struct wire_request *w = &r->wire;
	bool direct = g->to.place == KC_GET_DIRECT;
	w->type = WIRE_GET;
	w->flags = WIRE_GET_INLINE | (get_part(g) && !g->sealed.by ? WIRE_GET_SUM_RANGE : 0) |
		   (g->route.tries & KC_TRIED_CORRUPT && g->value.generation == 0 ? WIRE_GET_CHECK : 0) |
		   (g->ask.memory_only ? WIRE_GET_MEMORY_ONLY : 0) | (pull ? WIRE_GET_PULL : 0) |
		   (g->ask.more || g->issued > 0 ? WIRE_GET_MORE : 0);
	w->key = (struct wire_bytes){g->route.key.data, (uint32_t)g->route.key.len};
	w->dest = *dest;
	w->get.offset = g->ask.offset + g->issued;
	w->get.length = named;
	w->get.generation = g->value.generation;
	if (KV_UNLIKELY(g->route.deleted_ns) && g->issued == 0) {
		w->flags |= WIRE_GET_YOUNG;
		w->get.generation = loop_turn_now(g->c->loop) - KV_MIN(loop_turn_now(g->c->loop), g->route.deleted_ns);
	}
	w->get.imm = kc_req_imm(r);
	r->deadline_ns = g->route.deadline_ns;
	r->mem.callers = direct;
	r->mem.region = direct && g->to.mem ? g->to.mem->region : g->c->region;
	r->place = g->to.at;
	r->place.skip += g->issued;
	if (!direct) {
		w->dest.region = KC_REGION_BUFFER;
		w->dest.offset = r->mem.piece.offset;
	}
	if (KV_UNLIKELY(g->sealed.by != NULL))
		r->place = (struct kc_target){.at = kc_buffer_at(&g->c->buffer, &r->mem.piece)};
}

/* Small items of a batch use adjacent pieces, so the server may write several at once. Tiny ones come in the reply.
 * Packed values are copied to their places at once, which of sealed ones would be such pieces. */
static bool get_packed(const struct kvc_get *g)
{
	return g->batch.row && !g->sealed.by && g->c->info.ordered && g->issued == 0 && get_goal(g) > PACK_MIN &&
	       get_goal(g) <= PACK_MAX;
}

int kc_get_issue_await(struct kvc_get *g, bool wait, struct kc_req **out)
{
	struct kc_attachment *s;
	struct wire_dest dest = {0};
	struct kc_need need;
	uint64_t length, asked_ns = loop_turn_now(g->c->loop);
	bool row = get_packed(g), leased, pull, packed;
	unsigned shard;
	int rc;
	/* The plan depends on the attachment, and room on the plan. If either changed during the wait, plan again. */
	do {
		rc = kc_call_ready_await(g->route.n, g->ask.session, g->route.deadline_ns, wait, &s);
		if (rc < 0)
			return rc;
		shard = kc_place_shard(s->shard_seed, s->shards, g->route.key.data, g->route.key.len);
		leased = get_leased(g, s);
		if (g->to.place == KC_GET_LEASED && !leased)
			return -KV_ENOTSUP;
		pull = s->pull && !s->local && g->stale < PULLS_STALE;
		packed = row && !s->pull && !s->local;
		if (packed || (pull && g->to.at.slice))
			g->to.place = KC_GET_COPIED; /* our read fills one place */
		length = leased ? get_goal(g) - g->issued : range_plan(g, s, &dest);
		packed &= length == get_goal(g);
		if (g->ask.single && g->ask.length && !leased && length < get_goal(g) && g->to.place != KC_GET_LENT)
			return -KV_ETOOBIG; /* for one request */
		need = (struct kc_need){.piece_bytes = leased || g->to.place == KC_GET_DIRECT ? 0 : length,
					.next = packed ? &g->batch.row[shard] : NULL,
					.imms = leased ? 0 : kc_chunks(s, dest.slice, dest.count),
					.node = g->route.n,
					.second = !wait,
					.background = g->ask.background,
					.session = g->ask.session};
		rc = kc_call_take_await(g->route.n, g->route.n->attaches, &need, g->route.deadline_ns, wait, out);
	} while (rc == 1 || rc == -KV_ERESET);
	if (rc < 0)
		return rc;
	(*out)->at.asked_ns = asked_ns;
	range_fill(g, *out, range_named(g, length, packed), &dest, pull);
	if (KV_UNLIKELY(leased))
		lease_fill(g, *out);
	if (packed) {
		(*out)->wire.flags = (uint8_t)(((*out)->wire.flags | WIRE_GET_PACK) & ~WIRE_GET_INLINE);
		(*out)->wire.dest.slice = (*out)->mem.piece.len_bytes; /* the next one begins here */
	}
	g->issued += length;
	kc_req_submit(packed ? kc_link_keep(s, shard, g->batch.turn) : kc_link_pick(s, shard), *out, g->wait);
	return 0;
}

/* ---- taking ---- */

static int sealed_take(struct kvc_get *g)
{
	struct kc_seal_value *v = &g->sealed.value;
	uint64_t there;
	*v = (struct kc_seal_value){.key = g->route.key,
				    .len = kc_sealed_plain(g->value.len),
				    .generation = kc_cleared_least(g->c->pool, g->route.n->index),
				    .piece = g->ask.offset / KC_SEAL_STORED,
				    .known = g->sealed.chain ? sizeof(g->sealed.chain) : 0};
	kv_put64(v->prev, g->sealed.chain);
	if (v->len == 0) {
		kc_add(&g->c->count.corrupt, 1);
		return -KV_ECORRUPT;
	}
	if (g->sealed.offset > v->len)
		return -KV_EINVAL;
	there = v->len - g->sealed.offset;
	g->sealed.total = g->sealed.length ? KV_MIN(g->sealed.length, there) : there;
	if (g->sealed.exact && g->sealed.total != g->sealed.exact)
		return -KV_ENOTFOUND;
	return g->sealed.total > g->sealed.cap ? -KV_ETOOBIG : 0;
}

static int first_take(struct kvc_get *g, const struct kc_req *r)
{
	uint64_t there;
	g->value.len = r->reply.get.value_len;
	g->value.generation = r->reply.get.generation;
	g->value.checksum = r->reply.get.checksum;
	if (g->value.len > KV_VALUE_MAX)
		return -KV_EPROTO;
	there = g->ask.offset < g->value.len ? g->value.len - g->ask.offset : 0;
	g->value.total = g->ask.length ? KV_MIN(g->ask.length, there) : there;
	get_advance(g, KC_GET_READING);
	g->c->hints.last_len = g->value.total;
	if (KV_UNLIKELY(r->reply.get.hot) && g->route.kind != ROUTE_FIXED)
		route_hot_reported(g->c, g->route.key, g->route.n);
	if (KV_UNLIKELY(g->sealed.by != NULL))
		return sealed_take(g);
	if (KV_UNLIKELY(g->ask.exact) && g->value.total != g->ask.exact)
		return -KV_ENOTFOUND;
	return g->value.total > g->to.cap ? -KV_ETOOBIG : 0;
}

static void bytes_taken(struct kvc_get *g, uint64_t n)
{
	g->taken += n;
	if (g->taken == g->value.total)
		get_advance(g, KC_GET_WHOLE);
}

/* Whether it must be copied from a piece. `to.place` may have changed for later ranges; the request has its own. */
static bool range_copied(const struct kvc_get *g, const struct kc_req *r)
{
	if (r->mem.leased)
		return r->mem.lease.local && g->to.place != KC_GET_LEASED;
	return !r->mem.callers && !r->reply.get.inlined && g->to.place != KC_GET_LENT;
}

static const uint8_t *range_from(const struct kvc_get *g, const struct kc_req *r)
{
	if (r->mem.lease.local)
		return r->mem.lease.at;
	return range_copied(g, r) ? kc_buffer_at(&g->c->buffer, &r->mem.piece) : NULL;
}

/* In steps, so that the bytes are in a cache when they are copied. */
static void lease_bring(const struct kc_target *at, const uint8_t *from, uint64_t n, struct kv_hasher *h)
{
	struct kc_target to = *at;
	for (uint64_t done = 0, step; done < n; done += step) {
		step = KV_MIN(n - done, (uint64_t)STREAM_STEP);
		to.skip = at->skip + done;
		if (h)
			kv_hasher_update(h, from + done, step);
		kc_target_stream(&to, from + done, step, done + step < n ? STREAM_STEP : 0);
	}
	kc_target_streamed();
}

/* Hash and copy n bytes of the value, in a piece, leased, or (from: NULL) in place. */
static void step_bring(const struct kc_target *to, const uint8_t *from, uint64_t n, bool copy, bool leased,
		       struct kv_hasher *h)
{
	if (copy && leased) {
		lease_bring(to, from, n, h);
		return;
	}
	if (h && from)
		kv_hasher_update(h, from, n);
	else if (h)
		kc_target_hash(to, n, h);
	if (copy)
		kc_target_write(to, from, n);
}

/* Bring n bytes of the part from `pos` on, and hash them if h is given. */
static void range_bring_await(struct kvc_get *g, const struct kc_req *r, uint64_t pos, uint64_t n, struct kv_hasher *h)
{
	const uint8_t *from = range_from(g, r);
	bool copy = range_copied(g, r);
	struct kc_target to = g->to.at;
	if (!copy && !h)
		return;
	for (uint64_t done = 0, step; done < n; done += step) {
		step = KV_MIN(n - done, (uint64_t)KC_STEP_BYTES);
		to.skip = g->to.at.skip + pos + done;
		step_bring(&to, from ? from + done : NULL, step, copy, r->mem.lease.local, h);
		if (done + step < n)
			co_yield_await();
	}
}

/* Bring a whole value of one range at one place. False: another case. */
static bool small_bring(struct kvc_get *g, const struct kc_req *r, uint64_t n, int *out_rc)
{
	bool copy = range_copied(g, r);
	const uint8_t *from = range_from(g, r);
	if (n > (copy && r->mem.lease.local ? STREAM_BYTES - 1 : KC_STEP_BYTES) ||
	    (!from && !kc_target_flat(&g->to.at)))
		return false;
	if (!from)
		from = g->to.at.at + g->to.at.skip;
	*out_rc = g->ask.verify && kv_hash_block(from, n) != r->reply.get.checksum ? -KV_ECORRUPT : 0;
	if (copy && *out_rc == 0)
		kc_target_write(&g->to.at, from, n);
	return true;
}

static void range_taken(struct kvc_get *g, const struct kc_req *r, uint64_t n)
{
	bytes_taken(g, n);
	if (r->mem.lease.local) {
		kc_add(&g->c->count.local_gets, 1);
		kc_add(&g->c->count.local_bytes, n);
	}
}

/* Open the next piece, of n stored bytes, into the part of the caller's memory that it covers. */
static int piece_open(struct kvc_get *g, const uint8_t *from, uint64_t n)
{
	struct kc_seal_value *v = &g->sealed.value;
	uint64_t at = v->piece * KC_SEAL_PIECE, end = KV_MIN(at + KC_SEAL_PIECE, v->len);
	uint64_t first = KV_MAX(at, g->sealed.offset), last = KV_MIN(end, g->sealed.offset + g->sealed.total);
	struct kc_target to = g->to.at;
	if (at >= v->len || n != end - at + KC_SEAL_EXTRA || last < first)
		return -KV_EPROTO;
	to.skip += first - g->sealed.offset;
	return kc_open_piece(g->sealed.by, v, from, &to, first - at, last - first);
}

/* Open a range of whole pieces, in steps. */
static int range_open_await(struct kvc_get *g, struct kc_req *r)
{
	uint64_t n = KV_MIN(kc_req_asked(r), g->value.total - g->taken);
	const uint8_t *from = r->mem.lease.local ? r->mem.lease.at : r->place.at;
	for (uint64_t done = 0, step; done < n; done += step) {
		step = KV_MIN(n - done, (uint64_t)KC_SEAL_STORED);
		int rc = piece_open(g, from + done, step);
		if (rc < 0) {
			kc_add(&g->c->count.corrupt, rc == -KV_ECORRUPT);
			return rc;
		}
		if (done + step < n && g->sealed.value.piece % SEALED_STEP == 0)
			co_yield_await();
	}
	range_taken(g, r, n);
	return 0;
}

static int range_take_await(struct kvc_get *g, struct kc_req *r, struct kv_hasher *running)
{
	uint64_t n = KV_MIN(kc_req_asked(r), g->value.total - g->taken);
	bool whole = n == g->value.total, own_sum = whole || get_part(g);
	uint64_t sum = r->reply.get.checksum;
	struct kv_hasher own, *h = own_sum ? &own : running;
	int rc = 0;
	if (!g->ask.verify)
		h = NULL;
	if (whole && small_bring(g, r, n, &rc))
		goto out;
	if (h == &own)
		kv_hasher_init(&own);
	range_bring_await(g, r, g->taken, n, h);
	if (h == &own)
		rc = kv_hasher_digest(&own) == sum ? 0 : -KV_ECORRUPT;
	else if (h && g->taken + n == g->value.total)
		rc = kv_hasher_digest(h) == g->value.checksum ? 0 : -KV_ECORRUPT;
out:
	if (rc == 0) {
		range_taken(g, r, n);
		return 0;
	}
	kc_add(&g->c->count.corrupt, 1); /* kc_call_again_await repeats it once */
	return rc;
}

int kc_get_take_await(struct kvc_get *g, struct kc_req *r, int status, struct kv_hasher *hasher)
{
	int rc;
	/* The value exceeds the range: nothing was moved, but its length is now known. */
	if (status == -KV_ETOOBIG && g->state == KC_GET_ASKING) {
		rc = first_take(g, r);
		g->issued = 0;
		if (rc == 0)
			bytes_taken(g, 0);
		return rc;
	}
	if (KV_UNLIKELY(status == -KV_EDELETED))
		route_deleted(&g->route, r->reply.get.generation);
	g->on_tier |= status == -KV_ENOTFOUND && r->said == KC_SAID_REPLY && r->reply.get.on_tier;
	g->stale += status == -KV_ESTALE && g->stale < PULLS_STALE;
	if (KV_UNLIKELY(status == -KV_EBUSY && r->mem.leased)) {
		lease_refused(g, r->reply.get.value_len);
		return -KV_ESTALE; /* at once, the usual way */
	}
	if (status < 0)
		return status == -KV_ETOOBIG ? -KV_EPROTO : status;
	if (g->state == KC_GET_ASKING) {
		rc = first_take(g, r);
		if (rc < 0)
			return rc;
		g->issued = KV_MIN(kc_req_asked(r), g->value.total);
	} else if (r->reply.get.generation != g->value.generation || r->reply.get.value_len != g->value.len) {
		return -KV_ESTALE;
	}
	if (!hasher && g->issued < g->value.total)
		return 0; /* the caller repeats it as a whole */
	if (KV_UNLIKELY(g->sealed.by != NULL))
		return range_open_await(g, r);
	return range_take_await(g, r, hasher);
}

/* ---- the whole ---- */

int64_t kc_get_once_await(struct kvc_get *g)
{
	struct kc_req *ranges[2], *r;
	struct kc_window out = {.req = ranges, .size = 2, .one_value = true};
	struct kv_hasher hasher;
	int rc = 0;
	kc_get_begin(g);
	kv_hasher_init(&hasher);
	do {
		while (out.count < (g->state == KC_GET_ASKING ? 1 : 2) && g->issued < get_goal(g)) {
			rc = kc_get_issue_await(g, out.count == 0, &r);
			if (rc < 0)
				break;
			kc_window_add(&out, r);
		}
		if (out.count == 0)
			break;
		rc = kc_window_next_await(g->c, &out, g->route.deadline_ns, &r);
		rc = kc_get_take_await(g, r, rc, &hasher);
		kc_req_release(g->c, r);
	} while (rc == 0);
	/* After a failure the other range may still write to the caller's memory. */
	kc_window_drop_await(g->c, &out);
	return rc < 0 ? rc : (int64_t)kc_get_total(g);
}

int64_t kc_get_code(const struct kvc_get *g, int64_t rc)
{
	return rc == -KV_ENOTFOUND && g->ask.memory_only && g->on_tier ? -KV_ETIER : rc;
}

int64_t kc_get_all_await(struct kvc_get *g)
{
	int64_t rc;
	if (g->route.former == 0)
		route_count(g->route.n, g->route.key);
	do
		rc = kc_get_once_await(g);
	while (rc < 0 && kc_call_next_await(&g->route, rc));
	return kc_get_code(g, route_code(&g->route, kc_call_code(g->c, rc)));
}

void kc_get_count(struct kvc_client *c, int64_t rc)
{
	kc_add(&c->count.gets, 1);
	if (rc >= 0) {
		kc_add(&c->count.hits, 1);
		kc_add(&c->count.bytes_in, (uint64_t)rc);
	} else if (rc == -KV_ENOTFOUND || rc == -KV_ETIER) {
		kc_add(&c->count.misses, 1);
	}
}
