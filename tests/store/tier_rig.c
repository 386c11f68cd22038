/* SPDX-License-Identifier: Apache-2.0 */
/* tier_rig.c -- the rig of tier_rig.h. */
#include "tests/store/tier_rig.h"

#include <errno.h>

#define STEP_NS 1000000ull

/* ---- devices ---- */

static void fake_submit(struct tier_device *dev, struct tier_io *io)
{
	struct fake *f = (struct fake *)dev;
	assert_true(f->pending < FAKE_QUEUE);
	assert_true(io->offset % TIER_PAGE == 0 && io->len % TIER_PAGE == 0 && (uintptr_t)io->buf % TIER_PAGE == 0);
	assert_true(io->len > 0 && io->offset + io->len <= dev->bytes);
	f->writes += io->write;
	f->io[f->pending++] = io;
}

static int fake_reopen(struct tier_device *dev, struct kv_error *err)
{
	struct fake *f = (struct fake *)dev;
	return f->gone ? kv_fail(err, -EIO, "still gone") : 0;
}

static const struct tier_device_ops fake_ops = {.submit = fake_submit, .reopen = fake_reopen};

static void transfer(struct fake *f, struct tier_io *io, uint32_t len)
{
	if (io->write)
		memcpy(f->disk + io->offset, io->buf, len);
	else
		memcpy(io->buf, f->disk + io->offset, len);
}

/* End one transfer, in any order. */
static void fake_end(struct tier_rig *r, struct fake *f)
{
	unsigned i = (unsigned)kv_prng_below(&r->prng, f->pending);
	struct tier_io *io = f->io[i];
	uint32_t len = io->len;
	f->io[i] = f->io[--f->pending];
	if (f->gone || (f->fail_of && kv_prng_below(&r->prng, f->fail_of) == 0)) {
		io->done(io, -EIO);
		return;
	}
	if (f->short_of && len > TIER_PAGE && kv_prng_below(&r->prng, f->short_of) == 0)
		len = (uint32_t)(TIER_PAGE + kv_prng_below(&r->prng, len - TIER_PAGE));
	transfer(f, io, len);
	io->done(io, len);
}

/* Power fails: each sector of what is being written is there or not. */
static void fake_crash(struct tier_rig *r, struct fake *f)
{
	for (unsigned i = 0; i < f->pending; i++) {
		struct tier_io *io = f->io[i];
		bool whole = kv_prng_below(&r->prng, 3) == 0;
		for (uint32_t at = 0; io->write && at < io->len; at += TIER_SECTOR)
			if (whole || kv_prng_below(&r->prng, 2))
				memcpy(f->disk + io->offset + at, io->buf + at, TIER_SECTOR);
		io->done(io, -KV_ECLOSED); /* of nobody any more: the tier has stopped */
	}
	f->pending = 0;
}

/* ---- the rig ---- */

void tier_rig_open(struct tier_rig *r, unsigned fakes, uint64_t bytes, uint64_t memory)
{
	struct tier_options o = {
		.shards = 1, .segment_bytes = 1 << 20, .key_seed = 5, .entropy = &kv_entropy_kernel, .wall_us = 1};
	*r = (struct tier_rig){.prng = check_seed(), .fakes = fakes, .options = o};
	r->now_ns = SECOND;
	r->wall_us = 1000000000ull * 1000000;
	for (unsigned i = 0; i < fakes; i++) {
		struct fake *f = &r->fake[i];
		*f = (struct fake){.dev = {.ops = &fake_ops, .name = "fake", .bytes = bytes}};
		f->disk = calloc(1, bytes);
		assert_non_null(f->disk);
	}
	open_store_with((struct store_options){.limit_bytes = memory, .seed = 1, .digest_seed = 5});
}

static const struct tier_rig *timed;

static uint64_t rig_now(const struct kv_clock *clock)
{
	(void)clock;
	return timed->now_ns;
}

static const struct kv_clock rig_clock = {.now_ns = rig_now};

void tier_rig_start(struct tier_rig *r)
{
	struct tier_device *dev[FAKES_MAX];
	struct kv_error err = {0};
	timed = r;
	for (unsigned i = 0; i < r->fakes; i++)
		dev[i] = &r->fake[i].dev;
	r->options.now_ns = r->now_ns;
	r->options.clock = &rig_clock;
	r->options.wall_us = r->wall_us;
	if (tier_create(&r->options, &store, dev, r->fakes, &r->tier, &err) != 0)
		fail_msg("%s", err.text);
}

void tier_rig_stop(struct tier_rig *r, bool crash)
{
	uint64_t limit = store.arena.limit;
	if (!crash)
		tier_rig_settle(r);
	tier_stop(r->tier);
	for (unsigned i = 0; i < r->fakes; i++)
		fake_crash(r, &r->fake[i]);
	tier_destroy(&r->tier);
	close_store();
	open_store_with((struct store_options){
		.limit_bytes = limit, .seed = kv_prng_next(&r->prng), .digest_seed = 5, .now_ns = r->now_ns});
}

void tier_rig_close(struct tier_rig *r)
{
	tier_stop(r->tier);
	for (unsigned i = 0; i < r->fakes; i++)
		fake_crash(r, &r->fake[i]);
	tier_destroy(&r->tier);
	close_store();
	for (unsigned i = 0; i < r->fakes; i++)
		free(r->fake[i].disk);
}

void tier_rig_step(struct tier_rig *r)
{
	r->now_ns += STEP_NS;
	r->wall_us += STEP_NS / 1000;
	for (unsigned i = 0; i < r->fakes; i++)
		for (unsigned n = (unsigned)kv_prng_below(&r->prng, 4); n > 0 && r->fake[i].pending; n--)
			if (!r->fake[i].stuck)
				fake_end(r, &r->fake[i]);
	if (r->now_ns / STEP_NS % 100 == 0)
		tier_tick(r->tier, r->now_ns);
	(void)tier_turn(r->tier, r->now_ns);
}

static bool quiet(const struct tier_rig *r)
{
	unsigned pending = 0;
	for (unsigned i = 0; i < r->fakes; i++)
		pending += r->fake[i].stuck ? 0 : r->fake[i].pending;
	return pending == 0 && !tier_active(r->tier);
}

void tier_rig_settle(struct tier_rig *r)
{
	for (unsigned still = 0; still < 200; still = quiet(r) ? still + 1 : 0)
		tier_rig_step(r);
}

/* ---- as the server does it ---- */

static void fill(uint8_t *to, uint64_t len, uint32_t seed)
{
	for (uint64_t i = 0; i < len; i++)
		to[i] = (uint8_t)(seed * 2654435761u + i * 31 + (i >> 8) * 7);
	if (len >= sizeof(seed))
		memcpy(to, &seed, sizeof(seed));
}

bool tier_rig_put(struct tier_rig *r, const char *key, uint64_t len, uint32_t seed, uint64_t ttl_ns)
{
	struct block *b, *holder;
	int rc = stage(key, strlen(key), len, &b);
	if (rc)
		return false;
	fill(store_data(&store, b), len, seed);
	rc = store_commit(&store, b, kv_hash_block(store_data(&store, b), len), ttl_ns ? r->now_ns + ttl_ns : KV_NEVER,
			  r->now_ns, &holder);
	if (rc == 0)
		tier_stored(r->tier, b, r->now_ns);
	else
		store_drop(&store, b);
	block_unref(&store, b);
	return rc == 0;
}

static int64_t seed_of(const struct block *b)
{
	uint8_t *want = malloc(b->len);
	uint32_t seed;
	assert_non_null(want);
	memcpy(&seed, store_data(&store, b), sizeof(seed));
	fill(want, b->len, seed);
	assert_memory_equal(want, store_data(&store, b), b->len);
	free(want);
	return seed;
}

struct waiter {
	struct tier_wait wait;
	int ended;
};

static void waiter_end(struct tier_wait *w, enum tier_end how)
{
	struct waiter *e = (struct waiter *)w;
	assert_int_equal(e->ended, 0);
	e->ended = 1 + (how == TIER_HERE);
}

int64_t tier_rig_get(struct tier_rig *r, const char *key)
{
	struct waiter w = {.wait = {.end = waiter_end}};
	struct block *b = store_find(&store, key, strlen(key), r->now_ns);
	if (!b) {
		if (tier_get(r->tier, key, strlen(key), KV_NEVER, r->now_ns, &w.wait) != 0)
			return -1;
		for (unsigned i = 0; !w.ended; i++) {
			assert_true(i < 20000);
			tier_rig_step(r);
		}
		b = store_find(&store, key, strlen(key), r->now_ns);
		assert_true(w.ended == 1 || b);
	}
	if (b)
		store_use(&store, b);
	return b ? seed_of(b) : -1;
}

static void safe_end(struct tier_safe *s, int rc)
{
	*(int *)s->arg = rc;
}

/* Steps until it is safe. rc: of the call. */
static bool safe_at_last(struct tier_rig *r, int rc, bool wait)
{
	int ended = -EAGAIN;
	struct tier_safe s = {.end = safe_end, .arg = &ended};
	if (rc != -EAGAIN || !wait)
		return rc == 0;
	tier_safe_wait(r->tier, &s);
	for (unsigned i = 0; ended == -EAGAIN; i++) {
		assert_true(i < 20000);
		tier_rig_step(r);
	}
	return ended == 0;
}

bool tier_rig_delete(struct tier_rig *r, const char *key, bool wait)
{
	bool was;
	(void)store_delete(&store, key, strlen(key), r->now_ns, r->now_ns);
	return safe_at_last(r, tier_delete(r->tier, key, strlen(key), r->now_ns, &was), wait);
}

void tier_rig_space(struct tier_rig *r, const char *name)
{
	struct space *sp;
	assert_int_equal(space_take(&store.spaces, name, r->now_ns, &sp), 0);
	store_enter(&store, sp);
}

bool tier_rig_clear(struct tier_rig *r, bool wait)
{
	struct space *sp = store.space;
	store_space_clear(&store, sp, 0, r->now_ns);
	return safe_at_last(r, tier_cleared(r->tier, sp, r->now_ns), wait);
}
