/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_records.c -- the memory that a crashed server leaves for --recover verify: any bytes give a store that can be
 * used, and only values with the recorded checksum.
 *
 * The input is the notes of two namespaces and records. It is used as it is, and again with sums, marks and the
 * values' checksums that are made to agree. */
#include "tests/fuzz/shake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PLACES = 32, NOTES = 2, TABLE = SPACE_NOTES * sizeof(struct space_note) + PLACES * sizeof(struct record) };

#define NOTE_SEED 5 /* NAME_SEED of store/space.c */
#define SEED      9

static _Alignas(8) uint8_t table[TABLE];
static uint8_t memory[SHAKE_LIMIT];

static void table_fill(const uint8_t *data, size_t size)
{
	size_t notes = KV_MIN(size, NOTES * sizeof(struct space_note));
	memset(table, 0, sizeof(table));
	memcpy(table, data, notes);
	memcpy(table + SPACE_NOTES * sizeof(struct space_note), data + notes,
	       KV_MIN(size - notes, PLACES * sizeof(struct record)));
}

static void notes_mend(struct space_note *n)
{
	for (unsigned i = 0; i < NOTES; i++, n++)
		n->sum = kv_hash_key((uint8_t *)n + 8, sizeof(*n) - 8, NOTE_SEED);
}

static void records_mend(struct record *r, struct space *const *space)
{
	for (unsigned i = 0; i < PLACES; i++, r++) {
		if (r->space < NOTES && space[r->space])
			r->space_mark = space[r->space]->mark;
		if (r->offset < SHAKE_LIMIT && r->len <= SHAKE_LIMIT - r->offset)
			r->checksum = kv_hash_block(memory + r->offset, r->len);
		if (r->len)
			r->sum = kv_hash_key((uint8_t *)r + 8, sizeof(*r) - 8, SEED);
	}
}

static void open_all(struct store *s)
{
	shake_open(s, memory, evict_policies[0]);
	records_open(&s->records, table, PLACES, SEED);
}

static void begin(struct recover *x, struct store *s)
{
	const struct keep_head then = {.now_ns = SHAKE_NOW / 2, .wall_ns = SHAKE_NOW};
	const struct keep_clock clock = keep_clock_of(&then, SHAKE_NOW, 2 * SHAKE_NOW);
	shake_check(recover_begin(x, s, &clock) == 0, "no memory");
}

/* Make the records agree with the namespaces, which a first recovery finds. */
static void table_mend(void)
{
	static struct store s;
	struct recover x = {0};
	struct record mended[PLACES];
	notes_mend((struct space_note *)(void *)table);
	open_all(&s);
	memcpy(mended, s.records.at, sizeof(mended));
	begin(&x, &s);
	records_mend(mended, x.space);
	recover_end(&x, &s);
	memcpy(s.records.at, mended, sizeof(mended));
	store_fini(&s);
}

static void use(void)
{
	static struct store s;
	struct recover x = {0};
	open_all(&s);
	begin(&x, &s);
	shake_put(&s, 1);
	while (recover_step(&x, &s, 1000, SHAKE_NOW))
		;
	recover_end(&x, &s);
	shake_tiles(&s);
	for (struct arena_block *m = s.arena.first; m; m = m->next) {
		const struct block *b = m->owner;
		shake_check(!b || b->checksum == 1 || kv_hash_block(memory + b->offset, b->len) == b->checksum,
			    "a value with other bytes is believed");
	}
	shake(&s);
	store_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i / 64);
	table_fill(data, size);
	use();
	table_fill(data, size);
	table_mend();
	use();
	return 0;
}
