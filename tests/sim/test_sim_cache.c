/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_cache.c -- put and get through the whole stack, simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/world.h"

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

static void test_a_value_comes_back(void **state)
{
	static const uint64_t len[] = {1, 3072, 3073, 65536, 1 << 20, 20 << 20};
	(void)state;
	for (int virt = 0; virt < 2; virt++) {
		for (unsigned i = 0; i < KV_COUNT(len); i++) {
			struct one o = {len[i]};
			world_open(&world, &(struct world_options){.seed = 1, .fabric.virt = virt, .fabric.wait_fd = virt});
			world_do(&world, 0, put_and_get, &o);
			world_close(&world);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_value_comes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
