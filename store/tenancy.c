/* SPDX-License-Identifier: Apache-2.0 */
/* tenancy.c -- the tenants of a store follow a table: they begin, change, and end.
 *
 *   listed --the next table is without it--> no cap, no share, no namespace: its blocks are dropped in steps
 *          --neither blocks, sessions, pins nor namespaces--> freed
 *
 * A namespace that gets another owner is cleared, and is the former one's until its last block is free: what is charged
 * to a tenant is always what its namespaces have. */
#include <errno.h>
#include <stdlib.h>

#include "store/store.h"

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
	if (t->limit.read_rate != limit->read_rate)
		t->read_free_ns = 0; /* what was read by the former rate may be hours of this one */
	tenant_share(&s->tenancy, t, limit->share);
	t->limit = *limit;
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
		y->at[i]->limit.cap = 0;
		tenant_share(y, y->at[i], 0);
	}
}

int tenancy_space_take(struct store *s, const char *name, uint64_t now_ns, struct space **out)
{
	const struct tenancy *y = &s->tenancy;
	const struct tenant *t = y->count > 1 ? tenant_of_space(s, name) : NULL;
	return t && t->spaces >= SPACES_MAX / y->count ? space_take_instead(&s->spaces, t, name, now_ns, out)
						       : space_take(&s->spaces, name, now_ns, out);
}

static void space_give(struct store *s, struct space *sp, struct tenant *to)
{
	uint64_t tier_bytes = sp->tier_bytes, tier_charged = sp->tier_charged;
	tenant_tier_forget(sp);
	sp->tenant->spaces--;
	sp->tenant = to;
	sp->evict = tenant_evict(s, to);
	to->spaces++;
	tenant_tier_add(sp, tier_bytes, tier_charged);
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
		if (t->listed || t->spaces || t->users || t->bytes || t->kept[KEPT_ALL])
			continue;
		KV_ASSERT(t->evict.count == 0 && t->active == 0); /* rule 76 */
		y->at[i] = last;
		last->place = i;
		tenant_excess(y, last);
		y->count--;
		evict_fini(&t->evict);
		free(t);
		break; /* another one at the next step */
	}
}

bool tenancy_step(struct store *s, unsigned budget)
{
	struct tenancy *y = &s->tenancy;
	if (KV_LIKELY(y->count == 1))
		return false;
	for (unsigned i = 0; i < y->count && budget > 0; i++)
		(void)tenant_trim(s, y->at[i], 0, &budget);
	if (y->moving)
		spaces_move(s);
	tenants_forget(y);
	y->trims = budget == 0;
	return y->trims;
}
