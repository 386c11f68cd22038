/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame_keys.c -- both ends of a connection have the same keys for a shard, and every direction, shard and session has its own. */
#include "rig.h"

static const uint8_t token[KV_TOKEN_LEN] = "sixteen bytes !!";

static void secrets_agree(const struct boot_security *server, const struct boot_security *client, uint8_t out[BOOT_FRAME_SECRET])
{
	uint8_t theirs[BOOT_FRAME_SECRET];
	struct rig r;
	rig_init(&r, server, client);
	rig_open_ok(&r);
	assert_int_equal(boot_frame_secret(r.c, token, out), 0);
	assert_int_equal(boot_frame_secret(r.s, token, theirs), 0);
	assert_memory_equal(out, theirs, BOOT_FRAME_SECRET);
	rig_fini(&r);
}

/* With TLS it is new for each connection, and the token, which is sent over it, has no part in it. */
static void test_the_secret_is_of_tls(void **state)
{
	struct boot_security psk = rig_security_psk(), s = rig_security_cert("certs", "server"), c = rig_security_cert("certs", "client");
	uint8_t a[BOOT_FRAME_SECRET], b[BOOT_FRAME_SECRET];
	(void)state;
	secrets_agree(&psk, &psk, a);
	secrets_agree(&psk, &psk, b);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, token, sizeof(token));
	secrets_agree(&s, &c, a);
	secrets_agree(&s, &c, b);
	assert_memory_not_equal(a, b, sizeof(a));
}

static void test_the_secret_is_the_token_without_tls(void **state)
{
	const struct boot_security plain = {0};
	static const uint8_t zeros[BOOT_FRAME_SECRET - KV_TOKEN_LEN];
	uint8_t a[BOOT_FRAME_SECRET];
	(void)state;
	secrets_agree(&plain, &plain, a);
	assert_memory_equal(a, token, sizeof(token));
	assert_memory_equal(a + KV_TOKEN_LEN, zeros, sizeof(zeros));
}

/* The values are those of a script with python's hmac, written from docs/PROTOCOL.md. */
static void test_the_keys_of_a_shard(void **state)
{
	static const uint8_t to_server[KV_MAC_KEY] = {0x37, 0xea, 0x4b, 0xd6, 0xb6, 0xad, 0xef, 0x67, 0x91, 0x56, 0x15, 0xc4, 0x10, 0xd7, 0xf7, 0x18}, to_client[KV_MAC_KEY] = {0xfb, 0x31, 0x5b, 0xf1, 0x90, 0xf8, 0xae, 0x31, 0x4f, 0x41, 0x60, 0x62, 0x6a, 0xfb, 0x66, 0xea};
	uint8_t secret[BOOT_FRAME_SECRET];
	struct kv_seal_keys client, server;
	(void)state;
	for (unsigned i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	assert_int_equal(boot_frame_keys(secret, 0x10007, 3, false, &client), 0);
	assert_int_equal(boot_frame_keys(secret, 0x10007, 3, true, &server), 0);
	assert_memory_equal(client.out, to_server, KV_MAC_KEY);
	assert_memory_equal(client.in, to_client, KV_MAC_KEY);
	assert_memory_equal(server.in, to_server, KV_MAC_KEY);
	assert_memory_equal(server.out, to_client, KV_MAC_KEY);
}

static void differs(const struct kv_seal_keys *a, const uint8_t *secret, uint32_t session, unsigned shard)
{
	struct kv_seal_keys b;
	assert_int_equal(boot_frame_keys(secret, session, shard, false, &b), 0);
	assert_memory_not_equal(a->out, b.out, KV_MAC_KEY);
	assert_memory_not_equal(a->in, b.in, KV_MAC_KEY);
	assert_memory_not_equal(a->in, b.out, KV_MAC_KEY);
	assert_memory_not_equal(a->out, b.in, KV_MAC_KEY);
}

static void test_every_part_counts(void **state)
{
	uint8_t secret[BOOT_FRAME_SECRET] = "a secret of two and thirty bytes";
	struct kv_seal_keys a;
	(void)state;
	assert_int_equal(boot_frame_keys(secret, 7, 1, false, &a), 0);
	assert_memory_not_equal(a.out, a.in, KV_MAC_KEY);
	differs(&a, secret, 8, 1);
	differs(&a, secret, 7, 2);
	differs(&a, secret, 1, 7);
	secret[31] ^= 1;
	differs(&a, secret, 7, 1);
}

static int up(void **state)
{
	(void)state;
	rig_certs();
	return 0;
}

static int down(void **state)
{
	(void)state;
	rig_scratch_drop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_secret_is_of_tls),
		cmocka_unit_test(test_the_secret_is_the_token_without_tls),
		cmocka_unit_test(test_the_keys_of_a_shard),
		cmocka_unit_test(test_every_part_counts),
	};
	return cmocka_run_group_tests(tests, up, down);
}
