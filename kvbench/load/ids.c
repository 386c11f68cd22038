/* SPDX-License-Identifier: Apache-2.0 */
/* ids.c -- open addressing, never more than half full. */
#include "kvbench/load/ids.h"

#include <stdlib.h>

static struct trace_id *find(const struct trace_ids *s, uint64_t id)
{
	uint64_t at = id * 0x9e3779b97f4a7c15ull;
	for (at ^= at >> 32;; at++) {
		struct trace_id *slot = &s->slot[at & s->mask];
		if (slot->number == 0 || slot->id == id)
			return slot;
	}
}

static int grow(struct trace_ids *s)
{
	uint64_t old = s->slot ? s->mask + 1 : 0, size = old ? old * 2 : 1024;
	struct trace_ids bigger = {.slot = calloc(size, sizeof(*bigger.slot)), .mask = size - 1, .count = s->count};
	if (!bigger.slot)
		return -KV_ENOMEM;
	for (uint64_t i = 0; i < old; i++)
		if (s->slot[i].number)
			*find(&bigger, s->slot[i].id) = s->slot[i];
	free(s->slot);
	*s = bigger;
	return 0;
}

bool trace_ids_have(const struct trace_ids *ids, uint64_t id)
{
	return ids->slot && find(ids, id)->number;
}

int trace_ids_number(struct trace_ids *ids, uint64_t id, uint32_t *out)
{
	struct trace_id *slot;
	if (2 * (ids->count + 1) > (ids->slot ? ids->mask + 1 : 0) && grow(ids) < 0)
		return -KV_ENOMEM;
	slot = find(ids, id);
	if (slot->number == 0)
		*slot = (struct trace_id){id, (uint32_t)++ids->count};
	*out = slot->number - 1;
	return 0;
}

void trace_ids_free(struct trace_ids *ids)
{
	free(ids->slot);
	*ids = (struct trace_ids){0};
}

int trace_room(void **array, size_t size, uint64_t used, uint64_t more, uint64_t *cap)
{
	uint64_t need = KV_MAX(used + more, *cap + *cap / 2 + 1024);
	void *bigger;
	if (used + more <= *cap)
		return 0;
	bigger = realloc(*array, need * size);
	if (!bigger)
		return -KV_ENOMEM;
	*array = bigger;
	*cap = need;
	return 0;
}
