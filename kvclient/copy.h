/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h -- values that a server copies to others. For kv-server and tests; the library does not export it. */
#ifndef KVRAIL_KVCLIENT_COPY_H
#define KVRAIL_KVCLIENT_COPY_H

#include "kvclient/kvclient.h"
#include "wire/wire.h"

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

struct kc_tombs {
	uint64_t next;    /* 0: no more follow */
	int64_t since_ns; /* the shard has every deletion later than this CLOCK_MONOTONIC time, maybe a negative one */
	bool later;       /* it may have more later, since members are away */
	unsigned count;
	struct kc_tomb tomb[WIRE_TOMBS_MAX];
};

/* Namespaces, tenants or holders of leases of a shard. */
struct kc_rows {
	uint64_t next;  /* 0: no more follow */
	uint64_t floor; /* no namespace that the shard has forgotten had a higher generation */
	unsigned count;
	struct wire_row row[WIRE_SPACES_MAX]; /* pages of the others have no more */
};

/* kc_tombs -- such records of shard call->shard - 1 of call->server, from number `from` on (0: from the first one).
 * kc_spaces -- its namespaces, likewise. Block. 0 or a code; -KV_EINVAL: no such shard. */
int kc_tombs(struct kvc_pool *pool, uint64_t from, struct kc_tombs *out, const struct kvc_call *call);
int kc_spaces(struct kvc_pool *pool, uint64_t from, struct kc_rows *out, const struct kvc_call *call);

/* kc_session_open_in -- kvc_session_open for copies into another namespace than the pool's. `space` stays the caller's
 * and valid while the session is open. With call->session, kc_copy_batch and kc_delete_at are about its keys. */
int kc_session_open_in(struct kvc_pool *pool, const char *space, struct kvc_session **out, struct kv_error *err);

#endif
