/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h -- the part of a server's kept memory that is one shard's: its values, and behind them a mark that says whose
 * they are. The shard's loop does not run, or the functions run on it. */
#ifndef KVRAIL_KVSERVER_SHARD_KEPT_H
#define KVRAIL_KVSERVER_SHARD_KEPT_H

#include "store/store.h"

struct shard;

struct kept_options {
	int fd; /* of memory from before, or of a file; stays the caller's. -1: the shard makes a memfd */
	uint64_t generation;
	uint64_t places; /* of the table of records behind the mark; 0: none */
	uint64_t former; /* limit of the arena that the file describes, this shard's or a smaller one; 0: no file */
};

/* Behind the values. clean: a server has ended in order, and its index has this stamp. Whoever serves clears it. */
struct kept_mark {
	uint64_t magic, limit_bytes, generation, clean;
	uint8_t stamp[KEEP_STAMP];
	uint32_t shard, shards;
	uint64_t digest_seed, places, record_seed; /* for a recovery */
	uint64_t now_ns, wall_ns;                  /* while a server serves: now and then; not while a doubt waits */
};

/* kept_mark_fits -- whether a server of this geometry had the memory. */
bool kept_mark_fits(const struct kept_mark *m, uint64_t limit_bytes, unsigned shard, unsigned shards);

struct shard_kept {
	struct keep_rest rest; /* of shard_kept_restore */
	struct recover recover;
	bool recovering;
	_Atomic bool begun; /* shard_kept_begin is over, and the mark's times are the shard's thread's */
};

/* kept_bytes -- of the memory for an arena of limit bytes, its mark and a table of so many places. kept_mark_of -- the
 * mark in memory mapped at base, for such an arena. */
uint64_t kept_bytes(uint64_t limit_bytes, uint64_t places);
struct kept_mark *kept_mark_of(void *base, uint64_t limit_bytes);

/* shard_kept_map -- map the memory: shard->area. 0, or a code with *err. */
int shard_kept_map(struct shard *s, struct kv_error *err);

/* shard_kept_records -- with kept_options.places: the table of the store, empty. shard_kept_recover -- find the values
 * of a server that died by its table; the loop then verifies them (shard_kept_turn, which returns the amount of its
 * work). 0; -KV_ENOMEM: the store is empty. */
void shard_kept_records(struct shard *s);
int shard_kept_recover(struct shard *s);
int shard_kept_turn(struct shard *s);

/* shard_kept_silent_ns -- how long ago the last server that had the memory wrote to its mark. */
uint64_t shard_kept_silent_ns(const struct shard *s);

/* shard_kept_restore -- fill the empty store from the file, if the memory's mark has its stamp. 0; or a code with *err:
 * the store is empty. Thread: any, one for each shard. */
int shard_kept_restore(struct shard *s, struct keep_in *file, const struct keep_head *head, uint64_t wall_ns,
		       struct kv_error *err);

/* shard_kept_begin -- from now on this server changes the values: no index describes them any more. doubted: they are
 * in doubt since before, so the mark keeps its time. */
void shard_kept_begin(struct shard *s, bool doubted);

/* shard_kept_save -- after shard_close: write the store; any thread, one for each shard. shard_kept_mark -- the file is
 * complete. */
void shard_kept_save(struct shard *s, struct keep_writer *w);
void shard_kept_mark(struct shard *s, const uint8_t stamp[KEEP_STAMP]);

/* shard_kept_stats -- its counters and gauges, by enum wire_stat. */
void shard_kept_stats(const struct shard *s, uint64_t *out);

/* shard_kept_tick -- now and then: end what a restored store keeps for others. shard_kept_end -- before store_fini. */
void shard_kept_tick(struct shard *s, uint64_t now_ns);
void shard_kept_end(struct shard *s);

#endif
