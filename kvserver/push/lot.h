/* SPDX-License-Identifier: Apache-2.0 */
/* lot.h -- blocks of one shard for the thread that pushes them. */
#ifndef KVRAIL_KVSERVER_PUSH_LOT_H
#define KVRAIL_KVSERVER_PUSH_LOT_H

#include <pthread.h>

#include "kvserver/shard/shard.h"
#include "store/store.h"

enum { LOT_BLOCKS = 32 };

/* The outcome for a block. UNTRIED, FULL, UNREACHED and REFUSED blocks return in a later round. */
enum lot_fate {
	LOT_UNTRIED,
	LOT_PUSHED,   /* another server has it */
	LOT_OUTDATED, /* another server has a younger value, or knows of a DELETE: it is deleted here as well */
	LOT_TOO_BIG,  /* for its new server */
	LOT_DAMAGED,
	LOT_FULL,
	LOT_UNREACHED,
	LOT_REFUSED, /* ... for another reason, such as a DELETE at about the time of its PUT */
	LOT_FATES
};

struct lot_item {
	uint8_t key[KV_KEY_MAX];
	uint32_t key_len, ttl_s; /* ttl_s 0: it does not expire */
	struct block *block;
	uint8_t *data;
	uint64_t len, checksum;
	uint64_t born_ns; /* the time of its PUT, or earlier; not 0 */
	char space[KV_SPACE_MAX + 1];
	bool old; /* of the class RANK_OLD */
	enum lot_fate fate;
};

struct lot_deleted {
	uint8_t key[KV_KEY_MAX];
	uint32_t key_len;
	uint64_t time_ns; /* of the DELETE */
	char space[KV_SPACE_MAX + 1];
};

/* Belongs either to the shard's loop (while lot_next_wait waits) or to the thread. */
struct lot {
	struct shard *shard;
	struct lot_item item[LOT_BLOCKS];
	unsigned count;
	bool over;      /* there are no more */
	unsigned round; /* struct ranking */
	uint64_t left;  /* blocks of the shard that no other server has yet */
	uint64_t gone;  /* blocks deleted, replaced, evicted or expired before or during their push */
	struct lot_deleted deleted[LOT_BLOCKS];
	unsigned deleted_count;
	/* private */
	struct ranking ranking;
	bool ending, done, abandoned;
	pthread_mutex_t lock; /* of done, abandoned */
	pthread_cond_t changed;
};

/* lot_new -- an empty lot of this shard; NULL: no memory. */
struct lot *lot_new(struct shard *s);

/* lot_next_wait -- return the blocks of the lot, and get the next ones; count 0 and not `over`: none found yet, call
 * again. Waits for the shard's loop until this time. 0, or -KV_ETIMEOUT: the loop does not turn, and owns the lot.
 * lot_end_wait -- return the blocks; the lot's counts are final. 0: the caller frees it with lot_free; or as above. */
int lot_next_wait(struct lot *lot, uint64_t until_ns);
int lot_end_wait(struct lot *lot, uint64_t until_ns);
void lot_free(struct lot *lot);

#endif
