/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tier.c -- the bytes on a tier's device: any bytes are an error or a part of the format, and what is accepted
 * encodes to the same bytes.
 *
 * Each input is read twice: as it is, and with checksums that are made to agree, since otherwise nearly every mutation
 * ends at one. It is a superblock, a table of namespaces, an entry, the last pages of a segment, and the head of a
 * segment. */
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEGMENT_PAGES = 256, FOOT_PAGES_MAX = 64 };

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_tier: %s\n", what);
	abort();
}

/* ---- superblock ---- */

static void read_super(const uint8_t *data, size_t size)
{
	struct tier_super s, again;
	uint8_t page[sizeof(s)] = {0};
	memcpy(page, data, KV_MIN(size, sizeof(page)));
	for (unsigned mended = 0; mended < 2; mended++) {
		if (tier_super_check(page, &s) == 0) {
			again = s;
			tier_super_seal(&again);
			check(memcmp(&again, page, sizeof(again)) == 0, "a superblock encodes to other bytes");
		}
		memcpy(&s, page, sizeof(s));
		tier_super_seal(&s);
		memcpy(page, &s, sizeof(s));
	}
}

/* ---- the table of namespaces ---- */

static void read_table(const uint8_t *data, size_t size)
{
	static uint8_t pages[TIER_TABLE_PAGES * TIER_PAGE];
	struct tier_table t;
	memset(pages, 0, sizeof(pages));
	memcpy(pages, data, KV_MIN(size, sizeof(pages)));
	for (unsigned mended = 0; mended < 2; mended++) {
		memcpy(&t, pages, sizeof(t));
		if (tier_table_get(pages, t.id, &t) == 0) {
			check(t.count <= SPACES_MAX, "a table has too many names");
			(void)tier_table_put(pages, t.id, t.version, t.floor, t.count, t.doubt_s);
			check(tier_table_get(pages, t.id, &t) == 0, "a table is not read again");
		}
		(void)tier_table_put(pages, t.id, t.version, t.floor, (uint32_t)(size / sizeof(struct tier_note)), 0);
	}
}

/* ---- the record of service, and the log ---- */

static void read_service(const uint8_t *data, size_t size)
{
	static uint8_t pages[2 * TIER_SERVICE_PAGES * TIER_PAGE];
	struct tier_service s;
	struct tier_tomb tomb = {0};
	memset(pages, 0, sizeof(pages));
	memcpy(pages, data, KV_MIN(size, sizeof(pages)));
	memcpy(&tomb, data, KV_MIN(size, sizeof(tomb)));
	for (unsigned mended = 0; mended < 2; mended++) {
		memcpy(&s, pages, sizeof(s));
		if (tier_service_get(pages, s.id, &s) == 0) {
			const uint8_t *names = tier_service_names(pages, &s);
			check(s.drives <= TIER_DEVICES_MAX, "a record has too many drives");
			check(names >= pages && names + s.members * sizeof(uint64_t) <= pages + sizeof(pages),
			      "names lie outside");
		}
		memcpy(&s, pages, sizeof(s));
		s.members %= TIER_MEMBERS_MAX + 1;
		memcpy(pages, &s, sizeof(s));
		(void)tier_service_put(pages);
	}
	tier_tomb_put(&tomb, 7);
	check(tier_tomb_get(&tomb, 7, &tomb) == (tomb.number != 0), "a deletion is not read again");
}

/* ---- entries ---- */

static void mend_entry(uint8_t *at, size_t size)
{
	size_t from = offsetof(struct tier_entry, sequence), len = sizeof(struct tier_entry) - from;
	uint8_t key_len = at[offsetof(struct tier_entry, key_len)];
	uint64_t sum;
	if (sizeof(struct tier_entry) + key_len > size)
		return;
	sum = kv_hash_block(at + from, len + key_len);
	memcpy(at, &sum, sizeof(sum));
}

/* Returns the bytes of the entry, or 0: it is none. */
static size_t read_entry(const uint8_t *at, size_t size)
{
	uint8_t again[TIER_HEAD_BYTES];
	struct tier_entry e;
	const uint8_t *key;
	size_t len;
	if (tier_entry_get(at, size, &e, &key) < 0)
		return 0;
	len = tier_entry_bytes(e.key_len);
	check(len <= size && key >= at && key + e.key_len <= at + size, "a key lies outside of its entry");
	check(e.len > 0 && e.key_len > 0 && e.key_len <= KV_KEY_MAX, "an entry has an impossible length");
	tier_entry_put(again, &e, key);
	check(memcmp(again, at, sizeof(e) + e.key_len) == 0, "an entry encodes to other bytes");
	return len;
}

static void read_entries(const uint8_t *data, size_t size)
{
	uint8_t *mended = malloc(size);
	check(mended || size == 0, "no memory");
	read_entry(data, size);
	for (size_t at = 0, len = 1; at + sizeof(struct tier_entry) <= size && len; at += len) {
		memcpy(mended, data + at, size - at);
		mend_entry(mended, size - at);
		len = read_entry(mended, size - at);
	}
	free(mended);
}

/* ---- footer ---- */

/* The foot's count and bytes are those of the input; entries lie before it, as far as there are any. */
static void read_foot(const uint8_t *data, size_t size)
{
	static uint8_t pages[FOOT_PAGES_MAX * TIER_PAGE];
	uint8_t *last = pages + sizeof(pages) - TIER_PAGE, *foot = pages + sizeof(pages) - sizeof(struct tier_foot);
	struct tier_foot f;
	size_t len = KV_MIN(size, sizeof(pages));
	memset(pages, 0, sizeof(pages));
	memcpy(pages + sizeof(pages) - len, data + size - len, len);
	for (unsigned mended = 0; mended < 2; mended++) {
		if (tier_foot_get(last, SEGMENT_PAGES, &f) == 0) {
			uint32_t foot_pages = tier_foot_pages(f.bytes);
			check(foot_pages < SEGMENT_PAGES && f.count <= f.bytes / sizeof(struct tier_entry),
			      "a footer has an impossible size");
			if (foot_pages <= FOOT_PAGES_MAX)
				(void)tier_foot_check(&f, pages + sizeof(pages) - (size_t)foot_pages * TIER_PAGE);
		}
		memcpy(&f, foot, sizeof(f));
		memcpy(f.magic, "KVRfoot\1", sizeof(f.magic));
		f.checksum = kv_hash_block(&f, offsetof(struct tier_foot, checksum));
		memcpy(foot, &f, sizeof(f));
	}
}

/* What is written is read again, whatever the entries are. */
static void write_foot(const uint8_t *data, size_t size)
{
	static uint8_t pages[17 * TIER_PAGE];
	uint32_t bytes = (uint32_t)KV_MIN(size, (size_t)(16 * TIER_PAGE)), count = bytes / 200, all;
	struct tier_foot f;
	memcpy(pages, data, bytes);
	tier_foot_put(pages, bytes, count, 7, 9);
	all = tier_foot_pages(bytes);
	check(tier_foot_get(pages + (size_t)(all - 1) * TIER_PAGE, SEGMENT_PAGES, &f) == 0,
	      "a footer is not read again");
	check(f.bytes == bytes && f.count == count && f.id == 7 && f.sequence == 9 && tier_foot_check(&f, pages),
	      "a footer reads as another one");
	if (bytes) {
		pages[size % bytes] ^= 1;
		check(!tier_foot_check(&f, pages), "a wrong entry goes unnoticed");
	}
}

/* ---- head ---- */

static void read_head(const uint8_t *data, size_t size)
{
	static uint8_t head[8 * TIER_PAGE], again[8 * TIER_PAGE];
	uint64_t sequence = 0, id;
	uint32_t pages = 1 + (uint32_t)(size % 40) * 800;
	memset(head, 0, sizeof(head));
	memcpy(head, data, KV_MIN(size, sizeof(head)));
	memcpy(&id, head + offsetof(struct tier_sector, id), sizeof(id));
	if (tier_head_get(head, pages, id, &sequence) == 0)
		check(sequence != 0, "a head has no sequence");
	for (uint32_t page = 0; page < pages; page++)
		(void)tier_head_dead(head, page);
	memset(again, 0, sizeof(again));
	tier_head_put(again, pages, id, 5, head);
	check(tier_head_get(again, pages, id, &sequence) == 0 && sequence == 5, "a head is not read again");
	for (uint32_t page = 0; page < pages; page++)
		check(tier_head_dead(again, page) == (head[page / 8] >> page % 8 & 1), "a deleted page is another one");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_super(data, size);
	read_table(data, KV_MIN(size, (size_t)SPACES_MAX * sizeof(struct tier_note)));
	read_service(data, size);
	read_entries(data, size);
	read_foot(data, size);
	write_foot(data, size);
	read_head(data, size);
	return 0;
}
