/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c -- counters, and their sums over several loops.
 *
 * A histogram takes 37 KiB, and a tally has four. One per client instead of one per worker gives the same merged
 * figures, and 64,000 workers do not take gigabytes for it. */
#include "kvbench/measure/tally.h"

void bench_errors_add(struct bench_errors *errors, int code, uint64_t count)
{
	unsigned i;
	if (count == 0)
		return;
	for (i = 0; i < errors->num_codes; i++)
		if (errors->row[i].code == code)
			break;
	if (i == BENCH_ERROR_CODES)
		i--;
	if (i == errors->num_codes) {
		errors->row[i].code = code;
		errors->row[i].count = 0;
		errors->num_codes++;
	}
	errors->row[i].count += count;
}

uint64_t bench_errors_total(const struct bench_errors *errors)
{
	uint64_t total = 0;
	for (unsigned i = 0; i < errors->num_codes; i++)
		total += errors->row[i].count;
	return total;
}

void bench_tally_init(struct bench_tally *tally)
{
	memset(tally, 0, sizeof(*tally));
	kv_hist_init(&tally->latency);
	kv_hist_init(&tally->service);
	kv_hist_init(&tally->missed);
	kv_hist_init(&tally->failed);
}

void bench_tally_merge(struct bench_tally *into, const struct bench_tally *from)
{
	into->ops += from->ops;
	into->bytes += from->bytes;
	into->hits += from->hits;
	into->misses += from->misses;
	into->put_conflicts += from->put_conflicts;
	into->checked += from->checked;
	into->wrong += from->wrong;
	into->stored_again += from->stored_again;
	into->due += from->due;
	into->never_started += from->never_started;
	for (unsigned i = 0; i < from->errors.num_codes; i++)
		bench_errors_add(&into->errors, from->errors.row[i].code, from->errors.row[i].count);
	kv_hist_merge(&into->latency, &from->latency);
	kv_hist_merge(&into->service, &from->service);
	kv_hist_merge(&into->missed, &from->missed);
	kv_hist_merge(&into->failed, &from->failed);
}
