/* SPDX-License-Identifier: Apache-2.0 */
/* fifo.h -- the space of one device: a ring of segments, each filled front to back and reused as a whole, oldest first.
 * Before a segment is reused, its records with hits are written again. Pure: no I/O, one thread; also of kv-bench hits.
 *
 *   FREE --> OPEN -- full --> SEALED -- the oldest, its turn --> CLEARING -- no record left --> FREE
 *
 * A simulation without I/O:
 *   a key is asked for:   n = tier_records_find(&records, &id), and if (n) tier_fifo_use(&records, n)
 *   it leaves memory:     if there is no record, and tier_admits(): tier_fifo_write(&fifo, &id, len); else tier_left()
 */
#ifndef KVRAIL_STORE_TIER_FIFO_H
#define KVRAIL_STORE_TIER_FIFO_H

#include "store/ghosts.h"
#include "store/tier/records.h"

enum tier_segment_state { TIER_SEGMENT_FREE, TIER_SEGMENT_OPEN, TIER_SEGMENT_SEALED, TIER_SEGMENT_CLEARING };

enum {
	TIER_SEGMENTS_MIN = 4,
	TIER_KEEP_SHARE = 2 /* at most half of a segment is written again when it is reused */
};

struct tier_segment {
	uint64_t sequence; /* of its use; counts up, never 0 once used */
	uint32_t first, last;
	uint32_t pages;      /* filled from its front, with the head */
	uint32_t live;       /* records */
	uint32_t readers;    /* reads in flight: it is not reused before their end */
	uint8_t state;       /* enum tier_segment_state */
	bool footless;       /* its footer was never written, and will not be */
	bool queued;         /* its head is to be written (heads.c) */
	uint32_t queue_next; /* the next such segment */
	uint64_t mark;       /* the first of its deletions whose bit is not on the device; 0: none */
	uint8_t *dead;       /* a bit per page whose record was deleted after the footer; NULL: none. malloc'd */
};

struct tier_fifo_options {
	uint32_t base;          /* number of its first segment among all devices' */
	uint32_t segments;      /* TIER_SEGMENTS_MIN at least */
	uint32_t segment_pages; /* of each */
	uint32_t head_pages;    /* at its front, not for records */
};

struct tier_fifo {
	struct tier_fifo_options opt;
	struct tier_records *records;
	struct tier_segment *segment;
	uint64_t sequence; /* of the newest segment */
	uint64_t reserved;
	uint32_t used; /* segments that are not FREE */
	uint32_t open;
	uint32_t next; /* the one to be opened next: FREE, or the oldest one, to be cleared before */
	uint32_t foot_bytes;
	uint32_t kept_pages;                  /* written again from the cleared segment */
	uint64_t placed_pages, kept, dropped; /* counters: pages given to records; records kept and dropped by reuse */
};

/* tier_fifo_init -- all segments free. 0 or -KV_ENOMEM. records outlives it. */
int tier_fifo_init(struct tier_fifo *f, const struct tier_fifo_options *options, struct tier_records *records);
void tier_fifo_fini(struct tier_fifo *f);

/* tier_pages -- pages of a record with a value of len bytes, its head included. */
static inline uint32_t tier_pages(uint64_t len)
{
	enum { HEAD = 256 };
	return (uint32_t)((len + HEAD + TIER_PAGE - 1) / TIER_PAGE);
}

static inline struct tier_segment *tier_fifo_segment(const struct tier_fifo *f, const struct tier_item *i)
{
	return &f->segment[i->segment - f->opt.base];
}

/* tier_fifo_use -- count a hit. */
static inline void tier_fifo_use(struct tier_records *records, uint32_t number)
{
	records->item[number].hit = 1;
}

/* tier_fifo_fits -- whether a record of these pages, with foot_bytes in the footer, fits into the open segment.
 * tier_fifo_seal -- the open segment takes no more. tier_fifo_free -- whether the next segment is FREE. tier_fifo_open
 * -- open it; no segment is open. Then clear the one behind it. */
bool tier_fifo_fits(const struct tier_fifo *f, uint32_t pages, uint32_t foot_bytes);
void tier_fifo_seal(struct tier_fifo *f);
bool tier_fifo_free(const struct tier_fifo *f);
void tier_fifo_open(struct tier_fifo *f);

/* tier_fifo_add -- put a new item (tier_records_add) at the end of the open segment, where it fits. Returns its page.
 * tier_fifo_found -- a record found on the device, of a segment that is neither open nor free. */
uint32_t tier_fifo_add(struct tier_fifo *f, uint32_t number, uint32_t pages, uint32_t foot_bytes);
void tier_fifo_found(struct tier_fifo *f, uint32_t segment, uint32_t number, uint32_t page);

/* tier_fifo_clear -- begin or continue to clear the next segment: frees records without hits. Returns a record to be
 * written again; then call tier_fifo_moved before the next tier_fifo_clear. 0: the segment is FREE, or waits for
 * readers (then it is still CLEARING), or *budget, the records to be examined, is 0. wall_s: for expiry. */
uint32_t tier_fifo_clear(struct tier_fifo *f, uint64_t wall_s, unsigned *budget);

/* tier_fifo_moved -- the record that tier_fifo_clear returned is forgotten. To keep its value, the caller dropped it
 * before (tier_fifo_drop) and added a new record. */
void tier_fifo_moved(struct tier_fifo *f, uint32_t number);

/* tier_fifo_drop -- a record is deleted, expired or replaced. */
void tier_fifo_drop(struct tier_fifo *f, uint32_t number);

/* tier_fifo_write -- for simulations: write the value of a key without a record, after all that has to come before.
 * Returns the number of records written, with those written again; 0: the index is full, or the value too large. */
uint32_t tier_fifo_write(struct tier_fifo *f, const struct tier_id *id, uint32_t len);

/* Which values are written. EVICTION: those about to leave memory. PUT: all, as soon as possible. SECOND: those about
 * to leave memory that left it before: a quarter of the writes, for a device that wears out. */
#define TIER_ADMISSIONS(ROW) ROW(eviction) ROW(put) ROW(second)
enum tier_admit { TIER_ADMIT_EVICTION, TIER_ADMIT_PUT, TIER_ADMIT_SECOND };
extern const char *const tier_admit_names[]; /* up to NULL */

struct tier_admission {
	enum tier_admit how;
	uint64_t keep;      /* SECOND: values remembered */
	struct ghosts left; /* SECOND: values that left memory */
};

/* tier_admission_init -- count_max: values of the tier (SECOND remembers as many). 0 or -KV_ENOMEM. */
int tier_admission_init(struct tier_admission *a, enum tier_admit how, uint64_t count_max);
void tier_admission_fini(struct tier_admission *a);

/* tier_admits -- whether a value that leaves memory, or will soon, and is not on the tier, is to be written; asking
 * changes nothing. tier_written -- it is written. tier_left -- it left memory, and had been refused. */
bool tier_admits(const struct tier_admission *a, uint64_t hash);
void tier_written(struct tier_admission *a, uint64_t hash);
void tier_left(struct tier_admission *a, uint64_t hash);

#endif
