/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.h -- what the control loop tells all shards about values in doubt (store/doubt.h). */
#ifndef KVRAIL_KVSERVER_SHARD_DOUBT_H
#define KVRAIL_KVSERVER_SHARD_DOUBT_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/store.h"

struct shard;

/* Verdicts that several shards look at. The last user frees them. */
struct doubt_said {
	unsigned users; /* under the lock of what is told */
	struct verdict *verdict;
	uint32_t count;
};

/* Shards look at `number` in each turn, and at the rest if it has changed. */
struct doubt_told {
	_Atomic uint64_t number;
	_Atomic uint64_t still_ns; /* a thread that did not turn for so long has missed DELETEs; 0: nobody else has them */
	pthread_mutex_t lock;      /* of the rest */
	uint64_t before_ns;        /* hide what was born before; 0: there was no doubt yet */
	bool judge;                /* or judge it, ... */
	struct doubt_said *said;   /* ... by this; NULL: all of it goes */
	bool stood;                /* a shard stood still, and has hidden the values: the control loop is to find out */
};

/* shard_doubt_tell -- before_ns: hide what was born before; 0: judge what is hidden by `said`, which is the shards'
 * then. Any thread.
 * shard_doubt_take -- the number has changed. The shard's thread. shard_doubt_stood -- the shard's thread has not turned
 * for longer than still_ns. shard_doubt_release -- one user less. Any thread. */
void shard_doubt_tell(struct doubt_told *t, uint64_t before_ns, struct doubt_said *said);
void shard_doubt_take(struct shard *s);
void shard_doubt_stood(struct shard *s);
void shard_doubt_release(struct doubt_told *t, struct doubt_said *said);

#endif
