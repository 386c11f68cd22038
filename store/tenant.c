/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.c -- tenants: charged for their blocks, and evicted by their excess.
 *
 * A block is charged to the tenant of its namespace, from its stage until its memory is free. So a block needs no field
 * of its own, and a namespace keeps its tenant as long as it has blocks. Each tenant has a policy with queues and
 * ghosts of its own; all share one clock (evict.h), so their blocks have comparable ages.
 *
 * A shard keeps its part of each limit by itself: caps hold to the byte without a word between shards. A victim is
 * searched by a look at `excess`, 8 bytes for each tenant, whatever the number of blocks. With one tenant there is no
 * search. */
#include "store/tenant.h"

#include <errno.h>
#include <stdlib.h>

#include "store/store.h"

static bool alone(const struct tenancy *y)
{
	return KV_LIKELY(y->count == 1);
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
	sp->tenant->spaces--;
}

void tenancy_init(struct store *s)
{
	struct tenancy *y = &s->tenancy;
	static const struct tenant_part no_limit = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
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

static void excess_set(struct tenancy *y, const struct tenant *t)
{
	y->excess[t->place] = (int64_t)(t->bytes - t->limit.share);
}

void tenant_add(struct store *s, struct tenant *t, uint64_t size)
{
	t->bytes += size;
	excess_set(&s->tenancy, t);
}

void tenant_sub(struct store *s, struct tenant *t, uint64_t size)
{
	KV_ASSERT_HOT(t->bytes >= size); /* rule 75 */
	t->bytes -= size;
	excess_set(&s->tenancy, t);
}

/* Evict the tenant's own blocks until `size` more bytes are within its cap. */
static int own_evict(struct store *s, struct tenant *t, uint64_t size, unsigned *budget)
{
	while (!tenant_fits(t, size)) {
		struct evict_node *n = size > t->limit.cap ? NULL : evict_victim(tenant_evict(s, t), block_may_go);
		if (!n)
			return -KV_ENOMEM;
		if (*budget == 0)
			return -EAGAIN;
		--*budget;
		block_evict(s, KV_CONTAINER(n, struct block, evict));
	}
	return 0;
}

int tenant_charge(struct store *s, struct tenant *t, uint64_t size, unsigned *budget)
{
	int rc = 0;
	if (KV_UNLIKELY(!tenant_fits(t, size)))
		rc = own_evict(s, t, size, budget);
	if (rc == -KV_ENOMEM)
		t->denied++;
	if (rc == 0)
		tenant_add(s, t, size);
	KV_ASSERT(rc || t->bytes <= t->limit.cap); /* rule 75 */
	return rc;
}

/* ---- victims ---- */

/* The tenant with evictable blocks that is furthest above its share, if above `least`; or NULL. */
static struct tenant *furthest(struct store *s, int64_t least)
{
	struct tenancy *y = &s->tenancy;
	struct tenant *found = NULL;
	for (unsigned i = 0; i < y->count; i++) {
		if (y->excess[i] <= least || tenant_evict(s, y->at[i])->count == 0)
			continue;
		least = y->excess[i];
		found = y->at[i];
	}
	return found;
}

/* (A search parks what may not go, so a tenant without a victim has no block left in its policy.) */
static struct evict_node *victim_above(struct store *s, int64_t least)
{
	struct evict_node *n = NULL;
	struct tenant *t;
	while (!n && (t = furthest(s, least)) != NULL)
		n = evict_victim(tenant_evict(s, t), block_may_go);
	return n;
}

struct evict *store_evict_next(struct store *s)
{
	struct tenant *t = alone(&s->tenancy) ? NULL : furthest(s, INT64_MIN);
	return t ? tenant_evict(s, t) : &s->evict;
}

struct evict_node *store_victim(struct store *s, const struct tenant *t)
{
	struct evict_node *n;
	if (alone(&s->tenancy))
		return evict_victim(&s->evict, block_may_go);
	n = victim_above(s, 0);
	if (!n)
		n = evict_victim(tenant_evict(s, s->tenancy.at[t->place]), block_may_go);
	return n ? n : victim_above(s, INT64_MIN);
}

bool store_may_evict(const struct store *s, const struct tenant *t, const struct block *b)
{
	const struct tenant *of = s->spaces.at[b->space]->tenant;
	return alone(&s->tenancy) || of == t || of->bytes > of->limit.share;
}

/* ---- the table ---- */

struct tenant *tenant_find(const struct store *s, const char *name)
{
	const struct tenancy *y = &s->tenancy;
	for (unsigned i = 1; i < y->count; i++)
		if (strcmp(y->at[i]->name, name) == 0)
			return y->at[i];
	return NULL;
}

static int tenant_begin(struct store *s, const char *name, struct tenant **out)
{
	struct tenancy *y = &s->tenancy;
	struct tenant *t = y->count < STORE_TENANTS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return y->count < STORE_TENANTS_MAX ? -KV_ENOMEM : -KV_EFULL;
	if (evict_init(&t->evict, s->evict.policy, s->blocks_max)) {
		free(t);
		return -KV_ENOMEM;
	}
	t->evict.time = s->evict.time;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->place = y->count;
	y->at[y->count++] = t;
	*out = t;
	return 0;
}

int tenant_set(struct store *s, const char *name, const struct tenant_part *limit)
{
	struct tenant *t = tenant_find(s, name);
	int rc = t ? 0 : tenant_begin(s, name, &t);
	if (rc)
		return rc;
	t->listed = true;
	t->limit = *limit;
	excess_set(&s->tenancy, t);
	return 0;
}

void tenancy_begin(struct store *s, const char *(*owner)(void *arg, const char *space), void *arg)
{
	struct tenancy *y = &s->tenancy;
	y->owner = owner;
	y->owner_arg = arg;
	y->none.limit.cap = 0;
	for (unsigned i = 1; i < y->count; i++) {
		y->at[i]->listed = false;
		y->at[i]->limit.share = y->at[i]->limit.cap = 0;
		excess_set(y, y->at[i]);
	}
}

struct tenant *tenant_of_space(struct store *s, const char *space)
{
	struct tenancy *y = &s->tenancy;
	const char *name = y->owner ? y->owner(y->owner_arg, space) : NULL;
	struct tenant *t = name ? tenant_find(s, name) : NULL;
	return t && t->listed ? t : &y->none;
}

static void space_give(struct store *s, struct space *sp, struct tenant *to)
{
	sp->tenant->spaces--;
	sp->tenant = to;
	sp->evict = tenant_evict(s, to);
	to->spaces++;
}

static void spaces_move(struct store *s)
{
	s->tenancy.moving = 0;
	for (uint32_t i = 0; i < s->spaces.count; i++) {
		struct space *sp = s->spaces.at[i];
		struct tenant *to = tenant_of_space(s, sp->name);
		if (to == sp->tenant)
			continue;
		if (sp->refs == 0)
			space_give(s, sp, to);
		else
			s->tenancy.moving++;
	}
}

void tenancy_end(struct store *s, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->spaces.count; i++) {
		struct space *sp = s->spaces.at[i];
		if (sp->refs > 0 && tenant_of_space(s, sp->name) != sp->tenant)
			store_space_clear(s, sp, 0, now_ns);
	}
	spaces_move(s);
}

static void tenants_forget(struct tenancy *y)
{
	for (unsigned i = 1; i < y->count; i++) {
		struct tenant *t = y->at[i], *last = y->at[y->count - 1];
		if (t->listed || t->spaces || t->users || t->bytes || t->pinned)
			continue;
		KV_ASSERT(t->evict.count == 0 && t->active == 0); /* rule 76 */
		y->at[i] = last;
		last->place = i;
		excess_set(y, last);
		y->count--;
		evict_fini(&t->evict);
		free(t);
		break; /* another one at the next step */
	}
}

bool tenancy_step(struct store *s, unsigned budget)
{
	struct tenancy *y = &s->tenancy;
	if (alone(y))
		return false;
	for (unsigned i = 0; i < y->count && budget > 0; i++)
		(void)own_evict(s, y->at[i], 0, &budget);
	if (y->moving)
		spaces_move(s);
	tenants_forget(y);
	y->trims = budget == 0;
	return y->trims;
}
