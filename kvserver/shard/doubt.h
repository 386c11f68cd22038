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
	_Atomic uint64_t still_ns; /* a thread that did not turn for longer has missed DELETEs; 0: it has not */
	pthread_mutex_t lock;      /* of the rest */
	uint64_t before_ns;        /* hide what was born before; 0: there was no doubt yet */
	bool judge;                /* or judge it, ... */
	struct doubt_said *said;   /* ... by this; NULL: all of it goes */
	bool stood;                /* a shard stood still and has hidden the values; the control loop is to know */
};

/* Any thread: shard_doubt_tell -- hide what was born before before_ns; 0: judge what is hidden by `said`, which is the
 * shards' then. shard_doubt_release -- one user less.
 * The shard's thread: shard_doubt_take -- the number has changed. shard_doubt_stood -- it has not turned since then,
 * for longer than still_ns. A PUT that it takes before that is judged may have waited all the time, and its key may
 * have been deleted elsewhere: it counts as made then. */
void shard_doubt_tell(struct doubt_told *t, uint64_t before_ns, struct doubt_said *said);
void shard_doubt_take(struct shard *s);
void shard_doubt_stood(struct shard *s, uint64_t since_ns);
void shard_doubt_release(struct doubt_told *t, struct doubt_said *said);

#endif
