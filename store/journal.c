/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c -- a ring with one producer and one consumer, as in local/channel.c, of whole entries.
 *
 * Invariants: tail <= head <= tail + mask + 1. Each side stores its own index alone, with release; the other reads it
 * with acquire. The producer never waits: an entry without room is counted, and the consumer reports the hole. */
#include "store/journal.h"

#include <stdlib.h>
#include <string.h>

int journal_make(uint64_t entries, struct journal **out)
{
	struct journal *j = aligned_alloc(KV_LINES, kv_align_up(sizeof(*j), KV_LINES));
	KV_ASSERT((entries & (entries - 1)) == 0);
	if (!j)
		return -KV_ENOMEM;
	*j = (struct journal){.mask = entries - 1, .ring = calloc(entries, sizeof(struct journal_entry))};
	if (!j->ring) {
		free(j);
		return -KV_ENOMEM;
	}
	*out = j;
	return 0;
}

void journal_destroy(struct journal **j)
{
	if (*j)
		free((*j)->ring);
	free(*j);
	*j = NULL;
}

void journal_put(struct journal *j, enum journal_what what, enum journal_tier tier, const char *space, const void *key,
		 size_t len, uint64_t bytes)
{
	uint64_t head = atomic_load_explicit(&j->head, memory_order_relaxed);
	struct journal_entry *e = &j->ring[head & j->mask];
	KV_ASSERT_HOT(len <= KV_KEY_MAX);
	if (head - j->tail_seen > j->mask)
		j->tail_seen = atomic_load_explicit(&j->tail, memory_order_acquire);
	if (KV_UNLIKELY(head - j->tail_seen > j->mask)) {
		atomic_store_explicit(&j->lost, atomic_load_explicit(&j->lost, memory_order_relaxed) + 1,
				      memory_order_release);
		return;
	}
	e->bytes = bytes;
	e->what = (uint8_t)what;
	e->tier = (uint8_t)tier;
	e->key_len = (uint8_t)len;
	e->space_len = 0;
	if (len) /* CLEARED has no key */
		memcpy(e->key, key, len);
	if (*space) { /* most events are of the default one */
		e->space_len = (uint8_t)strlen(space);
		memcpy(e->key + len, space, e->space_len);
	}
	atomic_store_explicit(&j->head, head + 1, memory_order_release);
}

const struct journal_entry *journal_next(const struct journal *j)
{
	uint64_t tail = atomic_load_explicit(&j->tail, memory_order_relaxed);
	return tail == atomic_load_explicit(&j->head, memory_order_acquire) ? NULL : &j->ring[tail & j->mask];
}

void journal_took(struct journal *j)
{
	uint64_t tail = atomic_load_explicit(&j->tail, memory_order_relaxed);
	KV_ASSERT(tail != atomic_load_explicit(&j->head, memory_order_acquire));
	atomic_store_explicit(&j->tail, tail + 1, memory_order_release);
}

bool journal_lost(struct journal *j)
{
	uint64_t lost = atomic_load_explicit(&j->lost, memory_order_acquire);
	bool more = lost != j->lost_seen;
	j->lost_seen = lost;
	return more;
}
