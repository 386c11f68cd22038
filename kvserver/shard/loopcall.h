/* SPDX-License-Identifier: Apache-2.0 */
/* loopcall.h -- calls from one loop to another, with an answer: from the control loop to the shards. */
#ifndef KVRAIL_KVSERVER_SHARD_LOOPCALL_H
#define KVRAIL_KVSERVER_SHARD_LOOPCALL_H

#include "base/base.h"
#include "loop/loop.h"

struct shard;

/* Owner: the caller's memory; the shard's from call_make until `done` ran. */
struct call {
	/* filled by the caller */
	struct shard *shard;
	void (*run)(struct call *c);  /* on the shard's loop; calls call_finish, now or later */
	void (*done)(struct call *c); /* on the calling loop */
	/* result */
	int status;
	/* private */
	struct loop *home;
	struct kv_list node; /* of calls waiting for the home loop's queue */
};

/* call_make -- post the call to its shard's loop. Thread: the home loop's. Returns 0 or -KV_EBUSY (the queue is full;
 * not done, retry later). */
int call_make(struct call *c, struct loop *home);

/* call_finish -- the work is done with this status; `done` will run on the home loop. Thread: the shard's. Never fails:
 * call_redeliver retries the calls that the home loop's queue refuses. */
void call_finish(struct call *c, int status);
void call_redeliver(struct shard *s);

#endif
