/* SPDX-License-Identifier: Apache-2.0 */
/* victim.c -- whose block is evicted: within a tenant's cap its own, for room that of the tenant furthest above its
 * share.
 *
 * The search looks at `excess`, 8 bytes for each tenant, whatever the number of blocks. With one tenant there is none.
 */
#include <errno.h>

#include "store/store.h"

static bool alone(const struct tenancy *y)
{
	return KV_LIKELY(y->count == 1);
}

int tenant_trim(struct store *s, struct tenant *t, uint64_t size, unsigned *budget)
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
		rc = tenant_trim(s, t, size, budget);
	if (rc == -KV_ENOMEM)
		t->denied++;
	if (rc == 0)
		tenant_add(s, t, size);
	KV_ASSERT(rc || t->bytes <= t->limit.cap); /* rule 75 */
	return rc;
}

/* The tenant with evictable blocks furthest above its share, if above `least`; or NULL. */
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

/* A search parks what may not go, so a tenant without a victim has no block left in its policy. */
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
	/* Pins, leases and stages of a tenant above its share are not paid for by others within theirs. */
	return n || s->tenancy.excess[t->place] > 0 ? n : victim_above(s, INT64_MIN);
}

bool store_may_evict(const struct store *s, const struct tenant *t, const struct block *b)
{
	const struct tenant *of = s->spaces.at[b->space]->tenant;
	return alone(&s->tenancy) || of == t || of->bytes > of->limit.share;
}
