/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_cache.c -- put and get through the whole stack, simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/model.h"

static struct world world;

struct one {
	uint64_t len;
};

static void put_and_get(struct kvc_client *client, void *arg)
{
	const struct one *o = arg;
	struct kvc_key key = {"a key", 5};
	uint8_t *data = malloc(o->len), *back = malloc(o->len);
	kv_prng_fill(&world.prng, data, o->len);
	int rc = kvc_put_await(client, key, data, o->len, NULL);
	if (rc != 0)
		world_wrong(&world, "put: %s", kv_errname(rc));
	int64_t got = kvc_get_await(client, key, back, o->len, NULL);
	if (got != (int64_t)o->len)
		world_wrong(&world, "get: %lld", (long long)got);
	else if (memcmp(data, back, o->len) != 0)
		world_wrong(&world, "other bytes");
	free(data);
	free(back);
}

static void a_value_comes_back(void **state)
{
	static const uint64_t len[] = {1, 3072, 3073, 65536, 1 << 20, 20 << 20};
	(void)state;
	for (int virt = 0; virt < 2; virt++) {
		for (unsigned i = 0; i < KV_COUNT(len); i++) {
			struct one o = {len[i]};
			world_open(&world,
				   &(struct world_options){.seed = 1, .fabric.virt = virt, .fabric.wait_fd = virt});
			world_do(&world, 0, put_and_get, &o);
			world_close(&world);
		}
	}
}

/* ---- many workers and a model ---- */

/* The first two: batches that waited for room while they held some. */
static const uint64_t seeds[] = {1043, 1110, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

/* The seed chooses the world, too. */
static void choose(uint64_t seed, struct world_options *wo, struct model_options *mo)
{
	static const uint32_t chunk[] = {0, 0, 65536, 4096 * 5, 1 << 18};
	struct kv_prng p;
	kv_prng_seed(&p, seed ^ 0xc0ffee);
	*wo = (struct world_options){.seed = seed,
				     .pools = 1 + (unsigned)kv_prng_below(&p, 2),
				     .clients = 1 + (unsigned)kv_prng_below(&p, 3)};
	wo->fabric.virt = kv_prng_below(&p, 2);
	wo->fabric.wait_fd = kv_prng_below(&p, 2);
	wo->fabric.eagain_percent = (unsigned)kv_prng_below(&p, 3) * 15;
	wo->fabric.tx_depth = 8u << kv_prng_below(&p, 5);
	wo->fabric.delay_max_ns = wo->fabric.eagain_percent ? 300 * US : 0;
	wo->fabric.ordered = seed & 1;
	wo->chunk_bytes = chunk[kv_prng_below(&p, KV_COUNT(chunk))];
	wo->credits = kv_prng_below(&p, 2) ? 0 : 3 + (uint32_t)kv_prng_below(&p, 30);
	wo->rails = kv_prng_below(&p, 3) ? 1 : 2;
	wo->buffer_bytes = (uint64_t)2 << (20 + kv_prng_below(&p, 5));
	wo->timeout_ns = 30 * SECOND;
	*mo = (struct model_options){.registered = kv_prng_below(&p, 2), .evicts = kv_prng_below(&p, 4) == 0};
	wo->memory_bytes = mo->evicts ? 24u << 20 : 512u << 20;
	mo->len_max = mo->evicts ? 4 << 20 : 20 << 20;
	mo->workers = 2 + (unsigned)kv_prng_below(&p, 30);
	mo->calls = 800 / mo->workers;
}

static uint64_t live(uint64_t seed)
{
	struct world_options wo;
	struct model_options mo;
	struct model *m;
	choose(seed, &wo, &mo);
	world_open(&world, &wo);
	m = model_create(&world, &mo);
	model_start(m);
	world_join(&world, 600 * SECOND);
	model_check(m);
	if (getenv("KVRAIL_SIM_STATS")) {
		const struct model_counts *c = model_counts(m);
		fprintf(stderr, "seed %llu: calls %llu bytes %llu failed %llu misses %llu virtual %.3f s\n",
			(unsigned long long)seed, (unsigned long long)c->calls, (unsigned long long)c->bytes,
			(unsigned long long)c->failed, (unsigned long long)c->misses, (double)world_now(&world) / 1e9);
	}
	model_destroy(&m);
	return world_close(&world);
}

static void many_workers_agree_with_the_model(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(KV_COUNT(seeds)); i++)
		live(seeds[i]);
}

static void workers_agree_with_a_seed_that_nobody_chose(void **state)
{
	uint64_t seed = kv_seed_from_env("KVRAIL_SEED");
	(void)state;
	print_message("seed 0x%llx\n", (unsigned long long)seed);
	live(seed);
}

static void the_same_seed_gives_the_same_events(void **state)
{
	(void)state;
	for (uint64_t seed = 101; seed < 101 + world_seeds(4); seed++)
		assert_int_equal(live(seed), live(seed));
	assert_int_not_equal(live(101), live(102));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_comes_back),
		cmocka_unit_test(many_workers_agree_with_the_model),
		cmocka_unit_test(workers_agree_with_a_seed_that_nobody_chose),
		cmocka_unit_test(the_same_seed_gives_the_same_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
