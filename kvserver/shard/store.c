/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- the store of a shard: its options, and its secrets. */
#include "kvserver/shard/private.h"
#include "kvserver/shard/shard.h"

int shard_store(struct shard *s, struct kv_error *err)
{
	struct store_options options = {
		.base = s->area.base,
		.limit_bytes = s->opt.memory_bytes,
		.now_ns = loop_now(s->loop),
		.digest_seed = s->opt.shard_seed,
		.policy = s->opt.policy,
		.blocks_max = s->opt.values_max,
		.poison = kv_rule_broken != NULL,
		.journal = s->opt.journal,
	};
	int rc = kv_entropy_fill(s->entropy, &options.seed, sizeof(options.seed));
	/* Generations of a restarted server differ from earlier ones, so that no stale one seems current. */
	if (rc == 0)
		rc = kv_entropy_fill(s->entropy, &options.generation, sizeof(options.generation));
	options.generation = (options.generation >> 24 << 24 & INT64_MAX) + 1;
	if (rc == 0)
		rc = store_init(&s->store, &options);
	s->store.tombs.since_ns = (int64_t)loop_now(s->loop);
	return rc ? kv_fail(err, rc, "shard %u: cannot set up the index: %s", s->opt.index, kv_strerror(rc)) : 0;
}
