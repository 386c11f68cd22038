/* SPDX-License-Identifier: Apache-2.0 */
/* test_seal.c -- a frame is taken if its other end sealed it, once, and as it was sealed.
 *
 * The sealed frames came from a script with an AES and a GHASH of its own, written from wire.h and NIST SP 800-38D. */
#include "samples.h"

static const struct kv_seal_keys client_keys = {
	.out = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	.in = {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
};

static const char *const sealed[] = {
	"4b52020504030201066055e050d02884cd0e10b5f25099ae400001090d0c0b0a"
	"000000000000000009001800ffffffff01000000000000000df0fecaefbeadde",
	"4b52020504030201e52b65f47b82cce8103f9933ec813b4b400001090d0c0b0a"
	"010000000000000009001800ffffffff01000000000000000df0fecaefbeadde",
};

static struct kv_seal client, server;

static int open_both(void **state)
{
	const struct kv_seal_keys server_keys = {.out = {16}, .in = {0}};
	struct kv_seal_keys k = server_keys;
	(void)state;
	memcpy(k.out, client_keys.in, KV_MAC_KEY);
	memcpy(k.in, client_keys.out, KV_MAC_KEY);
	client = server = (struct kv_seal){0};
	assert_int_equal(kv_seal_open(&client, &client_keys), 0);
	assert_int_equal(kv_seal_open(&server, &k), 0);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	kv_seal_close(&client);
	kv_seal_close(&server);
	return 0;
}

static uint32_t frame_make(uint8_t *buf)
{
	const struct wire_frame frame = {.session = 0x01020304, .mark = 0x0a0b0c0d, .link = 5, .shard = 9};
	const struct wire_request ping = {.type = WIRE_PING, .time_left_us = UINT32_MAX, .id = 1, .ping = {.cookie = 0xdeadbeefcafef00d}};
	struct wire_writer w;
	memset(buf, 0xee, KV_MSG_MAX);
	wire_frame_begin(&w, buf, KV_MSG_MAX, &frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	return wire_frame_end(&w);
}

static void test_sealed_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < KV_COUNT(sealed); i++) {
		uint8_t buf[KV_MSG_MAX];
		uint32_t n = frame_make(buf);
		size_t len;
		uint8_t *want = unhex(sealed[i], &len);
		assert_int_equal(n, len);
		assert_int_equal(wire_seal(&client, buf, n), 0);
		assert_memory_equal(buf, want, len);
		assert_int_equal(wire_unseal(&server, want, len), 0);
		free(want);
	}
}

enum { MANY = 40 };

static void test_each_is_taken_once(void **state)
{
	static uint8_t buf[MANY][KV_MSG_MAX];
	uint32_t n = 0;
	(void)state;
	for (int i = 0; i < MANY; i++) {
		n = frame_make(buf[i]);
		assert_int_equal(wire_seal(&client, buf[i], n), 0);
	}
	for (int i = MANY - 1; i >= 0; i--)
		assert_int_equal(wire_unseal(&server, buf[i], n), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(wire_unseal(&server, buf[i], n), -KV_EEXIST);
}

/* Magic and version are wire_frame_open's; link and session say which seal is asked. */
static void test_no_bit_can_be_changed(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t n = frame_make(buf);
	(void)state;
	assert_int_equal(wire_seal(&client, buf, n), 0);
	for (uint32_t at = 8; at < n; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			buf[at] ^= (uint8_t)(1u << bit);
			assert_int_equal(wire_unseal(&server, buf, n), -KV_EDENIED);
			buf[at] ^= (uint8_t)(1u << bit);
		}
	}
	for (uint32_t cut = WIRE_FRAME_HEADER; cut < n; cut += 8)
		assert_int_equal(wire_unseal(&server, buf, cut), -KV_EDENIED);
	assert_int_equal(wire_unseal(&server, buf, n), 0); /* what was refused has not moved the window */
}

static void test_not_in_the_other_direction(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t n = frame_make(buf);
	(void)state;
	assert_int_equal(wire_seal(&client, buf, n), 0);
	assert_int_equal(wire_unseal(&client, buf, n), -KV_EDENIED);
}

static void test_too_old_is_not_taken(void **state)
{
	uint8_t old[KV_MSG_MAX], buf[KV_MSG_MAX];
	uint32_t n = frame_make(old);
	(void)state;
	assert_int_equal(wire_seal(&client, old, n), 0);
	for (int i = 0; i < KV_WINDOW_WIDTH; i++) {
		n = frame_make(buf);
		assert_int_equal(wire_seal(&client, buf, n), 0);
	}
	assert_int_equal(wire_unseal(&server, buf, n), 0);
	assert_int_equal(wire_unseal(&server, old, n), -KV_EEXIST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sealed_bytes, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_each_is_taken_once, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_no_bit_can_be_changed, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_not_in_the_other_direction, open_both, close_both),
		cmocka_unit_test_setup_teardown(test_too_old_is_not_taken, open_both, close_both),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
