/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c -- prefix hit ratios of Mooncake's public conversation trace (FAST25-release/traces in
 * github.com/kvcache-ai/Mooncake) that others computed: one memory, equal blocks, the lookup of hits.h.
 *
 * The table is of textbook policies, simulated apart from this program in 2026-11. kv-server's CLOCK puts a hit block
 * where its last hit says, and not at the newest end, so it may differ in the third digit. Plain LRU at shares of the
 * distinct blocks is a public re-computation, which gives the same five figures. Mooncake's paper (FAST'25) counts in
 * another way and has maxima 3 to 4 points higher. */
#include <string.h>

#include "kvbench/hits/hits.h"

enum { REQUESTS = 12031, REFS = 288500, DISTINCT = 182790, COLUMNS = 8 };

static const uint64_t capacity_of[COLUMNS] = {1000, 2930, 5859, 10000, 19531, 30000, 50000, 100000};
static const struct {
	const char *policy;
	double ratio[COLUMNS];
} table[] = {
	{"clock2g", {.0458, .0727, .1468, .2224, .2973, .3289, .3553, .3631}},
	{"clock", {.0447, .0660, .1379, .2135, .2880, .3290, .3542, .3631}},
	{"lru", {.0445, .0640, .1355, .2112, .2852, .3257, .3546, .3637}},
	{"s3fifo", {.0538, .0969, .1584, .2256, .2962, .3236, .3487, .3631}},
	{"sieve", {.0481, .0736, .0966, .1318, .2066, .2759, .3438, .3631}},
	{"belady", {.1907, .2923, .3532, .3664, .3664, .3664, .3664, .3664}},
};

static const struct {
	unsigned percent;
	double ratio;
} lru_share[] = {{1, .052}, {5, .195}, {10, .278}, {25, .353}, {50, .363}};

bool hits_is_reference(const struct hits_trace *t)
{
	return t->requests == REQUESTS && t->refs == REFS && t->distinct == DISTINCT;
}

double hits_reference(const struct hits_trace *t, const char *policy, uint64_t capacity)
{
	if (!hits_is_reference(t))
		return -1;
	for (unsigned i = 0; i < KV_COUNT(table); i++)
		for (unsigned k = 0; strcmp(table[i].policy, policy) == 0 && k < COLUMNS; k++)
			if (capacity_of[k] == capacity)
				return table[i].ratio[k];
	for (unsigned i = 0; i < KV_COUNT(lru_share) && strcmp(policy, "lru") == 0; i++)
		if (t->distinct * lru_share[i].percent / 100 == capacity)
			return lru_share[i].ratio;
	return -1;
}
