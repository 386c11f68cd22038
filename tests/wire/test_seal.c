/* SPDX-License-Identifier: Apache-2.0 */
/* test_seal.c -- a frame is accepted once, if its other end sealed it and no bit has changed.
 *
 * The sealed frames came from a script with an AES and a GHASH of its own, written from wire.h and NIST SP 800-38D. */
#include "samples.h"

static const struct kv_seal_keys client_keys = {
	.out = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	.in = {16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
};

static const char *const sealed[] = {
	"4b5205050403020163bc95643c5b2fb4331370064328d8ad400001090d0c0b0a"
	"000000000000000009001800ffffffff01000000000000000df0fecaefbeadde",
	"4b5205050403020154476a77715a3348b60f1b3dd1f523ed400001090d0c0b0a"
	"010000000000000009001800ffffffff01000000000000000df0fecaefbeadde",
};

enum { LINK = 5 };

static struct kv_macs client_macs, server_macs;
static struct kv_seal client, server;
static uint64_t seen[4][KV_WINDOW_WIDTH / 64];

static int open_both(void **state)
{
	const struct kv_seal_keys server_keys = {.out = {16}, .in = {0}};
	struct kv_seal_keys k = server_keys;
	(void)state;
	memcpy(k.out, client_keys.in, KV_MAC_KEY);
	memcpy(k.in, client_keys.out, KV_MAC_KEY);
	assert_int_equal(kv_macs_init(&client_macs, &client_keys), 0);
	assert_int_equal(kv_macs_init(&server_macs, &k), 0);
	kv_seal_init(&client, &client_macs, LINK, seen[0], KV_WINDOW_WIDTH);
	kv_seal_init(&server, &server_macs, LINK, seen[1], KV_WINDOW_WIDTH);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	kv_macs_fini(&client_macs);
	kv_macs_fini(&server_macs);
	return 0;
}

static uint32_t frame_make(uint8_t *buf)
{
	const struct wire_frame frame = {.session = 0x01020304, .mark = 0x0a0b0c0d, .link = LINK, .shard = 9};
	const struct wire_request ping = {
		.type = WIRE_PING, .time_left_us = UINT32_MAX, .id = 1, .ping = {.cookie = 0xdeadbeefcafef00d}};
	struct wire_writer w;
	memset(buf, 0xee, KV_MSG_MAX);
	wire_frame_begin(&w, buf, KV_MSG_MAX, &frame);
	assert_int_equal(wire_request_add(&w, &ping), 0);
	return wire_frame_end(&w);
}

static void a_sealed_frame_has_the_bytes_that_were_computed_elsewhere(void **state)
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

static void each_frame_is_taken_once(void **state)
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

/* wire_frame_open checks magic and version. Link and session select the seal; another seal denies the frame (below). */
static void no_bit_can_be_changed(void **state)
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
	assert_int_equal(wire_unseal(&server, buf, n), 0); /* the refused frame has not moved the window */
}

static void a_sealed_frame_is_nothing_in_the_other_direction(void **state)
{
	uint8_t buf[KV_MSG_MAX];
	uint32_t n = frame_make(buf);
	(void)state;
	assert_int_equal(wire_seal(&client, buf, n), 0);
	assert_int_equal(wire_unseal(&client, buf, n), -KV_EDENIED);
}

/* Same keys and same counter, but another link. A refusal there uses up nothing here. */
static void a_sealed_frame_is_nothing_on_another_link(void **state)
{
	struct kv_seal other_client, other_server;
	uint8_t buf[KV_MSG_MAX], other[KV_MSG_MAX];
	uint32_t n = frame_make(buf);
	(void)state;
	kv_seal_init(&other_client, &client_macs, LINK + 1, seen[2], KV_WINDOW_WIDTH);
	kv_seal_init(&other_server, &server_macs, LINK + 1, seen[3], KV_WINDOW_WIDTH);
	memcpy(other, buf, n);
	assert_int_equal(wire_seal(&client, buf, n), 0);
	assert_int_equal(wire_seal(&other_client, other, n), 0);
	assert_memory_equal(buf + 24, other + 24, n - 24); /* the counter too */
	assert_memory_not_equal(buf + 8, other + 8, KV_MAC_TAG);
	assert_int_equal(wire_unseal(&other_server, buf, n), -KV_EDENIED);
	assert_int_equal(wire_unseal(&server, other, n), -KV_EDENIED);
	assert_int_equal(wire_unseal(&server, buf, n), 0);
	assert_int_equal(wire_unseal(&other_server, buf, n), -KV_EDENIED);
	assert_int_equal(wire_unseal(&other_server, other, n), 0);
}

static void a_frame_that_is_too_old_is_not_taken(void **state)
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
		cmocka_unit_test_setup_teardown(a_sealed_frame_has_the_bytes_that_were_computed_elsewhere, open_both,
						close_both),
		cmocka_unit_test_setup_teardown(each_frame_is_taken_once, open_both, close_both),
		cmocka_unit_test_setup_teardown(no_bit_can_be_changed, open_both, close_both),
		cmocka_unit_test_setup_teardown(a_sealed_frame_is_nothing_in_the_other_direction, open_both,
						close_both),
		cmocka_unit_test_setup_teardown(a_sealed_frame_is_nothing_on_another_link, open_both, close_both),
		cmocka_unit_test_setup_teardown(a_frame_that_is_too_old_is_not_taken, open_both, close_both),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
