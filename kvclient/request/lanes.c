/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c -- lanes and turns: requests of further sessions on the links of an attachment.
 *
 * Turns. Requests of a session queue in its lane of the link (one link per shard: a session does not need several to
 * fill it, and large values are striped by the server anyhow). Lanes that may send stand in the link's `turns`; the
 * first sends up to TURN requests and stands behind the others then, with the connection's own queue getting a turn
 * after each. A lane whose credits at the server are all taken leaves until one is back. Where no further session has
 * anything to send, nothing of this is looked at. (Rejected: one queue in order of arrival. A session with 10,000
 * requests would be served before one with a single one that came a moment later.) */
#include "kvclient/request/lanes.h"

#include <stdlib.h>

enum { TURN = 4 /* requests that a session may send in its turn, while others wait */ };

void kvc_lanes_free(struct kvc_sub_at *at)
{
	free(at->lane);
	at->lane = NULL;
}

void kvc_sub_free(struct kvc_sub *sub)
{
	for (unsigned i = 0; i < sub->client->pool->num_servers; i++) {
		kv_list_del(&sub->at[i].list);
		kvc_lanes_free(&sub->at[i]);
	}
	kv_list_del(&sub->node);
	boot_key_destroy(&sub->key);
	free(sub);
}

void kvc_sub_unref(struct kvc_sub *sub)
{
	if (--sub->refs == 0)
		kvc_sub_free(sub);
}

/* Sessions are spread over the links of a shard that are up; a lane stays with its link, whatever becomes of it. */
static uint32_t lane_place(const struct kvc_session *s, unsigned shard, uint32_t index)
{
	const struct kvc_link *first = &s->link[shard * s->links_per_shard];
	for (uint32_t i = 0; i < s->links_per_shard; i++)
		if (first[(index + i) % s->links_per_shard].up)
			return (index + i) % s->links_per_shard;
	return 0;
}

int kvc_lanes_make(struct kvc_sub_at *at, const struct kvc_session *s)
{
	at->lane = calloc(s->shards, sizeof(*at->lane));
	if (!at->lane)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < s->shards; i++) {
		kv_list_init(&at->lane[i].queue);
		kv_list_init(&at->lane[i].turn);
		at->lane[i].link = lane_place(s, i, at->sub->index);
	}
	return 0;
}

static struct kvc_lane *lane_of(const struct kvc_req *r)
{
	return &r->sub->lane[r->link->shard];
}

struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r)
{
	struct kvc_session *s = l->session;
	return &s->link[l->shard * s->links_per_shard + r->sub->lane[l->shard].link];
}

/* It may stand in line. */
static void lane_ready(struct kvc_link *l, const struct kvc_sub_at *at, struct kvc_lane *lane)
{
	if (kv_list_empty(&lane->turn) && !kv_list_empty(&lane->queue) && lane->active < at->credits)
		kv_list_add_tail(&l->turns, &lane->turn);
}

void kvc_lane_add(struct kvc_link *l, struct kvc_req *r)
{
	struct kvc_lane *lane = lane_of(r);
	kv_list_add_tail(&lane->queue, &r->node);
	lane_ready(l, r->sub, lane);
}

void kvc_lane_left(struct kvc_req *r)
{
	struct kvc_lane *lane = lane_of(r);
	if (kv_list_empty(&lane->queue))
		kv_list_del(&lane->turn);
}

void kvc_lane_credit(struct kvc_req *r)
{
	struct kvc_sub *sub = r->sub->sub;
	if (!r->in_lane)
		return;
	r->in_lane = false;
	lane_of(r)->active--;
	lane_ready(r->link, r->sub, lane_of(r));
	r->sub = NULL;
	kvc_sub_unref(sub);
}

void kvc_lane_replied(struct kvc_req *r)
{
	r->sub->sub->replies++;
	kvc_lane_credit(r);
}

static struct kvc_req *first_of(const struct kv_list *queue)
{
	return KV_LIST_ENTRY(queue->next, struct kvc_req, node);
}

struct kvc_req *kvc_turn_head(const struct kvc_link *l)
{
	const struct kvc_lane *lane = KV_LIST_ENTRY(l->turns.next, const struct kvc_lane, turn);
	bool own = !kv_list_empty(&l->queue) && (l->turn_own || first_of(&l->queue)->wire.type == WIRE_PING);
	return first_of(own ? &l->queue : &lane->queue);
}

static void turn_next(struct kvc_link *l, bool own)
{
	l->turn_own = own;
	l->turn_used = 0;
}

void kvc_turn_taken(struct kvc_link *l, struct kvc_req *r)
{
	struct kvc_lane *lane;
	bool over = ++l->turn_used >= TURN;
	if (!r->sub) {
		if (over || kv_list_empty(&l->queue))
			turn_next(l, false);
		return;
	}
	lane = lane_of(r);
	r->in_lane = true;
	r->sub->sub->refs++;
	r->sub->sub->requests++;
	lane->active++;
	if (kv_list_empty(&lane->queue) || lane->active >= r->sub->credits) {
		kv_list_del(&lane->turn);
	} else if (over) {
		kv_list_del(&lane->turn);
		kv_list_add_tail(&l->turns, &lane->turn);
	} else {
		return;
	}
	turn_next(l, true);
}

bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_sub_at **whose)
{
	const struct kvc_sub_at *at = r->sub;
	struct wire_request q = {.type = WIRE_SESSION, .session.number = at ? at->number : 0};
	if (wire_frame_room(w) < WIRE_SESSION_BYTES + wire_request_size(&r->wire) || w->records > WIRE_RECORDS_MAX - 2)
		return false;
	if (wire_request_add(w, &q) < 0)
		return false;
	*whose = at;
	return true;
}
