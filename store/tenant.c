/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.c -- tenants: charged for their blocks, and evicted by their excess.
 *
 * A block is charged to the tenant of its namespace, from its stage until its memory is free. So a block needs no field
 * of its own, and a namespace keeps its tenant as long as it has blocks. The charge is its memory, or its part of the
 * number of blocks if that is more: if there are too many blocks, some tenant is above its share. Each tenant has a
 * policy with queues and ghosts of its own; all share one clock (evict.h), so their blocks have comparable ages.
 *
 * A shard keeps its part of each limit by itself: caps hold to the byte without a word between shards. A victim is
 * searched by a look at `excess`, 8 bytes for each tenant, whatever the number of blocks. */
#include "store/tenant.h"

#include <stdlib.h>

#include "store/store.h"

struct tenant *tenant_find(const struct store *s, const char *name)
{
	const struct tenancy *y = &s->tenancy;
	for (unsigned i = 1; i < y->count; i++)
		if (strcmp(y->at[i]->name, name) == 0)
			return y->at[i];
	return NULL;
}

struct tenant *tenant_of_space(struct store *s, const char *space)
{
	struct tenancy *y = &s->tenancy;
	const char *name = y->owner ? y->owner(y->owner_arg, space) : NULL;
	struct tenant *t = name ? tenant_find(s, name) : NULL;
	return t && t->listed ? t : &y->none;
}

struct evict *tenant_evict(struct store *s, struct tenant *t)
{
	return t == &s->tenancy.none ? &s->evict : &t->evict;
}

static void space_begun(void *arg, struct space *sp)
{
	struct store *s = arg;
	sp->tenant = tenant_of_space(s, sp->name);
	sp->evict = tenant_evict(s, sp->tenant);
	sp->tenant->spaces++;
}

static void space_ended(void *arg, struct space *sp)
{
	(void)arg;
	tenant_tier_forget(sp);
	sp->tenant->spaces--;
}

void tenancy_init(struct store *s)
{
	struct tenancy *y = &s->tenancy;
	static const struct tenant_part no_limit = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	y->none = (struct tenant){.listed = true, .limit = no_limit};
	y->at[0] = &y->none;
	y->count = 1;
	s->spaces.begun = space_begun;
	s->spaces.ended = space_ended;
	s->spaces.arg = s;
	s->spaces.nowhere.tenant = &y->none;
	s->spaces.nowhere.evict = &s->evict;
	space_begun(s, s->spaces.at[0]);
}

void tenancy_fini(struct store *s)
{
	struct tenancy *y = &s->tenancy;
	for (unsigned i = 1; i < y->count; i++) {
		evict_fini(&y->at[i]->evict);
		free(y->at[i]);
	}
	y->count = 1;
}

/* ---- charges ---- */

void tenant_add(struct store *s, struct tenant *t, uint64_t size)
{
	t->bytes += size;
	tenant_excess(&s->tenancy, t);
}

void tenant_sub(struct store *s, struct tenant *t, uint64_t size)
{
	KV_ASSERT_HOT(t->bytes >= size); /* rule 75 */
	t->bytes -= size;
	tenant_excess(&s->tenancy, t);
}

/* ---- memory that evictions leave ---- */

static uint64_t beyond(const struct tenant *t, enum tenant_kept kind, uint64_t more)
{
	uint64_t kept = t->kept[kind] + more, own = kept_own(kind, t->limit.share);
	return kept - KV_MIN(kept, own);
}

bool tenant_may_keep(const struct store *s, const struct tenant *t, enum tenant_kept kind, uint64_t more)
{
	const struct tenancy *y = &s->tenancy;
	const enum tenant_kept kinds[] = {kind, KEPT_ALL};
	for (unsigned i = 0; i < KV_COUNT(kinds); i++) {
		enum tenant_kept k = kinds[i];
		uint64_t its = beyond(t, k, more), all = y->beyond[k] - beyond(t, k, 0) + its;
		if (its > 0 && all + kept_own(k, y->shares) > kept_part(k, s->arena.limit))
			return false;
	}
	return true;
}

static void kept_change(struct tenancy *y, struct tenant *t, enum tenant_kept kind, uint64_t by)
{
	y->beyond[kind] -= beyond(t, kind, 0);
	t->kept[kind] += by;
	y->beyond[kind] += beyond(t, kind, 0);
}

void tenant_keep(struct tenancy *y, struct tenant *t, enum tenant_kept kind, uint64_t bytes)
{
	kept_change(y, t, kind, bytes);
	kept_change(y, t, KEPT_ALL, bytes);
}

void tenant_release(struct tenancy *y, struct tenant *t, enum tenant_kept kind, uint64_t bytes)
{
	KV_ASSERT_HOT(t->kept[kind] >= bytes);
	kept_change(y, t, kind, -bytes);
	kept_change(y, t, KEPT_ALL, -bytes);
}

void tenant_share(struct tenancy *y, struct tenant *t, uint64_t share)
{
	for (enum tenant_kept k = 0; k < KEPT_KINDS; k++)
		y->beyond[k] -= beyond(t, k, 0);
	y->shares += share - t->limit.share;
	t->limit.share = share;
	for (enum tenant_kept k = 0; k < KEPT_KINDS; k++)
		y->beyond[k] += beyond(t, k, 0);
	tenant_excess(y, t);
}
