/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- one store with memory of its own, values that are filled with a byte, and what must hold of a store at any
 * time. */
#ifndef KVRAIL_TESTS_STORE_RIG_H
#define KVRAIL_TESTS_STORE_RIG_H

#include "tests/check.h"

#include "store/store.h"

enum { SMALL = 64, MANY = 4096 };

#define SECOND 1000000000ull

extern struct store store; /* what every function here is about */

/* Open it. open_store_with: memory, generation and time are filled in, and the policy if there is none; open_small:
 * room for MANY values of SMALL bytes; fill_with_small: the same with those values in it, in the order of their
 * addresses. */
void open_store_with(struct store_options o);
void open_store(uint64_t limit, uint64_t seed);
void open_small(uint64_t blocks_max);
void fill_with_small(uint64_t blocks_max);
void close_store(void);

/* The session of this set ends, and its pins are dropped. */
void pins_clear(struct store *s, struct pins *p);

/* store_stage to the end, whatever it takes; no reader may be in the way. */
int stage_at(const void *key, size_t key_len, uint64_t len, enum arena_end end, struct block **out);
int stage(const void *key, size_t key_len, uint64_t len, struct block **out);

/* A value of `len` bytes `fill`; NULL: there is no room, or the key has one. */
struct block *put(const char *key, uint64_t len, uint8_t fill, uint64_t now);
struct block *get(const char *key, uint64_t now);
struct block *put_nth(unsigned i, uint64_t len); /* a value of `len` bytes i, under the i-th key */
struct block *small(unsigned i);                 /* that of the i-th key, as of fill_with_small */

void check_bytes(const struct block *b, uint64_t len, uint8_t fill);

/* Blocks tile the arena, holes do not touch, and what the store and the policy count is what is there. */
void check_store(void);

#endif
