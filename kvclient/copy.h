/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- values that a server copies to others. For kv-server and tests; the library does not export it. */
#ifndef KVRAIL_KVCLIENT_COPY_H
#define KVRAIL_KVCLIENT_COPY_H

#include "kvclient/kvclient.h"

/* kc_copy_batch -- kvc_put_batch for older values: item i was put at born_ns[i] of CLOCK_MONOTONIC or later; not 0. It
 * undoes no later DELETE: an item's result is -KV_ENOTFOUND if another server has a younger value or surely deleted the
 * key (its source should then delete it), or -KV_ECANCELED if that is uncertain. spare: evict nothing for them (else
 * -KV_ENOMEM), and evict them first. Blocks. */
int kc_copy_batch(struct kvc_pool *pool, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
		  const struct kvc_call *call);

/* kc_delete_at -- delete the value as of time_ns of CLOCK_MONOTONIC at the key's server, which then refuses copies of
 * it. A later value stays. Blocks. As kvc_delete. */
int kc_delete_at(struct kvc_pool *pool, struct kvc_key key, uint64_t time_ns, const struct kvc_call *call);

/* A server's record of a key: the hash shared by all servers, and that it was deleted, or touched, at time_ns of
 * CLOCK_MONOTONIC or earlier. */
struct kc_tomb {
	uint64_t id, time_ns;
	bool touched;
};

/* kc_tombs -- at most `max` such records of a shard of server i of the pool (200 suffice). *from begins as 0, and is 0
 * after the last ones. *out_since_ns: the shard has every deletion later than this CLOCK_MONOTONIC time, which may be
 * negative; *out_later: it may have more later, since members are away. Blocks.
 * Returns their number or a code; -KV_EINVAL: no such shard. */
int kc_tombs(struct kvc_pool *pool, unsigned server, unsigned shard, uint64_t *from, struct kc_tomb *out, unsigned max,
	     int64_t *out_since_ns, bool *out_later, const struct kvc_call *call);

/* kc_spaces -- at most `max` namespaces of such a shard (64 suffice), from *from on, as kc_tombs. *out_floor: no
 * namespace that the shard has forgotten had a higher generation. */
int kc_spaces(struct kvc_pool *pool, unsigned server, unsigned shard, uint64_t *from, struct kvc_namespace *out,
	      unsigned max, uint64_t *out_floor, const struct kvc_call *call);

/* kc_session_open_in -- kvc_session_open for copies into another namespace than the pool's. `space` stays the caller's
 * and valid while the session is open. With call->session, kc_copy_batch and kc_delete_at are about its keys. */
int kc_session_open_in(struct kvc_pool *pool, const char *space, struct kvc_session **out, struct kv_error *err);

#endif
