/* SPDX-License-Identifier: Apache-2.0 */
/* landing.c -- landing areas: memory to which clients write the bytes of their PUTs.
 *
 *   none --LANDINGS--> given --the attachment ends--> leaving --goodbye, cut, or rested--> free
 *
 * No client may write the arena: a key stays valid as long as its connection, and the arena's bytes become other
 * clients' values. So each client has a small area and key of its own. The bytes are copied to their block, and the
 * checksum is made of the copy, so later writes to the area change nothing. Late bytes of a former client could only
 * fail the next client's PUT: the former one is cut first (te_peer_cut), or, where a cut would harm others, the area
 * rests for REST_NS.
 *
 * A client gets an eighth of the free memory, between LANDING_MIN and LANDING_MAX. */
#include "kvserver/shard/landing.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "kvserver/shard/attachment.h"
#include "kvserver/shard/local_client.h"

enum {
	LANDING_MAX = 2 << 20,
	LANDING_MIN = 64 << 10,
	LANDING_SHARE = 8 /* of the free memory */
};

#define REST_NS 10000000000ull

bool landings_allowed(const struct te_info *info)
{
	return info->ordered && info->peer_fence;
}

int landings_open(struct shard *s, uint64_t limit_bytes, struct kv_error *err)
{
	struct landings *l = &s->landings;
	int rc;
	kv_list_init(&l->leaving);
	if (limit_bytes < LANDING_MIN || !landings_allowed(&s->info))
		return 0;
	rc = kv_area_map_lazy(limit_bytes, &l->area, err);
	if (rc)
		return rc;
	rc = arena_init(&l->room, l->area.len_bytes, (uint32_t)(l->area.len_bytes / LANDING_MIN));
	if (rc == 0)
		return 0;
	kv_area_unmap(&l->area);
	return kv_fail(err, rc, "shard %u: cannot set up its landing areas: %s", s->opt.index, kv_strerror(rc));
}

bool landings_offered(const struct shard *s)
{
	return s->landings.area.base != NULL;
}

static bool landing_free(struct landing *a)
{
	struct landings *l = &a->shard->landings;
	if (a->shard->te && te_region_close(&a->region) != 0) /* else the engine closed it */
		return false;
	/* Unused areas should cost no memory. */
	(void)madvise((uint8_t *)l->area.base + a->place->offset, a->place->size, MADV_DONTNEED);
	arena_free(&l->room, a->place);
	kv_list_del(&a->node);
	free(a);
	return true;
}

void landings_close(struct shard *s)
{
	struct landings *l = &s->landings;
	if (!l->area.base)
		return;
	KV_LIST_EACH_SAFE (n, &l->leaving)
		(void)landing_free(KV_LIST_ENTRY(n, struct landing, node));
	arena_fini(&l->room);
	kv_area_unmap(&l->area);
}

/* Rounded down to a power of two; at least LANDING_MIN, or 0 if less is free. */
uint64_t landing_size(uint64_t free, uint64_t most)
{
	uint64_t size = most;
	while (size > LANDING_MIN && size > free / LANDING_SHARE)
		size /= 2;
	return size <= free ? size : 0;
}

int landing_open(struct shard_attachment *s)
{
	struct kv_error err = {0};
	uint64_t more;
	struct shard *shard = s->shard;
	struct landings *l = &shard->landings;
	struct landing *a;
	uint64_t size;
	int rc;
	if (s->landing)
		return -KV_EPROTO;
	if (!l->area.base || !shard->te || (size = landing_size(arena_free_bytes(&l->room), LANDING_MAX)) == 0)
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -KV_ENOMEM;
	*a = (struct landing){.shard = shard, .place = arena_alloc(&l->room, size, a, ARENA_LOW)};
	kv_list_init(&a->node);
	if (!a->place) {
		free(a);
		return 0;
	}
	rc = te_region_register(shard->te, (uint8_t *)l->area.base + a->place->offset, size, TE_REMOTE_WRITE, 0,
				&a->region, &err);
	if (rc == 0) {
		s->landing = a;
		return 0;
	}
	/* The client sends its PUTs in other ways. */
	if (kv_rate_take(&l->lines, loop_turn_now(shard->loop), 1, &more))
		kv_event(shard->opt.log, KV_LOG_WARN,
			 KV_EVENT("landing_refused", KV_NUMBER("shard", shard->opt.index),
				  KV_NUMBER("client_id", s->client_id), KV_FIELD("reason", err.text)),
			 "shard %u: no landing area for client %llu, its PUTs are slower: %s", shard->opt.index,
			 (unsigned long long)s->client_id, err.text);
	arena_free(&l->room, a->place);
	free(a);
	return 0;
}

void landing_leave(struct shard_attachment *s)
{
	bool clean;
	struct landing *a = s->landing;
	struct shard *shard = s->shard;
	if (!a)
		return;
	s->landing = NULL;
	clean = s->parting || !shard->te || (s->gone_away && te_peer_cut(s->peer) == 0);
	a->free_ns = clean ? 0 : loop_now(shard->loop) + REST_NS;
	kv_list_add_tail(&shard->landings.leaving, &a->node);
	if (clean)
		(void)landing_free(a); /* else the tick tries again */
}

void landings_tick(struct shard *s, uint64_t now_ns)
{
	if (!s->landings.area.base)
		return;
	KV_LIST_EACH_SAFE (n, &s->landings.leaving) {
		struct landing *a = KV_LIST_ENTRY(n, struct landing, node);
		if (now_ns >= a->free_ns)
			(void)landing_free(a);
	}
}

int landing_announce(const struct shard_attachment *s, struct wire_region *out, uint8_t **out_keys)
{
	struct te_remote r = {.rails = (uint16_t)s->shard->info.rails};
	int rc = s->landing ? region_announce(s->landing->region, &r, out_keys) : 0;
	if (rc)
		return rc;
	if (!s->landing)
		*out_keys = NULL;
	*out = (struct wire_region){.id = s->shard->opt.index,
				    .rails = r.rails,
				    .parts = r.parts,
				    .virt = r.virt,
				    .len_bytes = r.len_bytes,
				    .part_bytes = r.part_bytes,
				    .keys = *out_keys};
	return 0;
}

static bool landing_area(const struct shard_attachment *s, const uint8_t **out, uint64_t *out_bytes)
{
	const struct landing *a = s->landing;
	if (s->local) {
		*out = s->local->landing.base;
		*out_bytes = s->local->landing.bytes;
		return *out_bytes > 0;
	}
	if (!a)
		return false;
	*out = (const uint8_t *)a->shard->landings.area.base + a->place->offset;
	*out_bytes = a->place->size;
	return true;
}

const uint8_t *landing_at(const struct shard_attachment *s, const struct wire_dest *d)
{
	const uint8_t *base;
	uint64_t bytes;
	if (!landing_area(s, &base, &bytes) || d->slice > bytes || d->offset > bytes - d->slice)
		return NULL;
	return base + d->offset;
}

/* An honest client hardly ever names its area twice in a turn, because it reuses a place after its answer only. A
 * client that names it in a hundred requests of a hundred bytes would keep the loop copying at everyone's expense. */
bool landing_spend(const struct shard_attachment *s, uint64_t n)
{
	struct landing_turn *t = s->local ? &s->local->landing.turn : &s->landing->turn;
	uint64_t turn = loop_turns(s->shard->loop), bytes = 0;
	const uint8_t *base;
	if (t->turn != turn)
		t->bytes = 0;
	t->turn = turn;
	(void)landing_area(s, &base, &bytes);
	if (t->bytes + n > 2 * bytes)
		return false;
	t->bytes += n;
	return true;
}

uint64_t landings_bytes(const struct shard *s)
{
	return s->locals.landing_bytes + (s->landings.area.base ? s->landings.room.used : 0);
}
