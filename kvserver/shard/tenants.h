/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.h -- the table of tenants at a shard: it takes the newest one by itself. */
#ifndef KVRAIL_KVSERVER_SHARD_TENANTS_H
#define KVRAIL_KVSERVER_SHARD_TENANTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvserver/tenant/tenants.h"

struct session;
struct shard;
struct wire_request;

/* For all shards. The control loop writes it. */
struct tenant_orders {
	pthread_mutex_t lock;
	struct tenants *table;   /* NULL: none */
	_Atomic uint64_t number; /* of the table; 0: none */
};

/* tenants_order -- all shards take this table soon. Thread: the control loop, or before the shards run. */
void tenants_order(struct tenant_orders *o, struct tenants *table);

/* shard_tenants_take -- take the newest table. At each tick, and before a session opens. shard_tenants_end -- the shard
 * has no sessions and no store any more. */
void shard_tenants_take(struct shard *s);
void shard_tenants_end(struct shard *s);

/* tenant_admits -- whether the limits of a session's tenant allow a request now. tenant_reads -- count bytes that its
 * session reads. */
bool tenant_admits(struct session *o, const struct wire_request *q, uint64_t now_ns);
void tenant_reads(struct session *o, uint64_t bytes, uint64_t now_ns);

#endif
