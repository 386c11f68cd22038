/* SPDX-License-Identifier: Apache-2.0 */
/* hits.h -- kv-bench hits: how often a trace finds its blocks in memory of some sizes, by policy, without a server. */
#ifndef KVRAIL_KVBENCH_HITS_HITS_H
#define KVRAIL_KVBENCH_HITS_HITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "store/store.h"

enum {
	HITS_SIZES_MAX = 32,    /* in a list */
	HITS_POLICIES_MAX = 8,  /* the store's, and Belady's */
	HITS_SIZE_MAX = 1 << 30 /* blocks */
};

/* A whole trace: blocks by small numbers, in the order of the file. The holder's memory: hits_trace_free. */
struct hits_trace {
	uint32_t *block; /* one per reference: 0 .. distinct - 1, in order of first use */
	uint32_t *len;   /* references of each request */
	uint64_t refs, requests, distinct;
	unsigned block_tokens; /* trace_tokens_of */
};

/* hits_trace_read -- 8 to 40 bytes of memory per reference. Errors: as trace_scan; -KV_ENOMEM. */
int hits_trace_read(const char *path, struct hits_trace *out, struct kv_error *err);
void hits_trace_free(struct hits_trace *trace);

/* The hits of one memory size. A block is hit if the cache has it when its turn comes; a prefix, if all before it were
 * hit when the request began. */
struct hits_result {
	uint64_t prefix, block;
	uint64_t tier, writes;
};

/* A tier behind the memory: its blocks, and what is written to it. */
struct hits_tier {
	uint64_t blocks; /* 0: no tier */
	enum tier_admit admit;
};

/* hits_run -- room for this number of equal blocks under the policy of this number (evict_policy_names), and a tier
 * behind it. The code of both is the server's. Per request: the longest stored prefix is read; the other blocks are
 * stored in order, and one that the cache has all the same is used. A block that the tier serves is in memory
 * afterwards. 0 or -KV_ENOMEM. */
int hits_run(const struct hits_trace *trace, unsigned policy, uint64_t capacity, struct hits_tier tier,
	     struct hits_result *out);

/* hits_belady -- the same with knowledge of the future: the block with the farthest next use is evicted, or not stored
 * at all. No policy has more block hits. 0 or -KV_ENOMEM. */
int hits_belady(const struct hits_trace *trace, uint64_t capacity, struct hits_result *out);

/* hits_unlimited -- with memory for everything. */
struct hits_result hits_unlimited(const struct hits_trace *trace);

struct hits_options {
	const char *trace, *capacity, *tier, *policy, *json;
	int tier_admit; /* enum tier_admit */
	bool config;
};
extern const struct kv_opt hits_options_table[];

struct hits_plan {
	unsigned capacities, tiers, policies;
	uint64_t capacity[HITS_SIZES_MAX], tier[HITS_SIZES_MAX];
	int policy[HITS_POLICIES_MAX]; /* HITS_BELADY: none of the store's */
};
enum { HITS_BELADY = -1 };

/* hits_plan_parse -- capacities and tiers are blocks ("5859") or shares of the distinct blocks ("10%"). 0, or
 * -KV_EINVAL with one sentence. */
int hits_plan_parse(const struct hits_options *options, uint64_t distinct, struct hits_plan *out, struct kv_error *err);

/* hits_main -- the sub-command. The exit status. argv[0] is the program's name. */
int hits_main(int argc, char **argv);

#endif
