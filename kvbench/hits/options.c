/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- the option table of kv-bench hits, and its two lists. */
#include "kvbench/hits/hits.h"
#include "store/store.h"

#include "kvbench/setup/list.h"

#define AT(member) .offset = offsetof(struct hits_options, member)

const struct kv_opt hits_options_table[] = {
	KV_ROW_TEXT("trace", AT(trace), "FILE", NULL,
		    "JSON lines of Mooncake or of Alibaba's Bailian, plain or gzip, with or without time stamps.",
		    .group = "Policies"),
	KV_ROW_TEXT("capacity", AT(capacity), "LIST", "1%,5%,10%,25%,50%",
		    "Sizes of memory: blocks (5859), or a share of the distinct blocks of the trace (10%).",
		    .letter = 'c'),
	KV_ROW_TEXT("tier", AT(tier), "LIST", "0",
		    "Sizes of a tier on NVMe behind the memory, in blocks or shares as above; 0: none."),
	KV_ROW_CHOICE("tier-admit", AT(tier_admit), "WHICH", "eviction", tier_admit_names,
		      "Which blocks are written to the tier, as kv-server --tier-admit has it."),
	KV_ROW_TEXT("policy", AT(policy), "LIST", "all",
		    "Eviction policies of kv-server, and belady, which knows the future; all: each of them."),

	KV_OPT_JSON_ROW(AT(json), .group = "Output"),
	KV_OPT_CONFIG_ROW(AT(config)),
	{.name = NULL},
};

static int add_size(const char *option, const char *item, uint64_t distinct, uint64_t least, uint64_t *sizes,
		    unsigned *count, struct kv_error *err)
{
	size_t len = strlen(item);
	char number[32];
	uint64_t n = 0;
	bool share = len > 1 && item[len - 1] == '%';
	snprintf(number, sizeof(number), "%.*s", (int)(len - share), item);
	if (kv_u64_parse(number, &n) < 0 || n < least || n > (share ? 100 : (uint64_t)HITS_SIZE_MAX))
		return kv_fail(err, -KV_EINVAL,
			       "%s: '%s' is neither a number of blocks up to %u nor a share such as 10%%", option, item,
			       (unsigned)HITS_SIZE_MAX);
	if (*count == HITS_SIZES_MAX)
		return kv_fail(err, -KV_EINVAL, "%s: at most %u sizes; choose fewer", option, (unsigned)HITS_SIZES_MAX);
	sizes[(*count)++] = share && n ? KV_MAX(distinct * n / 100, (uint64_t)1) : n;
	return 0;
}

static int add_policy(const char *item, struct hits_plan *p, struct kv_error *err)
{
	char names[128] = "";
	int number = HITS_BELADY;
	bool all = strcmp(item, "all") == 0, known = all || strcmp(item, "belady") == 0;
	for (int i = 0; evict_policy_names[i]; i++) {
		if (all && p->policies < HITS_POLICIES_MAX - 1)
			p->policy[p->policies++] = i;
		if (strcmp(item, evict_policy_names[i]) == 0) {
			number = i;
			known = true;
		}
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s, ", evict_policy_names[i]);
	}
	if (!known)
		return kv_fail(err, -KV_EINVAL, "--policy: there is no '%s': use some of %sbelady, or all", item,
			       names);
	if (p->policies == HITS_POLICIES_MAX)
		return kv_fail(err, -KV_EINVAL, "--policy: at most %u of them; name each once",
			       (unsigned)HITS_POLICIES_MAX);
	p->policy[p->policies++] = number;
	return 0;
}

int hits_plan_parse(const struct hits_options *o, uint64_t distinct, struct hits_plan *out, struct kv_error *err)
{
	const char *at = o->capacity;
	char item[64];
	int rc = 0;
	*out = (struct hits_plan){0};
	while (rc == 0 && bench_word(&at, ',', item, sizeof(item)))
		rc = add_size("--capacity", item, distinct, 1, out->capacity, &out->capacities, err);
	at = o->tier;
	while (rc == 0 && bench_word(&at, ',', item, sizeof(item)))
		rc = add_size("--tier", item, distinct, 0, out->tier, &out->tiers, err);
	at = o->policy;
	while (rc == 0 && bench_word(&at, ',', item, sizeof(item)))
		rc = add_policy(item, out, err);
	return rc;
}
