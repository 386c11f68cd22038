/* SPDX-License-Identifier: Apache-2.0 */
/* borrowed.c -- borrowed values and pieces. A piece is a part of a client's receive buffer: priv[0] is its offset,
 * priv[1] its length, priv[2] the client. A value of a server on this host stays there: priv[0] is the lease, priv[1]
 * the shard and 1, priv[2] the connection. Room in a landing area: priv[0] is its offset (low half) and length, priv[1]
 * as before, priv[2] the connection, priv[3] the client. priv[1] is 0 if there is nothing to release.
 *
 * A GET into a borrowed piece asks for the expected length at once. The request owns the piece until it holds the
 * value, so giving up quarantines it. For several ranges a piece is acquired first and treated as the caller's
 * memory. */
#include "kvclient/core/block.h"
#include "kvclient/core/placement.h"
#include "kvclient/request/landing.h"
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

int kc_get_lend(const struct kvc_get *g, struct kc_req *r, struct kvc_borrowed *out)
{
	struct kc_lease *lease = &r->mem.lease;
	if (!lease->local)
		return -KV_ENOTSUP; /* no bytes */
	*out = (struct kvc_borrowed){.data = (void *)(uintptr_t)lease->at,
				     .len = g->value.total,
				     .value_len = g->value.len,
				     .in_place = 1,
				     .priv = {lease->id, lease->shard + 1ull, (uint64_t)(uintptr_t)lease->local}};
	atomic_fetch_add_explicit(&lease->local->home->leases, 1, memory_order_relaxed);
	*lease = (struct kc_lease){0};
	return 0;
}

/* Room in the landing area of the key's server. False: it has none free. */
static bool landing_lend(struct kvc_client *c, struct kvc_key key, uint64_t len, struct kvc_borrowed *out)
{
	struct kc_node *n = route_first(c, key);
	struct kc_attachment *s = n->state == KC_NODE_UP ? n->attachment : NULL;
	struct kc_piece piece;
	unsigned shard;
	if (!s || !s->local)
		return false;
	shard = kc_place_shard(s->shard_seed, s->shards, key.data, key.len);
	if (kc_landing_lend(s, shard, len, &piece) < 0)
		return false;
	atomic_fetch_add_explicit(&s->local->refs, 1, memory_order_relaxed);
	*out = (struct kvc_borrowed){.data = kc_buffer_at(&s->landing[shard].pieces, &piece),
				     .len = len,
				     .value_len = len,
				     .in_place = 1,
				     .priv = {piece.offset | piece.len_bytes << 32, shard + 1ull,
					      (uint64_t)(uintptr_t)s->local, (uint64_t)(uintptr_t)c}};
	return true;
}

/* key: of the value that the room is for; NULL: it is for anything. */
static int borrow_await(struct kvc_client *c, const struct kvc_key *key, uint64_t len_bytes, uint64_t timeout_ns,
			struct kvc_borrowed *out)
{
	struct kvc_call call = {.timeout_ns = timeout_ns};
	struct kc_piece piece;
	struct kc_trace t;
	int rc;
	if (!out || len_bytes == 0 || (key && !kc_key_valid(*key)))
		return -KV_EINVAL;
	*out = (struct kvc_borrowed){0};
	rc = kc_call_begin(c, &t, KVC_OP_BORROW, NULL);
	if (rc < 0)
		return rc;
	if (c->sealer) {
		rc = -KV_ENOTSUP;
	} else if (!key || !landing_lend(c, *key, len_bytes, out)) {
		rc = kc_call_piece_await(c, len_bytes, kc_call_deadline(c, &call, 0), true, &piece);
		if (rc == 0)
			lend(c, &piece, len_bytes, len_bytes, out);
	}
	return (int)kc_call_end(c, &t, rc);
}

int kvc_borrow_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns, struct kvc_borrowed *out)
{
	return borrow_await(client, NULL, len_bytes, timeout_ns, out);
}

int kvc_put_borrow_await(struct kvc_client *client, struct kvc_key key, uint64_t len_bytes, uint64_t timeout_ns,
			 struct kvc_borrowed *out)
{
	return borrow_await(client, &key, len_bytes, timeout_ns, out);
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

/* The area ends with its attachment. */
static void landing_return(struct kvc_client *c, const struct kvc_borrowed *b)
{
	struct kc_local *l = (struct kc_local *)(uintptr_t)b->priv[2];
	struct kc_piece piece = {b->priv[0] & UINT32_MAX, b->priv[0] >> 32};
	for (unsigned i = 0; i < c->num_nodes; i++) {
		struct kc_attachment *s = c->node[i].attachment;
		if (s && s->local == l)
			kc_landing_return(s, (unsigned)b->priv[1] - 1, &piece);
	}
	kc_local_unref(l);
}

static int64_t room_release(struct kvc_client *c, void *borrowed)
{
	const struct kvc_borrowed *b = borrowed;
	struct kc_piece piece = {b->priv[0], b->priv[1]};
	if (b->in_place)
		landing_return(c, b);
	else
		kc_room_give(c, &piece);
	return 0;
}

/* The client that lent room; NULL: it is a lease. */
static struct kvc_client *lender(const struct kvc_borrowed *b)
{
	return (struct kvc_client *)(uintptr_t)(b->in_place ? b->priv[3] : b->priv[2]);
}

void kvc_borrowed_release(struct kvc_client *client, struct kvc_borrowed *borrowed)
{
	struct kvc_borrowed b;
	if (!borrowed || borrowed->priv[1] == 0)
		return;
	b = *borrowed;
	*borrowed = (struct kvc_borrowed){0};
	if (b.in_place && !lender(&b)) {
		lease_release(&b);
		return;
	}
	client = lender(&b) ? lender(&b) : client;
	if (!client || kc_pool_alien(client->pool))
		return;
	if (loop_current() == client->loop) {
		room_release(client, &b);
	} else if (!loop_current() && kc_pool_enter(client->pool) == 0) {
		kc_block_run_surely(client, room_release, &b);
		kc_pool_leave(client->pool);
	}
}

struct kvc_client *kc_borrowed_client(const struct kvc_borrowed *b)
{
	return b && b->priv[1] ? lender(b) : NULL;
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

/* GET several ranges into one piece: one attempt, as borrowed_guess_await. If a fence would cut the client off from all
 * servers, a repair uses a piece per range, as in kc_put_copy. */
static int borrowed_large_await(struct kvc_get *g, uint64_t *len, struct kvc_borrowed *out)
{
	struct kvc_client *c = g->c;
	struct kc_piece piece;
	int64_t rc = kc_call_piece_await(c, *len, g->route.deadline_ns, true, &piece);
	g->ask.single = false;
	if (rc < 0)
		return (int)rc;
	g->to.at = (struct kc_target){.at = kc_buffer_at(&c->buffer, &piece)};
	g->to.cap = *len;
	g->to.place = g->route.kind == ROUTE_FIXED && !c->info.peer_fence ? KC_GET_COPIED : KC_GET_DIRECT;
	g->to.region = KC_REGION_BUFFER;
	g->to.region_offset = piece.offset;
	rc = kc_get_once_await(g);
	if (rc >= 0)
		lend(c, &piece, (uint64_t)rc, g->value.len, out);
	kc_room_give(c, &piece);
	if (rc == -KV_ETOOBIG && g->state == KC_GET_READING && g->value.total > *len) {
		*len = g->value.total;
		return 1;
	}
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
	if (rc == 0)
		rc = kc_get_lend(g, r, out);
	kc_req_release(c, r);
	return rc;
}

/* One attempt to GET a value of about *len bytes. As borrowed_guess_await. */
static int borrowed_once_await(struct kvc_get *g, uint64_t *len, bool large, struct kvc_borrowed *out)
{
	int rc;
	g->ask.guess = *len;
	rc = g->ask.moved ? -KV_ENOTSUP : borrowed_leased_await(g, out);
	if (rc != -KV_ENOTSUP)
		return rc;
	if (*len > kc_buffer_largest(&g->c->buffer) / 2)
		return -KV_ETOOBIG;
	return large ? borrowed_large_await(g, len, out) : borrowed_guess_await(g, len, out);
}

uint64_t kc_get_guess(const struct kvc_client *c, uint64_t expected)
{
	if (expected)
		return expected;
	/* Of a wrong guess for several ranges the first one would move for nothing. */
	return c->hints.last_len ? KV_MIN(c->hints.last_len, KV_RANGE_MAX) : GUESS_DEFAULT;
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
	return (int)kc_get_code(g, route_code(&g->route, rc == 1 ? -KV_EBUSY : kc_call_code(g->c, rc)));
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
	if (rc == 0 && client->sealer)
		rc = -KV_ENOTSUP;
	if (rc < 0)
		goto out;
	kc_trace_key(&t, key.data, key.len);
	g.own_wait.trace = &t;
	g.ask.exact = own.flags & KVC_EXACT ? expect_len : 0;
	len = kc_get_guess(client, expect_len ? expect_len : own.length);
	rc = route_down(g.route.n, own.flags, kc_get_lent_await(&g, len, out));
	kc_get_count(client, rc == 0 ? (int64_t)out->len : rc);
out:
	rc = kc_call_end(client, &t, rc);
	return rc < 0 ? rc : (int64_t)out->len;
}
