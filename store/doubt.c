/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c -- look up deletions that other members remember. Each block in doubt is judged when it is asked for
 * (store.c); a walk over millions of blocks would take too long. */
#include "store/doubt.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
	const struct verdict *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->time_ns == y->time_ns)
		return 0;
	return x->time_ns > y->time_ns ? -1 : 1;
}

uint32_t verdicts_sort(struct verdict *v, uint32_t count)
{
	uint32_t n = 0;
	if (count == 0)
		return 0;
	qsort(v, count, sizeof(*v), by_id);
	for (uint32_t i = 1; i < count; i++) {
		if (v[i].id != v[n].id)
			v[++n] = v[i];
		else
			v[n].deleted_ns = KV_MAX(v[n].deleted_ns, v[i].deleted_ns);
	}
	return n + 1;
}

const struct verdict *verdict_find(const struct doubt *d, uint64_t id)
{
	uint32_t low = 0, high = d->count;
	while (low < high) {
		uint32_t at = low + (high - low) / 2;
		if (d->verdict[at].id < id)
			low = at + 1;
		else
			high = at;
	}
	return low < d->count && d->verdict[low].id == id ? &d->verdict[low] : NULL;
}
