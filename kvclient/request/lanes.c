/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c -- lanes: each further session queues on one link per shard, and they take turns.
 *
 * Lanes that may send are in `turns`. The first sends up to TURN requests, then the connection's own queue has a turn.
 * So a session with 10,000 requests does not delay another's first. */
#include "kvclient/request/lanes.h"

#include <stdlib.h>

#include "kvclient/request/order.h"

enum { TURN = 4 /* requests per turn, while others wait */ };

void kvc_lanes_free(struct kvc_session_at *at)
{
	free(at->lane);
	at->lane = NULL;
}

void kvc_session_part_init(struct kvc_session *session, struct kvc_session_at *at, unsigned server)
{
	at->session = session;
	at->node = &session->client->node[server];
	kv_list_init(&at->list);
}

struct kvc_session_at *kvc_session_part_make(struct kvc_session *session, unsigned server)
{
	struct kvc_session_at *at = kvc_session_part(session, server), **more;
	uint32_t i = server - session->num_at;
	if (KV_LIKELY(at != NULL))
		return at;
	if (i >= session->num_more) {
		more = realloc(session->more, (i + 1) * sizeof(struct kvc_session_at *));
		if (!more)
			return NULL;
		memset(more + session->num_more, 0, (i + 1 - session->num_more) * sizeof(struct kvc_session_at *));
		session->more = more;
		session->num_more = i + 1;
	}
	at = session->more[i] = calloc(1, sizeof(*at));
	if (at)
		kvc_session_part_init(session, at, server);
	return at;
}

void kvc_session_free(struct kvc_session *session)
{
	for (unsigned i = 0; i < session->num_at + session->num_more; i++) {
		struct kvc_session_at *at = kvc_session_part(session, i);
		if (!at)
			continue;
		kv_list_del(&at->list);
		kvc_lanes_free(at);
		if (i >= session->num_at)
			free(at);
	}
	free(session->more);
	kv_list_del(&session->node);
	boot_key_destroy(&session->key);
	free(session);
}

void kvc_session_unref(struct kvc_session *session)
{
	if (--session->refs == 0)
		kvc_session_free(session);
}

/* Sessions are spread over the shard's working links; a lane never changes its link. */
static uint32_t lane_place(const struct kvc_attachment *s, unsigned shard, uint32_t index)
{
	const struct kvc_link *first = &s->link[shard * s->links_per_shard];
	for (uint32_t i = 0; i < s->links_per_shard; i++)
		if (first[(index + i) % s->links_per_shard].up)
			return (index + i) % s->links_per_shard;
	return 0;
}

int kvc_lanes_make(struct kvc_session_at *at, const struct kvc_attachment *s)
{
	at->lane = calloc(s->shards, sizeof(*at->lane));
	if (!at->lane)
		return -KV_ENOMEM;
	for (unsigned i = 0; i < s->shards; i++) {
		kv_list_init(&at->lane[i].queue);
		kv_list_init(&at->lane[i].turn);
		at->lane[i].link = lane_place(s, i, at->session->index);
	}
	return 0;
}

static struct kvc_lane *lane_of(const struct kvc_req *r)
{
	return &r->session->lane[r->link->shard];
}

struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r)
{
	struct kvc_attachment *s = l->attachment;
	return &s->link[l->shard * s->links_per_shard + r->session->lane[l->shard].link];
}

static void lane_ready(struct kvc_link *l, const struct kvc_session_at *at, struct kvc_lane *lane)
{
	if (kv_list_empty(&lane->turn) && !kv_list_empty(&lane->queue) && lane->active < at->credits)
		kv_list_add_tail(&l->turns, &lane->turn);
}

void kvc_lane_add(struct kvc_link *l, struct kvc_req *r)
{
	struct kvc_lane *lane = lane_of(r);
	kvc_queue_in(l, &lane->queue, r);
	lane_ready(l, r->session, lane);
}

void kvc_lane_left(struct kvc_req *r)
{
	struct kvc_lane *lane = lane_of(r);
	if (kv_list_empty(&lane->queue))
		kv_list_del(&lane->turn);
	r->session = NULL;
}

void kvc_lane_credit(struct kvc_req *r)
{
	struct kvc_session *session = r->session->session;
	lane_of(r)->active--;
	lane_ready(r->link, r->session, lane_of(r));
	r->session = NULL;
	kvc_session_unref(session);
}

void kvc_lane_replied(struct kvc_req *r)
{
	r->session->session->replies++;
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
	if (!r->session) {
		if (over || kv_list_empty(&l->queue))
			turn_next(l, false);
		return;
	}
	lane = lane_of(r);
	r->session->session->refs++;
	r->session->session->requests++;
	lane->active++;
	if (kv_list_empty(&lane->queue) || lane->active >= r->session->credits) {
		kv_list_del(&lane->turn);
	} else if (over) {
		kv_list_del(&lane->turn);
		kv_list_add_tail(&l->turns, &lane->turn);
	} else {
		return;
	}
	turn_next(l, true);
}

bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_session_at **whose)
{
	const struct kvc_session_at *at = r->session;
	struct wire_request q = {.type = WIRE_SESSION, .session.number = at ? at->number : 0};
	if (wire_frame_room(w) < WIRE_SESSION_BYTES + wire_request_size(&r->wire) || w->records > WIRE_RECORDS_MAX - 2)
		return false;
	if (wire_request_add(w, &q) < 0)
		return false;
	*whose = at;
	return true;
}
