/* SPDX-License-Identifier: Apache-2.0 */
/* lot.h -- blocks of one shard in the hands of the thread that pushes them. */
#ifndef KVRAIL_KVSERVER_PUSH_LOT_H
#define KVRAIL_KVSERVER_PUSH_LOT_H

#include <pthread.h>

#include "kvserver/shard/shard.h"
#include "store/store.h"

enum { LOT_BLOCKS = 32 };

/* What came of a block. Blocks of the last four fates are told of again, in a later round. */
enum lot_fate {
	LOT_UNTRIED,
	LOT_PUSHED,   /* another server has it */
	LOT_OUTDATED, /* another server has a younger value, or knows of a DELETE: it is deleted here, too */
	LOT_TOO_BIG,  /* for the server that is to have it */
	LOT_DAMAGED,  /* its bytes do not have their checksum */
	LOT_FULL,     /* that server has no room for it */
	LOT_UNREACHED,
	LOT_REFUSED, /* ... for another reason, such as a DELETE at about the time at which the value was put */
	LOT_FATES
};

struct lot_item {
	uint8_t key[KV_KEY_MAX];
	uint32_t key_len, ttl_s; /* ttl_s 0: it does not expire */
	struct block *block;     /* referred to, so its bytes stay */
	uint8_t *data;
	uint64_t len, checksum;
	uint64_t born_ns; /* when it was put, or earlier; not 0 */
	bool old;         /* of the class HOT_OLD */
	enum lot_fate fate;
};

/* A key whose DELETE came here while its value was under way to another server. */
struct lot_deleted {
	uint8_t key[KV_KEY_MAX];
	uint32_t key_len;
	uint64_t time_ns; /* of the DELETE */
};

/* One at a time belongs to the shard's loop (while lot_next_wait waits) or to the thread. */
struct lot {
	struct shard *shard;
	struct lot_item item[LOT_BLOCKS];
	unsigned count;
	bool over;      /* there are no more */
	unsigned round; /* struct hot */
	uint64_t left;  /* blocks of the shard that no other server has yet */
	uint64_t
		gone; /* blocks that were deleted, replaced, evicted or over before they were put, or while they were */
	struct lot_deleted deleted[LOT_BLOCKS]; /* of the blocks that the lot had before */
	unsigned deleted_count;
	/* private */
	struct hot hot;
	bool ending, done, abandoned;
	pthread_mutex_t lock; /* of done, abandoned */
	pthread_cond_t changed;
};

/* lot_new -- for this shard, empty; NULL: no memory. */
struct lot *lot_new(struct shard *s);

/* lot_next_wait -- give back what the lot has, and fill it with the next blocks; count 0 and not `over`: none was found
 * yet, call again. Both wait for the shard's loop, until this time. 0, or -KV_ETIMEOUT: the loop does not turn, and the
 * lot is left to it.
 * lot_end_wait -- give back; what the lot says of its shard is final. 0: the caller frees it with lot_free, or as
 * above.
 */
int lot_next_wait(struct lot *lot, uint64_t until_ns);
int lot_end_wait(struct lot *lot, uint64_t until_ns);
void lot_free(struct lot *lot);

#endif
