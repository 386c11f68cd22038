/* SPDX-License-Identifier: Apache-2.0 */
/* lot.h -- blocks of one shard in the hands of the thread that pushes them. */
#ifndef KVRAIL_KVSERVER_PUSH_LOT_H
#define KVRAIL_KVSERVER_PUSH_LOT_H

#include <pthread.h>

#include "kvserver/shard/shard.h"
#include "store/store.h"

enum { LOT_BLOCKS = 32 };

struct lot_item {
	uint8_t key[KV_KEY_MAX];
	uint32_t key_len, ttl_s; /* ttl_s 0: it does not expire */
	struct block *block;     /* referred to, so its bytes stay */
	uint8_t *data;
	uint64_t len, checksum;
	uint64_t born_ns; /* when it was put, or earlier; not 0 */
	bool pushed;      /* the thread has put it */
	bool outdated;    /* another server has a younger value, or knows of a DELETE: it is to go here, too */
};

/* One at a time belongs to the shard's loop (while lot_next_wait waits) or to the thread. */
struct lot {
	struct shard *shard;
	struct lot_item item[LOT_BLOCKS];
	unsigned count;
	bool over; /* there are no more */
	/* private */
	struct hot hot;
	bool ending, done, left;
	pthread_mutex_t lock; /* of done, left */
	pthread_cond_t changed;
};

/* lot_new -- for this shard, empty; NULL: no memory. */
struct lot *lot_new(struct shard *s);

/* lot_next_wait -- give back what the lot has, and fill it with the next blocks; count 0 and not `over`: none was found
 * yet, call again. lot_end_wait -- give back, and free it. Both wait for the shard's loop, until this time. 0, or
 * -KV_ETIMEOUT: the loop does not turn, and the lot is left to it. */
int lot_next_wait(struct lot *lot, uint64_t until_ns);
int lot_end_wait(struct lot **lot, uint64_t until_ns);

#endif
