/* SPDX-License-Identifier: Apache-2.0 */
/* test_small.c -- calls that move no value: their arguments, EXISTS, PING, STAT, pins and touches. */
#include "calls.h"

static void arguments_are_checked(void **state)
{
	uint8_t b[1] = {1}, long_key[129] = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_get(shared, (struct kvc_key){"", 0}, b, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_get(shared, (struct kvc_key){long_key, 129}, b, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_get(shared, (struct kvc_key){"k", 1}, NULL, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_put(shared, (struct kvc_key){"k", 1}, b, 0, NULL), -KV_EINVAL);
	assert_int_equal(kvc_put(shared, (struct kvc_key){"k", 1}, b, ((uint64_t)1 << 30) + 1, NULL), -KV_ETOOBIG);
	assert_int_equal(kvc_get(NULL, (struct kvc_key){"k", 1}, b, 1, NULL), -KV_EINVAL);
}

static void keys_have_1_to_128_bytes(void **state)
{
	uint8_t key[128], got[8];
	(void)state;
	need_server();
	for (size_t len = 1; len <= sizeof(key); len++) {
		struct kvc_key k = {key, len};
		memset(key, (int)len, sizeof(key));
		assert_int_equal(kvc_put(shared, k, key, 1 + len % 8, NULL), 0);
		assert_int_equal(kvc_get(shared, k, got, 8, NULL), 1 + len % 8);
		assert_int_equal(kvc_delete(shared, k, NULL), 0);
	}
}

static void exists_tells_each_key_and_the_prefix(void **state)
{
	enum { N = 1500 };
	static char text[N][100];
	static struct kvc_key keys[N];
	static uint8_t found[N];
	unsigned prefix = 0;
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		/* Long keys: several records per shard. */
		keys[i] = (struct kvc_key){text[i], (size_t)snprintf(text[i], sizeof(text[i]), "exists/%080u", i)};
		if (i < 700 || i % 3 == 0)
			assert_int_equal(kvc_put(shared, keys[i], text[i], 10, NULL), 0);
	}
	assert_int_equal(kvc_exists(shared, keys, N, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 700);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(found[i], i < 700 || i % 3 == 0);
	/* The same key more than once. */
	keys[1] = keys[2] = keys[0];
	assert_int_equal(kvc_exists(shared, keys, 4, found, &prefix, NULL), 0);
	assert_int_equal(prefix, 4);
	assert_int_equal(kvc_exists(shared, keys, 0, NULL, &prefix, NULL), 0);
	assert_int_equal(prefix, 0);
	keys[1].len = 0;
	assert_int_equal(kvc_exists(shared, keys, 4, found, &prefix, NULL), -KV_EINVAL);
	for (unsigned i = 0; i < N; i++)
		kvc_delete(shared, (struct kvc_key){text[i], strlen(text[i])}, NULL);
}

static void ping_and_stat_reach_every_shard(void **state)
{
	struct kvc_stat_item items[64];
	uint64_t gets = 0;
	char b[1];
	int n;
	(void)state;
	need_server();
	assert_int_equal(kvc_ping(shared, NULL), 0);
	assert_int_equal(kvc_ping(shared, &(struct kvc_call){.size = sizeof(struct kvc_call), .server = 1}),
			 -KV_EINVAL);
	for (int round = 0; round < 2; round++) {
		uint64_t before = gets;
		n = kvc_stat(shared, items, KV_COUNT(items), NULL);
		assert_true(n > 10);
		for (int i = 0; i < n; i++)
			if (strcmp(items[i].name, "gets") == 0)
				gets = items[i].value;
		if (round == 1)
			assert_int_equal(gets, before + 100);
		for (unsigned i = 0; i < 100; i++)
			kvc_get(shared, KEY(i), b, 1, NULL);
	}
}

static void pin_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	struct kvc_key key = {"pin/a", 5}, none = {"pin/none", 8};
	char b[1];
	job->ran++;
	EXPECT(kvc_put_await(c, key, "12345", 5, NULL) == 0);
	EXPECT(kvc_pin_await(c, key, NULL) == 0);
	EXPECT(kvc_pin_await(c, key, NULL) == 0);
	EXPECT(kvc_unpin_await(c, key, NULL) == 0);
	EXPECT(kvc_pin_await(c, none, NULL) == -KV_ENOTFOUND);
	EXPECT(kvc_touch_await(c, key, NULL) == 0);
	EXPECT(kvc_delete_await(c, key, NULL) == 0);
	/* A blocking call would block the loop that is to serve it. */
	EXPECT(kvc_get(kvc_client_pool(c), key, b, 1, NULL) == -KV_EINVAL);
}

static void pins_and_touches_work(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 1, pin_worker, &job), 0);
	assert_int_equal(job.ran, 1);
	assert_int_equal(job.failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(keys_have_1_to_128_bytes),
		cmocka_unit_test(exists_tells_each_key_and_the_prefix),
		cmocka_unit_test(ping_and_stat_reach_every_shard),
		cmocka_unit_test(pins_and_touches_work),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
