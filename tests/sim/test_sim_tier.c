/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_tier.c -- the store of a shard with a tier on simulated devices, and a model that knows for each key which
 * value a look-up may find: the one put last, if it was neither deleted nor over, or none.
 *
 * Devices are slow, fail, end short and stand still; processes are killed at any write, and the next one has another
 * clock. Of a deletion that the tier has not reported as safe, the value may return with the next process; of any other
 * not. And each process knows the deletions that earlier ones have reported as safe, for other members of its cluster,
 * as far back as it claims.
 *
 *   test_sim_tier WORLD FIRST COUNT      worlds: calm, trouble, kills, deletes, worn */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/tier/private.h"
#include "tests/sim/disk_sim.h"
#include "tests/sim/world.h"

enum {
	KEYS = 160,
	DEVICES = 2,
	SEGMENT_BYTES = 1 << 20,
	MEMORY_BYTES = 2 << 20,
	VALUE_LEAST = 16,
	VALUE_MOST = 600 << 10,
	GETS_MAX = 64
};

#define WALL_US       1800000000000000ull /* in 2027 */
#define END_WITHIN_NS (60 * SECOND)

struct want {
	uint32_t version; /* of the last PUT; 0: none yet */
	bool live;
	uint64_t over_ns; /* of the world's time */
	/* The oldest version that a kill may bring back, for want of a deletion that is safe; 0: none. Then the one
	 * that the last kill may have brought back. */
	uint32_t ghost, back;
	uint64_t ghost_over_ns, back_over_ns; /* when the last of them is over */
};

struct get {
	struct tier_wait wait; /* first */
	unsigned key;
	uint64_t begun_ns;
};

struct safe {
	struct tier_safe safe; /* first */
	unsigned key;
	uint32_t version;
	uint64_t over_ns; /* of a touch; 0: a deletion */
	uint64_t begun_ns;
	bool pending;
};

struct kind {
	const char *name;
	struct disk_sim_options disk;
	unsigned kills;        /* processes that are killed, in a row */
	unsigned steps;        /* of each process */
	unsigned deletes, ttl; /* of 100 PUTs and GETs: so many are deletions or touches; of 100 PUTs so many expire */
	bool budgets;
};

static struct {
	const struct kind *kind;
	uint64_t seed, now_ns, shift_ns, ticked_ns; /* shift: of the process's clock */
	struct kv_prng prng;
	struct disk_sim disk[DEVICES];
	unsigned devices;
	enum tier_admit admit;
	struct store store;
	uint8_t *memory;
	struct tier *tier;
	struct want want[KEYS];
	struct get get[GETS_MAX];
	struct safe safe[KEYS];
	uint64_t deleted_ns[KEYS]; /* the last safe deletion of each */
	bool claim_checked;        /* of this process ... */
	uint64_t opened_ns;        /* ... which began then */
	unsigned claims;           /* processes that knew more than their own time */
	uint64_t found, from_tier,
		after_kill; /* right values: in memory; read from the tier; the first ones after a kill */
	bool just_killed;
} w;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&w.prng, n);
}

static _Noreturn void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void wrong(const char *fmt, ...)
{
	char text[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "# %s, seed %llu: %s\n", w.kind->name, (unsigned long long)w.seed, text);
	exit(1); /* (not cmocka's way: the tier called us) */
}

static uint64_t clock_ns(void)
{
	return w.now_ns + w.shift_ns;
}

static uint64_t clock_read(const struct kv_clock *clock)
{
	(void)clock;
	return clock_ns();
}

static const struct kv_clock process_clock = {clock_read};

/* KVRAIL_SIM_KEY=N: what happens to this key, on standard error. */
static void note(unsigned key, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(unsigned key, const char *fmt, ...)
{
	const char *watched = getenv("KVRAIL_SIM_KEY");
	va_list args;
	if (!watched || strtoul(watched, NULL, 10) != key)
		return;
	fprintf(stderr, "%12.6f ms, key %u: ", (double)w.now_ns / 1e6, key);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

/* ---- keys and values ---- */

static size_t key_make(unsigned key, char text[32])
{
	return (size_t)snprintf(text, 32, "key-%u%s", key, key % 3 ? "" : "-longer-than-others");
}

static uint64_t value_len(unsigned key, uint32_t version)
{
	uint64_t h = kv_hash_key(&(uint64_t){(uint64_t)key << 32 | version}, 8, 3);
	uint64_t most = h % 16 == 0 ? VALUE_MOST : 60 << 10;
	return VALUE_LEAST + (h >> 8) % (most - VALUE_LEAST);
}

static void value_fill(uint8_t *at, unsigned key, uint32_t version)
{
	struct kv_prng p;
	kv_prng_seed(&p, (uint64_t)key << 32 | version);
	kv_prng_fill(&p, at, value_len(key, version));
}

static bool value_is(const struct block *b, unsigned key, uint32_t version)
{
	static uint8_t want[VALUE_MOST];
	if (version == 0 || b->len != value_len(key, version))
		return false;
	value_fill(want, key, version);
	return memcmp(store_data(&w.store, b), want, b->len) == 0;
}

static void check_value(const struct block *b, unsigned key)
{
	const struct want *e = &w.want[key];
	uint32_t v = e->version;
	while (v > 0 && !value_is(b, key, v))
		v--;
	if (v == 0)
		wrong("key %u: wrong bytes (%llu of them)", key, (unsigned long long)b->len);
	note(key, "version %u of %u, %s", v, e->version, e->live ? "live" : "deleted");
	if (v == e->version && e->live && e->over_ns > w.now_ns)
		return;
	if (e->back && v >= e->back && e->back_over_ns > w.now_ns)
		return;
	if (v == e->version && e->live)
		wrong("key %u: its time is over since %llu ns", key, (unsigned long long)(w.now_ns - e->over_ns));
	wrong("key %u: version %u of %u was deleted, and is back", key, v, e->version);
}

/* ---- the process ---- */

static void process_open(void)
{
	const struct store_options so = {.base = w.memory,
					 .limit_bytes = MEMORY_BYTES,
					 .seed = some(UINT64_MAX),
					 .digest_seed = 77,
					 .generation = 1 + some(1000),
					 .now_ns = clock_ns(),
					 .policy = evict_policies[some(2)],
					 .poison = true};
	struct tier_options to = {.shards = 1,
				  .segment_bytes = SEGMENT_BYTES,
				  .admit = w.admit,
				  .members = true,
				  .key_seed = 77,
				  .now_ns = so.now_ns,
				  .wall_us = WALL_US + w.now_ns / 1000,
				  .clock = &process_clock,
				  .entropy = &kv_entropy_kernel};
	struct tier_device *device[DEVICES];
	struct kv_error err = {0};
	if (w.kind->budgets) {
		to.rate_bytes = 20 << 20;
		to.day_bytes = 200 << 20;
	}
	assert_int_equal(store_init(&w.store, &so), 0);
	w.store.tombs.since_ns = (int64_t)so.now_ns;
	w.claim_checked = false;
	w.opened_ns = w.now_ns;
	for (unsigned i = 0; i < w.devices; i++) {
		device[i] = &w.disk[i].device;
		disk_sim_again(&w.disk[i]);
	}
	if (tier_create(&to, &w.store, device, w.devices, &w.tier, &err) < 0)
		wrong("no tier: %s", err.text);
}

static void process_close(void)
{
	tier_stop(w.tier);
	for (unsigned i = 0; i < w.devices; i++)
		disk_sim_drop(&w.disk[i]);
	for (unsigned i = 0; i < GETS_MAX; i++)
		assert_null(w.get[i].wait.get);
	memset(w.safe, 0, sizeof(w.safe));
	tier_destroy(&w.tier);
	store_fini(&w.store);
}

/* Where devices store what they are given, every record that is found is whole. */
static void check_damage(void)
{
	for (unsigned i = 0; i < w.devices && w.kind->disk.damage_ppm == 0; i++) {
		struct tier_stats stats;
		tier_stats(w.tier, i, &stats);
		if (stats.damaged)
			wrong("%llu records were found that are not whole", (unsigned long long)stats.damaged);
	}
}

/* Killed; values in memory are lost, and what was not safe may be back. */
static void process_kill(void)
{
	check_damage();
	for (unsigned i = 0; i < w.devices; i++)
		disk_sim_crash(&w.disk[i]);
	process_close();
	w.shift_ns = some(1000 * SECOND);
	w.just_killed = true;
	note((unsigned)strtoul(getenv("KVRAIL_SIM_KEY") ? getenv("KVRAIL_SIM_KEY") : "0", NULL, 10), "killed");
	for (unsigned i = 0; i < KEYS; i++) {
		w.want[i].back = w.want[i].ghost;
		w.want[i].back_over_ns = w.want[i].ghost_over_ns;
	}
	process_open();
}

static bool remembered(unsigned key)
{
	char text[32];
	uint64_t id = store_id(&w.store, text, key_make(key, text)), at = 0;
	uint32_t budget = UINT32_MAX;
	const struct tomb *d;
	while ((d = tombs_next(&w.store.tombs, &at, &budget)) != NULL)
		if (d->id == id)
			return true;
	return false;
}

/* What other members would be told is true. (A damaged entry may be taken for one that was never whole.) */
static void check_claim(void)
{
	int64_t since_ns = w.store.tombs.since_ns - (int64_t)w.shift_ns;
	w.claim_checked = true;
	w.claims += since_ns < (int64_t)w.opened_ns - 10 * (int64_t)MS;
	for (unsigned i = 0; i < KEYS && w.kind->disk.damage_ppm == 0; i++)
		if ((int64_t)w.deleted_ns[i] > since_ns + 2 * (int64_t)MS && !remembered(i))
			wrong("key %u: its deletion at %llu ns is forgotten, and all since %lld ns are claimed", i,
			      (unsigned long long)w.deleted_ns[i], (long long)since_ns);
}

/* ---- calls ---- */

static void get_end(struct tier_wait *wait, enum tier_end how)
{
	struct get *g = KV_CONTAINER(wait, struct get, wait);
	char text[32];
	struct block *b;
	if (how != TIER_HERE)
		return;
	if (g->key == KEYS)
		wrong("the value of another key was returned");
	b = store_find(&w.store, text, key_make(g->key, text), clock_ns());
	if (!b)
		wrong("key %u: the tier brought it, and it is not there", g->key);
	check_value(b, g->key);
	w.from_tier++;
	w.after_kill += w.just_killed;
}

static void call_get(unsigned key)
{
	char text[32];
	size_t len = key_make(key, text);
	struct block *b = store_find(&w.store, text, len, clock_ns());
	struct get *g = &w.get[some(GETS_MAX)];
	uint64_t deadline_ns = clock_ns() + (some(4) ? 10 * SECOND : some(2 * MS));
	int rc;
	if (b) {
		check_value(b, key);
		store_use(&w.store, b);
		w.found++;
		return;
	}
	if (g->wait.get)
		return;
	*g = (struct get){.wait = {.end = get_end}, .key = key, .begun_ns = w.now_ns};
	rc = tier_get(w.tier, text, len, deadline_ns, clock_ns(), &g->wait);
	if (rc != 0 && rc != -KV_ENOTFOUND && rc != -KV_ETIMEOUT && rc != -KV_EBUSY)
		wrong("tier_get: %s", kv_errname(rc));
	note(key, "tier_get: %s", kv_errname(rc));
	if (rc == 0 && some(20) == 0)
		tier_get_cancel(w.tier, &g->wait);
}

static void ghost_is_present(struct want *e)
{
	if (!e->live)
		return; /* an earlier one stays */
	e->ghost_over_ns = e->ghost ? KV_MAX(e->over_ns, e->ghost_over_ns) : e->over_ns;
	e->ghost = e->ghost ? e->ghost : e->version;
}

/* The PUT of a server: whatever the tier has is void. Gives up where there is no room. */
static void call_put(unsigned key)
{
	char text[32];
	size_t len = key_make(key, text);
	struct want *e = &w.want[key];
	uint32_t version = e->version + 1;
	uint64_t over_ns = some(100) < w.kind->ttl ? w.now_ns + some(3 * SECOND) : KV_NEVER, steps = 0;
	struct block *b = NULL, *holder = NULL;
	struct room *room = NULL;
	int rc;
	if (store_find(&w.store, text, len, clock_ns()))
		return;
	rc = store_stage(&w.store, text, len, value_len(key, version), ARENA_LOW, &b, &room);
	while (rc == -EAGAIN && steps++ < 100) {
		unsigned budget = 1000;
		b = room->block;
		rc = store_stage_step(&w.store, room, &budget);
	}
	if (rc == -EAGAIN)
		store_stage_end(&w.store, room);
	if (rc < 0)
		return;
	value_fill(store_data(&w.store, b), key, version);
	rc = store_commit(&w.store, b, kv_hash_block(store_data(&w.store, b), b->len),
			  over_ns == KV_NEVER ? KV_NEVER : over_ns + w.shift_ns, clock_ns(), &holder);
	if (rc == 0) {
		ghost_is_present(e); /* the PUT replaces a value of the tier, and nobody waits until that is safe */
		e->version = version;
		e->back = 0;
		e->live = true;
		note(key, "put version %u, %llu bytes, over at %.3f ms", version, (unsigned long long)b->len,
		     (double)over_ns / 1e6);
		e->over_ns = over_ns;
		tier_stored(w.tier, b, clock_ns());
	} else {
		store_drop(&w.store, b);
	}
	block_unref(&w.store, b);
}

/* After a deletion all versions so far are gone for good, after a touch they live no longer. */
static void ghosts_settle(const struct safe *s)
{
	struct want *e = &w.want[s->key];
	if (!s->over_ns)
		w.deleted_ns[s->key] = s->begun_ns;
	if (!e->ghost || e->ghost > s->version)
		return;
	if (s->over_ns)
		e->ghost_over_ns = KV_MIN(e->ghost_over_ns, s->over_ns);
	else
		e->ghost = s->version < e->version ? s->version + 1 : 0;
}

static void safe_end(struct tier_safe *s, int rc)
{
	struct safe *x = KV_CONTAINER(s, struct safe, safe);
	x->pending = false;
	note(x->key, "safe: %s", kv_errname(rc));
	if (rc == 0)
		ghosts_settle(x);
}

/* The values so far may be back after a kill, until the tier says that they may not. */
static void unsafe_until(unsigned key, uint64_t over_ns, int rc)
{
	struct safe *s = &w.safe[key];
	s->version = w.want[key].version;
	s->over_ns = over_ns;
	s->pending = rc == -EAGAIN;
	note(key, "delete or touch: %s", kv_errname(rc));
	if (rc == 0)
		ghosts_settle(s);
	else if (rc != -EAGAIN && rc != -EIO) /* EIO: it may be back, since its device failed */
		wrong("a deletion ended with %s", kv_errname(rc));
}

static struct tier_safe *safe_of(unsigned key)
{
	struct safe *s = &w.safe[key];
	if (s->pending) {
		tier_safe_cancel(w.tier, &s->safe);
		s->pending = false;
	}
	*s = (struct safe){.safe = {.end = safe_end}, .key = key, .begun_ns = w.now_ns};
	return &s->safe;
}

static int safe_wait(struct tier_safe *s, int rc)
{
	if (rc == -EAGAIN)
		tier_safe_wait(w.tier, s);
	return rc;
}

static void call_delete(unsigned key)
{
	char text[32];
	size_t len = key_make(key, text);
	struct want *e = &w.want[key];
	struct tier_safe *s = safe_of(key);
	bool was;
	store_delete(&w.store, text, len, clock_ns(), clock_ns());
	ghost_is_present(e);
	e->live = false;
	e->back = 0;
	unsafe_until(key, 0, safe_wait(s, tier_delete(w.tier, text, len, clock_ns(), &was)));
	if (tier_has(w.tier, index_hash(&w.store.index, text, len), clock_ns()))
		wrong("key %u: it was deleted, and the tier says that it has it", key);
}

static void call_touch(unsigned key)
{
	char text[32];
	size_t len = key_make(key, text);
	struct want *e = &w.want[key];
	uint64_t over_ns = some(3) ? w.now_ns + some(4 * SECOND) : KV_NEVER;
	uint64_t expires_ns = over_ns == KV_NEVER ? KV_NEVER : over_ns + w.shift_ns;
	struct block *b = store_find(&w.store, text, len, clock_ns());
	struct tier_safe *s;
	bool was;
	int rc;
	if (!e->live || e->over_ns <= w.now_ns)
		return;
	s = safe_of(key);
	if (b)
		store_touch(&w.store, text, len, b, expires_ns, clock_ns(), clock_ns());
	rc = tier_touch(w.tier, text, len, expires_ns, clock_ns(), &was);
	if (!b && !was)
		return; /* a miss: nothing has changed */
	ghost_is_present(e);
	e->over_ns = e->back_over_ns = over_ns;
	if (e->back) /* the version that lives on may be an earlier one */
		e->ghost_over_ns = KV_MAX(e->ghost_over_ns, over_ns);
	note(key, "touch, over at %.3f ms, %s in memory, %s on the tier", (double)over_ns / 1e6, b ? "is" : "not",
	     was ? "is" : "not");
	unsafe_until(key, over_ns, safe_wait(s, rc));
}

/* ---- time ---- */

static void check_gets_end(void)
{
	for (unsigned i = 0; i < GETS_MAX; i++)
		if (w.get[i].wait.get && w.now_ns - w.get[i].begun_ns > END_WITHIN_NS)
			wrong("a read of key %u does not end", w.get[i].key);
}

/* Let time pass. Returns whether a device reached the write at which the process is to be killed. */
static bool time_pass(uint64_t ns)
{
	bool crashed = false;
	w.now_ns += 1 + some(ns);
	for (unsigned i = 0; i < w.devices; i++) {
		disk_sim_run(&w.disk[i], w.now_ns);
		crashed |= w.disk[i].crashed;
	}
	for (unsigned i = 0; i < 4 && tier_turn(w.tier, clock_ns()) > 0; i++)
		;
	if (!w.claim_checked && tier_remembers(w.tier))
		check_claim();
	if (w.now_ns - w.ticked_ns > 100 * MS) {
		tier_tick(w.tier, clock_ns());
		store_sweep(&w.store, clock_ns(), 100);
		check_gets_end();
		w.ticked_ns = w.now_ns;
	}
	for (unsigned i = 0; i < w.devices; i++)
		crashed |= w.disk[i].crashed;
	return crashed;
}

static void step(void)
{
	unsigned key = (unsigned)(some(4) ? some(KEYS) : some(KEYS / 8));
	if (some(100) < w.kind->deletes)
		(some(2) ? call_delete : call_touch)(key);
	else if (some(3))
		call_get(key);
	else
		call_put(key);
}

/* ---- worlds ---- */

static const struct kind kinds[] = {
	{"calm", {.delay_min_ns = 20 * US, .delay_max_ns = 2 * MS}, .steps = 20000, .deletes = 5, .ttl = 10},
	{"trouble",
	 {.delay_min_ns = 20 * US,
	  .delay_max_ns = 5 * MS,
	  .short_ppm = 50000,
	  .fail_ppm = 20000,
	  .stall_ppm = 300,
	  .damage_ppm = 10000,
	  .stall_ns = 8 * SECOND},
	 .steps = 20000,
	 .deletes = 5,
	 .ttl = 10},
	{"kills",
	 {.delay_min_ns = 20 * US, .delay_max_ns = 10 * MS},
	 .kills = 20,
	 .steps = 3000,
	 .deletes = 5,
	 .ttl = 10},
	{"deletes",
	 {.delay_min_ns = 20 * US, .delay_max_ns = 10 * MS},
	 .kills = 20,
	 .steps = 3000,
	 .deletes = 40,
	 .ttl = 50},
	{"worn",
	 {.delay_min_ns = 20 * US, .delay_max_ns = 2 * MS, .short_ppm = 10000, .damage_ppm = 50000},
	 .kills = 10,
	 .steps = 3000,
	 .deletes = 5,
	 .ttl = 10,
	 .budgets = true},
};

static void world_begin(const struct kind *kind, uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.kind = kind;
	w.seed = seed;
	kv_prng_seed(&w.prng, seed);
	w.devices = 1 + (unsigned)some(DEVICES);
	w.admit = (enum tier_admit)some(3);
	w.shift_ns = some(1000 * SECOND);
	w.memory = malloc(MEMORY_BYTES);
	assert_non_null(w.memory);
	for (unsigned i = 0; i < w.devices; i++)
		disk_sim_open(&w.disk[i], (6 + some(6)) * SEGMENT_BYTES + TIER_FRONT_BYTES + 16 * TIER_PAGE, &w.prng,
			      &kind->disk);
	process_open();
}

static void world_end(void)
{
	for (unsigned i = 0; i < w.devices; i++)
		disk_sim_crash(&w.disk[i]);
	process_close();
	for (unsigned i = 0; i < w.devices; i++)
		disk_sim_close(&w.disk[i]);
	free(w.memory);
}

/* The footers are read, and each key is looked up. */
static void look_everywhere(void)
{
	for (unsigned i = 0; i < 100000 && tier_reading(w.tier); i++)
		time_pass(1 * MS);
	for (unsigned key = 0; key < KEYS; key++) {
		call_get(key);
		time_pass(5 * MS);
	}
	w.just_killed = false;
}

static void world_run_kind(const struct kind *kind, uint64_t seed)
{
	world_begin(kind, seed);
	for (unsigned k = 0; k <= kind->kills; k++) {
		struct disk_sim *d = &w.disk[some(w.devices)];
		bool crashed = false;
		if (k < kind->kills)
			d->crash_at = d->writes + 1 + some(40);
		for (unsigned i = 0; i < kind->steps && !crashed; i++) {
			step();
			crashed = time_pass(300 * US);
		}
		if (k < kind->kills) {
			process_kill();
			look_everywhere();
		}
	}
	if (kind->kills && !kind->budgets && w.admit != TIER_ADMIT_SECOND && w.after_kill == 0)
		wrong("no value was found after a kill");
	if (kind->kills && kind->disk.damage_ppm == 0 && w.claims == 0)
		wrong("no process knew of deletions before its time");
	if (kind == &kinds[0] && w.from_tier == 0)
		wrong("no value came from the tier");
	world_end();
}

static void run_kind(const char *name)
{
	uint64_t first = kv_seed_from_env("KVRAIL_SEED");
	printf("# KVRAIL_SEED=%llu\n", (unsigned long long)first);
	for (unsigned k = 0; k < KV_COUNT(kinds); k++)
		for (unsigned i = 0; strcmp(kinds[k].name, name) == 0 && i < world_seeds(12); i++)
			world_run_kind(&kinds[k], first + i);
}

static void a_tier_returns_what_was_put(void **state)
{
	(void)state;
	run_kind("calm");
}

static void devices_in_trouble_cost_misses(void **state)
{
	(void)state;
	run_kind("trouble");
}

static void a_kill_at_any_write_costs_misses(void **state)
{
	(void)state;
	run_kind("kills");
}

static void deleted_values_and_short_lives_stay_so(void **state)
{
	(void)state;
	run_kind("deletes");
}

static void damaged_bytes_are_never_returned(void **state)
{
	(void)state;
	run_kind("worn");
}

/* Two keys with equal hashes: the index has for one of them the place of the other. */
static void a_record_of_another_key_is_a_miss(void **state)
{
	struct tier_id id[2];
	uint32_t item[2];
	char text[2][32];
	size_t len[2];
	(void)state;
	world_begin(&kinds[0], kv_seed_from_env("KVRAIL_SEED"));
	for (unsigned i = 0; i < 2000 && w.tier->records.live < 8; i++) {
		call_put((unsigned)some(KEYS));
		time_pass(5 * MS);
	}
	for (unsigned i = 0; i < 100; i++)
		time_pass(5 * MS); /* all of them are on the device */
	for (unsigned key = 0, n = 0; key < KEYS && n < 2; key++) {
		len[n] = key_make(key, text[n]);
		id[n] = tier_id_of(w.tier, text[n], len[n]);
		item[n] = tier_records_find(&w.tier->records, &id[n]);
		n += n == 0 ? item[n] != 0 : !item[n] && !store_find(&w.store, text[n], len[n], clock_ns());
	}
	assert_true(item[0] && !item[1]);
	item[1] = tier_records_add(&w.tier->records, &id[1], w.tier->records.item[item[0]].len, 0);
	w.tier->records.item[item[1]].segment = w.tier->records.item[item[0]].segment;
	w.tier->records.item[item[1]].page = w.tier->records.item[item[0]].page;
	w.get[0] = (struct get){.wait = {.end = get_end}, .key = KEYS, .begun_ns = w.now_ns};
	assert_int_equal(tier_get(w.tier, text[1], len[1], clock_ns() + 10 * SECOND, clock_ns(), &w.get[0].wait), 0);
	for (unsigned i = 0; i < 1000 && w.get[0].wait.get; i++)
		time_pass(5 * MS);
	assert_null(w.get[0].wait.get);
	assert_null(store_find(&w.store, text[1], len[1], clock_ns()));
	world_end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tier_returns_what_was_put),
		cmocka_unit_test(devices_in_trouble_cost_misses),
		cmocka_unit_test(a_kill_at_any_write_costs_misses),
		cmocka_unit_test(deleted_values_and_short_lives_stay_so),
		cmocka_unit_test(damaged_bytes_are_never_returned),
		cmocka_unit_test(a_record_of_another_key_is_a_miss),
	};
	if (argc == 4) {
		for (unsigned k = 0; k < KV_COUNT(kinds); k++)
			for (uint64_t i = 0; strcmp(kinds[k].name, argv[1]) == 0 && i < strtoull(argv[3], NULL, 0); i++)
				world_run_kind(&kinds[k], strtoull(argv[2], NULL, 0) + i);
		return 0;
	}
	return cmocka_run_group_tests_name("sim/tier", tests, NULL, NULL);
}
