/* SPDX-License-Identifier: Apache-2.0 */
/* pins.c -- which session has pinned which block.
 *
 * A pin is one (set, block) pair and lies in a list of each, so that the end of a session and the end of a block both
 * find all of theirs. To see whether a pair exists, both lists are walked at once, to the end of the shorter one.
 * Thousands of sessions may pin one block, and one session thousands of blocks; the walk is long only where both are. A
 * block's first pin takes it out of the eviction policy, its last one puts it back as the newest. store->pinned_bytes
 * counts a block once, however many sessions pin it. Every set is charged the whole block: a budget must not depend on
 * what others pin. */
#include "store/store.h"

void pins_init(struct pins *p)
{
	kv_list_init(&p->set);
	p->bytes = 0;
}

static struct pin *pin_find(const struct pins *p, const struct block *b)
{
	const struct kv_list *of_set = p->set.next, *of_block = b->pins.next;

	for (; of_set != &p->set && of_block != &b->pins; of_set = of_set->next, of_block = of_block->next) {
		struct pin *pin = KV_LIST_ENTRY(of_set, struct pin, of_set);
		if (pin->block == b)
			return pin;
		pin = KV_LIST_ENTRY(of_block, struct pin, of_block);
		if (pin->set == p)
			return pin;
	}
	return NULL;
}

static void pin_free(struct store *s, struct pin *pin)
{
	kv_list_del(&pin->of_set);
	kv_list_del(&pin->of_block);
	pin->set->bytes -= pin->block->mem->size;
	slab_put(&s->pins, pin);
}

int pins_add(struct store *s, struct pins *p, struct block *b, uint64_t set_budget, uint64_t all_budget)
{
	uint64_t size = b->mem->size;
	bool first = kv_list_empty(&b->pins);
	struct pin *pin;

	if (pin_find(p, b))
		return 0;
	if (p->bytes + size > set_budget || (first && s->pinned_bytes + size > all_budget))
		return -KV_EBUSY;
	pin = slab_get(&s->pins);
	if (!pin)
		return -KV_ENOMEM;
	if (first) {
		evict_remove(&s->evict, &b->evict);
		s->pinned_bytes += size;
	}
	pin->set = p;
	pin->block = b;
	kv_list_add_tail(&p->set, &pin->of_set);
	kv_list_add_tail(&b->pins, &pin->of_block);
	p->bytes += size;
	return 0;
}

static void pin_drop(struct store *s, struct pin *pin)
{
	struct block *b = pin->block;

	pin_free(s, pin);
	if (!kv_list_empty(&b->pins))
		return;
	s->pinned_bytes -= b->mem->size;
	evict_return(&s->evict, &b->evict);
}

void pins_remove(struct store *s, struct pins *p, struct block *b)
{
	struct pin *pin = pin_find(p, b);

	if (pin)
		pin_drop(s, pin);
}

void pins_clear(struct store *s, struct pins *p)
{
	while (!kv_list_empty(&p->set))
		pin_drop(s, KV_LIST_ENTRY(p->set.next, struct pin, of_set));
}

void pins_release_block(struct store *s, struct block *b)
{
	if (!kv_list_empty(&b->pins))
		s->pinned_bytes -= b->mem->size;
	while (!kv_list_empty(&b->pins))
		pin_free(s, KV_LIST_ENTRY(b->pins.next, struct pin, of_block));
}
