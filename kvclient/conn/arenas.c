/* SPDX-License-Identifier: Apache-2.0 */
/* arenas.c -- whether GETs from a server are pulled, and where its memory is. */
#include "kvclient/conn/private.h"

#include <stdlib.h>

#include "kvclient/conn/node.h"
#include "kvclient/request/landing.h"
#include "kvclient/request/pull.h"

enum {
	ARENA_KEYS_MAX = 1 << 18, /* per server: bounds the memory its ARENAs take here (4 MiB) */
	LANDING_PARTS_MAX = 16
};

#define LANDING_BYTES_MAX ((uint64_t)64 << 20) /* of an area we use: our tables grow with it */

int kc_node_told_await(struct kc_node *n, enum wire_ctrl type, struct wire_ctrl_msg *m, uint64_t deadline_ns)
{
	int rc;
	do {
		rc = boot_recv_await(n->control.conn, m, deadline_ns);
		if (rc == 0 && m->type != type)
			rc = kc_node_aside(n, m);
	} while (rc == 0 && m->type != type);
	return rc;
}

static int remote_take(struct te_remote *r, const struct wire_region *w)
{
	*r = (struct te_remote){w->len_bytes, w->part_bytes, w->parts,
				w->rails,     w->virt,       calloc((size_t)w->rails * w->parts, sizeof(*r->keys))};
	if (!r->keys)
		return -KV_ENOMEM;
	for (unsigned rail = 0; rail < w->rails; rail++)
		for (uint32_t part = 0; part < w->parts; part++) {
			struct te_key *k = &r->keys[(size_t)rail * w->parts + part];
			wire_region_key(w, rail, part, &k->base, &k->key);
			if (k->base > UINT64_MAX - KV_MIN(w->part_bytes, w->len_bytes))
				return -KV_EPROTO;
		}
	return 0;
}

/* The decoder has checked its sums; the rest is checked here. */
static int arena_take(struct kc_attachment *s, unsigned rails, const struct wire_region *w)
{
	struct kc_arenas *a = s->arenas;
	struct te_remote *r = &a->shard[a->count];
	uint64_t keys = (uint64_t)w->rails * w->parts;
	if (w->id != a->count || w->rails != rails || a->keys + keys > ARENA_KEYS_MAX)
		return -KV_EPROTO;
	a->count++;
	a->keys += keys;
	a->write_emulated |= w->write_emulated;
	a->read_emulated |= w->read_emulated;
	return remote_take(r, w);
}

static int arenas_get_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kc_attachment *s = n->attachment;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_ARENAS};
	int rc = kc_pulls_init(n->client);
	if (rc == 0 && !(s->arenas = calloc(1, sizeof(*s->arenas))))
		rc = -KV_ENOMEM;
	if (rc == 0)
		rc = kc_node_send_await(n, &m, deadline_ns);
	while (rc == 0 && s->arenas->count < s->shards) {
		rc = kc_node_told_await(n, WIRE_CTRL_ARENA, &m, deadline_ns);
		if (rc == 0)
			rc = arena_take(s, s->rails, &m.region);
	}
	if (rc < 0)
		return kv_fail(&n->error, rc, "asking where its memory is, for mode pull: %s", kv_strerror(rc));
	return 0;
}

/* Unless the pool demands it, pull pays if writes to us would be emulated and our reads are not. Each side reports its
 * own device; one that emulates is enough. */
static bool pull_pays(const struct kvc_client *c, const struct kc_arenas *a)
{
	return (c->info.write_emulated || a->write_emulated) && !c->info.read_emulated && !a->read_emulated;
}

int kc_arenas_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kvc_client *c = n->client;
	struct kc_attachment *s = n->attachment;
	bool demanded = c->pool->options.mode == KVC_MODE_PULL;
	int rc;
	if (c->pool->options.mode == KVC_MODE_PUSH || (!demanded && c->info.reads_refused))
		return 0;
	if (!(s->flags & WIRE_WELCOME_PULL))
		return demanded ? kv_fail(&n->error, -KV_ENOTSUP,
					  "mode pull: it does not let clients read its memory; start it with "
					  "--allow-pull, or use mode push or auto")
				: 0;
	rc = arenas_get_await(n, deadline_ns);
	if (rc == 0)
		s->pull = demanded || pull_pays(c, s->arenas);
	return rc;
}

/* Length 0: the server has no area left for us. No ordered write crosses a part, so use the first one. */
static int landing_take(struct kc_attachment *s, unsigned shard, const struct wire_region *w)
{
	struct kc_landing *a = &s->landing[shard];
	int rc;
	if (w->id != shard || w->rails != s->rails || w->parts > LANDING_PARTS_MAX)
		return -KV_EPROTO;
	if (w->len_bytes == 0)
		return 0;
	rc = remote_take(&a->remote, w);
	if (rc == 0)
		rc = kc_buffer_init(&a->pieces, NULL, KV_MIN(KV_MIN(w->len_bytes, w->part_bytes), LANDING_BYTES_MAX));
	return rc == -KV_EINVAL ? -KV_EPROTO : rc;
}

int kc_landings_await(struct kc_node *n, uint64_t deadline_ns)
{
	struct kc_attachment *s = n->attachment;
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_LANDINGS};
	int rc;
	if (s->local || !(s->flags & WIRE_WELCOME_LANDING) || !n->client->info.ordered)
		return 0;
	rc = kc_pushes_init(n->client);
	if (rc == 0 && !(s->landing = calloc(s->shards, sizeof(*s->landing))))
		rc = -KV_ENOMEM;
	if (rc == 0)
		rc = kc_node_send_await(n, &m, deadline_ns);
	for (unsigned i = 0; rc == 0 && i < s->shards; i++) {
		rc = kc_node_told_await(n, WIRE_CTRL_LANDING, &m, deadline_ns);
		if (rc == 0)
			rc = landing_take(s, i, &m.region);
	}
	return rc < 0 ? kv_fail(&n->error, rc, "asking for landing areas: %s", kv_strerror(rc)) : 0;
}
