/* SPDX-License-Identifier: Apache-2.0 */
/* borrowed.c -- borrowed values and pieces. A piece is a part of a client's receive buffer: priv[0] is its offset,
 * priv[1] its length, priv[2] the client. A value of a server on this host stays there: priv[0] is the lease, priv[1]
 * the shard and 1, priv[2] the connection. priv[1] is 0 if there is nothing to release.
 *
 * A GET into a borrowed piece asks for the expected length at once. The request owns the piece until it holds the
 * value, so giving up quarantines it. For several ranges a piece is acquired first and treated as the caller's memory:
 * two requests write to it, and quarantine knows only one owner. */
#include "kvclient/core/block.h"
#include "kvclient/request/life.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/get.h"

enum { GUESS_DEFAULT = 65536, GUESSES_MAX = 4 };

static void lend(struct kvc_client *c, struct kc_piece *piece, uint64_t len, uint64_t value_len,
		 struct kvc_borrowed *out)
{
	*out = (struct kvc_borrowed){.data = kc_buffer_at(&c->buffer, piece),
				     .len = len,
				     .value_len = value_len,
				     .priv = {piece->offset, piece->len_bytes, (uint64_t)(uintptr_t)c}};
	*piece = (struct kc_piece){0};
}

/* The lease is the borrower's from now on. */
static void lend_lease(struct kc_lease *lease, uint64_t len, uint64_t value_len, struct kvc_borrowed *out)
{
	*out = (struct kvc_borrowed){.data = (void *)(uintptr_t)lease->at,
				     .len = len,
				     .value_len = value_len,
				     .in_place = 1,
				     .priv = {lease->id, lease->shard + 1ull, (uint64_t)(uintptr_t)lease->local}};
	atomic_fetch_add_explicit(&lease->local->home->leases, 1, memory_order_relaxed);
	*lease = (struct kc_lease){0};
}

int kvc_borrow_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns, struct kvc_borrowed *out)
{
	struct kvc_call call = {.timeout_ns = timeout_ns};
	struct kc_piece piece;
	struct kc_trace t;
	int rc;
	if (!out || len_bytes == 0)
		return -KV_EINVAL;
	*out = (struct kvc_borrowed){0};
	rc = kc_call_begin(client, &t, KVC_OP_BORROW, NULL);
	if (rc < 0)
		return rc;
	rc = kc_call_piece_await(client, len_bytes, kc_call_deadline(client, &call, 0), true, &piece);
	if (rc == 0)
		lend(client, &piece, len_bytes, len_bytes, out);
	return (int)kc_call_end(client, &t, rc);
}

static void lease_release(const struct kvc_borrowed *b)
{
	struct kc_local *l = (struct kc_local *)(uintptr_t)b->priv[2];
	struct kc_lease lease = {.local = l, .id = b->priv[0], .shard = (uint32_t)b->priv[1] - 1};
	if (kc_fork_alien(l->born))
		return;
	atomic_fetch_sub_explicit(&l->home->leases, 1, memory_order_relaxed);
	kc_lease_drop(&lease);
}

static int64_t piece_release(struct kvc_client *c, void *piece)
{
	kc_room_give(c, piece);
	return 0;
}

void kvc_borrowed_release(struct kvc_client *client, struct kvc_borrowed *borrowed)
{
	struct kvc_borrowed b;
	struct kc_piece piece;
	struct kvc_client *c;
	(void)client;
	if (!borrowed || borrowed->priv[1] == 0)
		return;
	b = *borrowed;
	*borrowed = (struct kvc_borrowed){0};
	if (b.in_place) {
		lease_release(&b);
		return;
	}
	c = (struct kvc_client *)(uintptr_t)b.priv[2];
	piece = (struct kc_piece){b.priv[0], b.priv[1]};
	if (kc_pool_alien(c->pool))
		return;
	if (loop_current() == c->loop) {
		kc_room_give(c, &piece);
	} else if (!loop_current() && kc_pool_enter(c->pool) == 0) {
		kc_block_run_surely(c, piece_release, &piece);
		kc_pool_leave(c->pool);
	}
}

/* GET one range into a piece owned by the request. 0; 1: the guess was too short, *len is the length needed; or a
 * code. */
static int borrowed_guess_await(struct kvc_get *g, uint64_t *len, struct kvc_borrowed *out)
{
	struct kvc_client *c = g->c;
	struct kc_req *r;
	int rc, status;
	kc_get_begin(g);
	g->to.cap = *len;
	g->to.place = KC_GET_LENT;
	g->ask.single = true;
	rc = kc_get_issue_await(g, true, &r);
	if (rc < 0)
		return rc;
	/* The piece itself is the destination, even of bytes in the reply: nothing is copied. */
	g->to.at = r->place = (struct kc_target){.at = kc_buffer_at(&c->buffer, &r->mem.piece)};
	status = kc_call_done_await(c, r, g->route.deadline_ns);
	rc = kc_get_take_await(g, r, status, NULL);
	if (g->state == KC_GET_READING && (rc == 0 || rc == -KV_ETOOBIG)) {
		*len = g->value.total;
		rc = 1;
	} else if (rc == 0) {
		kc_room_keep(c, &r->mem.piece);
		lend(c, &r->mem.piece, g->value.total, g->value.len, out);
	}
	kc_req_release(c, r);
	return rc;
}

/* GET several ranges into one piece: one attempt. If a fence would cut the client off from all servers, a repair uses a
 * piece per range, as in kc_put_copy. */
static int borrowed_large_await(struct kvc_get *g, uint64_t len, struct kvc_borrowed *out)
{
	struct kvc_client *c = g->c;
	struct kc_piece piece;
	int64_t rc = kc_call_piece_await(c, len, g->route.deadline_ns, true, &piece);
	g->ask.single = false;
	if (rc < 0)
		return (int)rc;
	g->to.at = (struct kc_target){.at = kc_buffer_at(&c->buffer, &piece)};
	g->to.cap = len;
	g->to.place = g->route.kind == ROUTE_FIXED && !c->info.peer_fence ? KC_GET_COPIED : KC_GET_DIRECT;
	g->to.region = KC_REGION_BUFFER;
	g->to.region_offset = piece.offset;
	rc = kc_get_once_await(g);
	if (rc >= 0)
		lend(c, &piece, (uint64_t)rc, g->value.len, out);
	kc_room_give(c, &piece);
	return rc < 0 ? (int)rc : 0;
}

/* GET a value of a server on this host, in its memory: one attempt. -KV_ENOTSUP: not that way. */
static int borrowed_leased_await(struct kvc_get *g, struct kvc_borrowed *out)
{
	struct kvc_client *c = g->c;
	struct kc_req *r;
	int rc;
	kc_get_begin(g);
	g->to.cap = KV_VALUE_MAX;
	g->to.place = KC_GET_LEASED;
	g->ask.single = true;
	rc = kc_get_issue_await(g, true, &r);
	if (rc < 0)
		return rc;
	rc = kc_call_done_await(c, r, g->route.deadline_ns);
	rc = kc_get_take_await(g, r, rc, NULL);
	if (rc == 0 && !r->mem.lease.local)
		rc = -KV_ENOTSUP; /* no bytes, or a server that sends them */
	if (rc == 0)
		lend_lease(&r->mem.lease, g->value.total, g->value.len, out);
	kc_req_release(c, r);
	return rc;
}

/* One attempt to GET a value of about *len bytes. As borrowed_guess_await. */
static int borrowed_once_await(struct kvc_get *g, uint64_t *len, bool large, struct kvc_borrowed *out)
{
	int rc = g->ask.moved ? -KV_ENOTSUP : borrowed_leased_await(g, out);
	if (rc != -KV_ENOTSUP)
		return rc;
	if (*len > kc_buffer_largest(&g->c->buffer) / 2)
		return -KV_ETOOBIG;
	return large ? borrowed_large_await(g, *len, out) : borrowed_guess_await(g, len, out);
}

int kc_get_lent_await(struct kvc_get *g, uint64_t len, struct kvc_borrowed *out)
{
	uint64_t max = kc_buffer_largest(&g->c->buffer) / 2;
	uint64_t asked = 0;
	int rc = 1;
	/* The guess may exceed the largest piece while the value does not. */
	len = KV_MIN(len, KV_MAX(max, (uint64_t)1));
	if (g->route.kind != ROUTE_FIXED)
		route_count(g->route.n, g->route.key);
	for (unsigned i = 0; rc == 1 && i < GUESSES_MAX; i++) {
		/* If the same length is needed again, one request cannot bring it. */
		bool large = len > KV_RANGE_MAX || len == asked;
		asked = len;
		do
			rc = borrowed_once_await(g, &len, large, out);
		while (rc < 0 && kc_call_next_await(&g->route, rc));
	}
	return (int)route_code(&g->route, rc == 1 ? -KV_EBUSY : kc_call_code(g->c, rc));
}

int64_t kvc_get_borrowed_await(struct kvc_client *client, struct kvc_key key, uint64_t expect_len,
			       const struct kvc_call *call, struct kvc_borrowed *out)
{
	struct kvc_call own;
	struct kc_trace t;
	struct kvc_get g;
	uint64_t len;
	int64_t rc;
	if (!out)
		return -KV_EINVAL;
	*out = (struct kvc_borrowed){0};
	rc = kc_call_open(client, &t, KVC_OP_GET, call, &own);
	if (rc < 0)
		return rc;
	rc = kc_get_init(&g, client, key, &(struct kc_target){.at = client->area.base}, 1, &own,
			 kc_call_deadline(client, &own, KV_MAX(expect_len, own.length)));
	if (rc < 0)
		goto out;
	kc_trace_key(&t, key.data, key.len);
	g.own_wait.trace = &t;
	g.ask.exact = own.flags & KVC_EXACT ? expect_len : 0;
	len = expect_len ? expect_len : own.length;
	if (len == 0)
		len = client->last_len ? client->last_len : GUESS_DEFAULT;
	rc = route_down(g.route.n, own.flags, kc_get_lent_await(&g, len, out));
	kc_get_count(client, rc == 0 ? (int64_t)out->len : rc);
out:
	rc = kc_call_end(client, &t, rc);
	return rc < 0 ? rc : (int64_t)out->len;
}
