/* SPDX-License-Identifier: Apache-2.0 */
/* region.c -- a client's announced memory regions: checked and copied once for all shards; and their use on a shard.
 *
 * The message is not trusted: the number of parts must follow from length and part size, and base plus length of each
 * part must not wrap. */
#include "kvserver/shard/region.h"

#include <stdlib.h>

#include "kvserver/shard/loopcall.h"

static bool numbers_fit(const struct wire_region *w, unsigned rails)
{
	if (w->rails != rails || w->len_bytes == 0 || w->part_bytes == 0 || w->parts == 0)
		return false;
	return (w->len_bytes - 1) / w->part_bytes == w->parts - 1 && w->parts <= REGION_KEYS_MAX / w->rails;
}

/* The last byte of a part must have an address. */
static bool part_wraps(const struct wire_region *w, uint32_t part, uint64_t base)
{
	uint64_t len = part + 1 == w->parts ? w->len_bytes - part * w->part_bytes : w->part_bytes;
	return base > UINT64_MAX - len;
}

int region_create(const struct wire_region *w, unsigned rails, struct region **out)
{
	struct region *r;
	if (!numbers_fit(w, rails))
		return -KV_EINVAL;
	r = calloc(1, sizeof(*r) + (size_t)w->rails * w->parts * sizeof(r->key[0]));
	if (!r)
		return -KV_ENOMEM;
	r->id = w->id;
	r->keys = w->rails * w->parts;
	r->remote = (struct te_remote){w->len_bytes, w->part_bytes, w->parts, w->rails, w->virt, r->key};
	kv_list_init(&r->node);
	for (unsigned rail = 0; rail < w->rails; rail++)
		for (uint32_t part = 0; part < w->parts; part++) {
			struct te_key *k = &r->key[rail * w->parts + part];
			wire_region_key(w, rail, part, &k->base, &k->key);
			if (part_wraps(w, part, k->base)) {
				free(r);
				return -KV_EINVAL;
			}
		}
	*out = r;
	return 0;
}

/* ---- a shard's side ---- */

void regions_init(struct regions *r)
{
	for (unsigned i = 0; i < REGION_BUCKETS; i++)
		kv_list_init(&r->bucket[i]);
}

void regions_fini(struct regions *r)
{
	for (unsigned i = 0; i < REGION_BUCKETS; i++) {
		struct kv_list *n;
		while ((n = kv_list_pop(&r->bucket[i])) != NULL) {
			struct region_use *u = KV_LIST_ENTRY(n, struct region_use, node);
			if (u->revoked)
				call_finish(u->revoked, 0);
			free(u);
		}
	}
}

static struct region_use *region_find(const struct regions *r, uint32_t id)
{
	KV_LIST_EACH (n, &r->bucket[id % REGION_BUCKETS]) {
		struct region_use *u = KV_LIST_ENTRY(n, struct region_use, node);
		if (u->region->id == id)
			return u;
	}
	return NULL;
}

int regions_add(struct regions *r, const struct region *region)
{
	struct region_use *u;
	if (region_find(r, region->id))
		return -KV_EEXIST;
	if (r->count == REGIONS_MAX)
		return -KV_ELIMIT;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -KV_ENOMEM;
	u->region = region;
	kv_list_add_tail(&r->bucket[region->id % REGION_BUCKETS], &u->node);
	r->count++;
	return 0;
}

void region_use_free(struct region_use *u)
{
	struct call *revoked = u->revoked;
	kv_list_del(&u->node);
	free(u);
	call_finish(revoked, 0);
}

void regions_revoke(struct regions *r, uint32_t id, struct call *revoked)
{
	struct region_use *u = region_find(r, id);
	if (!u || u->revoked) {
		call_finish(revoked, 0);
		return;
	}
	r->count--;
	u->revoked = revoked;
	if (u->refs == 0)
		region_use_free(u);
}

static bool region_holds(const struct region *r, const struct wire_dest *d)
{
	uint64_t last, end;
	if (d->count == 0 || __builtin_mul_overflow(d->stride, (uint64_t)d->count - 1, &last))
		return false;
	if (__builtin_add_overflow(d->offset, last, &end) || __builtin_add_overflow(end, d->slice, &end))
		return false;
	return end <= r->remote.len_bytes;
}

struct region_use *regions_usable(const struct regions *r, const struct wire_dest *d)
{
	struct region_use *u = region_find(r, d->region);
	return u && !u->revoked && region_holds(u->region, d) ? u : NULL;
}

int region_announce(const struct te_region *region, struct te_remote *out, uint8_t **out_keys)
{
	enum { KEY = 16 };
	struct te_key *keys;
	uint8_t *packed;
	size_t n;
	te_region_announce(region, out, NULL);
	n = (size_t)out->rails * out->parts;
	keys = calloc(n, sizeof(*keys));
	packed = calloc(n, KEY);
	if (!keys || !packed) {
		free(keys);
		free(packed);
		return -KV_ENOMEM;
	}
	te_region_announce(region, out, keys);
	for (unsigned rail = 0; rail < out->rails; rail++)
		for (uint32_t part = 0; part < out->parts; part++) {
			const struct te_key *k = &keys[(size_t)rail * out->parts + part];
			wire_region_put(packed, out->parts, rail, part, k->base, k->key);
		}
	free(keys);
	*out_keys = packed;
	return 0;
}
