/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c -- deletions that this server missed (store/doubt.h): records of those keys are dropped for good.
 *
 * Blocks are judged when they are asked for, against the verdicts of the last doubt. Records may be asked for after
 * many doubts, and restarts, so all of them are looked at once, in steps, and the tier is hidden until then. A key is
 * known by 32 bits of its number (tier_more): a record of another key is lost once in 2^32. */
#include "store/tier/private.h"

#include <stdlib.h>

enum { LOOKS = 32768 };

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

bool judged(const struct tier *t, const struct tier_item *i)
{
	uint32_t more = i->more ^ (uint32_t)t->store->spaces.at[i->space]->mark; /* of store_id */
	return t->judge.all ||
	       (t->judge.count > 0 && bsearch(&more, t->judge.more, t->judge.count, sizeof(more), by_value) != NULL);
}

bool judge_step(struct tier *t)
{
	if (!t->judge.busy)
		return false;
	for (unsigned n = 0; n < LOOKS && t->judge.next <= t->records.made; n++) {
		uint32_t item = t->judge.next++;
		if (!t->records.item[item].dead && judged(t, &t->records.item[item]))
			tier_key_drop(t, item, true);
	}
	t->judge.busy = t->judge.next <= t->records.made;
	return true;
}

void tier_judge(struct tier *t, const struct verdict *verdict, uint32_t count)
{
	uint32_t *more = verdict && count ? malloc(count * sizeof(*more)) : NULL;
	bool before = t->judge.count > 0;
	while (judge_step(t)) /* an earlier one, if it is not over */
		;
	for (uint32_t i = 0; more && i < count; i++)
		more[i] = (uint32_t)verdict[i].id;
	if (more)
		qsort(more, count, sizeof(*more), by_value);
	free(t->judge.more);
	t->judge.more = more;
	t->judge.count = more ? count : 0;
	t->judge.all = !verdict || (count && !more);
	t->judge.next = 1;
	t->judge.busy = t->judge.all || count;
	if (!t->judge.busy || !tier_key_reading(t))
		return;
	t->unsaved_first = t->unsaved_first ? t->unsaved_first : ++t->marks;
	t->gone_full |= t->judge.all || before; /* what is not read yet counts as deleted */
}
