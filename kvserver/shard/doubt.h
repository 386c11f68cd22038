/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- messages from the control loop to all shards about values in doubt (store/doubt.h). */
#ifndef KVRAIL_KVSERVER_SHARD_DOUBT_H
#define KVRAIL_KVSERVER_SHARD_DOUBT_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvserver/kvserver.h"
#include "store/store.h"

struct shard;

struct doubt_verdicts {
	unsigned users;          /* under doubt_orders.lock */
	struct verdict *verdict; /* NULL: not all have answered */
	uint32_t count;
	struct kvs_space *space;
	uint32_t spaces;
	uint64_t floor; /* no namespace that they forgot had a higher generation */
};

/* Shards read `number` in each turn, and the rest if it has changed. */
struct doubt_orders {
	_Atomic uint64_t number;
	_Atomic uint64_t still_ns;       /* a thread without a turn for longer may have missed DELETEs; 0: no check */
	pthread_mutex_t lock;            /* of the rest */
	uint64_t before_ns;              /* hide values born before; 0: there was no doubt yet */
	bool copies;                     /* hide only copies of other servers' values */
	bool judge;                      /* or judge them ... */
	struct doubt_verdicts *verdicts; /* ... by this; NULL, or without verdicts: all are dropped */
	bool stood; /* a shard stood still and has hidden the values; the control loop has to learn of it */
	/* Members that have left (conn/gone.h): when the last one did that may come back, and that will not; 0: none.
	 */
	_Atomic uint64_t away_ns, lost_ns;
	_Atomic uint64_t names_number; /* changes with ... */
	uint64_t name[TIER_MEMBERS_MAX];
	uint32_t names;
};

/* Any thread: shard_doubt_hide -- hide values born before now, or only copies. shard_doubt_judge -- judge the hidden
 * ones by `verdicts`, which the shards then own. shard_doubt_release -- drop one user. The shard's thread:
 * shard_doubt_take -- the number has changed. shard_doubt_stood -- its last turn was at since_ns, longer ago than
 * still_ns. Until that is judged, a PUT counts as made then: it may have waited all the time, and its key may have been
 * deleted elsewhere. */
void shard_doubt_hide(struct doubt_orders *t, uint64_t now_ns, bool copies);
void shard_doubt_judge(struct doubt_orders *t, struct doubt_verdicts *verdicts);
void shard_doubt_take(struct shard *s);
void shard_doubt_stood(struct shard *s, uint64_t since_ns);
void shard_doubt_release(struct doubt_orders *t, struct doubt_verdicts *verdicts);

#endif
