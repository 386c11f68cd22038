/* SPDX-License-Identifier: Apache-2.0 */
/* records.c -- see records.h.
 *
 * A record lies at the first free place from its home, a hash of the block's generation, which no other block has. A
 * look-up passes free places, because the record is there: so nothing is moved at a removal, and with a quarter of the
 * places free it looks at a few: `reach` bounds it.
 *
 * A process may die between any two stores, and the memory keeps what it stored. So the sum is written last and removed
 * first: a record is complete, or its place is free. */
#include "store/records.h"

#include "store/block.h"

static uint64_t sum_of(const struct records *t, const struct record *r)
{
	uint64_t sum = kv_hash_key((const uint8_t *)r + sizeof(r->sum), sizeof(*r) - sizeof(r->sum), t->seed);
	return sum ? sum : 1;
}

static uint64_t home_of(const struct records *t, uint64_t generation)
{
	return (uint64_t)((kv_u128)(generation * 0x9E3779B97F4A7C15u) * t->places >> 64);
}

static uint64_t after(const struct records *t, uint64_t i)
{
	return i + 1 == t->places ? 0 : i + 1;
}

static void record_fill(const struct records *t, struct record *r, const struct block *b, uint64_t space_mark)
{
	struct record fresh = {.offset = b->offset,
			       .len = b->len,
			       .checksum = b->checksum,
			       .generation = b->generation,
			       .born_ns = block_born_ns(b),
			       .expires_ns = b->expire.when_ns,
			       .space_mark = space_mark,
			       .space = b->space,
			       .key_len = b->item.key_len};
	memcpy(fresh.key, b->item.key, b->item.key_len);
	fresh.sum = sum_of(t, &fresh);
	records_clear(r);
	/* Who reads it after a crash comes after this thread: only the compiler must keep the order. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy((uint8_t *)r + sizeof(r->sum), (const uint8_t *)&fresh + sizeof(fresh.sum),
	       sizeof(fresh) - sizeof(fresh.sum));
	__atomic_store_n(&r->sum, fresh.sum, __ATOMIC_RELEASE);
}

static struct record *record_of(const struct records *t, const struct block *b)
{
	uint64_t i = home_of(t, b->generation);
	for (uint64_t n = 0; n <= t->reach; n++, i = after(t, i))
		if (t->at[i].sum && t->at[i].generation == b->generation)
			return &t->at[i];
	return NULL;
}

void records_put(struct records *t, const struct block *b, uint64_t space_mark)
{
	uint64_t i = home_of(t, b->generation), n = 0;
	while (t->at[i].sum && ++n < t->places)
		i = after(t, i);
	if (n == t->places)
		return; /* there are more blocks than the table was made for: this one is lost in a crash */
	t->reach = KV_MAX(t->reach, n);
	record_fill(t, &t->at[i], b, space_mark);
}

void records_drop(struct records *t, const struct block *b)
{
	struct record *r = record_of(t, b);
	if (r)
		records_clear(r);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void records_change(struct records *t, const struct block *b)
{
	struct record *r = record_of(t, b);
	if (r)
		record_fill(t, r, b, r->space_mark);
}

bool records_good(const struct records *t, const struct record *r)
{
	return r->sum != 0 && r->sum == sum_of(t, r) && r->key_len > 0 && r->key_len <= KV_KEY_MAX;
}

void records_open(struct records *t, void *memory, uint64_t places, uint64_t seed)
{
	struct space_note *notes = memory;
	*t = (struct records){
		.notes = notes, .at = (struct record *)(notes + SPACE_NOTES), .places = places, .seed = seed};
	for (uint64_t i = 0; i < places; i++) {
		uint64_t home = home_of(t, t->at[i].generation);
		if (t->at[i].sum)
			t->reach = KV_MAX(t->reach, i >= home ? i - home : places - home + i);
	}
}
