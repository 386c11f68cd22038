/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.c -- an attachment as memory, with its links.
 *
 * It is never revived: each WELCOME makes a new one, with new links, ids and credits. References keep the old one until
 * the engine has returned its last frame. */
#include "kvclient/request/attachment.h"

#include <stdlib.h>

#include "host/host.h"
#include "kvclient/request/landing.h"

static int link_init(struct kc_attachment *s, unsigned shard, unsigned index)
{
	struct kc_link *l = &s->link[shard * s->links_per_shard + index];
	uint32_t width = kv_window_width(s->num_links);
	uint64_t *seen = (uint64_t *)&s->link[s->num_links] + (size_t)(l - s->link) * kv_window_words(width);
	kv_seal_init(&l->seal, &s->macs[shard], index, seen, width);
	l->attachment = s;
	l->shard = (uint16_t)shard;
	l->index = (uint16_t)index;
	/* A reply names only the id, so ids differ between links of an attachment. */
	l->next_id = ((uint64_t)(shard << 8 | index) << 40) + 1;
	l->credits = s->credits;
	l->reserve = s->credits >= 8 ? 2 : s->credits > 1;
	kv_list_init(&l->dirty_node);
	kv_list_init(&l->queue);
	kv_list_init(&l->parked);
	kv_list_init(&l->cancels);
	kv_list_init(&l->sent);
	kv_list_init(&l->releases.node);
	kv_list_init(&l->turns);
	return kc_map_init(&l->map, s->credits);
}

static int links_init(struct kc_attachment *s)
{
	uint8_t secret[BOOT_FRAME_SECRET];
	int rc = boot_frame_secret(s->node->control.conn, s->token, secret);
	for (unsigned i = 0; i < s->shards && rc == 0; i++)
		rc = boot_frame_macs(secret, s->number, i, false, &s->macs[i]);
	explicit_bzero(secret, sizeof(secret));
	for (uint32_t i = 0; i < s->num_links && rc == 0; i++)
		rc = link_init(s, i / s->links_per_shard, i % s->links_per_shard);
	return rc;
}

int kc_attachment_create(struct kc_node *n, const struct wire_welcome_msg *w, unsigned links_per_shard,
			 struct kc_attachment **out)
{
	uint32_t links = (uint32_t)w->shards * links_per_shard;
	uint8_t host[16];
	size_t window = kv_window_words(kv_window_width(links)) * sizeof(uint64_t);
	struct kc_attachment *s = calloc(1, sizeof(*s) + links * (sizeof(s->link[0]) + window));
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
	s->credits = KV_MIN(w->credits, KV_MIN((uint32_t)KC_CREDITS_MAX, KC_IDS_MAX / links));
	s->flags = w->flags;
	s->shards = w->shards;
	s->rails = w->rails;
	s->links_per_shard = (uint16_t)links_per_shard;
	s->num_links = links;
	kv_host_id(host);
	s->out_max = memcmp(host, w->host_id, sizeof(host)) == 0 ? links * (uint64_t)KC_LINK_OUT : UINT64_MAX;
	rc = links_init(s);
	if (rc < 0) {
		kc_attachment_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

static void arenas_free(struct kc_arenas **arenas)
{
	for (unsigned i = 0; *arenas && i < KV_SHARDS_MAX; i++)
		free((*arenas)->shard[i].keys);
	free(*arenas);
	*arenas = NULL;
}

void kc_landings_free(struct kc_landing **landing, unsigned shards)
{
	for (unsigned i = 0; *landing && i < shards; i++) {
		free((*landing)[i].remote.keys);
		kc_buffer_fini(&(*landing)[i].pieces);
	}
	free(*landing);
	*landing = NULL;
}

void kc_attachment_free(struct kc_attachment *s)
{
	for (uint32_t i = 0; i < s->num_links; i++) {
		KV_ASSERT(s->link[i].frames == 0 && s->link[i].pushes == 0); /* rules 22 and 37 */
		kc_map_fini(&s->link[i].map);
		kv_seal_fini(&s->link[i].seal);
	}
	for (unsigned i = 0; i < s->shards; i++)
		kv_macs_fini(&s->macs[i]);
	explicit_bzero(s->token, sizeof(s->token));
	KV_ASSERT(!s->local);
	arenas_free(&s->arenas);
	kc_landings_free(&s->landing, s->shards);
	free(s);
}
