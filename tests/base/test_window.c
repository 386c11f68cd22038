/* SPDX-License-Identifier: Apache-2.0 */
/* test_window.c -- the window of ids against a list of all ids ever seen. */
#include "tests/check.h"

#include "base/base.h"

enum { IDS = 60000 };

static struct kv_window w;
static uint64_t bits[KV_WINDOW_WIDTH / 64];
static bool seen[IDS + KV_WINDOW_WIDTH * 3];

static void random_ids_agree(uint32_t width)
{
	struct kv_prng p = check_seed();
	uint64_t base = 0, top = 0;
	memset(seen, 0, sizeof(seen));
	memset(bits, 0xFF, sizeof(bits));
	kv_window_init(&w, bits, width);
	while (base < IDS) {
		uint64_t id = base + kv_prng_below(&p, kv_prng_below(&p, 50) ? 64 : KV_WINDOW_WIDTH * 2);
		enum kv_window_verdict want = seen[id] ? KV_WINDOW_SEEN : KV_WINDOW_NEW;
		if (id + width < top)
			want = KV_WINDOW_BELOW;
		assert_int_equal(kv_window_look(&w, id), want);
		assert_int_equal(kv_window_mark(&w, id), want);
		if (want == KV_WINDOW_NEW) {
			seen[id] = true;
			top = KV_MAX(top, id + 1);
		}
		base += kv_prng_below(&p, 20);
		if (kv_prng_below(&p, 2000) == 0)
			base += kv_prng_below(&p, KV_WINDOW_WIDTH);
	}
	for (uint32_t i = kv_window_words(width); i < KV_COUNT(bits); i++)
		assert_true(bits[i] == UINT64_MAX); /* what is behind it is not its own */
}

static void random_ids_agree_with_a_list(void **state)
{
	(void)state;
	random_ids_agree(64);
	random_ids_agree(KV_WINDOW_LEAST);
	random_ids_agree(KV_WINDOW_WIDTH);
}

/* The more windows there are, the narrower they are. Together they take no more than eight full ones, as long as each
 * has at least the least width. */
static void many_windows_are_narrow(void **state)
{
	(void)state;
	for (unsigned n = 1; n < 100; n++) {
		uint32_t width = kv_window_width(n);
		assert_true((width & (width - 1)) == 0 && width >= KV_WINDOW_LEAST && width <= KV_WINDOW_WIDTH);
		assert_true(n > 8 || width == KV_WINDOW_WIDTH);
		assert_true(n > KV_RAILS_MAX || n * width <= 8 * KV_WINDOW_WIDTH);
	}
}

static void the_edges_are_exact(void **state)
{
	(void)state;
	kv_window_init(&w, bits, KV_WINDOW_WIDTH);
	assert_int_equal(kv_window_mark(&w, KV_WINDOW_WIDTH), KV_WINDOW_NEW);
	assert_int_equal(kv_window_mark(&w, 0), KV_WINDOW_BELOW);
	assert_int_equal(kv_window_mark(&w, 1), KV_WINDOW_NEW);
	assert_int_equal(kv_window_mark(&w, 1), KV_WINDOW_SEEN);
	assert_int_equal(kv_window_mark(&w, KV_WINDOW_WIDTH), KV_WINDOW_SEEN);
}

static void the_highest_ids_do_not_wrap(void **state)
{
	(void)state;
	kv_window_init(&w, bits, KV_WINDOW_WIDTH);
	assert_int_equal(kv_window_mark(&w, UINT64_MAX), KV_WINDOW_BELOW);
	assert_int_equal(kv_window_mark(&w, UINT64_MAX - 1), KV_WINDOW_NEW);
	assert_int_equal(kv_window_mark(&w, UINT64_MAX - 1), KV_WINDOW_SEEN);
	assert_int_equal(kv_window_mark(&w, UINT64_MAX - KV_WINDOW_WIDTH), KV_WINDOW_NEW);
	assert_int_equal(kv_window_mark(&w, 5), KV_WINDOW_BELOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ids_agree_with_a_list),
		cmocka_unit_test(many_windows_are_narrow),
		cmocka_unit_test(the_edges_are_exact),
		cmocka_unit_test(the_highest_ids_do_not_wrap),
	};
	return cmocka_run_group_tests_name("base/window", tests, NULL, NULL);
}
