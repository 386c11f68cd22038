/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c -- a buddy allocator over a client's receive buffer, with a quarantine. Units of 4 KiB; a block is 2^order
 * units at a multiple of its size, so flipping one bit finds its buddy. No two buddies are both free. Bookkeeping is
 * outside the buffer, because peers write into that. Invariants: a unit that begins a block carries the block's order
 * and kind, all others INSIDE. A free block is in the list of its order, others in that of the quarantine or limbo. The
 * last piece given back is kept whole for the next request of its size, so that a lone caller need not split and merge
 * 64 MiB. It counts as free but merges only at the next give, or when room is short. */
#include "kvclient/core/buffer.h"

#include <stdlib.h>

enum {
	INSIDE = 0xFF,
	KIND_FREE = 0x40,
	KIND_TAKEN = 0x80,
	KIND_QUARANTINED = 0xC0,
	KIND_MASK = 0xC0,
	ORDER_MASK = 0x3F
};

#define NO_UNIT UINT32_MAX

static void list_push(struct kc_buffer *b, uint32_t *head, uint32_t unit)
{
	b->prev[unit] = NO_UNIT;
	b->next[unit] = *head;
	if (*head != NO_UNIT)
		b->prev[*head] = unit;
	*head = unit;
}

static void list_remove(struct kc_buffer *b, uint32_t *head, uint32_t unit)
{
	if (b->prev[unit] == NO_UNIT)
		*head = b->next[unit];
	else
		b->next[b->prev[unit]] = b->next[unit];
	if (b->next[unit] != NO_UNIT)
		b->prev[b->next[unit]] = b->prev[unit];
}

static void block_free(struct kc_buffer *b, uint32_t unit, unsigned order)
{
	b->state[unit] = (uint8_t)(KIND_FREE | order);
	list_push(b, &b->head[order], unit);
}

/* Largest first, so that each begins at a multiple of its size. */
static void blocks_init(struct kc_buffer *b)
{
	uint32_t at = 0;
	for (int order = 31; order >= 0; order--) {
		if (!(b->units >> order & 1))
			continue;
		block_free(b, at, (unsigned)order);
		at += (uint32_t)1 << order;
	}
}

int kc_buffer_init(struct kc_buffer *b, void *base, uint64_t len_bytes)
{
	uint64_t units = len_bytes >> KC_PIECE_SHIFT;
	memset(b, 0, sizeof(*b));
	if (units == 0 || units >= NO_UNIT)
		return -KV_EINVAL;
	b->state = malloc(units);
	b->next = malloc(units * sizeof(*b->next));
	b->prev = malloc(units * sizeof(*b->prev));
	if (!b->state || !b->next || !b->prev) {
		kc_buffer_fini(b);
		return -KV_ENOMEM;
	}
	b->base = base;
	b->units = (uint32_t)units;
	b->len_bytes = b->free_bytes = units << KC_PIECE_SHIFT;
	b->quarantine = b->limbo = b->kept = NO_UNIT;
	memset(b->state, INSIDE, units);
	for (unsigned i = 0; i < KC_ORDERS; i++)
		b->head[i] = NO_UNIT;
	blocks_init(b);
	return 0;
}

void kc_buffer_fini(struct kc_buffer *b)
{
	free(b->state);
	free(b->next);
	free(b->prev);
	memset(b, 0, sizeof(*b));
}

static unsigned order_for(uint64_t len_bytes)
{
	uint64_t units = (len_bytes + KC_PIECE_MIN - 1) >> KC_PIECE_SHIFT;
	return units <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(units - 1);
}

static uint64_t order_bytes(unsigned order)
{
	return (uint64_t)KC_PIECE_MIN << order;
}

uint64_t kc_buffer_rounded(uint64_t len_bytes)
{
	return order_bytes(order_for(len_bytes));
}

uint64_t kc_buffer_largest(const struct kc_buffer *b)
{
	return b->units ? order_bytes(31 - (unsigned)__builtin_clz(b->units)) : 0;
}

/* A buddy beyond the end is no block. */
static void unit_merge(struct kc_buffer *b, uint32_t unit)
{
	unsigned order = b->state[unit] & ORDER_MASK;
	b->state[unit] = INSIDE;
	for (; order < 31; order++) {
		uint32_t buddy = unit ^ ((uint32_t)1 << order);
		if (buddy >= b->units || b->state[buddy] != (KIND_FREE | order))
			break;
		list_remove(b, &b->head[order], buddy);
		b->state[buddy] = INSIDE;
		unit = KV_MIN(unit, buddy);
	}
	block_free(b, unit, order);
}

/* Free the kept piece. */
static void kept_merge(struct kc_buffer *b)
{
	uint32_t unit = b->kept;
	b->kept = NO_UNIT;
	if (unit != NO_UNIT)
		unit_merge(b, unit);
}

/* Take the block of order `want` at `unit` out of the free block of `order` at `from`. The rest stays free. */
static void carve(struct kc_buffer *b, uint32_t from, unsigned order, uint32_t unit, unsigned want,
		  struct kc_piece *out)
{
	list_remove(b, &b->head[order], from);
	b->state[from] = INSIDE;
	while (order > want) {
		uint32_t half = (uint32_t)1 << --order;
		bool upper = unit >= from + half;
		block_free(b, upper ? from : from + half, order);
		from += upper ? half : 0;
	}
	b->state[unit] = (uint8_t)(KIND_TAKEN | want);
	out->offset = (uint64_t)unit << KC_PIECE_SHIFT;
	out->len_bytes = order_bytes(want);
	b->free_bytes -= out->len_bytes;
}

static uint32_t smallest_free(const struct kc_buffer *b, unsigned *inout_order)
{
	while (*inout_order < 32 && b->head[*inout_order] == NO_UNIT)
		++*inout_order;
	return *inout_order < 32 ? b->head[*inout_order] : NO_UNIT;
}

int kc_buffer_take(struct kc_buffer *b, uint64_t len_bytes, struct kc_piece *out)
{
	unsigned want = order_for(len_bytes), order = want;
	uint32_t unit;
	if (len_bytes > kc_buffer_largest(b))
		return -KV_ETOOBIG;
	if (b->kept != NO_UNIT && (b->state[b->kept] & ORDER_MASK) == want) {
		*out = (struct kc_piece){(uint64_t)b->kept << KC_PIECE_SHIFT, order_bytes(want)};
		b->free_bytes -= out->len_bytes;
		b->kept = NO_UNIT;
		return 0;
	}
	unit = smallest_free(b, &order);
	if (unit == NO_UNIT && b->kept != NO_UNIT) {
		kept_merge(b);
		order = want;
		unit = smallest_free(b, &order);
	}
	if (unit == NO_UNIT)
		return -KV_EBUSY;
	carve(b, unit, order, unit, want, out);
	return 0;
}

/* Take the piece at this place. False: it is not free, or no piece of this size begins there. */
static bool take_at(struct kc_buffer *b, unsigned want, uint64_t offset, struct kc_piece *out)
{
	uint64_t at = offset >> KC_PIECE_SHIFT;
	if (at >= b->units || at & (((uint64_t)1 << want) - 1))
		return false;
	/* The free block that contains it begins at a multiple of its size. */
	for (unsigned order = want; order < 32; order++) {
		uint32_t from = (uint32_t)(at & ~(((uint64_t)1 << order) - 1));
		unsigned has = b->state[from] & ORDER_MASK;
		if (b->state[from] == INSIDE)
			continue;
		if ((b->state[from] & KIND_MASK) != KIND_FREE || at - from + ((uint64_t)1 << want) > (uint64_t)1 << has)
			return false;
		carve(b, from, has, (uint32_t)at, want, out);
		return true;
	}
	return false;
}

int kc_buffer_take_near(struct kc_buffer *b, uint64_t len_bytes, uint64_t run_bytes, uint64_t *inout_next,
			struct kc_piece *out)
{
	unsigned want = order_for(len_bytes), order = KV_MAX(want, order_for(run_bytes));
	uint32_t unit;
	int rc = 0;
	if (len_bytes > kc_buffer_largest(b))
		return -KV_ETOOBIG;
	kept_merge(b);
	if (!take_at(b, want, *inout_next, out)) {
		unit = smallest_free(b, &order);
		if (unit == NO_UNIT)
			rc = kc_buffer_take(b, len_bytes, out);
		else
			carve(b, unit, order, unit, want, out);
	}
	if (rc == 0)
		*inout_next = out->offset + out->len_bytes;
	return rc;
}

void kc_buffer_give(struct kc_buffer *b, struct kc_piece *p)
{
	uint32_t unit = (uint32_t)(p->offset >> KC_PIECE_SHIFT);
	if (p->len_bytes == 0)
		return;
	kept_merge(b);
	KV_ASSERT_HOT(unit < b->units &&
		      b->state[unit] == (KIND_TAKEN | order_for(p->len_bytes))); /* given back once */
	b->kept = unit;
	b->free_bytes += p->len_bytes;
	KV_ASSERT_HOT(b->free_bytes + b->quarantined_bytes + b->limbo_bytes <= b->len_bytes); /* rule 14 */
	*p = (struct kc_piece){0};
}

void kc_buffer_quarantine(struct kc_buffer *b, struct kc_piece *p)
{
	uint32_t unit = (uint32_t)(p->offset >> KC_PIECE_SHIFT);
	if (p->len_bytes == 0)
		return;
	b->state[unit] = (uint8_t)(KIND_QUARANTINED | (b->state[unit] & ORDER_MASK));
	list_push(b, &b->quarantine, unit);
	b->quarantined_bytes += p->len_bytes;
	*p = (struct kc_piece){0};
}

/* Free all blocks of the list. */
static void list_give(struct kc_buffer *b, uint32_t *list)
{
	while (*list != NO_UNIT) {
		uint32_t unit = *list;
		list_remove(b, list, unit);
		b->free_bytes += order_bytes(b->state[unit] & ORDER_MASK);
		unit_merge(b, unit);
	}
}

void kc_buffer_amnesty(struct kc_buffer *b)
{
	list_give(b, &b->quarantine);
	b->quarantined_bytes = 0;
}

void kc_buffer_limbo(struct kc_buffer *b)
{
	while (b->quarantine != NO_UNIT) {
		uint32_t unit = b->quarantine;
		list_remove(b, &b->quarantine, unit);
		list_push(b, &b->limbo, unit);
	}
	b->limbo_bytes += b->quarantined_bytes;
	b->quarantined_bytes = 0;
}

void kc_buffer_limbo_end(struct kc_buffer *b)
{
	list_give(b, &b->limbo);
	b->limbo_bytes = 0;
}
