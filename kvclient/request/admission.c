/* SPDX-License-Identifier: Apache-2.0 */
/* admission.c -- admission: a request entry, a piece of the buffer and a share of the immediates, taken together or not
 * at all.
 *
 * All or nothing means that no request holds one resource while waiting for another, so that waiting cannot deadlock:
 * what is out belongs to requests that end by themselves. For that a call keeps a rule, too: while it holds a request
 * of any state (one that is done keeps its entry and piece until it is released), it does not wait for room. It may
 * try, and when there is none, it waits for a request of its own, takes it and releases it. Only with none left does it
 * wait. Two kinds of calls may hold a piece and wait for what needs none: the GET of several ranges into a view, and
 * the owner of a view. One queue for all three keeps it first come, first served; a large request at the head holds up
 * small ones behind it, which is the price of not starving it. With one exception: callers hold pieces too (views), and
 * give them back only after another call, such as the PUT of a view. So who needs no piece never waits behind somebody
 * who lacks nothing but a piece.
 *
 * The share of immediates bounds what peers may have in flight towards our completion queue: half of its depth, summed
 * over all peers. Endpoints that are rebuilt may get smaller ones: the bound follows at the reset, which ends all
 * requests that are out; who waits with a plan for more plans anew.
 *
 * With several servers, those that are stopped must not take everything: their requests come to no end for as long as
 * their liveness timeout. So
 * - a server gets a certain part of what is still free and no more: 1/(N - 1), 1/8 from nine servers on, and 8/N when
 * there are more than 64, as far as parts of so little let a request fit (dynamic thresholds: Choudhury and Hahne,
 * 1998, for queues that share a switch's memory). So one server may have 1/N of everything, or a ninth; and an eighth
 * of all servers may be stuck, each with all that it can get, while the others find more than a third of everything
 * free. It costs a comparison, however many servers there are. The price: servers that are all busy leave up to a half
 * unused, and still have more in flight than any wire holds. (Rejected: a guarantee for each, 1/2N. With a thousand
 * servers it was less than one request needs. A part as large as what is left: it halves with each server that is
 * stuck. Eighths for any number: twelve servers that were stuck took so much that a planned request never fitted.);
 * - who waits holds up the requests for another server only while that one has more than his own. (Rejected: a queue
 * for each server. It says nothing about who may have what is free, and that was the trouble.) Among the requests for
 * one server it is first come, first served as above, and with one server nothing of this counts. Requests are planned
 * with a quarter of the part that a server has when all is free (kvc_room_piece, kvc_room_imms), so that several fit,
 * and one beside many that are stuck. Whoever does need more gets it when no other request has anything.
 *
 * Views belong to no server. A view must be one piece, half of the buffer at most; all of them together may have half
 * of it. While somebody waits for one, the servers together may take no more than what is lent as views, and half: that
 * much always comes back by itself, and what is lent comes back when its owners like, who may have to call us first.
 * Nobody else waits for a view that waits for others to be given back.
 *
 * Pieces of a server on the same host are limited further: beyond a few of them no more than session.out_max bytes are
 * out. What more workers ask for would only queue, and each would hold a piece meanwhile: then every value comes to
 * memory that no cache knows any more (1,024 workers: 0.55 of the rate of 32, and 0.97 with the limit). Elsewhere a
 * round trip may need more, and nothing was measured. Only pieces that come back by themselves count, not what needs
 * none, nor what was given up: whoever wants a piece of more than the limit waits until few are out, and that has to
 * come true whatever else is going on.
 *
 * A PING needs an entry and nothing else; some are kept for it: a link whose requests are all stuck must be found out.
 */
#include "kvclient/pool/client.h"

enum { REQS_KEPT = 64, PIECES_OUT = 4 /* always allowed */ };

/* PARTS: of what is free a server may have one, until there are servers enough for an eighth of them to be as many;
 * PART_UNITS: what a part of everything is at least, so that requests still fit. */
enum { PARTS = 8, PART_UNITS = 32 };

struct kvc_starving {
	struct kv_list node;
	struct co *co;
	struct kvc_need need;
	struct kvc_req *granted;
	int status; /* 1: still waiting */
};

/* A walk over those who wait: what the least of those had who could not be served, and by stamps, of which shares they
 * are. */
struct scan {
	uint64_t id, bytes_least;
	uint32_t counts_least;
	bool view;     /* somebody waits for a view */
	uint32_t rest; /* of those who wait, how many may still be served: when none, nobody further back needs to be
			  looked at */
};

static struct kvc_room_share *share_of(struct kvc_client *c, const struct kvc_need *need)
{
	return need->node ? &need->node->share : &c->nobody;
}

static bool shared(const struct kvc_client *c)
{
	return c->pool->num_servers > 1;
}

/* A server may have a part of what is free: 1 / parts. units: entries, immediates, or least pieces that there are. */
static uint64_t parts(const struct kvc_client *c, uint64_t units)
{
	uint64_t servers = c->pool->num_servers, most = KV_MAX(units / PART_UNITS, (uint64_t)PARTS);
	return KV_MIN(servers - 1, KV_MIN(KV_MAX(servers / PARTS, (uint64_t)PARTS), most));
}

static uint64_t piece_parts(const struct kvc_client *c)
{
	return parts(c, c->buffer.len_bytes / KVC_PIECE_MIN);
}

static uint32_t reqs_max(const struct kvc_client *c)
{
	return c->reqs.count - REQS_KEPT;
}

static uint32_t left_of(uint32_t all, uint32_t used)
{
	return all > used ? all - used : 0;
}

/* Whether what requests themselves give back is short: entries and immediates. */
static bool room_short(struct kvc_client *c, const struct kvc_need *need)
{
	const struct kvc_room_share *s = share_of(c, need);
	uint32_t imms = left_of(c->imm_limit, c->imm_used), reqs = left_of(reqs_max(c), c->reqs.used);
	if (need->urgent)
		return c->reqs.used == c->reqs.count;
	if (need->imms > imms || reqs == 0)
		return true;
	if (!shared(c) || c->reqs.used == 0)
		return false;
	return (need->imms && c->imm_used && (s->imms + need->imms) * parts(c, c->imm_limit) > imms) ||
	       (s->reqs + 1) * parts(c, reqs_max(c)) > reqs;
}

/* Whether requests have pieces that come back by themselves. Views do not, nor does what was lost: to wait for those
 * would be to wait for our own caller, or for half a minute. */
static bool pieces_out(const struct kvc_client *c)
{
	const struct kvc_buffer *b = &c->buffer;
	return b->free_bytes + b->quarantined_bytes + c->orphan_bytes + c->nobody.bytes < b->len_bytes;
}

static bool views_full(const struct kvc_client *c, const struct kvc_need *need)
{
	return shared(c) && !need->node && pieces_out(c) &&
	       c->nobody.bytes + kvc_buffer_rounded(need->piece_bytes) > c->buffer.len_bytes / 2;
}

static bool piece_short(const struct kvc_client *c, const struct kvc_need *need)
{
	if (!shared(c) || !need->node || !pieces_out(c))
		return false;
	return (need->node->share.bytes + kvc_buffer_rounded(need->piece_bytes)) * piece_parts(c) >
	       c->buffer.free_bytes;
}

/* Whether enough is on its way from this server, or lent as views: who waits for that holds up nobody else. */
static bool enough_out(const struct kvc_client *c, const struct kvc_room_share *s, const struct kvc_need *need)
{
	const struct kvc_session *session = need->node ? need->node->session : NULL;
	if (views_full(c, need))
		return true;
	return session && s->out >= PIECES_OUT && session->out_max < UINT64_MAX &&
	       s->out_bytes + need->piece_bytes > session->out_max;
}

static int room_take(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out)
{
	struct kvc_room_share *share = share_of(c, need);
	struct kvc_piece piece = {0};
	struct kvc_req *r;
	if (need->imms > c->imm_limit || need->piece_bytes > kvc_buffer_largest(&c->buffer))
		return -KV_ETOOBIG;
	if (room_short(c, need))
		return -KV_EBUSY;
	if (need->piece_bytes) {
		int rc = piece_short(c, need) || enough_out(c, share, need) ? -KV_EBUSY
			 : need->next ? kvc_buffer_take_near(&c->buffer, need->piece_bytes, KVC_ROW_BYTES, need->next,
							     &piece)
				      : kvc_buffer_take(&c->buffer, need->piece_bytes, &piece);
		if (rc < 0)
			return rc;
	}
	r = kvc_req_alloc(&c->reqs);
	r->piece = piece;
	r->charged_bytes = piece.len_bytes;
	r->imms = need->imms;
	r->at.asked_ns = r->at.made_ns = loop_turn_now(c->loop);
	r->share = share;
	c->imm_used += need->imms;
	share->reqs++;
	share->imms += need->imms;
	share->bytes += piece.len_bytes;
	share->out += piece.len_bytes > 0;
	share->out_bytes += piece.len_bytes;
	c->servers_bytes += need->node ? piece.len_bytes : 0;
	*out = r;
	return 0;
}

/* ---- who goes before whom ---- */

/* Entries or immediates that it has, or would have, in 1/1024 of all. */
static uint32_t counts_of(const struct kvc_client *c, uint32_t reqs, uint32_t imms)
{
	return (uint32_t)KV_MAX((uint64_t)reqs * 1024 / reqs_max(c), (uint64_t)imms * 1024 / c->imm_limit);
}

static void scan_begin(struct kvc_client *c, struct scan *scan)
{
	*scan = (struct scan){
		.id = ++c->room_scan, .bytes_least = UINT64_MAX, .counts_least = UINT32_MAX, .rest = c->num_starving};
}

/* What the servers may have while somebody waits for a view. */
static bool beside_views(const struct kvc_client *c, const struct kvc_need *need)
{
	return shared(c) && c->servers_bytes + need->piece_bytes <= KV_MIN(c->nobody.bytes, c->buffer.len_bytes / 2);
}

/* This one waits: note it for those behind it. */
static void scan_blocked(struct kvc_client *c, struct scan *scan, const struct kvc_need *need)
{
	struct kvc_room_share *s = share_of(c, need);
	/* All of its share that wait for a piece are held up by it. */
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
		if (s == &c->nobody)
			scan->view = true;
		else
			scan->bytes_least = KV_MIN(scan->bytes_least, s->bytes);
	}
}

/* Whether this one may go before those that were noted. */
static bool scan_pass(struct kvc_client *c, const struct scan *scan, const struct kvc_need *need)
{
	const struct kvc_room_share *s = share_of(c, need);
	if (need->urgent)
		return true;
	if (s->counts_scan == scan->id || (need->piece_bytes && s->piece_scan == scan->id))
		return false;
	if (scan->counts_least != UINT32_MAX &&
	    (!shared(c) || counts_of(c, s->reqs + 1, s->imms + need->imms) > scan->counts_least))
		return false;
	if (need->piece_bytes && scan->view && !beside_views(c, need))
		return false;
	return !need->piece_bytes || scan->bytes_least == UINT64_MAX ||
	       (shared(c) && s->bytes + need->piece_bytes <= scan->bytes_least);
}

int kvc_room_try(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out)
{
	if (!kv_list_empty(&c->starving)) {
		struct scan scan;
		scan_begin(c, &scan);
		for (struct kv_list *n = c->starving.next; n != &c->starving && scan.rest > 0; n = n->next)
			scan_blocked(c, &scan, &KV_LIST_ENTRY(n, const struct kvc_starving, node)->need);
		if (!scan_pass(c, &scan, need))
			return -KV_EBUSY;
	}
	return room_take(c, need, out);
}

static void starving_del(struct kvc_client *c, struct kvc_starving *s)
{
	kv_list_del(&s->node);
	c->num_starving--;
	share_of(c, &s->need)->waiting -= s->need.piece_bytes > 0;
}

/* It waits no more. */
static void starving_end(struct kvc_client *c, struct kvc_starving *s, int status)
{
	starving_del(c, s);
	s->status = status;
	co_wake(s->co);
}

void kvc_room_feed(struct kvc_client *c)
{
	struct scan scan;
	if (kv_list_empty(&c->starving))
		return;
	scan_begin(c, &scan);
	KV_LIST_EACH_SAFE (n, &c->starving) {
		if (scan.rest == 0)
			break;
		struct kvc_starving *s = KV_LIST_ENTRY(n, struct kvc_starving, node);
		int rc = scan_pass(c, &scan, &s->need) ? room_take(c, &s->need, &s->granted) : -KV_EBUSY;
		if (rc == -KV_EBUSY) {
			scan_blocked(c, &scan, &s->need);
			continue;
		}
		scan.rest--;
		starving_end(c, s, rc);
	}
}

void kvc_room_limit(struct kvc_client *c, uint32_t imms)
{
	if (c->imm_limit == imms)
		return;
	c->imm_limit = imms;
	KV_LIST_EACH_SAFE (n, &c->starving) {
		struct kvc_starving *s = KV_LIST_ENTRY(n, struct kvc_starving, node);
		if (s->need.imms > imms)
			starving_end(c, s, -KV_ERESET);
	}
}

uint64_t kvc_room_piece(const struct kvc_client *c)
{
	uint64_t max = kvc_buffer_largest(&c->buffer) / 2; /* two of one value shall fit */
	if (shared(c))
		max = KV_MIN(max, c->buffer.len_bytes / (4 * piece_parts(c)));
	/* Pieces are powers of two: one that is planned with more takes twice as much. */
	max = KV_MIN(KV_MAX(max, (uint64_t)KVC_PIECE_MIN), (uint64_t)KV_RANGE_MAX);
	return (uint64_t)1 << (63 - __builtin_clzll(max));
}

uint32_t kvc_room_imms(const struct kvc_client *c)
{
	return shared(c) ? KV_MAX(c->imm_limit / (uint32_t)(4 * parts(c, c->imm_limit)), 4u) : c->imm_limit;
}

/* ---- giving back ---- */

void kvc_room_return_imms(struct kvc_client *c, struct kvc_req *r)
{
	c->imm_used -= r->imms;
	r->share->imms -= r->imms;
	r->imms = 0;
}

void kvc_room_not_out(struct kvc_req *r)
{
	r->share->out -= r->charged_bytes > 0;
	r->share->out_bytes -= r->charged_bytes;
}

void kvc_room_return_piece(struct kvc_client *c, struct kvc_req *r)
{
	if (!r->orphan)
		kvc_room_not_out(r);
	kvc_buffer_give(&c->buffer, &r->piece);
	r->share->bytes -= r->charged_bytes;
	c->servers_bytes -= r->share == &c->nobody ? 0 : r->charged_bytes;
	r->charged_bytes = 0;
}

void kvc_room_return(struct kvc_client *c, struct kvc_req *r)
{
	kvc_room_return_imms(c, r);
	kvc_room_return_piece(c, r);
	r->share->reqs--;
}

void kvc_room_keep(struct kvc_client *c, const struct kvc_piece *piece)
{
	c->nobody.bytes += piece->len_bytes;
}

void kvc_room_give(struct kvc_client *c, struct kvc_piece *piece)
{
	c->nobody.bytes -= piece->len_bytes;
	kvc_buffer_give(&c->buffer, piece);
	kvc_room_feed(c);
}

/* ---- waiting ---- */

void kvc_room_close(struct kvc_client *c)
{
	while (!kv_list_empty(&c->starving))
		starving_end(c, KV_LIST_ENTRY(c->starving.next, struct kvc_starving, node), -KV_ECLOSED);
}

/* Park until served, refused or late. (Not inlined: gcc takes the list's node on our caller's stack for one that is
 * left behind.) */
static __attribute__((noinline)) int room_wait_await(struct kvc_client *c, struct kvc_starving *s, uint64_t deadline_ns)
{
	kv_list_add_tail(&c->starving, &s->node);
	c->num_starving++;
	share_of(c, &s->need)->waiting += s->need.piece_bytes > 0;
	while (s->status == 1 && (co_park_await(deadline_ns) == 0 || s->status != 1))
		;
	if (s->status != 1)
		return s->status;
	starving_del(c, s);
	/* We may have been the large one at the head. */
	kvc_room_feed(c);
	return -KV_ETIMEOUT;
}

int kvc_room_await(struct kvc_client *c, const struct kvc_need *need, uint64_t deadline_ns, struct kvc_req **out)
{
	struct kvc_starving s = {.co = co_self(), .need = *need, .status = 1};
	uint64_t asked_ns = loop_turn_now(c->loop), waited;
	int rc = kvc_room_try(c, need, out);
	if (rc != -KV_EBUSY)
		return rc;
	if (c->closing)
		return -KV_ECLOSED;
	rc = room_wait_await(c, &s, deadline_ns);
	waited = loop_turn_now(c->loop) - asked_ns;
	kvc_add(&c->count.room_waits, 1);
	kvc_add(&c->count.room_wait_ns, waited);
	kvc_max(&c->count.room_wait_max_ns, waited);
	if (rc == 0)
		*out = s.granted;
	return rc;
}
