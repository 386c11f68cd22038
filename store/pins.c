/* SPDX-License-Identifier: Apache-2.0 */
/* pins.c -- pins of sessions on blocks.
 *
 * A pin lies in the lists of its set and its block. To find one, both lists are walked until the shorter one ends. A
 * block's first pin takes it out of the policy, its last one puts it back as the newest.
 *
 * The set of an ended session may have a million pins: it is left, and dropped in slices. store->pinned_bytes counts a
 * block once, unless only one left set pins it. A PIN or value without room drops more of them, or waits (room.c). */
#include "store/pins.h"

#include <stdlib.h>

#include "store/store.h"

static bool single(const struct block *b)
{
	return !kv_list_empty(&b->pins) && b->pins.next == b->pins.prev;
}

static struct pin_set *only_set(const struct block *b)
{
	return KV_LIST_ENTRY(b->pins.next, struct pin, of_block)->set;
}

/* Whether the block counts as pinned. */
static bool counts(const struct block *b)
{
	return single(b) ? !only_set(b)->left : !kv_list_empty(&b->pins);
}

static struct pin *pin_find(const struct pin_set *set, const struct block *b)
{
	const struct kv_list *of_set = set->pins.next, *of_block = b->pins.next;
	for (; of_set != &set->pins && of_block != &b->pins; of_set = of_set->next, of_block = of_block->next) {
		struct pin *pin = KV_LIST_ENTRY(of_set, struct pin, of_set);
		if (pin->block == b)
			return pin;
		pin = KV_LIST_ENTRY(of_block, struct pin, of_block);
		if (pin->set == set)
			return pin;
	}
	return NULL;
}

static void pin_free(struct store *s, struct pin *pin)
{
	struct block *b = pin->block;
	uint64_t size = b->mem->size;
	bool counted = counts(b);
	if (single(b))
		pin->set->own_bytes -= size;
	pin->set->bytes -= size;
	if (pin->set->tenant)
		tenant_release(&s->tenancy, pin->set->tenant, KEPT_PINS, store_charge(s, size));
	kv_list_del(&pin->of_set);
	kv_list_del(&pin->of_block);
	slab_put(&s->pins, pin);
	if (single(b))
		only_set(b)->own_bytes += size;
	if (counted && !counts(b))
		s->pinned_bytes -= size;
}

static struct pin_set *set_make(struct tenant *tenant)
{
	struct pin_set *set = calloc(1, sizeof(*set));
	if (!set)
		return NULL;
	set->tenant = tenant;
	kv_list_init(&set->pins);
	kv_list_init(&set->node);
	return set;
}

static bool over(const struct store *s, const struct block *b, uint64_t all_budget)
{
	return !counts(b) && s->pinned_bytes + b->mem->size > all_budget;
}

/* Whether a tenant's limit, and the shares of others, allow one more of its pins. */
static bool tenant_may_pin(const struct store *s, const struct tenant *t, const struct block *b)
{
	uint64_t size = store_charge(s, b->mem->size);
	return !t || (t->kept[KEPT_PINS] + size <= t->limit.pins && tenant_may_keep(s, t, KEPT_PINS, size));
}

static struct pin *pin_get(struct store *s)
{
	struct pin *pin;
	do
		pin = slab_get(&s->pins);
	while (!pin && pins_leaving(s) && (pins_sweep(s, PINS_AT_ONCE), true));
	return pin;
}

static void pin_insert(struct store *s, struct pin_set *set, struct block *b, struct pin *pin)
{
	uint64_t size = b->mem->size;
	KV_ASSERT(b->state == BLOCK_LIVE && !set->left);
	if (!counts(b))
		s->pinned_bytes += size;
	if (kv_list_empty(&b->pins)) {
		evict_remove(store_evict_of(s, b), &b->evict);
		set->own_bytes += size;
	} else if (single(b)) {
		only_set(b)->own_bytes -= size;
	}
	*pin = (struct pin){.set = set, .block = b};
	kv_list_add_tail(&set->pins, &pin->of_set);
	kv_list_add_tail(&b->pins, &pin->of_block);
	set->bytes += size;
	if (set->tenant)
		tenant_keep(&s->tenancy, set->tenant, KEPT_PINS, store_charge(s, size));
}

int pins_add(struct store *s, struct pins *p, struct block *b, uint64_t set_budget, uint64_t all_budget)
{
	struct pin *pin;
	if (!p->set)
		p->set = set_make(p->tenant);
	if (!p->set)
		return -KV_ENOMEM;
	if (pin_find(p->set, b))
		return 0;
	if (p->set->bytes + b->mem->size > set_budget || !tenant_may_pin(s, p->tenant, b))
		return -KV_EBUSY;
	while (over(s, b, all_budget))
		if (!pins_leaving(s))
			return -KV_EBUSY;
		else
			(void)pins_sweep(s, PINS_AT_ONCE);
	pin = pin_get(s);
	if (!pin)
		return -KV_ENOMEM;
	pin_insert(s, p->set, b, pin);
	return 0;
}

static void pin_drop(struct store *s, struct pin *pin)
{
	struct block *b = pin->block;
	pin_free(s, pin);
	if (kv_list_empty(&b->pins))
		evict_return(store_evict_of(s, b), &b->evict);
}

void pins_remove(struct store *s, struct pins *p, struct block *b)
{
	struct pin *pin = p->set ? pin_find(p->set, b) : NULL;
	if (pin)
		pin_drop(s, pin);
}

void pins_release_block(struct store *s, struct block *b)
{
	while (!kv_list_empty(&b->pins))
		pin_free(s, KV_LIST_ENTRY(b->pins.next, struct pin, of_block));
}

/* ---- sets of ended sessions ---- */

bool pins_leaving(const struct store *s)
{
	return !kv_list_empty(&s->left);
}

void pins_leave(struct store *s, struct pins *p)
{
	struct pin_set *set = p->set;
	p->set = NULL;
	if (!set)
		return;
	set->left = true;
	s->pinned_bytes -= set->own_bytes;
	kv_list_add_tail(&s->left, &set->node);
}

bool pins_sweep(struct store *s, unsigned budget)
{
	while (budget > 0 && pins_leaving(s)) {
		struct pin_set *set = KV_LIST_ENTRY(s->left.next, struct pin_set, node);
		for (; budget > 0 && !kv_list_empty(&set->pins); budget--)
			pin_drop(s, KV_LIST_ENTRY(set->pins.next, struct pin, of_set));
		if (!kv_list_empty(&set->pins))
			break;
		kv_list_del(&set->node);
		free(set);
	}
	return pins_leaving(s);
}

void pins_drop_all(struct store *s)
{
	while (pins_sweep(s, PINS_AT_ONCE))
		;
}
