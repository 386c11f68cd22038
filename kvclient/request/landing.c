/* SPDX-License-Identifier: Apache-2.0 */
/* landing.c -- PUTs whose bytes we write into our own area of the server: take a place, ordered write, PUT with LANDED,
 * reply, free the place.
 *
 * The message follows the write on the same connection or is not sent (te_msg_follow); the server answers after
 * copying.
 *
 * A place without an answer is not reused: the server may still read it. If all are lost, a new attachment brings a new
 * area. */
#include "kvclient/request/landing.h"

#include <stdlib.h>

#include "kvclient/request/attachment.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/request/private.h"

enum { LOCAL_PARTS = 4 };

#define LOCAL_RANGE ((uint64_t)1 << 20)
#define AGAIN_NS    500000ull /* others need the wire for a chunk or two */

int kc_pushes_init(struct kvc_client *c)
{
	struct kc_pushes *p = &c->requests->pushes;
	if (p->push)
		return 0;
	p->push = calloc(c->reqs.count, sizeof(*p->push));
	if (!p->push)
		return -KV_ENOMEM;
	kv_list_init(&p->free);
	for (uint32_t i = 0; i < c->reqs.count; i++)
		kv_list_add_tail(&p->free, &p->push[i].node);
	return 0;
}

void kc_pushes_fini(struct kvc_client *c)
{
	free(c->requests->pushes.push);
	c->requests->pushes = (struct kc_pushes){0};
}

uint64_t kc_landing_max(const struct kc_attachment *s, unsigned shard)
{
	uint64_t chunk = KV_MIN(s->chunk_bytes, s->node->client->info.chunk_bytes);
	const struct kc_buffer *pieces;
	if (!s->landing || s->landing[shard].pieces.len_bytes == 0)
		return 0;
	pieces = &s->landing[shard].pieces;
	/* A part of it, so that several are under way while the loop copies the next one. */
	if (s->local)
		return KV_MIN(KV_MAX(kc_buffer_largest(pieces) / LOCAL_PARTS, (uint64_t)KC_PIECE_MIN), LOCAL_RANGE);
	return KV_MIN(kc_buffer_largest(pieces), chunk);
}

bool kc_landings_all(const struct kc_attachment *s)
{
	for (unsigned i = 0; i < s->shards; i++)
		if (kc_landing_max(s, i) == 0)
			return false;
	return true;
}

int kc_landing_lend(struct kc_attachment *s, unsigned shard, uint64_t len, struct kc_piece *out)
{
	struct kc_landing *area = s->local && s->landing ? &s->landing[shard] : NULL;
	uint64_t bytes = kc_buffer_rounded(len);
	int rc;
	if (!area || bytes > area->pieces.len_bytes / 2)
		return -KV_ETOOBIG;
	if (area->lent_bytes + bytes > area->pieces.len_bytes / 2)
		return -KV_EBUSY;
	rc = kc_buffer_take(&area->pieces, len, out);
	if (rc == 0)
		area->lent_bytes += out->len_bytes;
	return rc;
}

void kc_landing_return(struct kc_attachment *s, unsigned shard, struct kc_piece *piece)
{
	struct kc_landing *area = &s->landing[shard];
	KV_ASSERT_HOT(area->lent_bytes >= piece->len_bytes);
	area->lent_bytes -= piece->len_bytes;
	kc_buffer_give(&area->pieces, piece);
	kc_push_unpark(&s->link[shard * s->links_per_shard]);
}

bool kc_landing_has(const struct kc_attachment *s, unsigned shard, const void *at, uint64_t len, uint64_t *out_offset)
{
	const struct kc_buffer *b = s->local && s->landing ? &s->landing[shard].pieces : NULL;
	uint64_t offset;
	if (!b || !b->base || (const uint8_t *)at < b->base)
		return false;
	offset = (uint64_t)((const uint8_t *)at - b->base);
	*out_offset = offset;
	return offset <= b->len_bytes && len <= b->len_bytes - offset;
}

static void unstick(struct kc_link *l)
{
	struct kc_attachment *s = l->attachment;
	for (unsigned i = 0; i < s->links_per_shard; i++) {
		struct kc_link *other = &s->link[l->shard * s->links_per_shard + i];
		if (!other->stuck)
			continue;
		other->stuck = false;
		if (s->open)
			kc_link_dirty(other);
	}
}

void kc_push_unpark(struct kc_link *l)
{
	struct kc_attachment *s = l->attachment;
	for (unsigned i = 0; i < s->links_per_shard; i++)
		kc_link_look(&s->link[l->shard * s->links_per_shard + i]);
}

static void push_done(struct te_xfer *x, int status)
{
	struct kc_push *p = x->arg;
	struct kc_link *l = p->link;
	struct kvc_client *c = l->attachment->node->client;
	struct kc_req *r = p->req;
	(void)status; /* the reply has the result */
	p->req = NULL;
	l->pushes--;
	kv_list_add_tail(&c->requests->pushes.free, &p->node);
	if (r) {
		r->mem.push = NULL;
		kc_req_settle(c, r);
	}
	unstick(l);
	kc_attachment_unref(l->attachment);
}

/* The head cannot be posted, or is a lane's without a place. An answer of its shard (kc_push_unpark), a write's end
 * (push_done), a frame's end (frame_sent) or the head's end (kc_req_end) retries; without writes and frames the timer
 * does. */
void kc_push_stick(struct kvc_client *c, struct kc_link *l)
{
	l->stuck = true;
	if (l->frames == 0 && l->pushes == 0)
		kc_push_later(c);
}

void kc_push_later(struct kvc_client *c)
{
	if (!loop_timer_armed(&c->requests->out.again))
		loop_timer_arm(c->loop, &c->requests->out.again, loop_turn_now(c->loop) + AGAIN_NS);
}

void kc_push_again(struct loop_timer *t)
{
	struct kvc_client *c = KV_CONTAINER(t, struct kc_requests, out.again)->client;
	for (unsigned i = 0; i < c->num_nodes; i++) {
		struct kc_attachment *s = c->node[i].attachment;
		for (uint32_t k = 0; s && s->open && k < s->num_links; k++)
			kc_link_look(&s->link[k]);
	}
}

static int piece_take(struct kc_link *l, uint64_t len, struct kc_piece *out)
{
	struct kc_landing *area = &l->attachment->landing[l->shard];
	int rc = kc_buffer_take(&area->pieces, len, out);
	if (rc == 0)
		area->placed++;
	else if (rc == -KV_EBUSY && area->placed == 0 && !l->attachment->local)
		kc_link_redo(l->attachment->node, "lost frames occupy its landing area");
	return rc;
}

static void piece_give(struct kc_link *l, struct kc_piece *piece)
{
	struct kc_landing *area = &l->attachment->landing[l->shard];
	kc_buffer_give(&area->pieces, piece);
	area->placed--;
}

int kc_push_place(struct kc_link *l, struct kc_req *r)
{
	int rc;
	if (r->mem.filled)
		return 0;
	rc = piece_take(l, r->wire.put.length, &r->mem.landing);
	if (rc == 0)
		r->wire.dest.offset = r->mem.landing.offset;
	return rc;
}

/* PUTs without a place let others pass, since a GET needs none. A lane's PUT blocks its link and session. */
bool kc_push_park(struct kc_link *l, struct kc_req *r)
{
	if (r->session) {
		kc_push_stick(kc_link_client(l), l);
		return false;
	}
	kv_list_del(&r->node);
	kc_queue_in(l, &l->parked, r);
	return true;
}

void kc_push_displace(struct kc_link *l, struct kc_req *r)
{
	if (r->mem.landing.len_bytes != 0)
		piece_give(l, &r->mem.landing);
}

static int push_post(struct kvc_client *c, struct kc_link *l, struct kc_req *r)
{
	struct kc_attachment *s = l->attachment;
	struct kv_list *n = kv_list_pop(&c->requests->pushes.free);
	struct kc_push *p = n ? KV_LIST_ENTRY(n, struct kc_push, node) : NULL;
	int rc = -KV_EBUSY;
	if (p) {
		p->req = r;
		p->link = l;
		p->xfer = (struct te_xfer){.dir = TE_WRITE,
					   .peer = s->peer[l->shard],
					   .link = l->index,
					   .local = r->mem.region,
					   .local_offset = r->mem.source,
					   .remote = &s->landing[l->shard].remote,
					   .at = {r->mem.landing.offset, 0, r->wire.put.length, 1},
					   .ordered = true,
					   .deadline_ns = r->deadline_ns,
					   .done = push_done,
					   .arg = p};
		rc = te_xfer_start(c->te, &p->xfer);
		if (rc < 0)
			kv_list_add_head(&c->requests->pushes.free, &p->node);
	}
	if (rc == -KV_EBUSY || rc == -KV_EPEERDOWN) {
		kc_push_stick(c, l);
		return -KV_EBUSY;
	}
	if (rc < 0)
		return rc;
	r->mem.push = p;
	l->pushes++;
	s->refs++;
	return 0;
}

int kc_push_start(struct kvc_client *c, struct kc_link *l, struct kc_req *r)
{
	struct kc_attachment *s = l->attachment;
	if (s->local) {
		if (!r->mem.filled)
			kc_target_read(&r->place, kc_buffer_at(&s->landing[l->shard].pieces, &r->mem.landing),
				       r->wire.put.length);
		kc_add(&c->count.local_puts, 1);
		return 0;
	}
	return push_post(c, l, r);
}

void kc_push_landed(struct kc_req *r, struct kc_link *l)
{
	if (r->mem.landing.len_bytes == 0)
		return;
	piece_give(l, &r->mem.landing);
	kc_push_unpark(l);
}

void kc_landing_lost(struct kc_link *l)
{
	if (--l->attachment->landing[l->shard].placed == 0)
		kc_push_unpark(l);
}

void kc_push_lost(struct kc_req *r, struct kc_link *l)
{
	if (r->mem.landing.len_bytes == 0)
		return;
	/* No late write of ours can arrive there, and the server refuses a copy with a wrong checksum. */
	if (l->attachment->local) {
		kc_push_landed(r, l);
		return;
	}
	r->mem.landing = (struct kc_piece){0};
	kc_landing_lost(l);
}

void kc_push_leave(struct kvc_client *c, struct kc_req *r)
{
	r->mem.landing = (struct kc_piece){0}; /* it ends with the attachment */
	if (!r->mem.push)
		return;
	te_xfer_cancel(c->te, &r->mem.push->xfer);
	r->mem.push->req = NULL;
	r->mem.push = NULL;
}
