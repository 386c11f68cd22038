/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c -- two-level segregated fit (TLSF, Masmano et al. 2004) over 64-byte granules. Descriptors lie outside the
 * memory, which may be exposed to remote reads.
 *
 * Size classes: one per size below 32 granules, 32 per power of two above. A hole of a higher class fits any request; a
 * few of its own class are tried first, so that equal sizes reuse holes. Short-lived and long-lived values use opposite
 * ends of holes, so that expiry leaves large ones.
 *
 * Invariants: blocks, linked by address, tile [0, limit). Two holes never touch. A hole is in its class's list, whose
 * bit is set if and only if it is not empty. */
#include "store/arena.h"

enum { OWN_CLASS_TRIES = 16, LINEAR = 1 << ARENA_SPLIT_BITS };

struct size_class {
	unsigned level, index;
};

static struct size_class class_of(uint64_t size)
{
	uint64_t granules = size / ARENA_GRANULE;
	unsigned top;
	if (granules < LINEAR)
		return (struct size_class){0, (unsigned)granules};
	top = 63u - (unsigned)__builtin_clzll(granules);
	return (struct size_class){top - ARENA_SPLIT_BITS + 1,
				   (unsigned)(granules >> (top - ARENA_SPLIT_BITS)) - LINEAR};
}

static void hole_link(struct arena *a, struct arena_block *b)
{
	struct size_class c = class_of(b->size);
	b->owner = NULL;
	kv_list_add_head(&a->holes[c.level][c.index], &b->node);
	a->class_map[c.level] |= 1u << c.index;
	a->level_map |= 1ull << c.level;
}

static void hole_unlink(struct arena *a, struct arena_block *b)
{
	struct size_class c = class_of(b->size);
	kv_list_del(&b->node);
	if (!kv_list_empty(&a->holes[c.level][c.index]))
		return;
	a->class_map[c.level] &= ~(1u << c.index);
	if (!a->class_map[c.level])
		a->level_map &= ~(1ull << c.level);
}

int arena_init(struct arena *a, uint64_t limit, uint32_t blocks_max)
{
	*a = (struct arena){.limit = kv_align_down(limit, ARENA_GRANULE)};
	if (a->limit == 0 || class_of(a->limit).level >= ARENA_LEVELS)
		return -KV_EINVAL;
	kv_list_init(&a->walks);
	for (unsigned i = 0; i < ARENA_LEVELS; i++)
		for (unsigned j = 0; j < LINEAR; j++)
			kv_list_init(&a->holes[i][j]);
	/* There are at most n + 1 holes between n blocks in use. */
	slab_init(&a->blocks, sizeof(struct arena_block),
		  blocks_max > UINT32_MAX / 2 - 1 ? UINT32_MAX : 2 * blocks_max + 1);
	a->first = slab_get(&a->blocks);
	if (!a->first)
		return -KV_ENOMEM;
	*a->first = (struct arena_block){.size = a->limit};
	hole_link(a, a->first);
	return 0;
}

void arena_fini(struct arena *a)
{
	slab_fini(&a->blocks);
	*a = (struct arena){0};
}

static struct arena_block *find_above(struct arena *a, struct size_class c)
{
	uint32_t classes = c.index == LINEAR - 1 ? 0 : a->class_map[c.level] & (~0u << (c.index + 1));
	unsigned level = c.level;
	if (!classes) {
		uint64_t levels = a->level_map & (~0ull << (level + 1));
		if (!levels)
			return NULL;
		level = (unsigned)__builtin_ctzll(levels);
		classes = a->class_map[level];
	}
	return KV_LIST_ENTRY(a->holes[level][__builtin_ctz(classes)].next, struct arena_block, node);
}

static struct arena_block *find_hole(struct arena *a, uint64_t size)
{
	struct size_class c = class_of(size);
	unsigned tries = 0;
	KV_LIST_EACH (n, &a->holes[c.level][c.index]) {
		struct arena_block *b = KV_LIST_ENTRY(n, struct arena_block, node);
		if (b->size >= size)
			return b;
		if (++tries == OWN_CLASS_TRIES)
			break;
	}
	return find_above(a, c);
}

/* The block is in no list. Returns the second part, or NULL. */
static struct arena_block *split(struct arena *a, struct arena_block *b, uint64_t size)
{
	struct arena_block *tail = slab_get(&a->blocks);
	if (!tail)
		return NULL;
	*tail = (struct arena_block){.offset = b->offset + size, .size = b->size - size, .prev = b, .next = b->next};
	if (tail->next)
		tail->next->prev = tail;
	b->next = tail;
	b->size = size;
	return tail;
}

struct arena_block *arena_take(struct arena *a, struct arena_block *hole, uint64_t size, void *owner,
			       enum arena_end end)
{
	uint64_t rest;
	size = arena_round(size);
	rest = hole->size - size;
	hole_unlink(a, hole);
	if (rest) {
		struct arena_block *tail = split(a, hole, end == ARENA_LOW ? size : rest);
		hole_link(a, tail && end == ARENA_LOW ? tail : hole);
		if (!tail)
			return NULL;
		hole = end == ARENA_LOW ? hole : tail;
	}
	hole->owner = owner;
	hole->leases = 0;
	hole->walked = 0;
	a->used += size;
	return hole;
}

struct arena_block *arena_alloc(struct arena *a, uint64_t size, void *owner, enum arena_end end)
{
	struct arena_block *hole;
	if (size == 0 || size > a->limit)
		return NULL;
	hole = find_hole(a, arena_round(size));
	return hole ? arena_take(a, hole, size, owner, end) : NULL;
}

struct arena_block *arena_place(struct arena *a, struct arena_block *hole, uint64_t offset, uint64_t size, void *owner)
{
	KV_ASSERT(!hole->owner && offset >= hole->offset && offset + arena_round(size) <= hole->offset + hole->size);
	if (offset > hole->offset) {
		struct arena_block *tail;
		hole_unlink(a, hole);
		tail = split(a, hole, offset - hole->offset);
		hole_link(a, hole);
		if (!tail)
			return NULL;
		hole_link(a, tail);
		hole = tail;
	}
	return arena_take(a, hole, size, owner, ARENA_LOW);
}

/* Append `right`, a neighbour in no list, to `left`. */
static void absorb(struct arena *a, struct arena_block *left, struct arena_block *right)
{
	KV_LIST_EACH (n, &a->walks) {
		struct arena_walk *w = KV_LIST_ENTRY(n, struct arena_walk, node);
		w->from = w->from == right ? left : w->from;
		w->at = w->at == right ? left : w->at;
	}
	left->size += right->size;
	left->next = right->next;
	if (left->next)
		left->next->prev = left;
	slab_put(&a->blocks, right);
}

struct arena_block *arena_free(struct arena *a, struct arena_block *b)
{
	struct arena_block *prev = b->prev, *next = b->next;
	a->used -= b->size;
	if (next && !next->owner) {
		hole_unlink(a, next);
		absorb(a, b, next);
	}
	if (prev && !prev->owner) {
		hole_unlink(a, prev);
		absorb(a, prev, b);
		b = prev;
	}
	hole_link(a, b);
	return b;
}

void arena_join(struct arena *a, struct arena_block *b)
{
	absorb(a, b, b->next);
}

void arena_walk_begin(struct arena *a, struct arena_walk *w, struct arena_block *from)
{
	kv_list_add_tail(&a->walks, &w->node);
	w->from = w->at = from;
}

void arena_walk_end(struct arena_walk *w)
{
	if (w->node.next)
		kv_list_del(&w->node);
	*w = (struct arena_walk){0};
}
