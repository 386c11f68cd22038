/* SPDX-License-Identifier: Apache-2.0 */
/* test_hash.c -- the published value of XXH3-64. The function chosen for this processor equals the plain one, which is
 * compiled here from the header without vectors. Streaming equals one shot however the bytes are cut. */
#define XXH_INLINE_ALL
#define XXH_VECTOR 0 /* XXH_SCALAR */
#include <xxhash.h>

#include "tests/check.h"

#include <pthread.h>
#include <stdlib.h>

enum { DATA_LEN = 300000, LARGE_LEN = 4 << 20, THREADS = 8 };

static uint8_t data[DATA_LEN];

static void blocks_hash_to_xxh3(void **state)
{
	(void)state;
	assert_true(kv_hash_block("", 0) == 0x2d06800538d394c2u);
	assert_true(kv_hash_block(NULL, 0) == 0x2d06800538d394c2u);
	assert_true(kv_hash_key("", 0, 0) == 0x2d06800538d394c2u);
}

static pthread_barrier_t start;

static void *hash_at_once(void *arg)
{
	uint64_t *out = arg;
	struct kv_hasher h;
	kv_hasher_init(&h);
	pthread_barrier_wait(&start);
	if (out[0]) {
		out[1] = kv_hash_block(data, sizeof(data));
	} else {
		kv_hasher_update(&h, data, sizeof(data));
		out[1] = kv_hasher_digest(&h);
	}
	return NULL;
}

/* Runs first: the choice is made once in a process. */
static void the_first_use_may_be_in_many_threads(void **state)
{
	pthread_t thread[THREADS];
	uint64_t arg[THREADS][2];
	(void)state;
	assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		arg[i][0] = i % 2;
		assert_int_equal(pthread_create(&thread[i], NULL, hash_at_once, arg[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_true(arg[i][1] == XXH3_64bits(data, sizeof(data)));
	}
	pthread_barrier_destroy(&start);
}

static void every_short_length_equals_the_plain_one(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	kv_prng_fill(&p, data, sizeof(data));
	for (uint64_t len = 0; len <= 1024; len++) {
		uint64_t at = kv_prng_below(&p, 64), seed = kv_prng_next(&p);
		assert_true(kv_hash_block(data + at, len) == XXH3_64bits(data + at, len));
		assert_true(kv_hash_key(data + at, len, seed) == XXH3_64bits_withSeed(data + at, len, seed));
	}
}

static void long_lengths_equal_the_plain_one(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	uint8_t *large = malloc(LARGE_LEN);
	assert_non_null(large);
	kv_prng_fill(&p, large, LARGE_LEN);
	for (int i = 0; i < 100; i++) {
		uint64_t len = kv_prng_below(&p, i % 2 ? LARGE_LEN + 1 : 16384),
			 at = kv_prng_below(&p, LARGE_LEN - len + 1);
		uint64_t plain = XXH3_64bits(large + at, len), done = 0, piece_max = 1 + kv_prng_below(&p, len + 1);
		struct kv_hasher h;
		assert_true(kv_hash_block(large + at, len) == plain);
		kv_hasher_init(&h);
		while (done < len) {
			uint64_t n = kv_prng_below(&p, piece_max + 1);
			n = KV_MIN(n, len - done);
			kv_hasher_update(&h, large + at + done, n);
			done += n;
			if (kv_prng_below(&p, 1 + len / piece_max) == 0) /* a digest on the way is right, too */
				assert_true(kv_hasher_digest(&h) == XXH3_64bits(large + at, done));
		}
		assert_true(kv_hasher_digest(&h) == plain);
	}
	free(large);
}

static void a_seed_changes_the_hash_of_a_key(void **state)
{
	(void)state;
	assert_true(kv_hash_key("key", 3, 0) == kv_hash_block("key", 3));
	assert_true(kv_hash_key("key", 3, 1) != kv_hash_key("key", 3, 2));
	assert_true(kv_hash_key("key", 3, 1) == kv_hash_key("key", 3, 1));
}

static uint64_t streamed(struct kv_prng *p, uint64_t len, uint64_t piece_max)
{
	struct kv_hasher h;
	memset(&h, 0xa5, sizeof(h)); /* what lies in the state before must not count */
	kv_hasher_init(&h);
	for (uint64_t at = 0; at < len;) {
		uint64_t n = kv_prng_below(p, piece_max + 1);
		n = KV_MIN(n, len - at);
		kv_hasher_update(&h, data + at, n);
		at += n;
	}
	return kv_hasher_digest(&h);
}

static void streaming_equals_one_shot_at_every_short_length(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	kv_prng_fill(&p, data, sizeof(data));
	for (uint64_t len = 0; len <= 1200; len++)
		assert_true(streamed(&p, len, 1 + kv_prng_below(&p, 300)) == kv_hash_block(data, len));
}

static void streaming_equals_one_shot_at_long_lengths(void **state)
{
	(void)state;
	struct kv_prng p = check_seed();
	kv_prng_fill(&p, data, sizeof(data));
	for (int i = 0; i < 50; i++) {
		uint64_t len = kv_prng_below(&p, DATA_LEN + 1);
		assert_true(streamed(&p, len, 1 + kv_prng_below(&p, 70000)) == kv_hash_block(data, len));
	}
}

static void a_digest_does_not_end_the_stream(void **state)
{
	(void)state;
	struct kv_hasher h;
	kv_hasher_init(&h);
	kv_hasher_update(&h, "ab", 2);
	assert_true(kv_hasher_digest(&h) == kv_hash_block("ab", 2));
	kv_hasher_update(&h, "c", 1);
	kv_hasher_update(&h, NULL, 0);
	assert_true(kv_hasher_digest(&h) == kv_hash_block("abc", 3));
}

static void the_state_does_not_overrun(void **state)
{
	(void)state;
	struct {
		struct kv_hasher h;
		uint8_t guard[64];
	} *s = aligned_alloc(64, sizeof(*s));
	assert_non_null(s);
	memset(s->guard, 0x5a, sizeof(s->guard));
	kv_hasher_init(&s->h);
	kv_hasher_update(&s->h, data, DATA_LEN);
	(void)kv_hasher_digest(&s->h);
	for (size_t i = 0; i < sizeof(s->guard); i++)
		assert_int_equal(s->guard[i], 0x5a);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_use_may_be_in_many_threads),
		cmocka_unit_test(blocks_hash_to_xxh3),
		cmocka_unit_test(every_short_length_equals_the_plain_one),
		cmocka_unit_test(long_lengths_equal_the_plain_one),
		cmocka_unit_test(a_seed_changes_the_hash_of_a_key),
		cmocka_unit_test(streaming_equals_one_shot_at_every_short_length),
		cmocka_unit_test(streaming_equals_one_shot_at_long_lengths),
		cmocka_unit_test(a_digest_does_not_end_the_stream),
		cmocka_unit_test(the_state_does_not_overrun),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
