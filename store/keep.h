/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h -- write a store to a file, without the bytes of its values, and fill an empty one from it: the arena's memory
 * outlives the process (a file on tmpfs, or a descriptor that another process has), and this brings its meaning back.
 *
 * Times are absolute: a restored value expires when it would have. If clocks disagree on the time in between, values
 * are older, and tombstones younger, than either clock says. */
#ifndef KVRAIL_STORE_KEEP_H
#define KVRAIL_STORE_KEEP_H

#include "store/keep_file.h"

/* The clock of a restored store. keep_clock_of -- from the head of its file, and the present times. */
struct keep_clock {
	uint64_t now_ns;
	uint64_t saved_ns;                  /* of the file, on the shard's clock of then */
	uint64_t passed_max, passed_min_ns; /* nanoseconds since, by the clock that counts more, and by the other */
};
/* keep_time -- a time of the saved clock on the present one, passed_ns after it was saved; 0: before its zero.
 * keep_past -- the same, at the latest now, also if the file says otherwise: for births and deletions. keep_clock_of --
 * the clock of a file with this head, at these times. */
uint64_t keep_time(const struct keep_clock *c, uint64_t saved_ns, uint64_t passed_ns);
uint64_t keep_past(const struct keep_clock *c, uint64_t saved_ns, uint64_t passed_ns);
struct keep_clock keep_clock_of(const struct keep_head *head, uint64_t now_ns, uint64_t wall_ns);

/* Results of a restore, and its references that end later. Zero it before. */
struct keep_rest {
	uint64_t blocks, tombs; /* restored */
	uint64_t dropped;       /* expired since, or beyond the limit of values */
	struct pins pins;       /* of sessions that will pin them again */
	uint64_t pins_until_ns;
	struct block **held; /* memory that clients of the former process may still read; from malloc */
	uint32_t held_count, held_room;
};

#define KEEP_PINS_NS 60000000000ull /* for sessions to come back and pin again */

/* keep_store -- write a store without requests: live blocks, their order of eviction, ghosts, pins and tombstones. A
 * block with references is kept from reuse after the restore, also one that is GONE. Blocks in doubt are left out.
 * Errors are the writer's: keep_commit returns them. */
void keep_store(struct keep_writer *w, struct store *s, uint64_t now_ns);

/* keep_restore -- fill an empty store whose arena has the same size, and the bytes. It takes seed and generation from
 * the file. 0; or a code with *err: the store may only be ended then (keep_rest_end, store_fini). */
int keep_restore(struct keep_reader *r, const struct keep_clock *clock, struct store *s, struct keep_rest *rest,
		 struct kv_error *err);

/* keep_rest_held_end -- no client of the former process has its memory mapped any more. keep_rest_tick -- drop restored
 * pins when their time is over. keep_rest_end -- both, at the end of the store at the latest. */
void keep_rest_held_end(struct store *s, struct keep_rest *rest);
void keep_rest_tick(struct store *s, struct keep_rest *rest, uint64_t now_ns);
void keep_rest_end(struct store *s, struct keep_rest *rest);

#endif
