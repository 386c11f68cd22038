/* SPDX-License-Identifier: Apache-2.0 */
/* journal.h -- the events of a store (a block stored or removed, a namespace cleared) for another thread: a ring of
 * entries with one producer, the store's thread, and one consumer. */
#ifndef KVRAIL_STORE_JOURNAL_H
#define KVRAIL_STORE_JOURNAL_H

#include <stdatomic.h>

#include "base/base.h"

/* STORED, REMOVED: of one key. CLEARED: all earlier keys of the namespace (without a name: of all) are gone, or will be
 * removed. LOST: entries are missing here. */
enum journal_what { JOURNAL_STORED = 1, JOURNAL_REMOVED, JOURNAL_CLEARED, JOURNAL_LOST };

enum journal_tier { JOURNAL_MEMORY, JOURNAL_DISK };

enum { JOURNAL_ENTRIES = 1 << 15 }; /* of a ring, 6.5 MiB */

struct journal_entry {
	uint64_t bytes; /* of the value. CLEARED: the namespace's generation */
	uint8_t what;   /* enum journal_what */
	uint8_t tier;   /* enum journal_tier */
	uint8_t key_len, space_len;
	uint8_t key[KV_KEY_MAX + KV_SPACE_MAX]; /* then the name of its namespace */
};

static inline const uint8_t *journal_space(const struct journal_entry *e)
{
	return e->key + e->key_len;
}

struct journal {
	_Alignas(KV_LINES) _Atomic uint64_t head; /* entries ever put; the producer's */
	uint64_t tail_seen;                       /* the producer's copy of `tail` */
	_Atomic uint64_t lost;                    /* entries that found no room; the producer's */
	uint64_t mask;
	struct journal_entry *ring;
	_Alignas(KV_LINES) _Atomic uint64_t tail; /* entries ever taken; the consumer's */
	uint64_t lost_seen;
};

/* journal_make -- a ring of so many entries, a power of two. 0 or -KV_ENOMEM. journal_destroy -- accepts NULL. */
int journal_make(uint64_t entries, struct journal **out);
void journal_destroy(struct journal **j);

/* journal_put -- append an event. A full ring counts the entry as lost. Thread: the producer. Does not allocate, lock
 * or call the system. */
void journal_put(struct journal *j, enum journal_what what, enum journal_tier tier, const char *space, const void *key,
		 size_t len, uint64_t bytes);

/* journal_crowded -- whether the ring is more than half full: work that may wait should. Thread: the producer. */
static inline bool journal_crowded(const struct journal *j)
{
	return atomic_load_explicit(&j->head, memory_order_relaxed) -
		       atomic_load_explicit(&j->tail, memory_order_acquire) >
	       j->mask / 2;
}

/* journal_next -- the oldest entry, or NULL. journal_took -- it was read: the producer may reuse its place. Thread: the
 * consumer. */
const struct journal_entry *journal_next(const struct journal *j);
void journal_took(struct journal *j);

/* journal_lost -- whether entries were lost since the last call. Thread: the consumer. */
bool journal_lost(struct journal *j);

#endif
