/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- values that a server hands over to others. For kv-server and tests; the library does not export it. */
#ifndef KVRAIL_KVCLIENT_COPY_H
#define KVRAIL_KVCLIENT_COPY_H

#include "kvclient/kvclient.h"

/* kvc_copy_batch -- kvc_put_batch for values that were put long ago: item i at born_ns[i] of CLOCK_MONOTONIC, or later;
 * not 0. No DELETE since then is undone: such an item's result is -KV_ENOTFOUND if another server has a younger value
 * or has certainly deleted the key, and its source should delete it, too; or -KV_ECANCELED if that is not certain.
 * spare: no value is evicted for them (else -KV_ENOMEM), and they are the first to be evicted. Blocks. */
int kvc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
		   const struct kvc_call *call);

/* kvc_delete_at -- have the server that has the key now delete the value as it was at this time of CLOCK_MONOTONIC, and
 * refuse copies of it. A value that was put since stays. Blocks. As kvc_delete. */
int kvc_delete_at(struct kvc_pool *pool, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);

/* What a server remembers of a key: the hash that all servers have of it, and that it was deleted, or touched, at this
 * time of CLOCK_MONOTONIC or earlier. */
struct kvc_tomb {
	uint64_t id, time_ns;
	bool touched;
};

/* kvc_tombs -- some of the keys that a shard of server i of the pool remembers so, at most `max` (200 are enough).
 * *from begins as 0, and is 0 after the last ones. *out_since_ns: the shard remembers all that was deleted later than
 * this time of CLOCK_MONOTONIC. Blocks. Returns how many they are, or a code; -KV_EINVAL: there is no such shard. */
int kvc_tombs(struct kvc_pool *pool, unsigned server, unsigned shard, uint64_t *from, struct kvc_tomb *out,
	      unsigned max, uint64_t *out_since_ns, const struct kvc_call *call);

#endif
