/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h -- the NVMe tier of a shard, for its operations. All functions accept a shard without one, and do nothing. The
 * shard's thread; nothing parks. */
#ifndef KVRAIL_KVSERVER_OPS_TIER_H
#define KVRAIL_KVSERVER_OPS_TIER_H

#include "kvserver/shard/shard.h"

struct link;
struct shard_tier;
struct tier_device;

/* shard_tier_open -- open the shard's parts of s->opt.tier_files, and begin to read what they have. 0 or a code with
 * *err. shard_tier_close -- end all waits with misses; transfers may still be in flight. shard_tier_free -- after the
 * loop's last turn. */
int shard_tier_open(struct shard *s, struct kv_error *err);
void shard_tier_close(struct shard *s);
void shard_tier_free(struct shard *s);

/* get_tier -- memory does not have the key of this GET. True: it waits for the tier, and will be answered. False: a
 * miss; *reply says if the tier has the key all the same. */
bool get_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, uint64_t now_ns);

/* tier_brings -- memory does not have the key of a copy, in the namespace that the store has entered. True: the tier
 * may have an older or a younger value, and reads it: the copy has to come again. spare: it reads nothing, for which
 * others might be evicted. */
bool tier_brings(struct shard *s, const void *key, size_t key_len, bool spare, uint64_t now_ns);

/* tier_exists -- set bit i of `tier` if digest i is not in `found`, and the tier has its key. Returns whether there is
 * one. */
bool tier_exists(const struct shard *s, const uint8_t *digests, uint32_t n, uint64_t now_ns, const uint8_t *found,
		 uint8_t *tier);

/* delete_tier -- delete the key's value on the tier, unless memory still has one: the request spared it, and the tier
 * has no other. *was: becomes true if there was one. True: the reply is sent later, when the deletion is safe. False:
 * now; its status is WIRE_BUSY if too many wait. touch_tier -- likewise a TOUCH; in_memory: memory has the value, and
 * *reply is complete. Else *reply is completed if the tier has it. */
bool delete_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, bool *was, uint64_t now_ns);
bool touch_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, bool in_memory,
		uint64_t expires_ns, uint64_t now_ns);

/* shard_tier_remembers -- the shard's tombstones include those that earlier processes have left on the tier. */
bool shard_tier_remembers(const struct shard *s);

/* clear_tier -- the session's space was cleared. True: the reply is sent later, when that is safe. False: now; its
 * status is WIRE_BUSY if too many wait. */
bool clear_tier(struct link *l, const struct wire_request *q, struct wire_reply *reply, uint64_t now_ns);

/* tier_forget -- another server has deleted the key of this block. tier_put_done -- a PUT has stored this block. */
void tier_forget(struct shard *s, const struct block *b);
void tier_put_done(struct shard *s, const struct block *b);

int shard_tier_turn(struct shard *s);
bool shard_tier_active(const struct shard *s);
void shard_tier_tick(struct shard *s);
void shard_tier_judged(struct shard *s, const struct verdict *verdict, uint32_t count);
bool shard_tier_saving(struct shard *s);
bool shard_tier_busy(const struct shard *s);
void shard_tier_stats(const struct shard *s, uint64_t *out);

/* shard_tier_device -- the counters of the tier's device i, and its path, which lives as long as the shard; NULL: there
 * is none. */
const char *shard_tier_device(const struct shard *s, unsigned i, struct tier_stats *out);

#endif
