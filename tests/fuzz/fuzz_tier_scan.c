/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tier_scan.c -- a device with any head and footer: the start of a tier reads it, and drops what it does not
 * understand. The input is the end of a segment, whose checksums are made to agree; every record found is then asked
 * for, and the ring is cleared. */
#include <stdlib.h>

#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	SEGMENT_BYTES = 1 << 20,
	SEGMENTS = 4,
	PAGES = SEGMENT_BYTES / TIER_PAGE,
	IOS = 64,
	MEMORY = 1 << 20,
	FIRST_BYTES = TIER_FRONT_BYTES + TIER_LOG_MIN * TIER_PAGE
};

static struct tier_io *under_way[IOS];
static uint8_t *disk;
static uint64_t now_ns;

static void submit(struct tier_device *d, struct tier_io *io)
{
	unsigned i = 0;
	if (io->offset + io->len > d->bytes)
		abort();
	while (i < IOS && under_way[i])
		i++;
	if (i == IOS)
		abort();
	under_way[i] = io;
}

static void end_all(void)
{
	for (unsigned i = 0; i < IOS; i++) {
		struct tier_io *io = under_way[i];
		if (!io)
			continue;
		under_way[i] = NULL;
		if (io->write)
			memcpy(disk + io->offset, io->buf, io->len);
		else
			memcpy(io->buf, disk + io->offset, io->len);
		io->done(io, io->len);
	}
}

static uint64_t clock_read(const struct kv_clock *clock)
{
	(void)clock;
	return now_ns;
}

static uint64_t hash; /* of the default namespace */

/* The input becomes the footer of a segment, with checksums that agree as far as its lengths do. */
static void footer_make(uint8_t *segment, const uint8_t *data, size_t size)
{
	size_t len = KV_MIN(size, (size_t)(8 * TIER_PAGE)), at = 0;
	uint32_t count = 0, pages = tier_foot_pages(len);
	uint8_t *foot = segment + SEGMENT_BYTES - (size_t)pages * TIER_PAGE, dead[PAGES / 8] = {0};
	memcpy(foot, data, len);
	while (at + sizeof(struct tier_entry) <= len) {
		struct tier_entry e;
		uint8_t key[KV_KEY_MAX + 1];
		memcpy(&e, foot + at, sizeof(e));
		if (e.key_len == 0 || e.key_len > KV_KEY_MAX || at + tier_entry_bytes(e.key_len) > len)
			break;
		e.id = 77;
		e.sequence = 5;
		e.space_hash = hash;
		e.space_generation = 0;
		memcpy(key, foot + at + sizeof(e), e.key_len);
		tier_entry_put(foot + at, &e, key);
		at += tier_entry_bytes(e.key_len);
		count++;
	}
	tier_foot_put(foot, (uint32_t)len, count, 77, 5);
	memcpy(dead, data, KV_MIN(size, sizeof(dead)));
	tier_head_put(segment, PAGES, 77, 5, dead);
}

static void get_end(struct tier_wait *wait, enum tier_end how)
{
	(void)wait;
	(void)how;
}

static void ask_all(struct tier *t, const uint8_t *foot, size_t len)
{
	for (size_t at = 0; at + sizeof(struct tier_entry) < len;) {
		struct tier_entry e;
		const uint8_t *key;
		struct tier_wait wait = {.end = get_end};
		if (tier_entry_get(foot + at, len - at, &e, &key) < 0)
			break;
		if (tier_get(t, key, e.key_len, KV_NEVER, now_ns, &wait) == 0)
			for (unsigned i = 0; i < 100 && wait.get; i++, now_ns += 1000000) {
				end_all();
				tier_turn(t, now_ns);
			}
		if (wait.get)
			abort(); /* it does not end */
		at += tier_entry_bytes(e.key_len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tier_device_ops ops = {.submit = submit};
	static const struct kv_clock clock = {clock_read};
	struct tier_device d = {.ops = &ops, .name = "fuzz", .bytes = FIRST_BYTES + (uint64_t)SEGMENTS * SEGMENT_BYTES};
	struct tier_device *const devices[] = {&d};
	struct tier_super super = {
		.shards = 1, .segment_pages = PAGES, .id = {77, 78}, .segments = SEGMENTS, .log_pages = TIER_LOG_MIN};
	struct store store;
	struct tier *t = NULL;
	uint8_t *memory = malloc(MEMORY);
	uint32_t pages = tier_foot_pages(KV_MIN(size, (size_t)(8 * TIER_PAGE)));
	struct store_options so = {.base = memory, .limit_bytes = MEMORY, .seed = 1, .generation = 1, .now_ns = 1};
	struct tier_options to = {.shards = 1, .segment_bytes = SEGMENT_BYTES, .now_ns = 1, .wall_us = 1};
	so.policy = evict_policies[0];
	to.clock = &clock;
	to.entropy = &kv_entropy_kernel;
	now_ns = 1;
	disk = calloc(1, d.bytes);
	if (!disk || !memory || store_init(&store, &so) < 0)
		abort();
	tier_super_seal(&super);
	memcpy(disk, &super, sizeof(super));
	(void)tier_table_put(disk + TIER_PAGE, super.id[0], 1, 0, 1,
			     0); /* its only note is zero: the default namespace */
	hash = tier_space_hash(&super, "");
	footer_make(disk + FIRST_BYTES, data, size);
	if (tier_create(&to, &store, devices, 1, &t, NULL) < 0)
		abort();
	for (unsigned i = 0; i < 100 && tier_reading(t); i++, now_ns += 1000000) {
		end_all();
		tier_turn(t, now_ns);
	}
	if (tier_reading(t))
		abort();
	ask_all(t, disk + FIRST_BYTES + SEGMENT_BYTES - (size_t)pages * TIER_PAGE,
		KV_MIN(size, (size_t)(8 * TIER_PAGE)));
	tier_stop(t);
	end_all();
	tier_destroy(&t);
	store_fini(&store);
	free(memory);
	free(disk);
	return 0;
}
