/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_plans.c -- a call plans for an attachment, and waits; meanwhile the client attaches anew. What was planned,
 * or what the server said, is of no use in the next attachment, also where that lies at the address of the last one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kvclient/conn/node.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "tests/sim/world.h"

static struct world world;

static struct kc_node *node(void)
{
	return &world.pool[0].pool->client[0]->node[0];
}

static bool attached(void *arg)
{
	return node()->state == KC_NODE_UP && node()->attaches >= *(const uint64_t *)arg;
}

static void until_attached(uint64_t attaches)
{
	world_run(&world, attached, &attaches, 10 * SECOND, "another attachment");
}

/* ---- an address that is used again ---- */

/* All that the library frees and takes goes through here (suites.mk). Memory that is freed while it is `kept` comes
 * back by the next calloc of as many bytes: what an allocator does when it likes. */
static struct {
	void *at;     /* that is to come back */
	size_t bytes; /* of it */
	bool freed;
	unsigned again; /* times that it came back */
} kept;

void *__real_calloc(size_t n, size_t size);
void __real_free(void *at);
void *__wrap_calloc(size_t n, size_t size);
void __wrap_free(void *at);

void *__wrap_calloc(size_t n, size_t size)
{
	if (!kept.freed || n != 1 || size != kept.bytes)
		return __real_calloc(n, size);
	kept.freed = false;
	kept.again++;
	return memset(kept.at, 0, size);
}

void __wrap_free(void *at)
{
	if (at && at == kept.at)
		kept.freed = true;
	else
		__real_free(at);
}

/* The bytes of an attachment, as kc_attachment_create takes them. */
static size_t attachment_bytes(const struct kc_attachment *s)
{
	size_t window = kv_window_words(kv_window_width(s->num_links)) * sizeof(uint64_t);
	return sizeof(*s) + s->num_links * (sizeof(s->link[0]) + window);
}

/* NULL: nothing any more. */
static void keep(struct kc_attachment *s)
{
	if (kept.freed)
		__real_free(kept.at);
	kept.at = s;
	kept.bytes = s ? attachment_bytes(s) : 0;
	kept.freed = false;
	kept.again = 0;
}

/* ---- PUT ---- */

enum { TURNS = 40, PUTS = 8, PUT_LEN = 1 << 20 };

static struct {
	unsigned turn;
	uint8_t *value;
} put;

static void put_one(struct kvc_client *c, void *arg)
{
	char text[32];
	struct kvc_key key = {text, (size_t)snprintf(text, sizeof(text), "%u/%u", put.turn, (unsigned)(uintptr_t)arg)};
	int rc = kvc_put_await(c, key, put.value, PUT_LEN, NULL);
	if (rc < 0)
		world_wrong(&world, "PUT of %s: %s", text, kvc_errname(rc));
}

/* Attachments end while PUTs of several ranges wait for room for their next one. A range never names the stage of an
 * earlier attachment: the server would not know it, and its bytes would have crossed the fabric in vain. */
static void stages_are_named_in_their_attachment_alone(bool land)
{
	struct world_options wo = {.seed = 1,
				   .pools = 1,
				   .clients = 1,
				   .fence = land ? WORLD_FENCE_ONE : WORLD_FENCE_ALL,
				   .buffer_bytes = 1 << 20,
				   .landing_bytes = WORLD_SHARDS * (1 << 20),
				   .fabric = {.ordered = land}};
	world_open(&world, &wo);
	put.value = calloc(1, PUT_LEN);
	for (put.turn = 0; put.turn < TURNS; put.turn++) {
		uint64_t attaches = node()->attaches;
		for (unsigned i = 0; i < PUTS; i++)
			world_worker(&world, 0, 0, put_one, (void *)(uintptr_t)i);
		world_sleep(&world, put.turn * 50 * US);
		kc_node_redo(node(), "the test wants it");
		world_join(&world, SECOND);
		until_attached(attaches + 1);
	}
	assert_int_equal(world_server_stat(&world, WIRE_STAT_PUTS_LANDED) > 0, land);
	assert_true(world_counters(&world, 0).retries > TURNS);
	assert_int_equal(world_server_stat(&world, WIRE_STAT_STATUS + WIRE_STALE), 0);
	free(put.value);
	world_close(&world);
}

static void a_stage_is_named_in_its_attachment_alone(void **state)
{
	(void)state;
	stages_are_named_in_their_attachment_alone(false);
}

static void also_where_bytes_land(void **state)
{
	(void)state;
	stages_are_named_in_their_attachment_alone(true);
}

/* ---- GET ---- */

enum { GETS = 8, GET_LEN = 100000 };

static struct {
	struct kvc_borrowed all; /* of the client's buffer */
	uint8_t value[GET_LEN], got[GETS][GET_LEN];
	int64_t rc[GETS];
	bool put;
} get;

static struct kvc_key get_key(unsigned i)
{
	static const char letters[] = "abcdefgh";
	return (struct kvc_key){&letters[i], 1};
}

static void borrow_all(struct kvc_client *c, void *arg)
{
	int rc = kvc_borrow_await(c, c->buffer.len_bytes, 0, &get.all);
	(void)arg;
	if (rc < 0)
		world_wrong(&world, "borrowing: %s", kvc_errname(rc));
}

static void give_back(struct kvc_client *c, void *arg)
{
	(void)arg;
	kvc_borrowed_release(c, &get.all);
}

static void get_one(struct kvc_client *c, void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 60 * SECOND};
	get.rc[i] = kvc_get_await(c, get_key(i), get.got[i], GET_LEN, &call);
}

static void put_all(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < GETS; i++) {
		int rc = kvc_put_await(c, get_key(i), get.value, GET_LEN, NULL);
		if (rc < 0)
			world_wrong(&world, "PUT: %s", kvc_errname(rc));
	}
	get.put = true;
}

static bool is_put(void *arg)
{
	(void)arg;
	return get.put;
}

/* GETs wait for room when their server is started anew. Keys lie on other shards there, and its attachment lies where
 * the last one lay: they are planned anew. */
static void a_get_that_waited_asks_the_shard_of_the_next_attachment(void **state)
{
	struct world_options wo = {.seed = 1, .pools = 1, .clients = 1, .buffer_bytes = 1 << 20};
	(void)state;
	world_open(&world, &wo);
	world_do(&world, 0, borrow_all, NULL);
	for (unsigned i = 0; i < GETS; i++)
		world_worker(&world, 0, 0, get_one, (void *)(uintptr_t)i);
	world_sleep(&world, 10 * MS);
	keep(node()->attachment);
	world_server_crash(&world, 0, false);
	world_server_again(&world, 0);
	until_attached(2);
	assert_int_equal(kept.again, 1);
	assert_ptr_equal(node()->attachment, kept.at);
	world_worker(&world, world_pool_open(&world), 0, put_all, NULL);
	world_run(&world, is_put, NULL, 10 * SECOND, "the values");
	world_worker(&world, 0, 0, give_back, NULL);
	world_join(&world, SECOND);
	for (unsigned i = 0; i < GETS; i++)
		assert_int_equal(get.rc[i], GET_LEN);
	world_close(&world);
	assert_true(kept.freed);
	keep(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stage_is_named_in_its_attachment_alone),
		cmocka_unit_test(also_where_bytes_land),
		cmocka_unit_test(a_get_that_waited_asks_the_shard_of_the_next_attachment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
