/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c -- lanes: each further session queues on one link per shard, and they take turns.
 *
 * Lanes that may send are in `turns`. The first sends up to TURN requests, then the connection's own queue has a turn.
 * So a session with 10,000 requests does not delay another's first. */
#include "kvclient/request/lanes.h"

#include <stdlib.h>

#include "kvclient/request/private.h"

enum { TURN = 4 /* requests per turn, while others wait */ };

void kc_lanes_free(struct kc_session_at *at)
{
	free(at->lane);
	at->lane = NULL;
}

void kc_session_part_init(struct kvc_session *session, struct kc_session_at *at, unsigned server)
{
	at->session = session;
	at->node = &session->client->node[server];
	kv_list_init(&at->list);
}

struct kc_session_at *kc_session_part_make(struct kvc_session *session, unsigned server)
{
	struct kc_session_at *at = kc_session_part(session, server), **more;
	uint32_t i = server - session->num_at;
	if (KV_LIKELY(at != NULL))
		return at;
	if (i >= session->num_more) {
		more = realloc(session->more, (i + 1) * sizeof(struct kc_session_at *));
		if (!more)
			return NULL;
		memset(more + session->num_more, 0, (i + 1 - session->num_more) * sizeof(struct kc_session_at *));
		session->more = more;
		session->num_more = i + 1;
	}
	at = session->more[i] = calloc(1, sizeof(*at));
	if (at)
		kc_session_part_init(session, at, server);
	return at;
}

void kc_session_free(struct kvc_session *session)
{
	KV_ASSERT(session->users == 0 && kv_list_empty(&session->pins)); /* rule 41 */
	for (unsigned i = 0; i < session->num_at + session->num_more; i++) {
		struct kc_session_at *at = kc_session_part(session, i);
		if (!at)
			continue;
		kv_list_del(&at->list);
		kc_lanes_free(at);
		if (i >= session->num_at)
			free(at);
	}
	free(session->more);
	kv_list_del(&session->node);
	boot_key_destroy(&session->key);
	free(session);
}

void kc_session_unref(struct kvc_session *session)
{
	if (--session->refs == 0)
		kc_session_free(session);
}

/* Sessions are spread over the shard's working links; a lane never changes its link. */
static uint32_t lane_place(const struct kc_attachment *s, unsigned shard, uint32_t index)
{
	const struct kc_link *first = &s->link[shard * s->links_per_shard];
	for (uint32_t i = 0; i < s->links_per_shard; i++)
		if (first[(index + i) % s->links_per_shard].up)
			return (index + i) % s->links_per_shard;
	return 0;
}

int kc_lanes_make(struct kc_session_at *at, const struct kc_attachment *s)
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

static struct kc_lane *lane_of(const struct kc_req *r)
{
	return &r->session->lane[r->link->shard];
}

struct kc_link *kc_lane_link(struct kc_link *l, const struct kc_req *r)
{
	struct kc_attachment *s = l->attachment;
	return &s->link[l->shard * s->links_per_shard + r->session->lane[l->shard].link];
}

static void lane_ready(struct kc_link *l, const struct kc_session_at *at, struct kc_lane *lane)
{
	if (kv_list_empty(&lane->turn) && !kv_list_empty(&lane->queue) && lane->active < at->credits)
		kv_list_add_tail(&l->turns, &lane->turn);
}

void kc_lane_add(struct kc_link *l, struct kc_req *r)
{
	struct kc_lane *lane = lane_of(r);
	kc_queue_in(l, &lane->queue, r);
	lane_ready(l, r->session, lane);
}

void kc_lane_left(struct kc_req *r)
{
	struct kc_lane *lane = lane_of(r);
	if (kv_list_empty(&lane->queue))
		kv_list_del(&lane->turn);
	r->session = NULL;
}

void kc_lane_credit(struct kc_req *r)
{
	struct kvc_session *session = r->session->session;
	lane_of(r)->active--;
	lane_ready(r->link, r->session, lane_of(r));
	r->session = NULL;
	kc_session_unref(session);
}

void kc_lane_replied(struct kc_req *r)
{
	r->session->session->replies++;
	kc_lane_credit(r);
}

static struct kc_req *first_of(const struct kv_list *queue)
{
	return KV_LIST_ENTRY(queue->next, struct kc_req, node);
}

struct kc_req *kc_turn_head(const struct kc_link *l)
{
	const struct kc_lane *lane = KV_LIST_ENTRY(l->turns.next, const struct kc_lane, turn);
	bool own = !kv_list_empty(&l->queue) && (l->turn_own || first_of(&l->queue)->wire.type == WIRE_PING);
	return first_of(own ? &l->queue : &lane->queue);
}

static void turn_next(struct kc_link *l, bool own)
{
	l->turn_own = own;
	l->turn_used = 0;
}

void kc_turn_taken(struct kc_link *l, struct kc_req *r)
{
	struct kc_lane *lane;
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

bool kc_frame_switch(struct wire_writer *w, const struct kc_req *r, const struct kc_session_at **whose)
{
	const struct kc_session_at *at = r->session;
	struct wire_request q = {.type = WIRE_SESSION, .session.number = at ? at->number : 0};
	if (wire_frame_room(w) < WIRE_SESSION_BYTES + wire_request_size(&r->wire) || w->records > WIRE_RECORDS_MAX - 2)
		return false;
	if (wire_request_add(w, &q) < 0)
		return false;
	*whose = at;
	return true;
}
