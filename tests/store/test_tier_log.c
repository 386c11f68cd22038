/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_log.c -- what a server knew of deletions outlives it on its tier: the log, and the record of service. */
#include "tests/store/tier_rig.h"

#include <errno.h>

enum { MEMORY = 1 << 20, DEVICE = 8 << 20, DELETES = 6000 };

static struct tier_rig rig;

/* Each key is deleted once. */
static struct {
	uint64_t id, wall_us;
	bool safe;
} gone[DELETES];
static unsigned deletes;

static void start(void)
{
	store.tombs.since_ns = (int64_t)rig.now_ns;
	tier_rig_start(&rig);
}

static void pass(uint64_t ns)
{
	rig.now_ns += ns;
	rig.wall_us += ns / 1000;
}

static void begin(unsigned devices)
{
	deletes = 0;
	tier_rig_open(&rig, devices, DEVICE, MEMORY);
	rig.options.members = true;
	start();
	tier_rig_settle(&rig);
	assert_true(tier_remembers(rig.tier));
}

/* The machine is started again: its clock begins anew; or only the process. */
static void again(bool crash, bool reboot)
{
	if (reboot) { /* it has lived longer than the next one needs to begin */
		pass(100 * SECOND);
		tier_rig_settle(&rig);
	}
	tier_rig_stop(&rig, crash);
	pass(SECOND);
	rig.now_ns = reboot ? SECOND : rig.now_ns;
	start();
}

static void delete_one(bool wait)
{
	char key[24];
	snprintf(key, sizeof(key), "gone-%u", deletes);
	gone[deletes].id = store_id(&store, key, strlen(key));
	gone[deletes].wall_us = rig.wall_us;
	gone[deletes].safe = tier_rig_delete(&rig, key, wait);
	deletes++;
}

static bool remembered(uint64_t id)
{
	uint32_t budget = UINT32_MAX;
	const struct tomb *d;
	uint64_t at = 0;
	while ((d = tombs_next(&store.tombs, &at, &budget)) != NULL)
		if (d->id == id)
			return true;
	return false;
}

/* Since when everything is remembered, as the wall clock has it. */
static uint64_t since_us(void)
{
	return rig.wall_us - (uint64_t)((int64_t)rig.now_ns - store.tombs.since_ns) / 1000;
}

/* All deletions that were reported as safe are remembered, as far as the store claims. */
static void check_claim(void)
{
	for (unsigned i = 0; i < deletes; i++)
		if (gone[i].safe && gone[i].wall_us > since_us() + 1000 && !remembered(gone[i].id))
			fail_msg("deletion %u of %u is forgotten, %llu us after the claim", i, deletes,
				 (unsigned long long)(gone[i].wall_us - since_us()));
}

static void deletions_outlive_the_process(void **state)
{
	uint64_t begun_us;
	(void)state;
	begin(1);
	begun_us = since_us();
	for (unsigned life = 0; life < 4; life++) {
		for (unsigned i = 0; i < 20; i++)
			delete_one(true);
		again(life % 2, life > 1);
		assert_false(tier_remembers(rig.tier));
		tier_rig_settle(&rig);
		assert_true(tier_remembers(rig.tier));
		if (since_us() > begun_us + 1000)
			fail_msg("life %u claims %lld us less", life, (long long)(since_us() - begun_us));
		for (unsigned i = 0; i < deletes; i++)
			assert_true(remembered(gone[i].id));
	}
	tier_rig_close(&rig);
}

/* A crash at any moment, short transfers, more deletions than the log has places. */
static void twelve_lives(void)
{
	begin(2);
	for (unsigned life = 0; life < 12; life++) {
		unsigned n = (unsigned)kv_prng_below(&rig.prng, 450);
		for (unsigned i = 0; i < n && deletes < DELETES; i++)
			delete_one(kv_prng_below(&rig.prng, 4) == 0);
		for (uint64_t i = kv_prng_below(&rig.prng, 8); i > 0; i--)
			tier_rig_step(&rig);
		again(kv_prng_below(&rig.prng, 4) > 0, kv_prng_below(&rig.prng, 2));
		rig.fake[0].short_of = 3;
		while (!tier_remembers(rig.tier))
			tier_rig_step(&rig);
		check_claim();
	}
	assert_true(deletes > 1024);
	assert_true(since_us() < rig.wall_us - SECOND / 1000); /* it claims something */
	tier_rig_close(&rig);
}

static void what_was_confirmed_is_remembered(void **state)
{
	(void)state;
	for (unsigned world = 0; world < 12; world++) /* each has a seed of its own */
		twelve_lives();
}

/* The other device has later deletions, and is not here any more. */
static void without_a_device_nothing_is_claimed(void **state)
{
	(void)state;
	begin(2);
	delete_one(true);
	rig.fake[0].gone = true;
	for (unsigned i = 0; i < 7000; i++)
		tier_rig_step(&rig);
	rig.fake[0].gone = false;
	rig.fakes = 1;
	again(true, false);
	free(rig.fake[1].disk);
	tier_rig_settle(&rig);
	assert_true(tier_remembers(rig.tier));
	assert_true(store.tombs.since_ns >= (int64_t)(rig.now_ns - 2 * SECOND));
	tier_rig_close(&rig);
}

/* A server of no cluster logs nothing, and says so. */
static void a_lone_server_claims_nothing(void **state)
{
	(void)state;
	begin(1);
	tier_rig_stop(&rig, false);
	rig.options.members = false;
	start();
	tier_rig_settle(&rig);
	delete_one(true);
	for (unsigned i = 0; i < 6000; i++)
		tier_rig_step(&rig);
	rig.options.members = true;
	again(false, false);
	tier_rig_settle(&rig);
	check_claim();
	assert_true(since_us() > gone[0].wall_us);
	tier_rig_close(&rig);
}

static void the_record_says_when_and_with_whom(void **state)
{
	const uint64_t names[] = {tier_member_name("a"), tier_member_name("b")};
	struct tier_super super;
	struct tier_service s;
	const uint8_t *front, *at;
	(void)state;
	begin(1);
	tier_members(rig.tier, names, 2);
	tier_rig_settle(&rig);
	front = rig.fake[0].disk;
	assert_int_equal(tier_super_check(front, &super), 0);
	at = front + (size_t)TIER_SERVICE_PAGE * TIER_PAGE;
	assert_int_equal(tier_service_get(at, super.id[0], &s), 0);
	assert_int_equal(s.members, 2);
	assert_memory_equal(tier_service_names(at, &s), names, sizeof(names));
	assert_true(tier_service_age_ns(&s, rig.now_ns + 3 * SECOND, rig.wall_us) >= 3 * SECOND);
	assert_true(tier_service_age_ns(&s, 0, rig.wall_us + 3000000) >= 3 * SECOND); /* after a reboot */
	tier_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deletions_outlive_the_process),
		cmocka_unit_test(what_was_confirmed_is_remembered),
		cmocka_unit_test(without_a_device_nothing_is_claimed),
		cmocka_unit_test(a_lone_server_claims_nothing),
		cmocka_unit_test(the_record_says_when_and_with_whom),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
