/* SPDX-License-Identifier: Apache-2.0 */
/* admission.c -- a request gets its entry, a piece of the buffer and immediates together, or waits.
 *
 * A request holds nothing while it waits, and requests under way end by themselves, so waits cannot deadlock. Hence a
 * call that holds a request may only try: without room it waits for its own requests.
 *
 * One queue serves in order, so large requests do not starve. A request without a piece passes those that lack only a
 * piece, since callers with borrowed pieces make such requests.
 *
 * A server may take 1 / parts() of the free room , so stuck servers leave room. A waiting request delays other servers'
 * requests only while they have more.
 *
 * Callers return borrowed pieces, half of the buffer at most. While one waits, servers take no more than is lent.
 *
 * The background gets half and waits last, but leads the queue after KC_PASSED_MAX others. */
#include "kvclient/request/admission.h"

#include "kvclient/core/waits.h"
#include "kvclient/request/private.h"

enum { REQS_KEPT = 64, PIECES_OUT = 4 };
enum { LARGE_OUT_ALL = 16 << 20, LARGE_OUT_LEAST = 4 << 20, LARGE_OUT_MOST = 8 << 20 };

/* PARTS: with more servers than this, each may have an eighth of the free room, or 8 / servers if less. PART_UNITS:
 * least units of a part of everything, so that requests fit. */
enum { PARTS = 8, PART_UNITS = 32 };

struct kc_starving {
	struct kv_list node;
	struct co *co;
	const bool *stop; /* of its call */
	struct kc_need need;
	struct kc_req *granted;
	int status; /* 1: it still waits */
};

/* A walk over waiting requests. It notes the smallest share among those that could not be served, and stamps their
 * shares. */
struct scan {
	uint64_t id, bytes_least;
	uint32_t counts_least;
	bool borrowed; /* a borrower waits for a piece */
	bool background;
	uint32_t rest;
};

static struct kc_room_share *share_of(struct kvc_client *c, const struct kc_need *need)
{
	return need->node ? &need->node->share : &c->requests->room.nobody;
}

static bool shared(const struct kvc_client *c)
{
	return c->num_nodes > 1;
}

/* A server may have 1 / parts of the free room. units: total of entries, immediates or least pieces. */
static uint64_t parts(const struct kvc_client *c, uint64_t units)
{
	uint64_t servers = c->num_nodes, most = KV_MAX(units / PART_UNITS, (uint64_t)PARTS);
	return KV_MIN(servers - 1, KV_MIN(KV_MAX(servers / PARTS, (uint64_t)PARTS), most));
}

static uint64_t piece_parts(const struct kvc_client *c)
{
	return parts(c, c->buffer.len_bytes / KC_PIECE_MIN);
}

static uint32_t reqs_max(const struct kvc_client *c)
{
	return c->reqs.count - REQS_KEPT;
}

static uint32_t left_of(uint32_t all, uint32_t used)
{
	return all > used ? all - used : 0;
}

static bool room_short(struct kvc_client *c, const struct kc_need *need)
{
	const struct kc_room_share *s = share_of(c, need);
	uint32_t imms = left_of(c->requests->room.imm_limit, c->requests->room.imm_used),
		 reqs = left_of(reqs_max(c), c->reqs.used);
	if (need->urgent)
		return c->reqs.used == c->reqs.count;
	if (need->imms > imms || reqs == 0)
		return true;
	if (!shared(c) || c->reqs.used == 0)
		return false;
	return (need->imms && c->requests->room.imm_used &&
		(s->imms + need->imms) * parts(c, c->requests->room.imm_limit) > imms) ||
	       (s->reqs + 1) * parts(c, reqs_max(c)) > reqs;
}

/* Whether pieces are out that return by themselves, unlike borrowed and lost ones. */
static bool pieces_out(const struct kvc_client *c)
{
	const struct kc_buffer *b = &c->buffer;
	return b->free_bytes + b->quarantined_bytes + c->requests->unsafe.orphan_bytes +
		       c->requests->room.nobody.bytes <
	       b->len_bytes;
}

static bool lent_full(const struct kvc_client *c, const struct kc_need *need)
{
	return shared(c) && !need->node && pieces_out(c) &&
	       c->requests->room.nobody.bytes + kc_buffer_rounded(need->piece_bytes) > c->buffer.len_bytes / 2;
}

static bool piece_short(const struct kvc_client *c, const struct kc_need *need)
{
	if (!shared(c) || !need->node || !pieces_out(c))
		return false;
	return (need->node->share.bytes + kc_buffer_rounded(need->piece_bytes)) * piece_parts(c) > c->buffer.free_bytes;
}

/* Bytes of a few large pieces, per client, from a server on this host. */
static uint64_t large_out(const struct kvc_client *c)
{
	uint64_t part = LARGE_OUT_ALL / c->pool->num_clients;
	return KV_MAX(KV_MIN(part, (uint64_t)LARGE_OUT_MOST), (uint64_t)LARGE_OUT_LEAST);
}

/* Whether enough is under way from this server (on one host, more would only leave the cache), or lent. Such a wait
 * delays no other request. */
static bool enough_out(const struct kvc_client *c, const struct kc_room_share *s, const struct kc_need *need)
{
	const struct kc_attachment *attachment = need->node ? need->node->attachment : NULL;
	if (lent_full(c, need))
		return true;
	if (!attachment || attachment->out_max == UINT64_MAX ||
	    s->out_bytes + need->piece_bytes <= attachment->out_max || s->out <= need->second)
		return false;
	return s->out >= PIECES_OUT || s->out_bytes + need->piece_bytes > large_out(c);
}

static bool background_full_here(const struct kc_need *need)
{
	const struct kc_attachment *a = need->node ? need->node->attachment : NULL;
	uint32_t most = a ? KV_MIN(a->credits / 2, (uint32_t)KC_BACKGROUND_OUT) : KC_BACKGROUND_OUT;
	return need->node && need->node->share.background >= KV_MAX(most, 1u);
}

static bool background_full(const struct kvc_client *c, const struct kc_need *need)
{
	uint64_t bytes = c->requests->room.background.bytes, imms = c->requests->room.background.imms;
	return c->requests->room.background.reqs >= reqs_max(c) / 2 ||
	       (bytes && need->piece_bytes && bytes + kc_buffer_rounded(need->piece_bytes) > c->buffer.len_bytes / 2) ||
	       (imms && need->imms && imms + need->imms > c->requests->room.imm_limit / 2);
}

static bool held_back(const struct kvc_client *c, const struct kc_need *need)
{
	return need->background && (background_full_here(need) || background_full(c, need));
}

static int room_take(struct kvc_client *c, const struct kc_need *need, struct kc_req **out)
{
	struct kc_room_share *share = share_of(c, need);
	struct kc_piece piece = {0};
	struct kc_req *r;
	if (need->imms > c->requests->room.imm_limit || need->piece_bytes > kc_buffer_largest(&c->buffer))
		return -KV_ETOOBIG;
	if (room_short(c, need) || held_back(c, need))
		return -KV_EBUSY;
	if (need->piece_bytes) {
		int rc;
		if (piece_short(c, need) || enough_out(c, share, need))
			return -KV_EBUSY;
		rc = need->next ? kc_buffer_take_near(&c->buffer, need->piece_bytes, KC_ROW_BYTES, need->next, &piece)
				: kc_buffer_take(&c->buffer, need->piece_bytes, &piece);
		if (rc < 0)
			return rc;
	}
	r = kc_reqs_take(&c->reqs);
	r->mem.piece = piece;
	r->room.bytes = piece.len_bytes;
	r->room.imms = need->imms;
	r->at.asked_ns = r->at.made_ns = loop_turn_now(c->loop);
	r->room.share = share;
	c->requests->room.imm_used += need->imms;
	share->reqs++;
	share->imms += need->imms;
	share->bytes += piece.len_bytes;
	share->out += piece.len_bytes > 0;
	share->out_bytes += piece.len_bytes;
	c->requests->room.servers_bytes += need->node ? piece.len_bytes : 0;
	r->room.background = r->behind = need->background;
	if (need->background) {
		share->background++;
		c->requests->room.background.reqs++;
		c->requests->room.background.imms += need->imms;
		c->requests->room.background.bytes += piece.len_bytes;
	}
	*out = r;
	return 0;
}

/* ---- which request goes before which ---- */

/* The larger part of a share, of entries or immediates, in 1/1024 of all. */
static uint32_t counts_of(const struct kvc_client *c, uint32_t reqs, uint32_t imms)
{
	return (uint32_t)KV_MAX((uint64_t)reqs * 1024 / reqs_max(c),
				(uint64_t)imms * 1024 / c->requests->room.imm_limit);
}

static void scan_begin(struct kvc_client *c, struct scan *scan)
{
	*scan = (struct scan){.id = ++c->requests->room.scans,
			      .bytes_least = UINT64_MAX,
			      .counts_least = UINT32_MAX,
			      .rest = c->requests->room.num_starving};
}

/* Whether this stays within the servers' part while a borrower waits. */
static bool beside_lent(const struct kvc_client *c, const struct kc_need *need)
{
	return shared(c) && c->requests->room.servers_bytes + need->piece_bytes <=
				    KV_MIN(c->requests->room.nobody.bytes, c->buffer.len_bytes / 2);
}

static void scan_blocked(struct kvc_client *c, struct scan *scan, const struct kc_need *need)
{
	struct kc_room_share *s = share_of(c, need);
	if (need->background && held_back(c, need)) {
		s->background_scan = scan->id;
		scan->background |= background_full(c, need);
		return;
	}
	/* It holds up all requests of its share that wait for a piece. */
	if (s->counts_scan != scan->id && s->piece_scan != scan->id)
		scan->rest -= s->waiting;
	if (!need->piece_bytes && !need->urgent)
		scan->rest--;
	if (!need->piece_bytes || room_short(c, need)) {
		s->counts_scan = scan->id;
		scan->counts_least = KV_MIN(scan->counts_least, counts_of(c, s->reqs, s->imms));
	} else {
		s->piece_scan = scan->id;
		if (enough_out(c, s, need))
			return;
		if (s == &c->requests->room.nobody)
			scan->borrowed = true;
		else
			scan->bytes_least = KV_MIN(scan->bytes_least, s->bytes);
	}
}

static bool scan_pass(struct kvc_client *c, const struct scan *scan, const struct kc_need *need)
{
	const struct kc_room_share *s = share_of(c, need);
	if (need->urgent)
		return true;
	if (need->background && (scan->background || s->background_scan == scan->id))
		return false;
	if (s->counts_scan == scan->id || (need->piece_bytes && s->piece_scan == scan->id))
		return false;
	if (scan->counts_least != UINT32_MAX &&
	    (!shared(c) || counts_of(c, s->reqs + 1, s->imms + need->imms) > scan->counts_least))
		return false;
	if (need->piece_bytes && scan->borrowed && !beside_lent(c, need))
		return false;
	return !need->piece_bytes || scan->bytes_least == UINT64_MAX ||
	       (shared(c) && s->bytes + need->piece_bytes <= scan->bytes_least);
}

static struct kc_starving *starving_of(const struct kv_list *n)
{
	return KV_LIST_ENTRY(n, struct kc_starving, node);
}

/* True: one of the background is now the first of all. */
static bool background_passed(struct kvc_client *c)
{
	struct kv_list *n = c->requests->room.behind.next;
	if (KV_LIKELY(n == &c->requests->room.behind) || ++c->requests->room.background.passed < KC_PASSED_MAX)
		return false;
	c->requests->room.background.passed = 0;
	for (; n != &c->requests->room.behind && !background_full(c, &starving_of(n)->need); n = n->next) {
		if (background_full_here(&starving_of(n)->need))
			continue; /* only its server is full */
		kv_list_del(n);
		kv_list_add_head(&c->requests->room.starving, n);
		return true;
	}
	return false;
}

static void scan_list(struct kvc_client *c, struct scan *scan, const struct kv_list *list)
{
	for (const struct kv_list *n = list->next; n != list && scan->rest > 0; n = n->next)
		scan_blocked(c, scan, &starving_of(n)->need);
}

int kc_room_try(struct kvc_client *c, const struct kc_need *need, struct kc_req **out)
{
	int rc;
	if (!kv_list_empty(&c->requests->room.starving) ||
	    (need->background && !kv_list_empty(&c->requests->room.behind))) {
		struct scan scan;
		scan_begin(c, &scan);
		scan_list(c, &scan, &c->requests->room.starving);
		if (need->background)
			scan_list(c, &scan, &c->requests->room.behind);
		if (!scan_pass(c, &scan, need))
			return -KV_EBUSY;
	}
	rc = room_take(c, need, out);
	if (rc == 0 && !need->background && !need->urgent)
		(void)background_passed(c);
	return rc;
}

static void starving_del(struct kvc_client *c, struct kc_starving *s)
{
	kv_list_del(&s->node);
	c->requests->room.num_starving--;
	share_of(c, &s->need)->waiting -= s->need.piece_bytes > 0;
}

static void starving_end(struct kvc_client *c, struct kc_starving *s, int status)
{
	starving_del(c, s);
	s->status = status;
	co_wake(s->co);
}

/* True: another one is now the first. */
static bool feed(struct kvc_client *c, struct scan *scan, struct kv_list *list)
{
	KV_LIST_EACH_SAFE (n, list) {
		struct kc_starving *s = starving_of(n);
		bool background = s->need.background;
		int rc;
		if (scan->rest == 0)
			return false;
		rc = scan_pass(c, scan, &s->need) ? room_take(c, &s->need, &s->granted) : -KV_EBUSY;
		if (rc == -KV_EBUSY) {
			scan_blocked(c, scan, &s->need);
			continue;
		}
		scan->rest--;
		starving_end(c, s, rc);
		if (rc == 0 && !background && background_passed(c))
			return true;
	}
	return false;
}

void kc_room_feed(struct kvc_client *c)
{
	struct scan scan;
	if (KV_LIKELY(kv_list_empty(&c->requests->room.starving) && kv_list_empty(&c->requests->room.behind)))
		return;
	do
		scan_begin(c, &scan);
	while (feed(c, &scan, &c->requests->room.starving));
	feed(c, &scan, &c->requests->room.behind);
}

static void list_limit(struct kvc_client *c, struct kv_list *list)
{
	KV_LIST_EACH_SAFE (n, list)
		if (starving_of(n)->need.imms > c->requests->room.imm_limit)
			starving_end(c, starving_of(n), -KV_ERESET);
}

void kc_room_limit(struct kvc_client *c, uint32_t imms)
{
	if (c->requests->room.imm_limit == imms)
		return;
	c->requests->room.imm_limit = imms;
	list_limit(c, &c->requests->room.starving);
	list_limit(c, &c->requests->room.behind);
}

uint64_t kc_room_piece(const struct kvc_client *c)
{
	uint64_t max = kc_buffer_largest(&c->buffer) / 2; /* two ranges of one value fit */
	if (shared(c))
		max = KV_MIN(max, c->buffer.len_bytes / (4 * piece_parts(c)));
	/* Pieces are powers of two: a little more would take twice as much. */
	max = KV_MIN(KV_MAX(max, (uint64_t)KC_PIECE_MIN), (uint64_t)KV_RANGE_MAX);
	return (uint64_t)1 << (63 - __builtin_clzll(max));
}

uint32_t kc_room_imms(const struct kvc_client *c)
{
	return shared(c)
		       ? KV_MAX(c->requests->room.imm_limit / (uint32_t)(4 * parts(c, c->requests->room.imm_limit)), 4u)
		       : c->requests->room.imm_limit;
}

/* ---- giving back ---- */

void kc_room_return_imms(struct kvc_client *c, struct kc_req *r)
{
	c->requests->room.imm_used -= r->room.imms;
	r->room.share->imms -= r->room.imms;
	if (r->room.background)
		c->requests->room.background.imms -= r->room.imms;
	r->room.imms = 0;
}

void kc_room_not_out(struct kc_req *r)
{
	r->room.share->out -= r->room.bytes > 0;
	r->room.share->out_bytes -= r->room.bytes;
}

void kc_room_return_piece(struct kvc_client *c, struct kc_req *r)
{
	if (!kc_req_orphaned(r))
		kc_room_not_out(r);
	kc_buffer_give(&c->buffer, &r->mem.piece);
	r->room.share->bytes -= r->room.bytes;
	c->requests->room.servers_bytes -= r->room.share == &c->requests->room.nobody ? 0 : r->room.bytes;
	if (r->room.background)
		c->requests->room.background.bytes -= r->room.bytes;
	r->room.bytes = 0;
}

void kc_room_return(struct kvc_client *c, struct kc_req *r)
{
	KV_ASSERT_HOT(r->room.share->reqs > 0);
	kc_room_return_imms(c, r);
	kc_room_return_piece(c, r);
	r->room.share->reqs--;
	if (r->room.background) {
		r->room.share->background--;
		c->requests->room.background.reqs--;
	}
}

void kc_room_keep(struct kvc_client *c, const struct kc_piece *piece)
{
	c->requests->room.nobody.bytes += piece->len_bytes;
}

void kc_room_give(struct kvc_client *c, struct kc_piece *piece)
{
	KV_ASSERT_HOT(c->requests->room.nobody.bytes >= piece->len_bytes); /* rule 27: it is given back once */
	c->requests->room.nobody.bytes -= piece->len_bytes;
	kc_buffer_give(&c->buffer, piece);
	kc_room_feed(c);
}

/* ---- waiting ---- */

void kc_room_close(struct kvc_client *c)
{
	while (!kv_list_empty(&c->requests->room.starving))
		starving_end(c, starving_of(c->requests->room.starving.next), -KV_ECLOSED);
	while (!kv_list_empty(&c->requests->room.behind))
		starving_end(c, starving_of(c->requests->room.behind.next), -KV_ECLOSED);
}

static void list_stop(struct kvc_client *c, struct kv_list *list, const bool *stop)
{
	KV_LIST_EACH_SAFE (n, list)
		if (starving_of(n)->stop == stop)
			starving_end(c, starving_of(n), -KV_ECANCELED);
}

void kc_room_stop(struct kvc_client *c, const bool *stop)
{
	list_stop(c, &c->requests->room.starving, stop);
	list_stop(c, &c->requests->room.behind, stop);
	kc_room_feed(c);
}

/* Rule 15: a coroutine with a request under way does not wait for room, except urgently. */
static bool holds_request(const struct kvc_client *c)
{
	for (uint32_t i = 0; i < c->reqs.count; i++) {
		const struct kc_wait *w = c->reqs.entry[i].wait;
		if (w && w->co == co_self())
			return true;
	}
	return false;
}

/* Not inlined: gcc would report a dangling list node. */
static __attribute__((noinline)) int room_wait_await(struct kvc_client *c, struct kc_starving *s, uint64_t deadline_ns)
{
	KV_ASSERT(loop_current() == c->loop);
	KV_ASSERT(s->need.urgent || !holds_request(c));
	kv_list_add_tail(s->need.background ? &c->requests->room.behind : &c->requests->room.starving, &s->node);
	c->requests->room.num_starving++;
	share_of(c, &s->need)->waiting += s->need.piece_bytes > 0;
	while (s->status == 1 && (co_park_await(deadline_ns) == 0 || s->status != 1))
		;
	if (s->status != 1)
		return s->status;
	starving_del(c, s);
	/* We may have been the large one at the head. */
	kc_room_feed(c);
	return -KV_ETIMEOUT;
}

int kc_room_await(struct kvc_client *c, const struct kc_need *need, uint64_t deadline_ns, struct kc_req **out)
{
	struct kc_starving s = {.co = co_self(), .stop = kc_wait_stop(), .need = *need, .status = 1};
	uint64_t asked_ns = loop_turn_now(c->loop), waited;
	int rc = kc_room_try(c, need, out);
	if (rc != -KV_EBUSY)
		return rc;
	rc = kc_wait_over(c);
	if (rc < 0)
		return rc;
	rc = room_wait_await(c, &s, deadline_ns);
	waited = loop_turn_now(c->loop) - asked_ns;
	kc_add(&c->count.room_waits, 1);
	kc_add(&c->count.room_wait_ns, waited);
	kc_max(&c->count.room_wait_max_ns, waited);
	if (rc == 0)
		*out = s.granted;
	return rc;
}
