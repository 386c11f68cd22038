/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_peers.c -- servers that die, stop, fall silent and come back, seen by a client under virtual time: when it
 * notices, how it comes back, and what calls to another server feel of it.
 *
 * "At most one fence" is what a server may cost the calls to another one. A fence is told to the world up to 250 ms
 * late when there have been many (engine/fence.c), and then everybody connects anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kvclient/call.h"
#include "kvclient/client.h"
#include "kvclient/internal.h"
#include "tests/sim/world.h"

#define FENCE (250 * MS + 50 * MS)

enum { VALUE = 200000, WORKERS = 24, INNOCENTS = 6 };

static struct world world;

/* ---- two servers ---- */

enum trouble { STOPPED, KILLED, POWERLESS, FABRIC_CUT, SLOW_SHARD, TROUBLES };

static const char *const trouble_name[TROUBLES] = {"stopped", "killed", "without power", "cut off the fabric",
						   "stopped in its shards"};

struct key {
	char text[32];
	struct kvc_key key;
};

static struct two {
	struct key key[2][4]; /* of each server */
	uint64_t stop_ns, timeout_ns;
	uint8_t *memory;
	bool reg;
	uint64_t calls, worst_ns, failed;
} two;

/* Keys that are on server `s`. */
static void keys_find(struct kvc_client *c)
{
	unsigned have[2] = {0};
	for (unsigned i = 0; have[0] < 4 || have[1] < 4; i++) {
		struct key k;
		unsigned s;
		k.key.len = (size_t)snprintf(k.text, sizeof(k.text), "key/%u", i);
		s = kvc_call_node(c, (struct kvc_key){k.text, k.key.len})->index;
		if (have[s] == 4)
			continue;
		two.key[s][have[s]] = k;
		two.key[s][have[s]].key.data = two.key[s][have[s]].text;
		have[s]++;
	}
}

static void two_begin(struct kvc_client *c, void *arg)
{
	uint8_t *value = calloc(1, VALUE);
	(void)arg;
	keys_find(c);
	for (unsigned s = 0; s < 2; s++)
		for (unsigned i = 0; i < 4; i++)
			if (kvc_put_await(c, two.key[s][i].key, value, VALUE, NULL) != 0)
				world_wrong(&world, "a value could not be stored");
	free(value);
}

/* Uses the server that is in trouble, as much as it can. */
static void guilty(struct kvc_client *c, void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	uint8_t *own = malloc(VALUE), *memory = two.reg && n % 4 == 0 ? two.memory + n * VALUE : own;
	while (world_now(&world) < two.stop_ns) {
		struct kvc_call call = {.size = sizeof(call), .timeout_ns = two.timeout_ns};
		if (n % 3)
			kvc_get_await(c, two.key[1][n % 4].key, memory, VALUE, &call);
		else
			kvc_touch_await(c, two.key[1][n % 4].key, &call);
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, 20 * MS));
	}
	free(own);
}

/* Uses the other one, and must not suffer. */
static void innocent(struct kvc_client *c, void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	uint8_t *memory = malloc(VALUE);
	while (world_now(&world) < two.stop_ns) {
		uint64_t begun = world_now(&world), took;
		int64_t rc = n % 2 ? kvc_get_await(c, two.key[0][n % 4].key, memory, VALUE, NULL)
				   : kvc_put_await(c, two.key[0][n % 4].key, memory, VALUE, NULL);
		took = world_now(&world) - begun;
		two.calls++;
		two.failed += rc < 0 && rc != -KV_EEXIST;
		two.worst_ns = KV_MAX(two.worst_ns, took);
		memset(memory, 0, VALUE);
		co_sleep_await(world_now(&world) + kv_prng_below(&world.prng, 40 * MS));
	}
	free(memory);
}

static void trouble_begin(enum trouble t, bool on)
{
	const struct world_server *s = &world.server[1];
	switch (t) {
	case STOPPED:
		world_server_freeze(&world, 1, on);
		break;
	case KILLED:
	case POWERLESS:
		if (on)
			world_server_crash(&world, 1, t == POWERLESS);
		break;
	case FABRIC_CUT:
		world_unplug(&world, s->fab_first, s->fab_end, on);
		break;
	case SLOW_SHARD:
		sim_loop_freeze(s->loop[1], on);
		sim_loop_freeze(s->loop[2], on);
		break;
	case TROUBLES:
		break;
	}
}

static void two_servers(enum trouble t, bool reg, uint64_t timeout_ns, uint64_t buffer_bytes)
{
	struct world_options wo = {.seed = 50 + (uint64_t)t,
				   .servers = 2,
				   .clients = 1,
				   .buffer_bytes = buffer_bytes,
				   .timeout_ns = 5 * SECOND,
				   .fabric.wait_fd = true};
	struct kvc_mem *mem;
	memset(&two, 0, sizeof(two));
	two.reg = reg;
	two.timeout_ns = timeout_ns;
	two.memory = aligned_alloc(4096, kv_align_up((size_t)WORKERS * VALUE, 4096));
	world_open(&world, &wo);
	assert_int_equal(world_register(&world, 0, two.memory, kv_align_up((size_t)WORKERS * VALUE, 4096), &mem), 0);
	world_do(&world, 0, two_begin, NULL);
	two.stop_ns = world_now(&world) + 8 * SECOND;
	for (unsigned i = 0; i < WORKERS; i++)
		world_worker(&world, 0, 0, guilty, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < INNOCENTS; i++)
		world_worker(&world, 0, 0, innocent, (void *)(uintptr_t)i);
	world_sleep(&world, 500 * MS);
	trouble_begin(t, true);
	world_sleep(&world, 6 * SECOND);
	trouble_begin(t, false);
	world_join(&world, 20 * SECOND);
	if (getenv("KVRAIL_SIM_STATS"))
		fprintf(stderr,
			"%-24s %s, deadlines of %4llu ms: %6llu calls to the other server, %llu failed, the longest "
			"took %.3f s; %llu fences\n",
			trouble_name[t], reg ? "registered memory" : "library memory   ",
			(unsigned long long)(timeout_ns / MS), (unsigned long long)two.calls,
			(unsigned long long)two.failed, (double)two.worst_ns / 1e9,
			(unsigned long long)world_counters(&world, 0).fences);
	assert_int_equal(two.failed, 0);
	assert_int_equal(kvc_unregister(world.pool[0].pool, &mem), 0);
	free(two.memory);
	world_close(&world);
	if (two.worst_ns > FENCE && !getenv("KVRAIL_SIM_STATS"))
		fail_msg("a server that is %s delayed a call to another one by %.3f s", trouble_name[t],
			 (double)two.worst_ns / 1e9);
}

static void a_server_in_trouble_delays_calls_to_another_by_one_fence(void **state)
{
	(void)state;
	for (unsigned t = 0; t < TROUBLES; t++) {
		for (unsigned reg = 0; reg < 2; reg++) {
			two_servers((enum trouble)t, reg, 300 * MS, 4 << 20);
			two_servers((enum trouble)t, reg, 10 * SECOND, 4 << 20);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_in_trouble_delays_calls_to_another_by_one_fence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
