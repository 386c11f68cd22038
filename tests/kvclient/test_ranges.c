/* SPDX-License-Identifier: Apache-2.0 */
/* test_ranges.c -- how a GET takes ranges that are done, without a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kvclient/transfer/get.h"

enum { BUFFER = 64 << 10, SLICE = 100, LEN = 2 * SLICE };

static struct kvc_client client;
static uint8_t dst[LEN];
static const struct kvc_call call = {.size = sizeof(call)};

static int setup(void **state)
{
	struct kvc_pool *pool = calloc(1, sizeof(*pool));
	void *memory = aligned_alloc(4096, BUFFER);
	(void)state;
	client = (struct kvc_client){.pool = pool, .node = calloc(1, sizeof(struct kc_node))};
	assert_non_null(pool);
	assert_non_null(memory);
	assert_non_null(client.node);
	client.num_nodes = pool->place.n = 1;
	client.placement = &pool->place;
	memset(memory, 0xEE, BUFFER);
	return kc_buffer_init(&client.buffer, memory, BUFFER);
}

static int teardown(void **state)
{
	(void)state;
	free(client.buffer.base);
	kc_buffer_fini(&client.buffer);
	free(client.node);
	free(client.pool);
	return 0;
}

/* A request for `len` bytes whose reply is there. */
static struct kc_req replied(uint64_t len, uint64_t value_len, uint64_t checksum)
{
	return (struct kc_req){.state = KC_REQ_DONE,
			       .said = KC_SAID_REPLY,
			       .wire = {.type = WIRE_GET, .get.length = len},
			       .reply.get = {.value_len = value_len, .generation = 7, .checksum = checksum}};
}

static struct kvc_get get_of(uint64_t slice)
{
	struct kvc_get g;
	const struct kc_target to = {.at = dst, .slice = slice < LEN ? slice : 0, .stride = slice};
	assert_int_equal(kc_get_init(&g, &client, (struct kvc_key){"key", 3}, &to, LEN, &call, KV_NEVER), 0);
	g.issued = LEN;
	for (unsigned i = 0; i < LEN; i++)
		dst[i] = (uint8_t)i;
	return g;
}

/* A GET into slices of registered memory asks for pieces from the moment that it is to read them itself. What it asked
 * for before lies in the slices, and in no piece. */
static void a_range_is_taken_as_it_was_asked_for(void **state)
{
	struct kvc_get g = get_of(SLICE);
	struct kc_req r = replied(LEN, LEN, kv_hash_block(dst, LEN));
	(void)state;
	r.mem.callers = true;
	g.to.place = KC_GET_COPIED;
	assert_int_equal(kc_get_take_await(&g, &r, 0, NULL), 0);
	assert_int_equal(g.state, KC_GET_WHOLE);
	for (unsigned i = 0; i < LEN; i++)
		assert_int_equal(dst[i], (uint8_t)i);
}

static void the_first_reply_says_how_much_there_is(void **state)
{
	struct kvc_get g = get_of(0);
	struct kc_req r = replied(50, LEN, 0);
	(void)state;
	assert_int_equal(g.state, KC_GET_ASKING);
	assert_int_equal(kc_get_take_await(&g, &r, -KV_ETOOBIG, NULL), 0); /* 50 bytes are too few */
	assert_int_equal(g.state, KC_GET_READING);
	assert_int_equal(g.value.total, LEN);
	assert_int_equal(g.issued, 0);
	assert_int_equal(kc_get_take_await(&g, &r, -KV_ETOOBIG, NULL), -KV_EPROTO); /* which it knows by now */
	r = replied(LEN, LEN, 0);
	r.reply.get.generation = 8;
	assert_int_equal(kc_get_take_await(&g, &r, 0, NULL), -KV_ESTALE);
	kc_get_begin(&g);
	assert_int_equal(g.state, KC_GET_ASKING);
	assert_int_equal(g.value.generation, 0);
}

static void a_value_larger_than_the_destination_is_not_taken(void **state)
{
	struct kvc_get g = get_of(0);
	struct kc_req r = replied(LEN, LEN + 1, 0);
	(void)state;
	assert_int_equal(kc_get_take_await(&g, &r, 0, NULL), -KV_ETOOBIG);
	assert_int_equal(g.state, KC_GET_READING);
	assert_int_equal(g.value.total, LEN + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_is_taken_as_it_was_asked_for),
		cmocka_unit_test(the_first_reply_says_how_much_there_is),
		cmocka_unit_test(a_value_larger_than_the_destination_is_not_taken),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
