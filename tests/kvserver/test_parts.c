/* SPDX-License-Identifier: Apache-2.0 */
/* test_parts.c -- the memory of server and client registered in small parts of odd length: values lie across many of
 * them, at places where one side's part ends and the other's does not. What NICs that bound a registration make of an
 * arena. */
#include "tests/kvserver/rig.h"

enum { PART = 65521, ROUNDS = 120, LEN_MAX = 3 << 20 };

static int up(void **state)
{
	rig_part_bytes = PART;
	return rig_up(state);
}

static void both_sides_have_many_parts(void **state)
{
	struct te_region_info info;
	(void)state;
	te_region_info(rig.shard->region, &info);
	assert_int_equal(info.part_bytes, PART);
	assert_int_equal(info.parts, (RIG_MEMORY - 1) / PART + 1);
	assert_int_equal(rig.announced.parts, (RIG_BUFFER - 1) / PART + 1);
}

/* A GET of [from, from + len) of a value of n bytes into the client's buffer at `to`. */
static void get_check(const char *key, const uint8_t *value, uint64_t n, uint64_t from, uint64_t len, uint64_t to)
{
	struct wire_request q = rig_get(key, from, len);
	q.dest.offset = to;
	memset(rig_memory(to), 0xEE, len + 1);
	uint64_t before = rig.immediates;
	const struct wire_reply *r = rig_ask(&q);
	assert_int_equal(r->status, WIRE_OK);
	assert_int_equal(r->get.value_len, n);
	rig_until(rig.immediates >= before + r->get.posted);
	assert_memory_equal(rig_memory(to), value + from, len);
	assert_int_equal(*rig_memory(to + len), 0xEE);
}

static void values_that_lie_across_parts_come_and_go_whole(void **state)
{
	struct kv_prng prng = check_seed();
	uint8_t *value = malloc(LEN_MAX);
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* Around multiples of a part, and anything. */
		uint64_t n = i % 3 ? 1 + kv_prng_below(&prng, LEN_MAX)
				   : (1 + kv_prng_below(&prng, 8)) * PART + kv_prng_below(&prng, 3) - 1;
		uint64_t seed = kv_prng_below(&prng, 1000);
		char key[16];
		snprintf(key, sizeof(key), "k%u",
			 i % 8); /* old ones make room for others: the arena is used everywhere */
		struct wire_request del = rig_request(WIRE_DELETE, key);
		rig_ask(&del);
		rig_store(key, n, seed);
		rig_fill(value, n, seed);
		uint64_t len = KV_MAX(n - n / 3, (uint64_t)KV_INLINE_MAX + 1), to = 1 + kv_prng_below(&prng, 4 * PART);
		if (n > KV_INLINE_MAX)
			get_check(key, value, n, 0, n, to);
		if (n > len)
			get_check(key, value, n, kv_prng_below(&prng, n - len), len, to + PART - 1);
	}
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_have_many_parts),
		cmocka_unit_test_setup_teardown(values_that_lie_across_parts_come_and_go_whole, rig_open, rig_close),
	};
	return cmocka_run_group_tests(tests, up, rig_down);
}
