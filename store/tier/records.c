/* SPDX-License-Identifier: Apache-2.0 */
/* records.c -- the tier's index: items in one array, found through chains by hash (linear hashing, Litwin 1980).
 *
 * With each record that exceeds the number of heads one more chain is split in two, so no add takes long.
 *
 * Invariants: an item is in a chain if and only if it is neither dead nor free. Two live items differ in hash or
 * more. */
#include "store/tier/records.h"
#include "store/tombs.h"

enum { HEADS_FIRST = 512 };

_Static_assert(sizeof(struct tier_item) + sizeof(uint32_t) == TIER_RECORD_BYTES, "the promised size");

int tier_records_init(struct tier_records *t, uint32_t records_max)
{
	uint64_t items = (uint64_t)records_max + 1, heads = KV_MAX(records_max, (uint32_t)HEADS_FIRST);
	int rc;
	*t = (struct tier_records){.records_max = records_max, .heads = HEADS_FIRST};
	rc = kv_area_map_lazy(items * sizeof(t->item[0]), &t->items_area, NULL);
	if (rc == 0)
		rc = kv_area_map_lazy(heads * sizeof(t->head[0]), &t->heads_area, NULL);
	if (rc) {
		tier_records_fini(t);
		return rc;
	}
	t->item = t->items_area.base;
	t->head = t->heads_area.base;
	return 0;
}

void tier_records_fini(struct tier_records *t)
{
	kv_area_unmap(&t->items_area);
	kv_area_unmap(&t->heads_area);
	*t = (struct tier_records){0};
}

uint32_t tier_more(const void *key, size_t len)
{
	return (uint32_t)tombs_id(key, len);
}

static uint32_t heads_round(const struct tier_records *t)
{
	return 1u << (31 - __builtin_clz(t->heads));
}

static uint32_t *head_of(const struct tier_records *t, uint32_t low)
{
	uint32_t round = heads_round(t), h = low & (2 * round - 1);
	return &t->head[h < t->heads ? h : h & (round - 1)];
}

uint32_t tier_records_find(const struct tier_records *t, const struct tier_id *id)
{
	uint32_t n = *head_of(t, (uint32_t)id->hash);
	while (n && (tier_item_hash(&t->item[n]) != id->hash || t->item[n].more != id->more))
		n = t->item[n].chain;
	return n;
}

uint32_t tier_records_find_hash(const struct tier_records *t, uint64_t hash)
{
	uint32_t n = *head_of(t, (uint32_t)hash);
	while (n && tier_item_hash(&t->item[n]) != hash)
		n = t->item[n].chain;
	return n;
}

/* One more head: the chain that it shares a place with is split. */
static void split(struct tier_records *t)
{
	uint32_t from = t->heads - heads_round(t), n = t->head[from], added = t->heads++;
	uint32_t *keep = &t->head[from], *move = &t->head[added];
	for (; n; n = t->item[n].chain) {
		uint32_t **end = head_of(t, t->item[n].hash_low) == &t->head[added] ? &move : &keep;
		**end = n;
		*end = &t->item[n].chain;
	}
	*keep = *move = 0;
}

uint32_t tier_records_add(struct tier_records *t, const struct tier_id *id, uint32_t len, uint32_t expires_s)
{
	uint32_t n = t->free, *head;
	KV_ASSERT(tier_records_find(t, id) == 0);
	if (n)
		t->free = t->item[n].chain;
	else if (t->made < t->records_max)
		n = ++t->made;
	else
		return 0;
	if (t->live >= t->heads && t->heads < t->records_max)
		split(t);
	head = head_of(t, (uint32_t)id->hash);
	t->item[n] = (struct tier_item){.hash_low = (uint32_t)id->hash,
					.hash_high = (uint32_t)(id->hash >> 32),
					.more = id->more,
					.len = len,
					.expires_s = expires_s,
					.chain = *head};
	*head = n;
	t->live++;
	t->used++;
	return n;
}

void tier_records_drop(struct tier_records *t, uint32_t number)
{
	uint32_t *at = head_of(t, t->item[number].hash_low);
	KV_ASSERT(!t->item[number].dead);
	if (t->dropped)
		t->dropped(t->arg, &t->item[number]);
	while (*at != number)
		at = &t->item[*at].chain;
	*at = t->item[number].chain;
	t->item[number].dead = 1;
	t->live--;
}

void tier_records_free(struct tier_records *t, uint32_t number)
{
	KV_ASSERT(t->item[number].dead);
	t->item[number].chain = t->free;
	t->free = number;
	t->used--;
}

uint64_t tier_records_bytes(const struct tier_records *t)
{
	return (uint64_t)t->made * sizeof(t->item[0]) + (uint64_t)t->heads * sizeof(t->head[0]);
}
