/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.c -- what one WELCOME gave us: number, shards, peers and links, and how all of it ends at once.
 *
 * A session is used by one connection and never revived: a new connection makes a new one, with new links, ids and
 * credits. It stays in memory until the engine returned the last frame of it, which is why it is counted.
 *
 * Ends in three ways. safe: the endpoints were rebuilt, or its shards cut: nothing can touch our memory. Not safe: the
 * peer may still write to the destinations that are out; pieces of the buffer are quarantined, and memory of callers
 * must not be among them (node.c fences first). In limbo: an endpoint that was given up is not closed yet. Pieces go
 * the way of the quarantine, and requests into memory of callers end when it is closed (client.c). */
#include <stdlib.h>

#include "host/host.h"
#include "kvclient/pool/client.h"

static int link_init(struct kvc_session *s, unsigned shard, unsigned index)
{
	struct kvc_link *l = &s->link[shard * s->links_per_shard + index];
	uint32_t width = kv_window_width(s->num_links);
	uint64_t *seen = (uint64_t *)&s->link[s->num_links] + (size_t)(l - s->link) * kv_window_words(width);
	kv_seal_init(&l->seal, &s->macs[shard], index, seen, width);
	l->session = s;
	l->shard = (uint16_t)shard;
	l->index = (uint16_t)index;
	/* Ids ascend by one per link and differ between the links of a session: a reply names nothing but the id. */
	l->next_id = ((uint64_t)(shard << 8 | index) << 40) + 1;
	l->credits = s->credits;
	l->reserve = s->credits >= 8 ? 2 : s->credits > 1;
	kv_list_init(&l->dirty_node);
	kv_list_init(&l->queue);
	kv_list_init(&l->cancels);
	kv_list_init(&l->sent);
	kv_list_init(&l->release_node);
	kv_list_init(&l->turns);
	return kvc_map_init(&l->map, s->credits);
}

static int links_init(struct kvc_session *s)
{
	uint8_t secret[BOOT_FRAME_SECRET];
	int rc = boot_frame_secret(s->node->conn, s->token, secret);
	for (unsigned i = 0; i < s->shards && rc == 0; i++)
		rc = boot_frame_macs(secret, s->number, i, false, &s->macs[i]);
	explicit_bzero(secret, sizeof(secret));
	for (uint32_t i = 0; i < s->num_links && rc == 0; i++)
		rc = link_init(s, i / s->links_per_shard, i % s->links_per_shard);
	return rc;
}

int kvc_session_create(struct kvc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
		       struct kvc_session **out)
{
	uint32_t links = (uint32_t)w->shards * links_per_shard;
	uint8_t host[16];
	size_t window = kv_window_words(kv_window_width(links)) * sizeof(uint64_t);
	struct kvc_session *s = calloc(1, sizeof(*s) + links * (sizeof(s->link[0]) + window));
	int rc;
	if (!s)
		return -KV_ENOMEM;
	s->node = n;
	s->refs = 1;
	s->number = w->session;
	memcpy(s->token, w->token, KV_TOKEN_LEN);
	s->shard_seed = w->shard_seed;
	s->value_max = w->value_max;
	s->chunk_bytes = w->chunk_bytes;
	s->credits = KV_MIN(w->credits, KV_MIN((uint32_t)KVC_CREDITS_MAX, KVC_IDS_MAX / links));
	s->flags = w->flags;
	s->shards = w->shards;
	s->rails = w->rails;
	s->links_per_shard = (uint16_t)links_per_shard;
	s->num_links = links;
	kv_host_id(host);
	s->out_max = memcmp(host, w->host_id, sizeof(host)) == 0 ? links * (uint64_t)KVC_LINK_OUT : UINT64_MAX;
	rc = links_init(s);
	if (rc < 0) {
		kvc_session_unref(s);
		return rc;
	}
	*out = s;
	return 0;
}

void kvc_session_unref(struct kvc_session *s)
{
	if (--s->refs > 0)
		return;
	for (uint32_t i = 0; i < s->num_links; i++) {
		kvc_map_fini(&s->link[i].map);
		kv_seal_fini(&s->link[i].seal);
	}
	for (unsigned i = 0; i < s->shards; i++)
		kv_macs_fini(&s->macs[i]);
	explicit_bzero(s->token, sizeof(s->token));
	kvc_arenas_free(&s->arenas);
	free(s);
}

bool kvc_req_unsafe(const struct kvc_req *r)
{
	return r->state == KVC_REQ_SENT && r->wire.dest.count > 0 && !kvc_req_quiet(r);
}

bool kvc_session_unsafe(const struct kvc_session *s, uint64_t *out_bytes, bool *out_caller)
{
	bool any = false;
	*out_bytes = 0;
	*out_caller = false;
	for (uint32_t i = 0; i < s->num_links; i++) {
		KV_LIST_EACH (n, &s->link[i].sent) {
			const struct kvc_req *r = KV_LIST_ENTRY(n, struct kvc_req, node);
			if (!kvc_req_unsafe(r))
				continue;
			any = true;
			*out_bytes += r->orphan ? 0 : r->piece.len_bytes;
			*out_caller |= r->caller_memory;
		}
	}
	return any;
}

static void quarantine(struct kvc_client *c, struct kvc_req *r)
{
	if (c->buffer.quarantined_bytes == 0)
		c->quarantine_ns = loop_turn_now(c->loop);
	kvc_buffer_quarantine(&c->buffer, &r->piece);
}

/* What is true of the memory of requests that are out: nothing touches it any more; a peer may; or a peer may until the
 * endpoint is closed. */
enum fate { SAFE, UNSAFE, LIMBO };

/* Its call waits until the endpoint is closed. The session holds the link that it names. */
static void limbo_enter(struct kvc_client *c, struct kvc_req *r)
{
	r->limbo = r->cancelling = true;
	r->link->session->refs++;
	kv_list_add_tail(&c->limbo, &r->node);
}

void kvc_req_limbo_end(struct kvc_client *c, struct kvc_req *r)
{
	struct kvc_session *s = r->link->session;
	r->limbo = false;
	kvc_req_end(c, r, -KV_ERESET);
	kvc_session_unref(s);
}

static void req_fail(struct kvc_client *c, struct kvc_req *r, int status, enum fate fate)
{
	bool limbo = fate == LIMBO && kvc_req_unsafe(r) && r->caller_memory && !r->orphan;
	if (r->orphan)
		c->orphan_bytes -= r->state == KVC_REQ_SENT ? r->piece.len_bytes : 0;
	if (kvc_req_unsafe(r) && fate != SAFE)
		quarantine(c, r);
	kvc_pull_leave(c, r);
	r->id = r->cancel_id = 0;
	r->replied = true;
	if (r->sub)
		kvc_lane_credit(r);
	if (limbo)
		limbo_enter(c, r);
	else
		kvc_req_end(c, r, status);
}

static void session_end(struct kvc_session *s, int status, enum fate fate)
{
	struct kvc_client *c = s->node->client;
	struct kv_list *n;
	s->open = false;
	for (uint32_t i = 0; i < s->num_links; i++) {
		struct kvc_link *l = &s->link[i];
		kv_list_del(&l->dirty_node);
		l->nonce = 0;
		l->prove_due = false;
		kvc_release_end(l);
		while ((n = kv_list_pop(&l->cancels)))
			;
		while ((n = kv_list_pop(&l->queue)))
			req_fail(c, KV_LIST_ENTRY(n, struct kvc_req, node), status, SAFE);
		while ((n = kv_list_pop(&l->sent)))
			req_fail(c, KV_LIST_ENTRY(n, struct kvc_req, node), status, fate);
		memset(l->map.entry, 0, ((size_t)l->map.mask + 1) * sizeof(*l->map.entry));
		l->map.used = 0;
	}
	kvc_subs_fail(s, status);
	kvc_client_quarantine_count(c);
	kvc_room_feed(c);
}

void kvc_session_fail(struct kvc_session *s, int status, bool safe)
{
	session_end(s, status, safe ? SAFE : UNSAFE);
}

void kvc_session_limbo(struct kvc_session *s, int status)
{
	session_end(s, status, LIMBO);
}
