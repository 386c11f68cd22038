/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- a client's session on one shard: opened, and freed when nothing of it is left.
 *
 *   session_open --> OPEN -- session_stop --> ENDING -- last request freed --> GONE -- last frame back --> freed
 *
 * OPEN: frames with its number and seal are read (frame.c). ENDING: nothing is read or sent any more (ending.c);
 * transfers in flight keep request, block and peer until the engine reports their end. The peer closes with the last
 * request, so that a fence can still name it. GONE: the engine may still have its reply frames, which keep its memory.
 */
#include "kvserver/shard/session.h"

#include <stdlib.h>

#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/tell.h"

/* ---- open ---- */

/* The bytes of a session with its links, and the bits of their windows. */
static size_t struct_bytes(unsigned links, uint32_t width)
{
	return sizeof(struct session) + links * (sizeof(struct link) + link_words(width) * sizeof(uint64_t));
}

size_t session_bytes(unsigned links, unsigned shards)
{
	return struct_bytes(links, kv_window_width(links * shards)) + answers_bytes(links, shards);
}

/* Enough for a client that uses all credits of a link. */
static uint32_t window_width(const struct shard *shard, unsigned links)
{
	uint32_t width = kv_window_width(links * KV_MAX(shard->opt.shards, 1u));

	while (width < shard->opt.credits && width < KV_WINDOW_WIDTH)
		width *= 2;
	return width;
}

static struct session *session_alloc(struct shard *shard, const struct session_args *a, struct te_peer *peer)
{
	unsigned links = te_peer_links(peer);
	uint32_t width = window_width(shard, links);
	struct session *s = calloc(1, struct_bytes(links, width));

	if (!s || answers_init(&s->answers, links, KV_MAX(shard->opt.shards, 1u))) {
		free(s);
		return NULL;
	}
	s->shard = shard;
	s->number = a->number;
	s->mark = a->mark;
	s->client_id = a->client_id;
	s->peer = peer;
	s->anew = a->anew;
	s->links = links;
	s->window_width = width;
	kv_list_init(&s->node);
	kv_list_init(&s->requests);
	kv_list_init(&s->stages);
	kv_list_init(&s->leases);
	s->own = (struct owner){.session = s, .credits = UINT32_MAX};
	pins_init(&s->own.pins);
	regions_init(&s->regions);
	return s;
}

static void links_close(struct session *s)
{
	for (unsigned i = 0; i < s->links; i++)
		link_close(&s->link[i]);
	kv_macs_fini(&s->macs);
	answers_fini(&s->answers);
}

static int links_open(struct session *s, const struct session_args *a)
{
	int rc = boot_frame_macs(a->frame_secret, s->number, s->shard->opt.index, true, &s->macs);

	for (unsigned i = 0; rc == 0 && i < s->links; i++)
		rc = link_open(&s->link[i], s, i);
	return rc;
}

int session_open(struct shard *shard, const struct session_args *a, struct session **out, struct kv_error *err)
{
	unsigned slot = a->number & 0xFFFF;
	struct te_peer *peer;
	struct session *s;
	int rc;

	if (!shard->te || shard->draining)
		return kv_fail(err, -KV_ECLOSED, "the server is closing");
	if (slot >= shard->slots || shard->slot[slot])
		return kv_fail(err, -KV_EFULL, "no session slot is free");
	rc = te_peer_open(shard->te, a->addrs, a->rails, &peer, err);
	if (rc)
		return rc;
	s = session_alloc(shard, a, peer);
	if (!s) {
		te_peer_close(&peer);
		return kv_fail(err, -KV_ENOMEM, "no memory for a session");
	}
	rc = links_open(s, a);
	if (rc) {
		links_close(s);
		free(s);
		te_peer_close(&peer);
		return kv_fail(err, rc, "no keys or no nonces for the links of a session: %s", kv_strerror(rc));
	}
	shard->slot[slot] = s;
	shard->session_count++;
	*out = s;
	return 0;
}

/* ---- end ---- */

static void session_free(struct session *s)
{
	struct shard *shard = s->shard;
	struct call *gone = s->gone;

	kv_list_del(&s->node);
	regions_fini(&s->regions);
	landing_leave(s);
	if (shard->te)
		te_peer_close(&s->peer);
	owners_fini(s);
	shard->slot[s->number & 0xFFFF] = NULL;
	shard->session_count--;
	s->state = SESSION_GONE;
	links_close(s);
	if (s->frames == 0)
		free(s);
	call_finish(gone, 0);
	tell_drained(shard);
}

void session_frame_sent(struct session *s)
{
	if (--s->frames == 0 && s->state == SESSION_GONE)
		free(s);
}

void session_settled(struct session *s)
{
	if (s->idle) {
		struct call *idle = s->idle;
		s->idle = NULL;
		call_finish(idle, 0);
	}
	if (s->state == SESSION_ENDING && s->gone)
		session_free(s);
	else
		tell_drained(s->shard);
}

void session_lost(struct session *s, uint32_t writes)
{
	struct shard *shard = s->shard;

	shard->stat[WIRE_STAT_LOST_WRITES] += writes;
	if (s->state != SESSION_OPEN || !shard->te || !s->anew || atomic_exchange(s->anew, true))
		return;
	tell_lost(shard);
}
