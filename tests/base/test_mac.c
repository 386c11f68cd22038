/* SPDX-License-Identifier: Apache-2.0 */
/* test_mac.c -- the tag is AES-128-GMAC: it is compared with NIST's vectors (CAVS, gcmEncryptExtIV128: no plaintext)
 * and with an implementation in a script. And a seal accepts the messages of the other side's seal, once each, in any
 * order. */
#include "tests/check.h"

#include "base/base.h"

static void unhex(const char *hex, uint8_t *out)
{
	for (; *hex; hex += 2, out++)
		assert_int_equal(sscanf(hex, "%2hhx", out), 1);
}

/* Key, nonce, data, tag. */
static const char *const vectors[][4] = {
	{"77be63708971c4e240d1cb79e8d77feb", "e0e00f19fed7ba0136a797f3", "7a43ec1d9c0a5a78a0b16533a6213cab",
	 "209fcc8d3675ed938e9c7166709dd946"},
	{"000102030405060708090a0b0c0d0e0f", "202122232425262728292a2b", "", "396114d5ce9ee295d89bf9c38895457b"},
	{"000102030405060708090a0b0c0d0e0f", "202122232425262728292a2b",
	 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20", "159f5e55154b88329e6229db14a5bd64"},
};

static void tags_are_those_of_the_standard(void **state)
{
	(void)state;
	for (size_t i = 0; i < KV_COUNT(vectors); i++) {
		uint8_t key[KV_MAC_KEY], nonce[KV_MAC_NONCE], data[64], want[KV_MAC_TAG], got[KV_MAC_TAG];
		struct kv_mac *m = NULL;
		unhex(vectors[i][0], key);
		unhex(vectors[i][1], nonce);
		unhex(vectors[i][2], data);
		unhex(vectors[i][3], want);
		assert_int_equal(kv_mac_create(key, &m), 0);
		for (int again = 0; again < 3; again++) { /* one context, many messages */
			assert_int_equal(kv_mac_tag(m, nonce, data, strlen(vectors[i][2]) / 2, got), 0);
			assert_memory_equal(got, want, KV_MAC_TAG);
			nonce[0] ^= 1;
			assert_int_equal(kv_mac_tag(m, nonce, data, strlen(vectors[i][2]) / 2, got), 0);
			assert_memory_not_equal(got, want, KV_MAC_TAG);
			nonce[0] ^= 1;
		}
		kv_mac_destroy(&m);
		assert_null(m);
	}
	kv_mac_destroy(&(struct kv_mac *){NULL});
}

/* Long enough for the vector code of any processor. */
static void the_tag_of_a_whole_message(void **state)
{
	static const char want_hex[] = "e6e107918d140be02276d79a55b39175";
	uint8_t key[KV_MAC_KEY], nonce[KV_MAC_NONCE], want[KV_MAC_TAG], got[KV_MAC_TAG], data[4096];
	struct kv_mac *m = NULL;
	(void)state;
	unhex(vectors[1][0], key);
	unhex(vectors[1][1], nonce);
	unhex(want_hex, want);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	assert_int_equal(kv_mac_create(key, &m), 0);
	assert_int_equal(kv_mac_tag(m, nonce, data, sizeof(data), got), 0);
	assert_memory_equal(got, want, KV_MAC_TAG);
	kv_mac_destroy(&m);
}

static void a_seal_takes_each_message_once_in_any_order(void **state)
{
	const struct kv_seal_keys keys = {.out = "sixteen bytes..", .in = "sixteen others."};
	struct kv_seal_keys back;
	struct kv_macs ours = {0}, theirs = {0};
	uint64_t seen[2][KV_WINDOW_WIDTH / 64];
	struct kv_seal a, b;
	uint8_t tag[50][KV_MAC_TAG];
	(void)state;
	memcpy(back.out, keys.in, KV_MAC_KEY);
	memcpy(back.in, keys.out, KV_MAC_KEY);
	assert_int_equal(kv_macs_init(&ours, &keys), 0);
	assert_int_equal(kv_macs_init(&theirs, &back), 0);
	kv_seal_init(&a, &ours, 7, seen[0], KV_WINDOW_WIDTH);
	kv_seal_init(&b, &theirs, 7, seen[1], KV_WINDOW_WIDTH);
	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(kv_seal_next(&a), i);
		assert_int_equal(kv_seal_tag(&a, i, "message", 7, tag[i]), 0);
	}
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(kv_seal_take(&b, i * 7 % 50, "message", 7, tag[i * 7 % 50]), 0);
	assert_int_equal(kv_seal_take(&b, 13, "message", 7, tag[13]), -KV_EEXIST);
	assert_int_equal(kv_seal_take(&b, 51, "message", 7, tag[13]), -KV_EDENIED); /* another counter */
	assert_int_equal(kv_seal_take(&b, 13, "massage", 7, tag[13]), -KV_EDENIED);
	assert_int_equal(kv_seal_take(&a, 13, "message", 7, tag[13]), -KV_EDENIED); /* its own */
	kv_seal_fini(&a);
	assert_null(a.out);
	assert_null(a.in);
	kv_macs_fini(&ours);
	kv_macs_fini(&theirs);
	kv_macs_fini(&theirs);
}

enum { SIDES = 2, SEAL_LINKS = 40, COUNTERS = 40 };

/* If two messages of a key had one nonce, it would show: the message is the same, and so would be the tag. */
static void a_nonce_is_used_once_on_all_links_in_both_directions(void **state)
{
	const struct kv_seal_keys keys = {.out = "sixteen bytes..", .in = "sixteen others."};
	static uint8_t tag[SIDES * SEAL_LINKS * COUNTERS][KV_MAC_TAG];
	struct kv_seal_keys back;
	struct kv_macs macs[SIDES] = {0};
	uint64_t seen;
	unsigned n = 0;
	(void)state;
	memcpy(back.out, keys.in, KV_MAC_KEY);
	memcpy(back.in, keys.out, KV_MAC_KEY);
	for (unsigned side = 0; side < SIDES; side++) {
		assert_int_equal(kv_macs_init(&macs[side], side ? &back : &keys), 0);
		for (uint32_t link = 0; link < SEAL_LINKS; link++) {
			struct kv_seal seal;
			kv_seal_init(&seal, &macs[side], link, &seen, 64);
			for (unsigned i = 0; i < COUNTERS; i++)
				assert_int_equal(kv_seal_tag(&seal, kv_seal_next(&seal), "message", 7, tag[n++]), 0);
		}
		kv_macs_fini(&macs[side]);
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; j < i; j++)
			assert_true(memcmp(tag[i], tag[j], KV_MAC_TAG) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tags_are_those_of_the_standard),
		cmocka_unit_test(the_tag_of_a_whole_message),
		cmocka_unit_test(a_nonce_is_used_once_on_all_links_in_both_directions),
		cmocka_unit_test(a_seal_takes_each_message_once_in_any_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
