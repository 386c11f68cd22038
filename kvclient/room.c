/* SPDX-License-Identifier: Apache-2.0 */
/* room.c -- admission: a request entry, a piece of the buffer and a share of the immediates, taken together or not at
 * all.
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
 * over all peers. */
#include "kvclient/client.h"

struct kvc_starving {
	struct kv_list node;
	struct co *co;
	struct kvc_need need;
	struct kvc_req *granted;
	int status; /* 1: still waiting */
};

/* Whether what requests themselves give back is short: entries and immediates. */
static bool room_short(const struct kvc_client *c, const struct kvc_need *need)
{
	return need->imms > c->imm_limit - c->imm_used || c->reqs.used == c->reqs.count;
}

static int room_take(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out)
{
	struct kvc_piece piece = {0};
	struct kvc_req *r;
	if (need->imms > c->imm_limit)
		return -KV_ETOOBIG;
	if (room_short(c, need))
		return -KV_EBUSY;
	if (need->piece_bytes) {
		int rc = kvc_buffer_take(&c->buffer, need->piece_bytes, &piece);
		if (rc < 0)
			return rc;
	}
	r = kvc_req_alloc(&c->reqs);
	r->piece = piece;
	r->imms = need->imms;
	r->at.asked_ns = r->at.made_ns = loop_turn_now(c->loop);
	c->imm_used += need->imms;
	*out = r;
	return 0;
}

/* Whether one of those who wait goes before this need. */
static bool room_queued(const struct kvc_client *c, const struct kvc_need *need)
{
	KV_LIST_EACH (n, &c->starving) {
		const struct kvc_starving *s = KV_LIST_ENTRY(n, const struct kvc_starving, node);
		if (need->piece_bytes || !s->need.piece_bytes || room_short(c, &s->need))
			return true;
	}
	return false;
}

int kvc_room_try(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out)
{
	if (room_queued(c, need))
		return -KV_EBUSY;
	return room_take(c, need, out);
}

void kvc_room_feed(struct kvc_client *c)
{
	bool no_piece = false;
	KV_LIST_EACH_SAFE (n, &c->starving) {
		struct kvc_starving *s = KV_LIST_ENTRY(n, struct kvc_starving, node);
		int rc;
		if (no_piece && s->need.piece_bytes)
			continue;
		rc = room_take(c, &s->need, &s->granted);
		if (rc == -KV_EBUSY && room_short(c, &s->need))
			return;
		if (rc == -KV_EBUSY) {
			no_piece = true;
			continue;
		}
		s->status = rc;
		kv_list_del(&s->node);
		co_wake(s->co);
	}
}

void kvc_room_close(struct kvc_client *c)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&c->starving))) {
		struct kvc_starving *s = KV_LIST_ENTRY(n, struct kvc_starving, node);
		s->status = -KV_ECLOSED;
		co_wake(s->co);
	}
}

/* Park until served, refused or late. (Not inlined: gcc takes the list's node on our caller's stack for one that is
 * left behind.) */
static __attribute__((noinline)) int room_wait_await(struct kvc_client *c, struct kvc_starving *s, uint64_t deadline_ns)
{
	kv_list_add_tail(&c->starving, &s->node);
	while (s->status == 1 && (co_park_await(deadline_ns) == 0 || s->status != 1))
		;
	kv_list_del(&s->node);
	if (s->status != 1)
		return s->status;
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
