/* SPDX-License-Identifier: Apache-2.0 */
/* tier_scan.c -- what it costs to index the records of a tier at the start: `tier_scan [RECORDS [SEGMENT_MB]]`.
 *
 * A store of small values writes them to a device in memory; then another store opens the device. Printed is the
 * processor time of that, per record: reading heads and footers (by memcpy), their checksums, and the index. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "store/store.h"
#include "tests/bench/result.h"

enum { QUEUE = 256, VALUE = 64, ROUNDS = 3 };

#define MEMORY (8ull << 20)
#define STEP   1000000ull
#define WALL   1800000000000000ull

static struct {
	struct tier_device dev; /* first */
	uint8_t *disk;
	struct tier_io *io[QUEUE];
	unsigned pending;
} device;

static struct store store;
static struct tier *tier;
static uint8_t *memory;
static uint64_t now = 1000 * STEP;

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "tier_scan: %s\n", what);
	exit(1);
}

static uint64_t clock_read(const struct kv_clock *clock)
{
	(void)clock;
	return now;
}

static const struct kv_clock time_here = {clock_read};

static void submit(struct tier_device *dev, struct tier_io *io)
{
	(void)dev;
	check(device.pending < QUEUE, "the queue is full");
	device.io[device.pending++] = io;
}

static const struct tier_device_ops ops = {.submit = submit};

static void turn(void)
{
	struct tier_io *io[QUEUE];
	unsigned n = device.pending;
	now += STEP;
	memcpy(io, device.io, n * sizeof(struct tier_io *));
	device.pending = 0;
	for (unsigned i = 0; i < n; i++) {
		uint8_t *at = device.disk + io[i]->offset;
		memcpy(io[i]->write ? at : io[i]->buf, io[i]->write ? io[i]->buf : at, io[i]->len);
		io[i]->done(io[i], io[i]->len);
	}
	if (now / STEP % 100 == 0)
		tier_tick(tier, now);
	(void)tier_turn(tier, now);
}

static void begin(uint64_t segment_bytes)
{
	const struct store_options so = {.base = memory,
					 .limit_bytes = MEMORY,
					 .seed = 3,
					 .digest_seed = 5,
					 .generation = 1,
					 .now_ns = now,
					 .policy = evict_policies[0]};
	const struct tier_options to = {.shards = 1,
					.segment_bytes = segment_bytes,
					.key_seed = 5,
					.now_ns = now,
					.wall_us = WALL + now / 1000,
					.clock = &time_here,
					.entropy = &kv_entropy_kernel};
	struct tier_device *dev = &device.dev;
	struct kv_error err;
	check(store_init(&store, &so) == 0, "no memory for a store");
	check(tier_create(&to, &store, &dev, 1, &tier, &err) == 0, "no tier");
}

static void end(void)
{
	tier_stop(tier);
	for (unsigned i = 0; i < device.pending; i++)
		device.io[i]->done(device.io[i], -KV_ECLOSED);
	device.pending = 0;
	tier_destroy(&tier);
	store_fini(&store);
}

static void put(uint64_t n)
{
	struct block *b = NULL, *holder;
	struct room *room = NULL;
	char key[48];
	int len = snprintf(key, sizeof(key), "model@01000100@0@%016llx", (unsigned long long)n);
	check(store_stage(&store, key, (size_t)len, VALUE, ARENA_LOW, &b, &room) == 0, "no room");
	memset(store_data(&store, b), (int)n, VALUE);
	check(store_commit(&store, b, kv_hash_block(store_data(&store, b), VALUE), KV_NEVER, now, &holder) == 0,
	      "no value");
	tier_stored(tier, b, now);
	block_unref(&store, b);
}

static uint64_t records(void)
{
	struct tier_totals t;
	tier_totals(tier, &t);
	return t.records;
}

static void fill(uint64_t count)
{
	for (uint64_t n = 0; n < count; n++) {
		put(n);
		if (n % 64 == 0)
			turn();
	}
	tier_flush(tier, now);
	while (!tier_flushed(tier))
		turn();
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 200000, found = 0;
	uint64_t segment = (argc > 2 ? strtoull(argv[2], NULL, 0) : 64) << 20;
	uint64_t bytes = kv_align_up(count * TIER_PAGE * 5 / 4, segment) + 8 * segment;
	double best = 0;
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	device.disk = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(memory != MAP_FAILED && device.disk != MAP_FAILED, "no memory for a device");
	device.dev = (struct tier_device){.ops = &ops, .name = "memory", .bytes = bytes};
	begin(segment);
	while (tier_reading(tier))
		turn();
	fill(count);
	end();
	for (unsigned i = 0; i < ROUNDS; i++) {
		double before;
		begin(segment);
		before = cpu_seconds_now();
		while (tier_reading(tier))
			turn();
		before = cpu_seconds_now() - before;
		best = i == 0 ? before : KV_MIN(best, before);
		found = records();
		end();
	}
	printf("{\"records\": %llu, \"ns_per_record\": %.0f}\n", (unsigned long long)found, best * 1e9 / (double)found);
	return found > count / 2 ? 0 : 1;
}
