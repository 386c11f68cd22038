/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- pieces of a client's receive buffer in the caller's hands.
 *
 * priv[0] is the piece's offset, priv[1] its length (0: no piece). A GET into a view asks for the expected length at
 * once; the piece belongs to the request until the value is in it, so that giving up quarantines it as any other. A
 * value of several ranges goes to a piece that is acquired first and treated as memory of the caller: two requests
 * write to it, and quarantine knows only one owner. */
#include "kvclient/call/get.h"
#include "kvclient/request/life.h"

enum { GUESS_DEFAULT = 65536, GUESSES_MAX = 4 };

static void view_lend(struct kvc_client *c, struct kvc_piece *piece, uint64_t len, uint64_t value_len,
		      struct kvc_view *out)
{
	*out = (struct kvc_view){kvc_buffer_at(&c->buffer, piece), len, value_len, {piece->offset, piece->len_bytes}};
	*piece = (struct kvc_piece){0};
}

/* A piece by itself. */
static int piece_await(struct kvc_client *c, uint64_t len, uint64_t deadline_ns, struct kvc_piece *out)
{
	struct kvc_need need = {.piece_bytes = len};
	struct kvc_req *r;
	int rc = kvc_room_await(c, &need, deadline_ns, &r);
	if (rc < 0)
		return rc;
	*out = r->piece;
	kvc_room_keep(c, &r->piece);
	r->piece = (struct kvc_piece){0};
	kvc_req_release(c, r);
	return 0;
}

int kvc_view_acquire_await(struct kvc_client *client, uint64_t len_bytes, uint64_t timeout_ns, struct kvc_view *out)
{
	struct kvc_call call = {.timeout_ns = timeout_ns};
	struct kvc_piece piece;
	struct kvc_trace t;
	int rc;
	if (!out || len_bytes == 0)
		return -KV_EINVAL;
	*out = (struct kvc_view){0};
	rc = kvc_call_begin(client, &t, KVC_OP_VIEW, NULL);
	if (rc < 0)
		return rc;
	rc = piece_await(client, len_bytes, kvc_call_deadline(client, &call, 0), &piece);
	if (rc == 0)
		view_lend(client, &piece, len_bytes, len_bytes, out);
	return (int)kvc_call_end(client, &t, rc);
}

void kvc_view_release(struct kvc_client *client, struct kvc_view *view)
{
	struct kvc_piece piece;
	if (!client || !view || view->priv[1] == 0)
		return;
	piece = (struct kvc_piece){view->priv[0], view->priv[1]};
	*view = (struct kvc_view){0};
	if (!kvc_pool_alien(client->pool))
		kvc_room_give(client, &piece);
}

/* One range into a piece that the request owns. 1: the guess was too short and *len says what is needed; 0; or a code.
 */
static int view_guess_await(struct kvc_get *g, uint64_t *len, struct kvc_view *out)
{
	struct kvc_client *c = g->c;
	struct kvc_req *r;
	int rc, status;
	g->cap = *len;
	g->known = false;
	g->issued = g->taken = g->generation = 0;
	g->direct = false;
	g->sized = true;
	rc = kvc_get_issue_await(g, true, &r);
	if (rc < 0)
		return rc;
	/* Where it is delivered to is the piece itself: what comes in the reply goes there too, and nothing is copied.
	 */
	g->dst = r->inline_to = (struct kvc_target){.at = kvc_buffer_at(&c->buffer, &r->piece)};
	status = kvc_call_done_await(c, r, g->deadline_ns);
	g->direct = true;
	rc = kvc_get_take_await(g, r, status, NULL);
	if (g->known && (rc == 0 || rc == -KV_ETOOBIG) && g->taken < g->total) {
		*len = g->total;
		rc = 1;
	} else if (rc == 0) {
		kvc_room_keep(c, &r->piece);
		view_lend(c, &r->piece, g->total, g->value_len, out);
	}
	kvc_req_release(c, r);
	return rc;
}

/* Several ranges into a piece acquired first. */
static int view_large_await(struct kvc_get *g, uint64_t len, struct kvc_view *out)
{
	struct kvc_client *c = g->c;
	struct kvc_piece piece;
	int64_t rc = piece_await(c, len, g->deadline_ns, &piece);
	if (rc < 0)
		return (int)rc;
	g->dst = (struct kvc_target){.at = kvc_buffer_at(&c->buffer, &piece)};
	g->direct = true;
	g->region = KVC_REGION_BUFFER;
	g->region_offset = piece.offset;
	g->cap = len;
	rc = kvc_get_all_await(g);
	if (rc >= 0)
		view_lend(c, &piece, (uint64_t)rc, g->value_len, out);
	kvc_room_give(c, &piece);
	return rc < 0 ? (int)rc : 0;
}

static int view_await(struct kvc_get *g, uint64_t len, struct kvc_view *out)
{
	uint64_t max = kvc_buffer_largest(&g->c->buffer) / 2;
	uint64_t asked = 0;
	unsigned tries = 0;
	int rc = 1;
	for (unsigned i = 0; rc == 1 && i < GUESSES_MAX; i++) {
		/* The same length again: one request cannot bring it. */
		bool large = len > KV_RANGE_MAX || len == asked;
		if (len > max)
			return -KV_ETOOBIG;
		asked = len;
		do
			rc = large ? view_large_await(g, len, out) : view_guess_await(g, &len, out);
		while (rc < 0 && kvc_call_again_await(g->c, rc, g->deadline_ns, &tries));
	}
	return rc == 1 ? -KV_EBUSY : (int)kvc_call_code(g->c, rc);
}

int64_t kvc_get_view_await(struct kvc_client *client, struct kvc_key key, uint64_t expect_len,
			   const struct kvc_call *call, struct kvc_view *out)
{
	struct kvc_call own;
	struct kvc_trace t;
	struct kvc_get g;
	uint64_t len;
	int64_t rc;
	if (!out)
		return -KV_EINVAL;
	*out = (struct kvc_view){0};
	rc = kvc_call_open(client, &t, KVC_OP_GET, call, &own);
	if (rc < 0)
		return rc;
	rc = kvc_get_init(&g, client, key, client->area.base, 1, 0, 0, &own,
			  kvc_call_deadline(client, &own, KV_MAX(expect_len, own.length)));
	if (rc < 0)
		goto out;
	kvc_trace_key(&t, key.data, key.len);
	g.own_wait.trace = &t;
	len = expect_len ? expect_len : own.length ? own.length : client->last_len ? client->last_len : GUESS_DEFAULT;
	/* A guess beyond what a view can hold is only a guess. */
	len = KV_MIN(len, KV_MAX(kvc_buffer_largest(&client->buffer) / 2, (uint64_t)1));
	rc = kvc_call_down(g.n, own.flags, view_await(&g, len, out));
	kvc_get_count(client, rc == 0 ? (int64_t)out->len : rc);
out:
	rc = kvc_call_end(client, &t, rc);
	return rc < 0 ? rc : (int64_t)out->len;
}
