/* SPDX-License-Identifier: Apache-2.0 */
/* call.c -- the life of a call: begin, wait, give up, try again, end.
 *
 * A call returns by its deadline plus the grace, and only when its memory is safe. At the deadline its requests are
 * cancelled; each answer counts the writes that were posted, and the request ends when all have arrived. Without an
 * answer within the grace, a request keeps its piece as an orphan; the caller's memory is fenced, and limbo
 * (request/fence.c) delays the return.
 *
 * Before the deadline a call tries again with new ids: after losing a connection or endpoint (-KV_ERESET), a block that
 * changed (-KV_ESTALE), once after a wrong checksum, a few times while a server is busy, and always after a provider's
 * failure, which can last a second. */
#include "kvclient/transfer/call.h"

#include "kvclient/conn/node.h"
#include "kvclient/core/placement.h"
#include "kvclient/core/sized.h"
#include "kvclient/core/waits.h"
#include "kvclient/logical/sessions.h"
#include "kvclient/request/fence.h"
#include "kvclient/request/life.h"

/* Other flags are a pool's. */
enum { CALL_FLAGS = KVC_NO_VERIFY | KVC_DOWN_IS_MISS | KVC_BACKGROUND | KVC_TWO_COPIES | KVC_EXACT | KVC_MEMORY_ONLY };
enum {
	TRIES_MAX = 8,
	PAUSE_SHIFT_MAX = 6 /* pauses of 2, 4, ... 64 ms: a broken connection of tcp;ofi_rxm returns after about 10 */
};

int kc_call_check(const struct kvc_call *given, struct kvc_call *out)
{
	int rc =
		kc_sized_take(out, sizeof(*out), given, offsetof(struct kvc_call, timeout_ns), "struct kvc_call", NULL);
	if (rc == 0 && ((out->phases && !kc_sized(out->phases)) || (out->flags & ~(unsigned)CALL_FLAGS)))
		rc = -KV_EINVAL;
	return rc;
}

int kc_call_allowed(struct kvc_client *c)
{
	if (!c)
		return -KV_EINVAL;
	if (KV_UNLIKELY(kc_pool_alien(c->pool)))
		return -KV_ECLOSED;
	if (loop_current() != c->loop || !co_self())
		return -KV_EINVAL;
	return c->closing || !c->opened ? -KV_ECLOSED : 0;
}

int kc_call_begin(struct kvc_client *c, struct kc_trace *t, enum kvc_op op, const struct kvc_call *call)
{
	struct kvc_session *session;
	int rc = kc_call_allowed(c);
	if (rc < 0)
		return rc;
	session = kc_session_of(call);
	if (KV_UNLIKELY(session && (session->client != c || session->parting)))
		return -KV_EINVAL;
	kc_session_hold(session);
	kc_client_hold(c);
	kc_trace_begin(t, c, op, call, session);
	return 0;
}

void kc_result_count(struct kvc_client *c, enum kvc_op op, int64_t rc)
{
	int64_t column = rc >= 0 ? 0 : -rc - 1000;
	/* A conflict is a result, like a miss: a client that recomputes a block gets other last bits. */
	bool conflict = op == KVC_OP_PUT && rc == -KV_EEXIST;
	if (conflict)
		kc_add(&c->count.put_conflicts, 1);
	else if (rc < 0 && rc != -KV_ENOTFOUND)
		kc_add(&c->count.errors, 1);
	if (rc == -KV_ETIMEOUT)
		kc_add(&c->count.timeouts, 1);
	if (rc < 0 && (column < 1 || column > KV_ELEFT - 1000))
		column = KVC_RESULT_OTHER;
	kc_add(&c->count.results[op][column], 1);
}

int64_t kc_call_end(struct kvc_client *c, struct kc_trace *t, int64_t rc)
{
	if (!t->batch)
		kc_result_count(c, t->op, rc);
	kc_trace_end(t, c, rc);
	kc_session_unhold(t->session);
	kc_client_unhold(c);
	return rc;
}

uint64_t kc_call_deadline(const struct kvc_client *c, const struct kvc_call *call, uint64_t bytes)
{
	return kv_deadline(loop_now(c->loop), kc_pool_time(c->pool, call, bytes));
}

uint64_t kc_batch_bytes(const struct kvc_item *items, unsigned n)
{
	uint64_t sum = 0;
	for (unsigned i = 0; items && i < n; i++)
		sum += KV_MIN(items[i].len, KV_VALUE_MAX);
	return sum;
}

int kc_call_ready_await(struct kc_node *n, struct kvc_session *session, uint64_t deadline_ns, bool wait,
			struct kc_attachment **out)
{
	int rc;
	if (!wait) {
		*out = n->attachment;
		return n->state == KC_NODE_UP && (KV_LIKELY(!session) || kc_session_is_open(session, n->index))
			       ? 0
			       : -KV_EBUSY;
	}
	do {
		rc = kc_node_ready_await(n, deadline_ns, out);
		if (KV_UNLIKELY(rc == 0 && session))
			rc = kc_session_ready_await(session, n, n->attaches, deadline_ns);
	} while (rc == 1);
	return rc;
}

int kc_call_room_await(struct kc_node *n, const struct kc_need *need, uint64_t deadline_ns, bool wait,
		       struct kc_attachment **out_attachment, struct kc_req **out)
{
	uint64_t asked_ns = loop_turn_now(n->client->loop);
	int rc;
	do {
		rc = kc_call_ready_await(n, need->session, deadline_ns, wait, out_attachment);
		if (rc == 0)
			rc = kc_call_take_await(n, n->attaches, need, deadline_ns, wait, out);
	} while (rc == 1);
	if (rc == 0)
		(*out)->at.asked_ns = asked_ns;
	return rc;
}

int kc_call_piece_await(struct kvc_client *c, uint64_t len, uint64_t deadline_ns, bool wait, struct kc_piece *out)
{
	struct kc_need need = {.piece_bytes = len, .background = !wait};
	struct kc_req *r;
	int rc = wait ? kc_room_await(c, &need, deadline_ns, &r) : kc_room_try(c, &need, &r);
	if (rc < 0)
		return rc;
	*out = r->mem.piece;
	kc_room_keep(c, out);
	r->mem.piece = (struct kc_piece){0};
	kc_req_release(c, r);
	return 0;
}

/* ---- waiting and giving up ---- */

int kc_call_wait_await(struct kvc_client *c, struct kc_req *r, uint64_t deadline_ns)
{
	while (r->state != KC_REQ_DONE) {
		if (c->closing)
			return -KV_ECLOSED;
		if (KV_UNLIKELY(r->wait && r->wait->trace && kc_trace_stopped(r->wait->trace)))
			return -KV_ECANCELED;
		/* After a failure, missing writes are under way, or will never arrive. */
		if (r->said == KC_SAID_REPLY && r->status < 0)
			deadline_ns = KV_MIN(deadline_ns, r->at.replied_ns + c->pool->options.grace_ns);
		if (co_park_await(deadline_ns) < 0 && r->state != KC_REQ_DONE)
			return -KV_ETIMEOUT;
	}
	if (KV_UNLIKELY(r->trace != NULL))
		r->trace->woke_ns = loop_now(c->loop);
	return 0;
}

/* Wait for the answer to a CANCEL, or the end of the grace since the requests were given up. A late loop adds its
 * delay: the answer may be unread, and no reason to cut the server off. */
static void grace_await(struct kvc_client *c, const struct kc_req *r)
{
	const uint64_t grace_ns = c->pool->options.grace_ns;
	uint64_t end = r->at.given_up_ns + grace_ns, late = 0;
	while (r->state != KC_REQ_DONE && loop_now(c->loop) < end)
		if (co_park_await(end) < 0 && late == 0) {
			late = KV_MIN(loop_now(c->loop) - end, grace_ns);
			end = loop_now(c->loop) + late;
		}
}

static void give_up_await(struct kvc_client *c, struct kc_req *r, int why)
{
	if (r->state == KC_REQ_LIMBO) {
		kc_client_fenced_await(c);
		return;
	}
	kc_req_cancel(r, why);
	if (kc_req_out(r) && r->wire.dest.count == 0)
		return;
	grace_await(c, r);
	if (r->state == KC_REQ_DONE)
		return;
	if (r->mem.callers || kc_client_quarantine_full(c, r->mem.piece.len_bytes))
		kc_client_fence_await(c, r->link->attachment, r->link->shard);
	if (r->state == KC_REQ_LIMBO)
		kc_client_fenced_await(c);
}

int kc_call_finish_await(struct kvc_client *c, struct kc_req *r, int why)
{
	/* Only the call itself cancels, while it waits for another of its requests. */
	if (why == 0 && r->status == -KV_ECANCELED)
		return c->closing ? -KV_ECLOSED : -KV_ETIMEOUT;
	if (why == 0)
		return r->status;
	give_up_await(c, r, why);
	/* It may have just succeeded, or its reply may have had a cause. */
	if (r->state == KC_REQ_DONE && r->status == 0)
		return 0;
	if (r->said == KC_SAID_REPLY && r->status < 0 && r->status != -KV_ECANCELED && why == -KV_ETIMEOUT)
		return r->status;
	return why;
}

int kc_call_done_await(struct kvc_client *c, struct kc_req *r, uint64_t deadline_ns)
{
	return kc_call_finish_await(c, r, kc_call_wait_await(c, r, deadline_ns));
}

/* The oldest one leaves the window. */
static struct kc_req *window_pop(struct kc_window *w)
{
	struct kc_req *r = w->req[w->head];
	w->head = (w->head + 1) & (w->size - 1);
	w->count--;
	return r;
}

/* Cancelled at once, all requests share the grace. */
static void window_cancel(struct kc_window *w, int why)
{
	for (unsigned i = 0; i < w->count; i++)
		kc_req_cancel(w->req[(w->head + i) & (w->size - 1)], why);
}

int kc_window_next_await(struct kvc_client *c, struct kc_window *w, uint64_t deadline_ns, struct kc_req **out)
{
	struct kc_req *r = window_pop(w);
	int why = kc_call_wait_await(c, r, deadline_ns);
	if (why < 0 && (w->one_value || why != -KV_ETIMEOUT || loop_now(c->loop) >= deadline_ns))
		window_cancel(w, why);
	*out = r;
	return kc_call_finish_await(c, r, why);
}

void kc_window_drop_await(struct kvc_client *c, struct kc_window *w)
{
	window_cancel(w, -KV_ETIMEOUT);
	while (w->count > 0) {
		struct kc_req *r = window_pop(w);
		kc_call_done_await(c, r, 0);
		kc_req_release(c, r);
	}
}

bool kc_call_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries)
{
	uint64_t now = loop_now(c->loop);
	unsigned pauses = *tries & ~(unsigned)KC_TRIED_CORRUPT;
	/* A connection that broke fewer than TRIES_MAX times: the next attempt ends at the deadline, with its code. */
	bool late = now >= deadline_ns && !(rc == -KV_EPROVIDER && pauses < TRIES_MAX);
	if (late || c->closing)
		return false;
	switch ((int)rc) {
	case -KV_ERESET:
	case -KV_ESTALE:
		break;
	case -KV_ECORRUPT:
		if (*tries & KC_TRIED_CORRUPT)
			return false;
		*tries |= KC_TRIED_CORRUPT;
		break;
	case -KV_EBUSY:
	case -KV_EPROVIDER:
		++*tries;
		if (++pauses > TRIES_MAX && rc == -KV_EBUSY)
			return false;
		if (kc_wait_time_await(c, KV_MIN(KV_MAX(deadline_ns, now),
						 now + (1000000ull << KV_MIN(pauses, (unsigned)PAUSE_SHIFT_MAX)))) < 0)
			return false;
		break;
	default:
		return false;
	}
	kc_add(&c->count.retries, 1);
	return true;
}

bool kc_call_next_await(struct route *r, int64_t rc)
{
	return route_next(r, rc) || kc_call_again_await(r->c, rc, r->deadline_ns, &r->tries);
}

int64_t kc_call_code(const struct kvc_client *c, int64_t rc)
{
	if (KV_UNLIKELY(rc == -KV_EDELETED))
		return -KV_ENOTFOUND;
	if (rc != -KV_ERESET && rc != -KV_ESTALE)
		return rc;
	return c->closing ? -KV_ECLOSED : -KV_ETIMEOUT;
}

/* ---- batches ---- */

int kc_call_over(const struct kvc_client *c, const struct kc_trace *t, uint64_t deadline_ns)
{
	if (kc_trace_stopped(t))
		return -KV_ECANCELED;
	return loop_turn_now(c->loop) >= deadline_ns ? -KV_ETIMEOUT : 0;
}

int64_t kc_item_code(const struct kvc_client *c, const struct kc_trace *t, int64_t rc)
{
	rc = kc_call_code(c, rc);
	/* Such failures would have been tried again. */
	bool given_up = rc == -KV_ETIMEOUT || rc == -KV_EBUSY || rc == -KV_EPROVIDER;
	return given_up && kc_trace_stopped(t) ? -KV_ECANCELED : rc;
}

/* ---- bytes ---- */

uint32_t kc_chunks(const struct kc_attachment *s, uint64_t slice, uint64_t count)
{
	uint64_t chunk = KV_MIN(s->chunk_bytes, s->node->client->info.chunk_bytes);
	uint64_t each = chunk ? (slice + chunk - 1) / chunk : 1;
	/* Two more: a range of at most KV_RANGE_MAX may cross a boundary of the region's parts at either end. */
	uint64_t all = KV_MAX(each, 1u) * count + 2;
	return all > UINT32_MAX ? UINT32_MAX : (uint32_t)all;
}

uint64_t kc_hash_await(const struct kc_target *from, uint64_t len)
{
	struct kc_target at = *from;
	struct kv_hasher h;
	if (len <= KC_STEP_BYTES && kc_target_flat(from))
		return kv_hash_block(from->at + from->skip, len);
	kv_hasher_init(&h);
	for (uint64_t n; len > 0; at.skip += n, len -= n) {
		n = KV_MIN(len, (uint64_t)KC_STEP_BYTES);
		kc_target_hash(&at, n, &h);
		if (len > n)
			co_yield_await();
	}
	return kv_hasher_digest(&h);
}

void kc_gather_await(uint8_t *to, const struct kc_target *from, uint64_t len)
{
	struct kc_target at = *from;
	for (uint64_t n; len > 0; at.skip += n, to += n, len -= n) {
		n = KV_MIN(len, (uint64_t)KC_STEP_BYTES);
		kc_target_read(&at, to, n);
		if (len > n)
			co_yield_await();
	}
}
