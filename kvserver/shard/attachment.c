/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.c -- an attachment's state on one shard: opened, and freed when nothing of it is left.
 *
 *   open --> OPEN -- stop --> ENDING -- last request freed --> GONE -- last frame back --> freed
 *
 * OPEN: frames with its number and seal are read (frame.c). ENDING: nothing is read or sent any more (ending.c);
 * transfers in flight keep request, block and peer until the engine reports their end. The peer closes with the last
 * request, so that a fence can still name it. GONE: the engine may still have its reply frames, which keep its memory.
 */
#include "kvserver/shard/attachment.h"

#include <stdlib.h>

#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/private.h"

/* ---- open ---- */

static size_t struct_bytes(unsigned links, uint32_t width)
{
	return sizeof(struct shard_attachment) + links * (sizeof(struct link) + link_words(width) * sizeof(uint64_t));
}

size_t shard_attachment_bytes(unsigned links, unsigned shards)
{
	return struct_bytes(links, kv_window_width(links * shards)) + answers_bytes(links, shards);
}

static uint32_t window_width(const struct shard *shard, unsigned links)
{
	uint32_t width = kv_window_width(links * KV_MAX(shard->opt.shards, 1u));
	while (width < shard->opt.credits && width < KV_WINDOW_WIDTH)
		width *= 2;
	return width;
}

static struct shard_attachment *shard_attachment_alloc(struct shard *shard, const struct shard_attachment_args *a,
						       struct te_peer *peer)
{
	unsigned links = te_peer_links(peer);
	uint32_t width = window_width(shard, links);
	struct shard_attachment *s = calloc(1, struct_bytes(links, width));
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
	kv_list_init(&s->holder.leases);
	s->own = (struct session){.attachment = s, .credits = UINT32_MAX};
	pins_init(&s->own.pins);
	regions_init(&s->regions);
	return s;
}

static void links_close(struct shard_attachment *s)
{
	for (unsigned i = 0; i < s->links; i++)
		link_close(&s->link[i]);
	kv_macs_fini(&s->macs);
	answers_fini(&s->answers);
}

static int links_open(struct shard_attachment *s, const struct shard_attachment_args *a)
{
	int rc = boot_frame_macs(a->frame_secret, s->number, s->shard->opt.index, true, &s->macs);
	for (unsigned i = 0; rc == 0 && i < s->links; i++)
		rc = link_open(&s->link[i], s, i);
	return rc;
}

static void space_fail(int rc, struct kv_error *err)
{
	if (rc == -KV_EFULL)
		kv_fail(err, rc,
			"the server, or the client's tenant on it, has as many namespaces with clients or values as it "
			"can have (%d together): use one of them, or clear one that is not needed and disconnect its "
			"clients",
			SPACES_MAX);
	else if (rc == -KV_EDENIED)
		kv_fail(err, rc, "the client's tenant has left the server's --tenants");
	else
		kv_fail(err, rc, "no memory for a namespace");
}

int shard_attachment_open(struct shard *shard, const struct shard_attachment_args *a, struct shard_attachment **out,
			  struct kv_error *err)
{
	unsigned slot = a->number & 0xFFFF;
	struct te_peer *peer;
	struct shard_attachment *s;
	int rc;
	if (!shard->te || shard->draining)
		return kv_fail(err, -KV_ECLOSED, "the server is closing");
	if (slot >= shard->attachments.slots || shard->attachments.slot[slot])
		return kv_fail(err, -KV_EFULL, "no session slot is free");
	rc = te_peer_open(shard->te, a->addrs, a->rails, &peer, err);
	if (rc)
		return rc;
	s = shard_attachment_alloc(shard, a, peer);
	if (!s) {
		te_peer_close(&peer);
		return kv_fail(err, -KV_ENOMEM, "no memory for a session");
	}
	rc = links_open(s, a);
	if (rc) {
		kv_fail(err, rc, "no keys or no nonces for the links of a session: %s", kv_strerror(rc));
		goto no_links;
	}
	rc = session_space_begin(&s->own, a->grant);
	if (rc) {
		space_fail(rc, err);
		goto no_links;
	}
	shard->attachments.slot[slot] = s;
	shard->attachments.count++;
	*out = s;
	return 0;

no_links:
	links_close(s);
	free(s);
	te_peer_close(&peer);
	return rc;
}

/* ---- end ---- */

static void shard_attachment_free(struct shard_attachment *s)
{
	struct shard *shard = s->shard;
	struct call *gone = s->gone;
	KV_ASSERT(s->request_count == 0); /* rule 7 */
	KV_ASSERT(s->stage_count == 0);   /* rules 29 and 39 */
	KV_ASSERT(!s->own.pins.set);      /* rule 31 */
	KV_ASSERT(s->holder.count == 0);  /* rule 38 */
	KV_ASSERT(!s->local);             /* rule 57 */
	kv_list_del(&s->node);
	regions_fini(&s->regions);
	landing_leave(s);
	session_space_end(&s->own);
	if (shard->te)
		te_peer_close(&s->peer);
	sessions_fini(s);
	shard->attachments.slot[s->number & 0xFFFF] = NULL;
	shard->attachments.count--;
	s->state = ATTACHMENT_GONE;
	links_close(s);
	if (s->frames == 0)
		free(s);
	call_finish(gone, 0);
	report_drained(shard);
}

void shard_attachment_frame_sent(struct shard_attachment *s)
{
	KV_ASSERT_HOT(s->frames > 0);
	if (--s->frames == 0 && s->state == ATTACHMENT_GONE)
		free(s);
}

void shard_attachment_last_freed(struct shard_attachment *s)
{
	if (s->idle) {
		struct call *idle = s->idle;
		s->idle = NULL;
		call_finish(idle, 0);
	}
	if (s->state == ATTACHMENT_ENDING && s->gone)
		shard_attachment_free(s);
	else
		report_drained(s->shard);
}

void shard_attachment_lost(struct shard_attachment *s, uint32_t writes)
{
	struct shard *shard = s->shard;
	shard->counts.of[WIRE_STAT_LOST_WRITES] += writes;
	if (s->state != ATTACHMENT_OPEN || !shard->te || !s->anew || atomic_exchange(s->anew, true))
		return;
	report_lost(shard);
}

void shard_attachment_fence(struct shard_attachment *s)
{
	const struct shard *shard = s->shard; /* the fence may end the attachment */
	uint64_t client_id = s->client_id;
	struct kv_error err;
	if (te_peer_fence(s->peer, &err))
		kv_event(shard->opt.log, KV_LOG_ERROR,
			 KV_EVENT("fence_failed", KV_NUMBER("shard", shard->opt.index),
				  KV_NUMBER("client_id", client_id), KV_FIELD("reason", err.text)),
			 "shard %u: %s", shard->opt.index, err.text);
}
