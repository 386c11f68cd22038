/* SPDX-License-Identifier: Apache-2.0 */
/* test_regions.c -- memory is registered and closed in parts, on every rail, whatever happens to the rails meanwhile.
 * On a fabric that does what the test says (fake/fake.h). */
#include "tests/engine/fake/rig.h"

#include "tests/check.h"

static void a_region_is_registered_in_smaller_parts_when_there_is_no_room(void **state)
{
	struct te_region *region;
	struct te_remote remote;
	uint64_t len = 10 << 20;
	(void)state;
	open_plain();
	void *memory = aligned_alloc(4096, len);
	fake.mr_max = 3 << 20;
	assert_int_equal(te_region_register(n.te, memory, len, TE_LOCAL, 0, &region, NULL), 0);
	te_region_announce(region, &remote, NULL);
	assert_int_equal(remote.part_bytes, 3 << 20);
	assert_int_equal(remote.parts, 4);
	assert_int_equal(te_region_close(&region), 0);
	fake.mr_max = 1000;
	struct kv_error err;
	assert_int_equal(te_region_register(n.te, memory, len, TE_LOCAL, 0, &region, &err), -KV_ENOMEM);
	free(memory);
	close_all();
}

/* Every part of a region on every rail, as the provider got it. */
static void region_check(const struct te_region *region, uint8_t *base, uint64_t len, uint64_t part)
{
	struct te_region_info info;
	struct te_remote remote;
	te_region_info(region, &info);
	assert_int_equal(info.part_bytes, part);
	assert_int_equal(info.parts, (len - 1) / part + 1);
	struct te_key *keys = calloc((size_t)info.rails * info.parts, sizeof(*keys));
	te_region_announce(region, &remote, keys);
	for (unsigned r = 0; r < info.rails; r++) {
		struct kv_list *at = NULL;
		KV_LIST_EACH (node, &fake_fabs[r]->mrs)
			if (KV_LIST_ENTRY(node, struct fab_mr, node)->key == keys[r * info.parts].key)
				at = node;
		/* A rail's parts were registered in order. */
		for (uint64_t p = 0; p < info.parts; p++, at = at->next) {
			const struct fab_mr *mr = KV_LIST_ENTRY(at, struct fab_mr, node);
			assert_int_equal(mr->key, keys[r * info.parts + p].key);
			assert_ptr_equal(mr->base, base + p * part);
			assert_int_equal(mr->len, KV_MIN(part, len - p * part));
		}
	}
	free(keys);
}

/* Four rails by four threads; fab_mr_reg aborts if two of them met on one rail. */
static void rails_that_pin_are_registered_at_once(void **state)
{
	enum { BYTES = (9 << 20) + 4321 };
	struct te_region *region;
	struct te_region_info info;
	(void)state;
	open_rails(4);
	unsigned before = registered();
	fake.caps.pins_memory = true;
	uint8_t *memory = malloc(BYTES + 1);
	assert_int_equal(te_region_register(n.te, memory + 1, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	region_check(region, memory + 1, BYTES, 1 << 20);
	te_region_info(region, &info);
	assert_int_equal(info.rails, 4);
	assert_int_equal(info.threads, 4);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(registered(), before);
	/* One rail takes smaller parts alone: all have them. */
	fake.mr_room_of[2] = 16 << 20;
	fake.mr_max = 5 << 20;
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 8 << 20, &region, NULL), 0);
	region_check(region, memory, BYTES, 4 << 20);
	assert_int_equal(te_region_close(&region), 0);
	free(memory);
	close_all();
}

static void a_rail_that_is_full_is_not_tried_with_smaller_parts(void **state)
{
	enum { BYTES = 8 << 20 };
	struct te_region *region;
	struct kv_error err = {0};
	uint8_t *memory = malloc(BYTES);
	(void)state;
	for (int pins = 0; pins < 2; pins++) {
		open_rails(2);
		unsigned before = registered(), calls = fake.mrs;
		fake.caps.pins_memory = pins;
		fake.mr_room_of[1] = 5 << 20;
		assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 2 << 20, &region, &err), -KV_ENOMEM);
		assert_non_null(strstr(err.text, "rail 1 registered 2 of 4 parts of 2 MiB"));
		assert_non_null(strstr(err.text, "smaller parts would not help"));
		assert_int_equal(registered(), before);
		assert_true(fake.mrs - calls <= 6);
		close_all();
	}
	free(memory);
}

static void a_region_is_registered_between_turns(void **state)
{
	enum { BYTES = 10 << 20 };
	struct te_region *region, *given_up;
	unsigned steps = 1;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	open_rails(2);
	unsigned before = registered();
	fake.mr_takes_ns = 1000000; /* two of them are a step */
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	while (te_region_step(region, NULL) == 1) {
		turn();
		steps++;
	}
	assert_int_equal(steps, 10);
	assert_int_equal(te_region_step(region, NULL), 0);
	region_check(region, memory, BYTES, 1 << 20);
	struct te_region_info info;
	te_region_info(region, &info);
	assert_int_equal(info.ns, 20000000);
	/* A registration that is given up in the middle leaves nothing; one that is not given up goes with the engine.
	 */
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &given_up, NULL), 0);
	assert_int_equal(te_region_step(given_up, NULL), 1);
	assert_int_equal(registered(), before + 22);
	assert_int_equal(te_region_close(&given_up), 0);
	assert_int_equal(registered(), before + 20);
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &given_up, NULL), 0);
	assert_int_equal(te_region_step(given_up, NULL), 1);
	close_all();
	free(memory);
}

/* Unpinning takes time as pinning does. */
static void a_region_is_closed_between_turns(void **state)
{
	enum { BYTES = 10 << 20 };
	uint8_t *memory = malloc(BYTES);
	struct te_region *region;
	unsigned steps = 1;
	(void)state;
	open_rails(2);
	unsigned before = registered();
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	fake.mr_takes_ns = 1000000;
	fake.close_takes_ns = 1000000;
	while (te_region_close_step(&region) == 1) {
		assert_int_equal(registered(), before + 20 - 2 * steps);
		steps++;
		turn();
	}
	assert_null(region);
	assert_int_equal(steps, 10);
	assert_int_equal(registered(), before);
	/* A registration that fails is undone in steps, too: rail 0 took 10 parts, rail 1 takes none of that size. */
	fake.mr_takes_ns = 0;
	fake.mr_room_of[1] = 512 << 10;
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	assert_int_equal(te_region_step(region, NULL), 1);
	assert_int_equal(registered(), before + 8);
	assert_int_equal(te_region_step(region, NULL), 1);
	assert_int_equal(registered(), before + 6);
	close_all(); /* in the middle of it */
	free(memory);
}

/* Numbers alone: nothing touches this memory. */
static void memory_of_any_size_has_parts_that_can_be_announced(void **state)
{
	uint8_t *memory = (uint8_t *)0x100000000123;
	struct te_region *region;
	struct kv_error err = {0};
	(void)state;
	open_rails(2);
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, (uint64_t)300 << 30, (uint64_t)1 << 30);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(te_region_register(n.te, memory, ((uint64_t)20 << 40) + 1, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, ((uint64_t)20 << 40) + 1, (uint64_t)4 << 30);
	assert_int_equal(te_region_close(&region), 0);
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 1 << 20, &region, &err),
			 -KV_ELIMIT);
	assert_non_null(strstr(err.text, "300 GiB in parts of 1 MiB on 2 rails are more parts than can be announced"));
	/* Halving ends before there are too many, too. */
	fake.mr_max = 4 << 20;
	assert_int_equal(te_region_register(n.te, memory, (uint64_t)300 << 30, TE_LOCAL, 0, &region, &err), -KV_ENOMEM);
	assert_int_equal(te_region_register(n.te, memory, 1, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, 1, 1);
	close_all();
}

static void parts_are_as_large_as_the_engine_says(void **state)
{
	enum { BYTES = 1000000 };
	struct te_region *region;
	(void)state;
	open_with((struct te_options){.part_bytes = 4099}, 64, 1024);
	uint8_t *memory = malloc(BYTES);
	assert_int_equal(te_region_register(n.te, memory, BYTES, TE_LOCAL, 0, &region, NULL), 0);
	region_check(region, memory, BYTES, 4099);
	close_all();
	free(memory);
}

/* ---- rails that are out, or fail meanwhile ---- */

static void memory_registered_meanwhile_is_there_when_the_rail_is_back(void **state)
{
	struct te_region *region;
	struct te_remote remote;
	struct te_key keys[2];
	static uint8_t bytes[4096];
	(void)state;
	open_rails(2);
	fake.fails_of[1] = 1;
	fake.mr_fails_of[1] = true; /* nothing works on it */
	rail_dies(1);
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL | TE_REMOTE_WRITE, 0, &region, NULL),
			 0);
	te_region_announce(region, &remote, keys);
	assert_int_equal(keys[0].key, keys[1].key);
	fake_now_ns += 100000000;
	turn(); /* it cannot register, and is not opened */
	assert_false(te_rail_up(n.te, 1));
	assert_int_equal(n.resets, 1);
	assert_int_equal(fake.rebuilds_of[1], 1);
	fake.mr_fails_of[1] = false;
	fake_now_ns += 200000000;
	turn();
	assert_true(te_rail_up(n.te, 1));
	te_region_announce(region, &remote, keys);
	assert_int_not_equal(keys[0].key, keys[1].key);
	assert_int_equal(te_region_close(&region), 0);
	close_all();
}

/* Hundreds of GiB of it: calls go on while it is registered, and nobody hears of the rail before it has all. */
static void a_rail_that_comes_back_registers_some_parts_in_each_turn(void **state)
{
	enum { PARTS = 9 };
	struct te_region *region, *second, *gone;
	struct te_remote remote;
	struct te_key keys[2 * PARTS];
	static uint8_t bytes[PARTS * 4096], more[3 * 4096];
	(void)state;
	open_rails(2);
	fake.fails_of[1] = 1;
	fake.mr_fails_of[1] = true;
	rail_dies(1);
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL, 4096, &region, NULL), 0);
	assert_int_equal(te_region_register(n.te, more, sizeof(more), TE_LOCAL, 4096, &gone, NULL), 0);
	assert_int_equal(te_region_begin(n.te, more, sizeof(more), TE_LOCAL, 4096, &second, NULL), 0);
	fake.mr_fails_of[1] = false;
	fake.mr_takes_ns = 1000000; /* two of them in a turn */
	fake_now_ns += 100000000;
	for (unsigned i = 0; i < 5; i++) {
		unsigned before = fake.mrs;
		turn();
		assert_int_equal(fake.mrs - before, 2);
		assert_false(te_rail_up(n.te, 1));
		assert_int_equal(n.resets, 1);
		assert_int_equal(fake.rebuilds_of[1], 1);
		if (i > 0)
			continue;
		/* One goes meanwhile, and one comes that has nothing on that rail: 8 parts are left. */
		assert_int_equal(te_region_close_step(&gone), 0);
		fake.mr_fails_of[1] = true;
		assert_int_equal(te_region_step(second, NULL), 1);
		assert_int_equal(te_region_step(second, NULL), 0);
		fake.mr_fails_of[1] = false;
	}
	turn();
	assert_true(te_rail_up(n.te, 1));
	assert_int_equal(n.resets, 2);
	te_region_announce(region, &remote, keys);
	for (unsigned i = 0; i < 2 * PARTS; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(keys[i].key, keys[k].key);
	te_region_announce(second, &remote, keys);
	for (unsigned i = 0; i < 3; i++)
		assert_int_not_equal(keys[i].key, keys[3 + i].key);
	close_all();
}

/* The rail fails while the region is begun and is back before it is finished: it is not left out. */
static void a_rail_that_comes_back_meanwhile_is_registered(void **state)
{
	enum { BYTES = 4 << 20 };
	struct te_region *region;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	open_rails(2);
	fake.mr_takes_ns = 2000000;
	fake.fails_of[0] = 1;
	rail_dies(0);
	fake.mr_fails_of[0] = true;
	assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
	assert_int_equal(te_region_step(region, NULL), 1);
	fake.mr_fails_of[0] = false;
	fake_now_ns += 200000000;
	turn();
	assert_true(te_rail_up(n.te, 0));
	while (te_region_step(region, NULL) == 1)
		;
	region_check(region, memory, BYTES, 1 << 20);
	close_all();
	free(memory);
}

/* A rail may be out because its device has no memory: no other rail is to fail for that, or to have smaller parts. */
static void a_rail_that_is_out_and_full_keeps_nobody_from_registering(void **state)
{
	enum { BYTES = 4 << 20 };
	struct te_region *region;
	struct te_region_info info;
	uint8_t *memory = malloc(BYTES);
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		open_rails(2);
		fake.fails_of[1] = 1;
		rail_dies(1);
		fake.mr_room_of[1] = i ? 5 << 19 : 1; /* for two parts, and for none */
		assert_int_equal(te_region_begin(n.te, memory, BYTES, TE_LOCAL, 1 << 20, &region, NULL), 0);
		assert_int_equal(te_region_step(region, NULL), 0);
		te_region_info(region, &info);
		assert_int_equal(info.part_bytes, 1 << 20);
		fake.mr_room_of[1] = 0;
		fake_now_ns += 200000000;
		turn();
		assert_true(te_rail_up(n.te, 1));
		region_check(region, memory, BYTES, 1 << 20);
		close_all();
	}
	free(memory);
}

/* Its device has failed, and the engine is about to hear of it, or has heard and waits with the rebuild. */
static void memory_is_registered_although_a_rail_fails_meanwhile(void **state)
{
	static uint8_t bytes[4096];
	(void)state;
	for (unsigned known = 0; known < 2; known++)
		for (unsigned stays = 0; stays < 2; stays++) {
			struct te_region *region;
			unsigned steps = 1;
			open_rails(2);
			fake.mr_fails_of[1] = true;
			assert_int_equal(te_region_begin(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, NULL), 0);
			if (known) { /* fences are rate-limited: it is rebuilt later */
				for (unsigned i = 0; i < 5; i++) {
					struct te_peer *p = peer(1);
					assert_int_equal(te_peer_fence(p, NULL), 0);
					te_peer_close(&p);
				}
				turn();
			}
			fake_event(1, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
			if (known)
				turn();
			fake.fails_of[1] = stays;
			assert_int_equal(te_region_step(region, NULL), 1);
			for (int rc = 1; rc == 1 && steps < 1000; steps++) {
				fake_now_ns += 1000000;
				turn();
				if (fake.rebuilds_of[1] > (known ? 5u : 0u))
					fake.mr_fails_of[1] = stays;
				rc = te_region_step(region, NULL);
				assert_true(rc >= 0);
			}
			assert_in_range(steps, 2, 999);
			assert_int_equal(te_rail_up(n.te, 1), !stays);
			assert_int_equal(te_region_close(&region), 0);
			close_all();
		}
}

/* Memory that is no good on a rail that is well: one more turn, and then it is said. */
static void a_refusal_of_a_rail_that_is_well_is_believed_at_the_second_time(void **state)
{
	static uint8_t bytes[4096];
	struct te_region *region;
	struct kv_error err = {0};
	(void)state;
	open_rails(2);
	unsigned before = fake.mrs;
	fake.mr_fails_of[1] = true;
	assert_int_equal(te_region_begin(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, &err), 0);
	assert_int_equal(te_region_step(region, &err), 1);
	turn();
	assert_int_equal(te_region_step(region, &err), -KV_EPROVIDER);
	assert_string_equal(err.text, "told to fail");
	assert_int_equal(fake.mrs - before, 1);
	/* While nothing works yet there is nothing to wait for. */
	assert_int_equal(te_region_register(n.te, bytes, sizeof(bytes), TE_LOCAL, 0, &region, &err), -KV_EPROVIDER);
	close_all();
}

/* ---- regions, at random ---- */

enum { AREAS = 3, AREA_PARTS = 6, PART = 1 << 20, AREA_BYTES = AREA_PARTS * PART };

static struct {
	struct te_region *region;
	bool ready, closing;
	uint8_t *base;
} some[AREAS];

/* What of a region is registered on a rail: nothing twice. */
static uint64_t registered_of(unsigned rail, const uint8_t *base)
{
	uint64_t bytes = 0;
	KV_LIST_EACH (i, &fake_fabs[rail]->mrs) {
		const struct fab_mr *a = KV_LIST_ENTRY(i, const struct fab_mr, node);
		if (a->base < base || a->base >= base + AREA_BYTES)
			continue;
		bytes += a->len;
		KV_LIST_EACH (k, &fake_fabs[rail]->mrs)
			assert_true(k == i || KV_LIST_ENTRY(k, const struct fab_mr, node)->base != a->base);
	}
	return bytes;
}

/* What is gone is registered nowhere; what is ready is on every rail that is up, whole. */
static void some_check(unsigned rails)
{
	for (unsigned a = 0; a < AREAS; a++)
		for (unsigned r = 0; r < rails; r++) {
			uint64_t bytes = registered_of(r, some[a].base);
			assert_true(some[a].region || bytes == 0);
			assert_true(!some[a].ready || some[a].closing || !te_rail_up(n.te, r) || bytes == AREA_BYTES);
		}
}

/* Whether it may take as long as it likes. */
static bool some_act(struct kv_prng *p, unsigned a)
{
	bool at_once = kv_prng_below(p, 8) == 0;
	int rc = 0;
	if (!some[a].region) {
		some[a].ready = some[a].closing = false;
		assert_int_equal(te_region_begin(n.te, some[a].base, AREA_BYTES, TE_LOCAL, PART << kv_prng_below(p, 3),
						 &some[a].region, NULL),
				 0);
	} else if (some[a].closing || kv_prng_below(p, some[a].ready ? 8 : 30) == 0) {
		some[a].closing = true;
		rc = at_once ? te_region_close(&some[a].region) : te_region_close_step(&some[a].region);
		assert_true(rc == 0 ? !some[a].region : rc == 1 && some[a].region);
		return at_once;
	} else if (!some[a].ready) {
		rc = te_region_step(some[a].region, NULL);
		some[a].ready = rc == 0;
		if (rc < 0)
			some[a].region = NULL;
	}
	return false;
}

static void regions_come_and_go_while_rails_do(void **state)
{
	enum { ROUNDS = 40, TURNS = 300, RAILS = 3 };
	struct kv_prng p = check_seed();
	(void)state;
	for (unsigned a = 0; a < AREAS; a++)
		some[a].base = malloc(AREA_BYTES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned rails = 1 + (unsigned)kv_prng_below(&p, RAILS), own;
		open_rails(rails);
		own = registered();
		fake.close_takes_ns = fake.mr_takes_ns = 1000000;
		for (unsigned i = 0; i < TURNS; i++) {
			unsigned r = (unsigned)kv_prng_below(&p, rails);
			uint64_t before;
			fake_now_ns += kv_prng_below(&p, 10) ? 1000000 : kv_prng_below(&p, 2000000000);
			switch (kv_prng_below(&p, 12)) {
			case 0:
				fake_event(r, (struct fab_event){.type = FAB_EV_DEAD, .status = -KV_EPROVIDER});
				fake.fails_of[r] = (unsigned)kv_prng_below(&p, 3);
				break;
			case 1:
				fake.mr_fails_of[r] = !fake.mr_fails_of[r];
				break;
			case 2:
				fake.mr_max = kv_prng_below(&p, 3) ? 0 : PART;
				break;
			default:
				break;
			}
			before = fake_now_ns;
			turn();
			some_check(rails);
			/* Two parts in 2 ms, and one on each other rail that comes back. */
			assert_in_range(fake_now_ns - before, 0, 1000000 * (1 + rails));
			before = fake_now_ns;
			bool at_once = some_act(&p, (unsigned)kv_prng_below(&p, AREAS));
			some_check(rails);
			assert_true(at_once || fake_now_ns - before <= 2000000);
		}
		for (unsigned a = 0; a < AREAS && round % 2; a++)
			te_region_close(&some[a].region);
		if (round % 2)
			assert_int_equal(registered(), own);
		memset(fake.mr_fails_of, 0, sizeof(fake.mr_fails_of));
		close_all(); /* in the middle of it, or after it */
		for (unsigned a = 0; a < AREAS; a++)
			some[a].region = NULL;
		for (unsigned a = 0; a < AREAS; a++)
			some[a].ready = false;
	}
	for (unsigned a = 0; a < AREAS; a++)
		free(some[a].base);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		NODE_CASE(a_region_is_registered_in_smaller_parts_when_there_is_no_room),
		NODE_CASE(rails_that_pin_are_registered_at_once),
		NODE_CASE(a_rail_that_is_full_is_not_tried_with_smaller_parts),
		NODE_CASE(a_region_is_registered_between_turns),
		NODE_CASE(a_region_is_closed_between_turns),
		NODE_CASE(memory_of_any_size_has_parts_that_can_be_announced),
		NODE_CASE(parts_are_as_large_as_the_engine_says),
		NODE_CASE(memory_registered_meanwhile_is_there_when_the_rail_is_back),
		NODE_CASE(a_rail_that_comes_back_registers_some_parts_in_each_turn),
		NODE_CASE(a_rail_that_comes_back_meanwhile_is_registered),
		NODE_CASE(a_rail_that_is_out_and_full_keeps_nobody_from_registering),
		NODE_CASE(memory_is_registered_although_a_rail_fails_meanwhile),
		NODE_CASE(a_refusal_of_a_rail_that_is_well_is_believed_at_the_second_time),
		NODE_CASE(regions_come_and_go_while_rails_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
