/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- frames of replies, and immediates, in any order.
 *
 * A frame's mark, which we gave, selects its attachment, and an id the request; its link's seal must be right.
 *
 * A request ends when its final number of writes has been counted (kc_req_settle). A reply that FOLLOWS its bytes has
 * no immediates; one with a lease starts our read (pull.c).
 *
 * A CANCEL has its own reply: UNSEEN means no other reply; else the request's own returns its credit, unless lost, and
 * the server is done with its landing place. */
#include "kvclient/request/requests.h"

#include "kvclient/core/local_server.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/lanes.h"
#include "kvclient/request/life.h"
#include "kvclient/request/link.h"
#include "kvclient/request/pack.h"
#include "kvclient/request/pull.h"
#include "kvclient/request/private.h"

/* ---- bodies ---- */

/* A lease over a channel. Its call may have left; then it goes back at once. */
static int lease_take(struct kc_req *r, const struct wire_reply *p, uint64_t moved)
{
	struct kc_link *l = r->link;
	struct kc_lease lease;
	uint64_t all = p->get.value_len - KV_MIN(p->get.value_len, r->wire.get.offset);
	int rc = kc_lease_take(l->attachment->local, l->shard, p->get.lease, p->get.at, moved, &lease);
	if (rc < 0) {
		kc_release_add(l, p->get.lease);
		return rc;
	}
	if (r->state != KC_REQ_ORPHAN && (r->wire.get.length || all <= r->mem.most) && moved > 0) {
		r->mem.lease = lease;
		return 0;
	}
	kc_lease_drop(&lease);
	return moved > 0 ? -KV_ETOOBIG : 0;
}

/* The answer to a GET that asks for a lease: that, or a small value inside, or nothing to move. */
static int leased_get(struct kc_req *r, const struct wire_reply *p, uint64_t moved)
{
	uint32_t inline_len = p->get.inline_data.len;
	r->mem.posted = 0;
	if (p->get.value_len > KV_VALUE_MAX || p->get.posted || p->flags & (WIRE_GET_FOLLOWS | WIRE_GET_PACK))
		return -KV_EPROTO;
	if (p->flags & WIRE_GET_LEASED)
		return lease_take(r, p, moved);
	if (inline_len == 0)
		return moved > 0 ? -KV_EPROTO : 0;
	if (r->wire.get.length == 0 && p->get.value_len - r->wire.get.offset > r->mem.most)
		return -KV_ETOOBIG;
	if (inline_len != moved || !(r->wire.flags & WIRE_GET_INLINE))
		return -KV_EPROTO;
	if (r->state != KC_REQ_ORPHAN)
		kc_target_write(&r->place, p->get.inline_data.data, inline_len);
	r->reply.get.inlined = true;
	return 0;
}

static uint64_t get_moved(const struct kc_req *r, uint64_t value_len)
{
	uint64_t offset = r->wire.get.offset;
	return offset >= value_len ? 0 : KV_MIN(kc_req_asked(r), value_len - offset);
}

/* The value lies in pieces of earlier requests of this frame, which others may reuse next turn: copy it now. */
static int packed_take(struct kvc_client *c, struct kc_req *r, uint32_t before, uint64_t moved)
{
	const struct kc_piece *piece = &r->mem.piece;
	if (!(r->wire.flags & WIRE_GET_PACK) || !c->info.ordered || r->mem.callers || moved == 0 ||
	    moved > piece->len_bytes || before > piece->offset)
		return -KV_EPROTO;
	if (r->state == KC_REQ_ORPHAN)
		return 0;
	kc_target_write(&r->place, (const uint8_t *)kc_buffer_at(&c->buffer, piece) - before, moved);
	r->reply.get.inlined = true;
	return 0;
}

static int take_get(struct kvc_client *c, struct kc_req *r, const struct wire_reply *p)
{
	bool follows = p->flags & WIRE_GET_FOLLOWS, ordered = c->info.ordered && !r->link->attachment->local;
	uint64_t moved = get_moved(r, p->get.value_len);
	uint32_t inline_len = p->get.inline_data.len;
	r->mem.posted = p->get.posted;
	r->reply.get.value_len = p->get.value_len;
	r->reply.get.generation = p->get.generation;
	r->reply.get.checksum = p->get.checksum;
	r->reply.get.inlined = false;
	r->reply.get.hot = p->flags & WIRE_GET_HOT;
	r->reply.get.on_tier = p->flags & WIRE_GET_ON_TIER;
	if (p->status != WIRE_OK)
		return wire_status_error(p->status);
	if (r->mem.leased)
		return leased_get(r, p, moved);
	if (p->flags & WIRE_GET_LEASED && p->get.value_len <= KV_VALUE_MAX)
		return kc_pull_start(c, r, p, moved);
	if (p->get.value_len > KV_VALUE_MAX || (follows && !ordered) ||
	    (inline_len > 0 ? inline_len != moved || follows : moved > 0 && p->get.posted == 0 && !follows))
		return -KV_EPROTO;
	if (p->flags & WIRE_GET_PACK)
		return packed_take(c, r, p->get.before, moved);
	if (inline_len > 0 && r->state != KC_REQ_ORPHAN) {
		kc_target_write(&r->place, p->get.inline_data.data, inline_len);
		r->reply.get.inlined = true;
	}
	return 0;
}

static int take_exists(struct kc_req *r, const struct wire_reply *p)
{
	if (p->status != WIRE_OK)
		return wire_status_error(p->status);
	if (p->exists.count != r->wire.exists.count || p->exists.count > WIRE_EXISTS_MAX)
		return -KV_EPROTO;
	r->reply.exists.count = p->exists.count;
	memcpy(r->reply.exists.bitmap, p->exists.bitmap, (p->exists.count + 7) / 8);
	memset(r->reply.exists.deleted, 0, sizeof(r->reply.exists.deleted));
	if (p->flags & WIRE_EXISTS_DELETED)
		memcpy(r->reply.exists.deleted, p->exists.deleted, (p->exists.count + 7) / 8);
	memset(r->reply.exists.tier, 0, sizeof(r->reply.exists.tier));
	if (p->flags & WIRE_EXISTS_TIER)
		memcpy(r->reply.exists.tier, p->exists.tier, (p->exists.count + 7) / 8);
	return 0;
}

static int take_stat(struct kc_req *r, const struct wire_reply *p)
{
	if (p->status != WIRE_OK || r->state == KC_REQ_ORPHAN)
		return wire_status_error(p->status);
	for (uint32_t i = 0; i < p->stat.count; i++) {
		uint32_t id;
		uint64_t value;
		wire_stat_pair(p->stat.pairs, i, &id, &value);
		if (id >= WIRE_STAT_END)
			continue;
		if (wire_stat_info(id).kind != WIRE_STAT_MAXIMUM)
			r->reply.stat->value[id] += value;
		else
			r->reply.stat->value[id] = KV_MAX(r->reply.stat->value[id], value);
	}
	return 0;
}

/* Ages are as of the reply, so deletions were no later than this. */
static int take_tombs(struct kvc_client *c, struct kc_req *r, const struct wire_reply *p)
{
	struct kc_tombs *t = r->reply.tombs;
	uint64_t now = loop_now(c->loop);
	if (p->status != WIRE_OK || r->state == KC_REQ_ORPHAN)
		return wire_status_error(p->status);
	t->next = p->tombs.next;
	t->count = p->tombs.count;
	t->since_ns = (int64_t)(now - p->tombs.known_ms * 1000000ull); /* maybe before the clock's zero */
	t->later = p->flags & WIRE_TOMBS_LATER;
	for (uint32_t i = 0; i < p->tombs.count; i++) {
		uint64_t age_ns;
		wire_tomb(p->tombs.tombs, i, &t->tomb[i].id, &age_ns, &t->tomb[i].touched);
		t->tomb[i].time_ns = now > age_ns ? now - age_ns : 1;
	}
	return 0;
}

_Static_assert(WIRE_TENANTS_MAX <= WIRE_SPACES_MAX && WIRE_LEASES_MAX <= WIRE_SPACES_MAX,
	       "struct kc_rows holds a page");

static int take_rows(struct kc_req *r, const struct wire_reply *p)
{
	struct kc_rows *t = r->reply.rows;
	if (p->status != WIRE_OK || r->state == KC_REQ_ORPHAN)
		return wire_status_error(p->status);
	t->next = p->rows.next;
	t->floor = p->rows.floor;
	t->count = p->rows.count;
	for (uint32_t i = 0; i < p->rows.count; i++)
		wire_row(p->rows.at, i, p->type, &t->row[i]);
	return 0;
}

/* The turn began before the server's time: read the clock again. */
static void clock_take(struct kc_link *l, uint64_t server_ns)
{
	struct kc_node *n = l->attachment->node;
	kc_clock_take(&n->clock, server_ns, loop_now(n->client->loop));
}

static int take_reply(struct kvc_client *c, struct kc_link *l, struct kc_req *r, const struct wire_reply *p)
{
	switch (p->type) {
	case WIRE_GET:
		return take_get(c, r, p);
	case WIRE_PUT:
		r->reply.put.stage = p->put.stage;
		r->reply.put.generation = p->put.generation;
		break;
	case WIRE_EXISTS:
		return take_exists(r, p);
	case WIRE_STAT:
		return take_stat(r, p);
	case WIRE_TOMBS:
		return take_tombs(c, r, p);
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		return take_rows(r, p);
	case WIRE_CLEAR:
		r->reply.clear.generation = p->clear.generation;
		break;
	case WIRE_TOUCH:
		r->reply.touch.left_ms = p->touch.left_ms;
		r->reply.touch.age_ns = p->touch.age_ns;
		r->reply.touch.checksum = p->touch.checksum;
		clock_take(l, p->touch.clock_ns);
		break;
	case WIRE_DELETE:
		clock_take(l, p->drop.clock_ns);
		break;
	case WIRE_PING:
		r->reply.ping.turns = p->ping.turns;
		break;
	default:
		break;
	}
	return wire_status_error(p->status);
}

static bool own_reply(struct kvc_client *c, struct kc_link *l, struct kc_req *r, const struct wire_reply *p)
{
	if (p->type != r->wire.type)
		return false;
	kc_map_del(&l->map, r->id);
	r->id = 0;
	kc_push_landed(r, l);
	kc_pack_answered(r, l);
	if (KV_UNLIKELY(p->type == WIRE_PING))
		kc_link_nonce(l, p->ping.nonce);
	else
		l->nonce = 0; /* the server serves this link */
	if (kc_req_out(r))
		r->status = take_reply(c, l, r, p);
	else if (p->type == WIRE_GET && p->flags & WIRE_GET_LEASED)
		kc_release_add(l, p->get.lease);
	r->said = KC_SAID_REPLY;
	r->at.replied_ns = kc_req_now(c, r);
	r->at.server_posted_ns = p->posted_ns;
	r->at.server_replied_ns = p->replied_ns;
	kc_add(&c->count.replies, 1);
	if (KV_UNLIKELY(r->session != NULL))
		kc_lane_replied(r);
	kv_list_del(&r->cancel_node);
	kc_link_credit(l);
	kc_req_settle(c, r);
	return true;
}

static bool cancel_reply(struct kvc_client *c, struct kc_link *l, struct kc_req *r, const struct wire_reply *p)
{
	if (p->type != WIRE_CANCEL)
		return false;
	kc_map_del(&l->map, r->cancel_id);
	r->cancel_id = 0;
	if (r->said != KC_SAID_REPLY) {
		r->said = KC_SAID_WRITES;
		r->mem.posted = p->cancel.posted;
		if (p->cancel.state == WIRE_CANCEL_UNSEEN) {
			kc_map_del(&l->map, r->id);
			r->id = 0;
			/* Its bytes may still arrive on a replaced connection. */
			kc_push_lost(r, l);
			kc_pack_lost(r);
			r->said = KC_SAID_REPLY;
			r->status = -KV_ECANCELED;
			if (r->session)
				kc_lane_credit(r);
			kc_link_credit(l);
		} else if (p->status == WIRE_OK) {
			kc_push_landed(r, l);
			kc_pack_answered(r, l);
		}
	}
	kc_link_credit(l);
	kc_req_settle(c, r);
	return true;
}

/* ---- frames ---- */

static struct kc_link *link_of(struct kvc_client *c, const struct wire_frame *frame)
{
	struct kc_attachment *s = frame->mark < c->num_nodes ? c->node[frame->mark].attachment : NULL;
	if (!s || s->number != frame->session || frame->shard >= s->shards || frame->link >= s->links_per_shard)
		return NULL;
	return &s->link[frame->shard * s->links_per_shard + frame->link];
}

static bool reply_take(struct kvc_client *c, struct kc_link *l, const struct wire_reply *p)
{
	struct kc_req *r = kc_map_get(&l->map, p->id);
	if (!r)
		return false;
	l->heard_ns = loop_turn_now(c->loop);
	return p->id == r->id ? own_reply(c, l, r, p) : cancel_reply(c, l, r, p);
}

void kc_client_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct kvc_client *c = arg;
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply reply;
	struct kc_link *l;
	int rc = wire_frame_open(&reader, data, len, &frame);
	(void)rail;
	if (rc < 0)
		goto bad;
	l = link_of(c, &frame);
	if (!l || !l->attachment->open || wire_unseal(&l->seal, data, len) != 0)
		goto bad;
	while ((rc = wire_reply_next(&reader, &reply)) == 1) {
		if (!reply_take(c, l, &reply))
			kc_add(&c->count.bad_frames, 1);
	}
	if (rc == 0)
		return;
bad:
	kc_add(&c->count.bad_frames, 1);
}

/* ---- frames of a channel ---- */

void kc_client_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len)
{
	struct kvc_client *c = arg;
	struct wire_reader reader;
	struct wire_frame frame;
	struct wire_reply reply;
	struct kc_link *l;
	int rc = wire_frame_open(&reader, data, len, &frame);
	if (rc < 0)
		goto bad;
	l = link_of(c, &frame);
	if (!l || l->attachment->peer[l->shard] != peer || !l->attachment->local)
		goto bad;
	if (!l->attachment->open) {
		kc_local_frame_drop(l->attachment->local, l->shard, data, len);
		return;
	}
	while ((rc = wire_reply_next(&reader, &reply)) == 1) {
		if (reply_take(c, l, &reply))
			continue;
		kc_local_reply_drop(l->attachment->local, l->shard, &reply);
		kc_add(&c->count.bad_frames, 1);
	}
	if (rc == 0)
		return;
bad:
	kc_add(&c->count.bad_frames, 1);
}

/* ---- immediates ---- */

void kc_client_immediate(void *arg, unsigned rail, uint32_t imm)
{
	struct kvc_client *c = arg;
	struct kc_req *r = kc_reqs_immediate(&c->reqs, imm);
	(void)rail;
	if (!r)
		kc_add(&c->count.stale_immediates, 1);
	else if (kc_req_out(r))
		kc_req_settle(c, r);
}
