/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_rails.c -- several rails: equal or not, one that is cut, one that breaks, on either side. */
#include "tests/check.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/request/private.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/world.h"

static struct world world;

static void fill(uint8_t *p, uint64_t len, uint64_t seed)
{
	struct kv_prng prng;
	kv_prng_seed(&prng, seed);
	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)kv_prng_next(&prng);
}

static struct kvc_key key_of(char *buf, unsigned i)
{
	return (struct kvc_key){buf, (size_t)snprintf(buf, 16, "rail-%u", i)};
}

/* ---- every byte, whatever the numbers of rails ---- */

static const uint64_t sizes[] = {1, 3000, 5000, 64 << 10, 300001, 1 << 20, (1 << 20) + 1, 5 << 20, 17 << 20};

static void bytes_worker(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		uint8_t *in = malloc(sizes[i]), *out = malloc(sizes[i] + 1);
		char text[16];
		struct kvc_key key = key_of(text, i);
		fill(in, sizes[i], i + 1);
		out[sizes[i]] = 0xA5;
		int rc = kvc_put_await(c, key, in, sizes[i], NULL);
		for (unsigned times = 0; rc == 0 && times < 3; times++) {
			memset(out, 0, sizes[i]);
			int64_t got = kvc_get_await(c, key, out, sizes[i], NULL);
			if (got != (int64_t)sizes[i] || memcmp(in, out, sizes[i]) != 0 || out[sizes[i]] != 0xA5)
				world_wrong(&world, "GET of %llu bytes: %lld", (unsigned long long)sizes[i],
					    (long long)got);
		}
		if (rc)
			world_wrong(&world, "PUT of %llu bytes: %s", (unsigned long long)sizes[i], kv_errname(rc));
		free(in);
		free(out);
	}
}

static struct te *shard_engine(unsigned shard)
{
	return world.server[0].server->shard[shard]->te;
}

static struct te *client_engine(unsigned client)
{
	return world.pool[0].pool->client[client]->te;
}

static void any_numbers_of_rails_move_every_byte(void **state)
{
	static const unsigned pairs[][2] = {{1, 3}, {3, 1}, {4, 2}, {2, 4}, {2, 3}, {3, 2}, {4, 4}};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(pairs); i++) {
		struct world_options wo = {.seed = 500 + i,
					   .rails = pairs[i][0],
					   .server_rails = pairs[i][1],
					   .clients = 1,
					   .fabric = {.ordered = i % 2, .virt = i % 3 == 0}};
		struct kvc_server_info info = {.size = sizeof(info)};
		world_open(&world, &wo);
		world_do(&world, 0, bytes_worker, NULL);
		assert_int_equal(kvc_server_info(world.pool[0].pool, 0, 0, &info), 0);
		assert_int_equal(info.links, WORLD_SHARDS * KV_MAX(pairs[i][0], pairs[i][1]));
		assert_int_equal(info.links_up, info.links);
		/* Every rail has carried bytes: striped on the server's side, and immediates counted on all of the
		 * client's, which writes its PUTs over them where it has a landing area. */
		for (unsigned rail = 0; rail < pairs[i][1]; rail++) {
			struct te_stats s, t;
			te_rail_stats(shard_engine(0), rail, &s);
			te_rail_stats(shard_engine(1), rail, &t);
			assert_true(s.bytes_written + t.bytes_written > 1 << 20);
			if (info.put_way == KVC_PUT_READ)
				assert_true(s.bytes_read + t.bytes_read > 1 << 20);
		}
		for (unsigned rail = 0; rail < pairs[i][0]; rail++) {
			struct te_stats s;
			te_rail_stats(client_engine(0), rail, &s);
			assert_true(s.immediates > 0);
			if (info.put_way == KVC_PUT_LAND)
				assert_true(s.bytes_written > 1 << 20);
		}
		world_close(&world);
	}
}

/* ---- GETs go on ---- */

enum { VALUES = 8, VALUE = 300000, WORKERS = 6 };

static struct {
	uint8_t value[VALUES][VALUE];
	uint64_t gets, slowest_ns;
	bool stop;
	uint8_t memory[WORKERS][VALUE];
	struct kvc_mem *mem;
} load;

static void load_put(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < VALUES; i++) {
		char text[16];
		fill(load.value[i], VALUE, 100 + i);
		if (kvc_put_await(c, key_of(text, i), load.value[i], VALUE, NULL) != 0)
			world_wrong(&world, "a value could not be stored");
	}
}

static void load_get(struct kvc_client *c, void *arg)
{
	uint8_t *dst = arg;
	for (unsigned i = 0; !load.stop; i = (i + 1) % VALUES) {
		uint64_t begun = world_now(&world);
		char text[16];
		int64_t rc = kvc_get_await(c, key_of(text, i), dst, VALUE, NULL);
		if (rc != VALUE)
			world_wrong(&world, "a GET ended with %s", kv_errname((int)rc));
		else if (memcmp(dst, load.value[i], VALUE) != 0)
			world_wrong(&world, "a GET brought wrong bytes");
		load.gets++;
		load.slowest_ns = KV_MAX(load.slowest_ns, world_now(&world) - begun);
		memset(dst, 0x5A, VALUE); /* what lands later is seen by world_landing */
		co_sleep_await(world_now(&world) + 20 * MS);
	}
}

/* With half of the workers' memory registered, so that writes go there. */
static void load_begin(const struct world_options *wo)
{
	memset(&load, 0, sizeof(load));
	world_open(&world, wo);
	world_do(&world, 0, load_put, NULL);
	assert_int_equal(world_register(&world, 0, load.memory, sizeof(load.memory) / 2, &load.mem), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, i % wo->clients, load_get, load.memory[i]);
	world_sleep(&world, SECOND / 2);
	assert_true(load.gets > 0);
}

static void load_end(void)
{
	load.stop = true;
	world_join(&world, 10 * SECOND);
	assert_int_equal(world_counters(&world, 0).corrupt, 0);
	assert_int_equal(world_counters(&world, 0).timeouts, 0);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &load.mem), 0);
	world_close(&world);
}

/* GETs that were made in the last second of some time. */
static uint64_t progress(uint64_t ns)
{
	uint64_t before;
	world_sleep(&world, ns - SECOND);
	before = load.gets;
	world_sleep(&world, SECOND);
	return load.gets - before;
}

static unsigned links_up(unsigned client)
{
	struct kvc_server_info info = {.size = sizeof(info)};
	assert_int_equal(kvc_server_info(world.pool[0].pool, client, 0, &info), 0);
	return info.links_up;
}

static bool all_up(void *arg)
{
	(void)arg;
	return links_up(0) == 2 * WORLD_SHARDS;
}

static struct world_options two_rails(unsigned seed)
{
	/* 5 s for a call: what the library gives it, too. */
	return (struct world_options){.seed = seed,
				      .rails = 2,
				      .clients = 1,
				      .timeout_ns = 5 * SECOND,
				      .fabric = {.ordered = seed % 2, .virt = seed % 3 == 0, .wait_fd = seed % 5 < 3}};
}

static void a_cut_rail(unsigned seed, bool of_server)
{
	struct world_options wo = two_rails(seed);
	load_begin(&wo);
	/* Endpoints are numbered as they are opened: a shard's two, the next shard's, the client's. */
	uint64_t first = of_server ? world.server[0].fab_first : world.pool[0].fab_first,
		 end = of_server ? world.server[0].fab_end : world.pool[0].fab_end;
	for (uint64_t id = first + 1; id < end; id += 2)
		sim_fabric_unplug(id, true);
	assert_true(progress(6 * SECOND) > 10);
	assert_int_equal(links_up(0), WORLD_SHARDS);
	assert_true(load.slowest_ns < 4 * SECOND);
	assert_non_null(world_said("is silent while another one answers"));
	assert_null(world_said("did not confirm within the grace")); /* the server is not slow */
	uint64_t reattaches = world_counters(&world, 0).reattaches;
	assert_in_range(reattaches, 1, 3);
	/* No more of that while it stays cut. */
	assert_true(progress(20 * SECOND) > 10);
	assert_int_equal(world_counters(&world, 0).reattaches, reattaches);
	for (uint64_t id = first + 1; id < end; id += 2)
		sim_fabric_unplug(id, false);
	world_run(&world, all_up, NULL, 40 * SECOND, "the rail did not come back");
	assert_true(progress(2 * SECOND) > 10);
	assert_int_equal(world_counters(&world, 0).reattaches, reattaches); /* the session went on */
	load_end();
}

static void a_rail_of_the_client_is_cut_and_gets_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		a_cut_rail(600 + i, false);
}

static void a_rail_of_the_server_is_cut_and_gets_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		a_cut_rail(620 + i, true);
}

static void a_broken_rail(unsigned seed, bool of_server, bool pull)
{
	struct world_options wo = two_rails(seed);
	struct sim_fabric_stats stats;
	wo.pull_pools = pull;
	load_begin(&wo);
	uint64_t id = (of_server ? world.server[0].fab_first : world.pool[0].fab_first) + 1;
	struct te *te = of_server ? shard_engine(0) : client_engine(0);
	sim_fabric_rebuild_fails(id, 6);
	sim_fabric_break(id);
	world_sleep(&world, 300 * MS);
	assert_false(te_rail_up(te, 1));
	assert_true(te_rail_up(te, 0));
	/* 0.1, 0.2, 0.4 ... 3.2 s: the rail is tried again, and no call is disturbed. */
	assert_true(progress(4 * SECOND) > 10);
	assert_false(te_rail_up(te, 1));
	assert_int_equal(links_up(0), 2 * WORLD_SHARDS); /* another stands for it, */
	sim_fabric_stats(&stats);
	assert_int_equal(stats.bad_keys, 0); /* and its keys with it */
	assert_int_equal(world_counters(&world, 0).reattaches, 1);
	world_sleep(&world, 4 * SECOND);
	assert_true(te_rail_up(te, 1));
	assert_true(progress(2 * SECOND) > 10);
	assert_int_equal(world_counters(&world, 0).reattaches, 2);
	assert_true(load.slowest_ns < 2 * SECOND);
	load_end();
}

static void a_rail_of_the_client_breaks_and_gets_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		a_broken_rail(640 + i, false, false);
}

static void a_rail_of_the_server_breaks_and_gets_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		a_broken_rail(660 + i, true, false);
}

/* What stands for a rail has keys of its own, which clients that read by themselves must be told. */
static void a_rail_of_the_server_breaks_and_pulls_go_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(6); i++)
		a_broken_rail(680 + i, true, true);
}

/* ---- a server that has to rebuild its endpoints more often than it may tell ---- */

/* The server refuses new attachments meanwhile, for a moment: calls wait, as for every break that is not the server's
 * end. */
static void a_server_that_is_being_rebuilt_is_waited_for(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(4); i++) {
		struct world_options wo = two_rails(670 + i);
		wo.rails = 1 + i % 2;
		load_begin(&wo);
		for (unsigned times = 0; times < 10; times++) {
			sim_fabric_break(world.server[0].fab_first + times % wo.rails);
			world_sleep(&world, 30 * MS);
			/* Ours, too, so that a new session is asked for just then. */
			if (times == 6)
				sim_fabric_break(world.pool[0].fab_first);
			world_sleep(&world, 30 * MS);
		}
		assert_true(progress(4 * SECOND) > 10);
		load_end();
	}
}

/* ---- endpoints that are rebuilt with other queues ---- */

enum { SMALL_CQ = 256, SMALL_TX = 32, SMALL_RX = 64, BIG_CHUNKS = 5 << 20 };

static uint32_t imms_used(unsigned client)
{
	return world.pool[0].pool->client[client]->requests->room.imm_used;
}

static uint32_t imms_limit(unsigned client)
{
	return world.pool[0].pool->client[client]->requests->room.imm_limit;
}

/* A value of more chunks than immediates may be out, into memory of the caller: it takes as many as it gets. */
static void many_chunks_get(struct kvc_client *c, void *arg)
{
	uint8_t *dst = arg;
	while (!load.stop) {
		int64_t rc = kvc_get_await(c, (struct kvc_key){"chunks", 6}, dst, BIG_CHUNKS, NULL);
		if (rc != BIG_CHUNKS)
			world_wrong(&world, "a GET of many chunks ended with %s", kv_errname((int)rc));
		load.gets++;
	}
}

static void many_chunks_put(struct kvc_client *c, void *arg)
{
	if (kvc_put_await(c, (struct kvc_key){"chunks", 6}, arg, BIG_CHUNKS, NULL) != 0)
		world_wrong(&world, "the value could not be stored");
}

/* Of one rail, or of all: the peers' immediates may all come by the one with the least room. */
static void a_small_cq(unsigned seed, bool all)
{
	static uint8_t big[4][BIG_CHUNKS];
	struct world_options wo = two_rails(seed);
	struct kvc_mem *mem;
	uint32_t before, most = 0;
	memset(&load, 0, sizeof(load));
	wo.chunk_bytes = 4096;
	world_open(&world, &wo);
	before = imms_limit(0);
	assert_int_equal(before, 512);
	fill(big[0], BIG_CHUNKS, seed);
	world_do(&world, 0, many_chunks_put, big[0]);
	assert_int_equal(world_register(&world, 0, big, sizeof(big), &mem), 0);
	for (unsigned i = 0; i < KV_COUNT(big); i++)
		world_worker(&world, 0, 0, many_chunks_get, big[i]);
	world_sleep(&world, 100 * MS);
	assert_in_range(imms_used(0), SMALL_CQ, before);
	for (unsigned rail = all ? 0 : 1; rail < 2; rail++)
		sim_fabric_depths(world.pool[0].fab_first + rail, SMALL_TX, SMALL_RX, SMALL_CQ);
	sim_fabric_break(world.pool[0].fab_first);
	for (unsigned i = 0; i < 2000; i++) {
		world_sleep(&world, 100 * US);
		if (i > 10)
			most = KV_MAX(most, imms_used(0));
	}
	/* Half of it: besides 32 operations and 64 receives of our own. */
	assert_int_equal(imms_limit(0), SMALL_CQ / 2);
	assert_in_range(most, 1, SMALL_CQ / 2);
	uint64_t gets = load.gets;
	for (unsigned i = 0; i < 30 && load.gets == gets; i++)
		world_sleep(&world, 10 * MS);
	assert_true(load.gets > gets);
	/* And back again. */
	for (unsigned rail = 0; rail < 2; rail++)
		sim_fabric_depths(world.pool[0].fab_first + rail, 64, 256, 1024);
	sim_fabric_break(world.pool[0].fab_first);
	for (unsigned i = 0; i < 40 && imms_limit(0) != before; i++)
		world_sleep(&world, 50 * MS);
	assert_int_equal(imms_limit(0), before);
	load.stop = true;
	world_join(&world, 10 * SECOND);
	world_rest_check(&world);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	world_close(&world);
}

static void immediates_fit_endpoints_that_were_rebuilt_with_smaller_queues(void **state)
{
	(void)state;
	WORLD_LONG();
	for (unsigned i = 0; i < world_seeds(4); i++)
		a_small_cq(700 + i, i % 2);
}

/* ---- a server that is there by one rail only, from the start ---- */

static void a_pool_opens_although_one_rail_is_cut(void **state)
{
	struct world_options wo = two_rails(680);
	(void)state;
	world_open(&world, &wo);
	uint64_t first = world.server[0].fab_first, end = world.server[0].fab_end;
	for (uint64_t id = first + 1; id < end; id += 2)
		sim_fabric_unplug(id, true);
	/* A restart of the server: the client's next session finds half of the links. */
	world_server_crash(&world, 0, false);
	world_sleep(&world, SECOND);
	unsigned again = world_server_again(&world, 0);
	for (uint64_t id = world.server[again].fab_first + 1; id < world.server[again].fab_end; id += 2)
		sim_fabric_unplug(id, true);
	world_sleep(&world, 3 * SECOND);
	assert_int_equal(links_up(0), WORLD_SHARDS);
	world_do(&world, 0, load_put, NULL);
	world_close(&world);
}

/* ---- small values of a batch share frames ---- */

enum { ITEMS = 32, SMALL = 2000 };

static void small_put(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ITEMS; i++) {
		char text[16];
		fill(load.value[0], SMALL, i);
		if (kvc_put_await(c, key_of(text, i), load.value[0], SMALL, NULL) != 0)
			world_wrong(&world, "a value could not be stored");
	}
}

static void small_get(struct kvc_client *c, void *arg)
{
	static uint8_t dst[ITEMS][SMALL], want[SMALL];
	static char text[ITEMS][16];
	struct kvc_item item[ITEMS] = {0};
	(void)arg;
	for (unsigned i = 0; i < ITEMS; i++)
		item[i] = (struct kvc_item){.key = key_of(text[i], i), .data = dst[i], .len = SMALL};
	if (kvc_get_batch_await(c, item, ITEMS, NULL) < 0)
		world_wrong(&world, "the batch failed");
	for (unsigned i = 0; i < ITEMS; i++) {
		fill(want, SMALL, i);
		if (item[i].result != SMALL || memcmp(want, dst[i], SMALL) != 0)
			world_wrong(&world, "item %u: %lld", i, (long long)item[i].result);
	}
}

/* As many writes with four rails as with one. */
static void small_values_of_a_batch_are_packed_over_several_rails_too(void **state)
{
	uint64_t writes[2];
	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		struct world_options wo = {.seed = 690, .rails = k ? 4 : 1, .clients = 1, .fabric = {.ordered = true}};
		world_open(&world, &wo);
		world_do(&world, 0, small_put, NULL);
		uint64_t before = world_server_stat(&world, WIRE_STAT_WRITES);
		for (unsigned i = 0; i < 8; i++)
			world_do(&world, 0, small_get, NULL);
		writes[k] = world_server_stat(&world, WIRE_STAT_WRITES) - before;
		world_close(&world);
	}
	assert_in_range(writes[0], 1, 8 * ITEMS / 4);
	assert_in_range(writes[1], 1, writes[0] + writes[0] / 4);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_numbers_of_rails_move_every_byte),
		cmocka_unit_test(a_rail_of_the_client_is_cut_and_gets_go_on),
		cmocka_unit_test(a_rail_of_the_server_is_cut_and_gets_go_on),
		cmocka_unit_test(a_rail_of_the_client_breaks_and_gets_go_on),
		cmocka_unit_test(a_rail_of_the_server_breaks_and_gets_go_on),
		cmocka_unit_test(a_rail_of_the_server_breaks_and_pulls_go_on),
		cmocka_unit_test(a_server_that_is_being_rebuilt_is_waited_for),
		cmocka_unit_test(immediates_fit_endpoints_that_were_rebuilt_with_smaller_queues),
		cmocka_unit_test(a_pool_opens_although_one_rail_is_cut),
		cmocka_unit_test(small_values_of_a_batch_are_packed_over_several_rails_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
