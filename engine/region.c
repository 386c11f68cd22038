/* SPDX-License-Identifier: Apache-2.0 */
/* region.c -- local memory registered on every rail, in parts.
 *
 * In parts, because NICs bound the size of one registration (page entries: about 95 GiB of 4 KiB pages per EFA NIC, 4
 * GiB of them in one region), and equal on all rails, because a remote names {rail, part} with one part size. When a
 * provider has no room for a part, everything is closed and tried again with half the part size. The parts are read by
 * every chunk, so they are one flat array. */
#include <stdlib.h>

#include "engine/inside.h"

#define PART_DEFAULT ((uint64_t)1 << 30)
#define PART_MIN                                                                                                       \
	((uint64_t)1 << 20) /* halving ends here: a smaller part would not help a NIC that is out of entries           \
			     */

static unsigned access_of(unsigned access)
{
	return (access & TE_LOCAL ? FAB_LOCAL : 0u) | (access & TE_REMOTE_READ ? FAB_REMOTE_READ : 0u) |
	       (access & TE_REMOTE_WRITE ? FAB_REMOTE_WRITE : 0u);
}

static void parts_close(struct te_region *region)
{
	/* While the engine closes, fab_close has closed them already. */
	for (size_t i = 0; region->mrs && !region->te->closing && i < (size_t)region->te->nrails * region->parts; i++)
		fab_mr_close(&region->mrs[i]);
	free(region->mrs);
	region->mrs = NULL;
}

/* The parts of one rail that are not registered. On failure none of them is. */
static int rail_parts_open(struct te_region *region, struct rail *r, struct kv_error *err)
{
	struct fab_mr **mr = &region->mrs[(size_t)r->index * region->parts];
	for (uint32_t p = 0; p < region->parts; p++) {
		uint64_t from = p * region->part_bytes, len = KV_MIN(region->part_bytes, region->len - from);
		int rc = mr[p] ? 0 : fab_mr_reg(r->fab, region->base + from, len, region->access, &mr[p], err);
		if (rc == 0)
			continue;
		while (p-- > 0)
			fab_mr_close(&mr[p]);
		return rc;
	}
	return 0;
}

int regions_complete(struct rail *r, struct kv_error *err)
{
	KV_LIST_EACH (n, &r->te->regions) {
		struct te_region *region = KV_LIST_ENTRY(n, struct te_region, node);
		int rc = rail_parts_open(region, r, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* Register everything with region->part_bytes. On failure nothing is left. */
static int parts_open(struct te_region *region, struct kv_error *err)
{
	struct te *te = region->te;
	uint64_t parts = (region->len - 1) / region->part_bytes + 1;
	if (parts > UINT32_MAX / KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "a region of %llu bytes in parts of %llu: too many parts",
			       (unsigned long long)region->len, (unsigned long long)region->part_bytes);
	region->parts = (uint32_t)parts;
	region->mrs = calloc((size_t)te->nrails * region->parts, sizeof(*region->mrs));
	if (!region->mrs)
		return kv_fail(err, -KV_ENOMEM, "no memory for the %u parts of a region", region->parts);
	for (unsigned r = 0; r < te->nrails; r++) {
		int rc = rail_parts_open(region, &te->rails[r], err);
		/* On a rail that is out it is made up for when the rail comes back. */
		if (rc == 0 || (te->rails[r].down && rc != -KV_ENOMEM))
			continue;
		parts_close(region);
		return rc;
	}
	return 0;
}

int te_region_register(struct te *te, void *base, uint64_t len_bytes, unsigned access, uint64_t part_bytes,
		       struct te_region **out, struct kv_error *err)
{
	if (!base || len_bytes == 0 || access == 0)
		return kv_fail(err, -KV_EINVAL, "a region needs memory, a length and an access right");
	struct te_region *region = calloc(1, sizeof(*region));
	if (!region)
		return kv_fail(err, -KV_ENOMEM, "no memory for a region");
	region->te = te;
	region->base = base;
	region->len = len_bytes;
	region->part_bytes = KV_MIN(part_bytes ? part_bytes : PART_DEFAULT, len_bytes);
	region->virt = fab_caps(te->rails[0].fab)->virt_addr;
	region->access = access_of(access);
	int rc = parts_open(region, err);
	while (rc == -KV_ENOMEM && region->part_bytes / 2 >= PART_MIN) {
		region->part_bytes = kv_align_up(region->part_bytes / 2, PART_MIN);
		kv_info(te->log, "registering %llu MiB: %s; trying parts of %llu MiB",
			(unsigned long long)(len_bytes >> 20), err ? err->text : "no room",
			(unsigned long long)(region->part_bytes >> 20));
		rc = parts_open(region, err);
	}
	if (rc) {
		free(region);
		return rc;
	}
	kv_list_add_tail(&te->regions, &region->node);
	*out = region;
	return 0;
}

int te_region_close(struct te_region **region_ref)
{
	struct te_region *region = *region_ref;
	if (!region)
		return 0;
	if (region->users)
		return -KV_EBUSY;
	parts_close(region);
	kv_list_del(&region->node);
	free(region);
	*region_ref = NULL;
	return 0;
}

void *te_region_base(const struct te_region *region)
{
	return region->base;
}

uint64_t te_region_len(const struct te_region *region)
{
	return region->len;
}

void te_region_announce(const struct te_region *region, struct te_remote *out, struct te_key *keys)
{
	out->len_bytes = region->len;
	out->part_bytes = region->part_bytes;
	out->parts = region->parts;
	out->rails = (uint16_t)region->te->nrails;
	out->virt = region->virt;
	if (!keys)
		return;
	for (unsigned r = 0; r < region->te->nrails; r++)
		for (uint32_t p = 0; p < region->parts; p++) {
			/* Of the rail that stands for it, if it is out. */
			const struct fab_mr *mr = region->mrs[(size_t)region->te->map[r] * region->parts + p];
			struct te_key *k = &keys[(size_t)r * region->parts + p];
			if (mr) /* else nothing is up, and nobody uses what is announced */
				fab_mr_remote(mr, &k->base, &k->key);
		}
	out->keys = keys;
}
