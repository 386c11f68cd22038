/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_many.c -- a pool of many servers under virtual time: all are used, and an eighth of them that stops leaves
 * the calls to the others enough. KVRAIL_SIM_SERVERS=N, up to 1,024: the world's own work grows with N squared (256:
 * half a minute). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/route/owner.h"
#include "kvclient/transfer/call.h"
#include "tests/sim/world.h"

enum {
	SERVERS = 64,
	VALUE = 100000,
	STOPPED_EACH = 8,
	STUCK_CALLS = 20, /* to each that is stopped, */
	STUCK_ALL = 500,  /* but no more than a loop has coroutines for */
	BUFFER = 4 << 20,
	BUFFER_EACH = 16 << 10 /* four of the least pieces for each server */
};

static struct world world;

static struct {
	unsigned servers;
	uint64_t key[WORLD_SERVERS]; /* one on each */
} many;

static struct kvc_key key_of(const uint64_t *number)
{
	return (struct kvc_key){number, sizeof(*number)};
}

static void put_everywhere(struct kvc_client *c, void *arg)
{
	uint8_t *value = malloc(VALUE);
	bool have[WORLD_SERVERS] = {false};
	(void)arg;
	for (uint64_t k = 1, n = 0; n < many.servers; k++) {
		unsigned s = route_owner(c, key_of(&k))->index;
		if (have[s])
			continue;
		have[s] = true;
		many.key[s] = k;
		memset(value, (int)s, VALUE);
		if (kvc_put_await(c, key_of(&k), value, VALUE, NULL) != 0)
			world_wrong(&world, "server %u does not store", s);
		n++;
	}
	free(value);
}

static void get_all(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 2 * SECOND};
	unsigned except = (unsigned)(uintptr_t)arg; /* each of so many is stopped */
	uint8_t *own = malloc(VALUE);
	for (unsigned s = 0; s < many.servers; s++) {
		if (except && s % except == 0)
			continue;
		if (kvc_get_await(c, key_of(&many.key[s]), own, VALUE, &call) != VALUE || own[VALUE - 1] != (uint8_t)s)
			world_wrong(&world, "GET from server %u", s);
	}
	free(own);
}

static void stuck(struct kvc_client *c, void *arg)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 4 * SECOND};
	uint8_t *own = malloc(VALUE);
	kvc_get_await(c, key_of(arg), own, VALUE, &call);
	free(own);
}

static void open_many(uint64_t seed)
{
	const char *text = getenv("KVRAIL_SIM_SERVERS");
	struct world_options wo = {.seed = seed,
				   .clients = 1,
				   .memory_bytes = 4 << 20,
				   .buffer_bytes = BUFFER,
				   .peer_timeout_ns = 60 * SECOND};
	memset(&many, 0, sizeof(many));
	wo.servers = many.servers = text ? (unsigned)atoi(text) : SERVERS;
	assert_in_range(many.servers, 2, WORLD_SERVERS);
	while (wo.buffer_bytes < many.servers * (uint64_t)BUFFER_EACH)
		wo.buffer_bytes *= 2;
	/* Immediates are the scarcest: with 512, half of the simulated queue, 39 servers can be stuck. NICs have 8,192.
	 */
	wo.fabric.cq_depth = many.servers > 256 ? 8192 : 0;
	world_open(&world, &wo);
	world_do(&world, 0, put_everywhere, NULL);
}

static void all_of_them_are_used(void **state)
{
	(void)state;
	open_many(90);
	world_do(&world, 0, get_all, NULL);
	world_close(&world);
}

/* Calls to each of those that are stopped, as many as get room, and none of them ends: what they hold leaves room for
 * one after the other. */
static void an_eighth_that_is_stopped_leaves_the_others_enough(void **state)
{
	unsigned calls;
	(void)state;
	open_many(91);
	calls = KV_MIN((unsigned)STUCK_CALLS, STUCK_ALL / (many.servers / STOPPED_EACH + 1));
	for (unsigned s = 0; s < many.servers; s += STOPPED_EACH)
		world_server_freeze(&world, s, true);
	for (unsigned s = 0; s < many.servers; s += STOPPED_EACH)
		for (unsigned i = 0; i < calls; i++)
			world_worker(&world, 0, 0, stuck, &many.key[s]);
	world_sleep(&world, 100 * MS);
	world_worker(&world, 0, 0, get_all, (void *)(uintptr_t)STOPPED_EACH);
	world_join(&world, 10 * SECOND);
	for (unsigned s = 0; s < many.servers; s += STOPPED_EACH)
		world_server_freeze(&world, s, false);
	world_close(&world);
}

/* ---- test_sim_many SERVERS GETS: so many GETs, for tests/valgrind/flat.py to count what they cost ---- */

static void get_so_many(struct kvc_client *c, void *arg)
{
	unsigned long gets = *(unsigned long *)arg;
	uint8_t *own = malloc(VALUE);
	for (unsigned long i = 0; i < gets; i++)
		if (kvc_get_await(c, key_of(&many.key[i % many.servers]), own, VALUE, NULL) != VALUE)
			world_wrong(&world, "GET");
	free(own);
}

static void gets_are_made(void **state)
{
	struct world_options wo = {.seed = 92, .servers = many.servers, .clients = 1, .memory_bytes = 4 << 20};
	world_open(&world, &wo);
	world_do(&world, 0, put_everywhere, NULL);
	world_do(&world, 0, get_so_many, *state);
	world_close(&world);
}

static int gets(const char *servers, const char *count)
{
	unsigned long n = strtoul(count, NULL, 10);
	const struct CMUnitTest one[] = {cmocka_unit_test_prestate(gets_are_made, &n)};
	many.servers = (unsigned)strtoul(servers, NULL, 10);
	if (many.servers == 0 || many.servers > WORLD_SERVERS || n == 0) {
		fprintf(stderr, "usage: test_sim_many [SERVERS GETS]\n");
		return 2;
	}
	return cmocka_run_group_tests(one, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_them_are_used),
		cmocka_unit_test(an_eighth_that_is_stopped_leaves_the_others_enough),
	};
	if (argc == 3)
		return gets(argv[1], argv[2]);
	return cmocka_run_group_tests_name("sim/many", tests, NULL, NULL);
}
