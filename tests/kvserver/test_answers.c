/* SPDX-License-Identifier: Apache-2.0 */
/* test_answers.c -- what a late CANCEL is told: right or nothing, of what is recent always, in little memory. */
#include "tests/check.h"

#include <malloc.h>
#include <stdlib.h>

#include "kvserver/shard/attachment.h"

enum { IDS = 40000, LINKS = KV_RAILS_MAX, MEMORY = 64 << 10 };

static struct answers a;
static struct answers_link l[LINKS];
static uint32_t noted[LINKS][IDS]; /* what a stupid table has */

static void begin(unsigned links, unsigned shards)
{
	assert_int_equal(answers_init(&a, links, shards), 0);
	for (unsigned i = 0; i < links; i++)
		answers_link_init(&l[i]);
	memset(noted, 0xEE, sizeof(noted));
}

static void note(unsigned link, unsigned links, uint64_t id, uint32_t posted)
{
	answers_note(&a, &l[link], link, links, sizeof(l[0]), id, posted);
	noted[link][id] = posted;
}

static bool known(unsigned link, uint64_t id)
{
	uint32_t posted = 7777;
	int rc = answers_look(&a, &l[link], link, id, &posted);
	assert_true(rc == 0 || rc == -KV_ESTALE);
	if (rc == 0)
		assert_int_equal(posted, noted[link][id]);
	return rc == 0;
}

/* Random use never tells a wrong number, and forgets nothing of the latest 128 ids of any link, however busy the others
 * are. */
static void an_answer_is_right_and_a_recent_one_is_told(void **state)
{
	static const struct {
		unsigned links, shards;
	} of[] = {{1, 1}, {2, 1}, {7, 1}, {LINKS, 1}, {1, 64}, {8, 4}, {5, 13}, {LINKS, 64}};
	struct kv_prng p = check_seed();
	(void)state;

	for (unsigned c = 0; c < KV_COUNT(of); c++) {
		uint64_t next[LINKS] = {0};
		begin(of[c].links, of[c].shards);
		for (unsigned i = 0; i < 200000; i++) {
			unsigned link =
				(unsigned)kv_prng_below(&p, kv_prng_below(&p, 4) ? 1 : of[c].links); /* one is busy */
			uint64_t *n = &next[link];
			if (*n == IDS)
				continue;
			note(link, of[c].links, *n,
			     kv_prng_below(&p, 5) ? (uint32_t)kv_prng_below(&p, ANSWERS_POSTED + 1) : UINT32_MAX);
			++*n;
			assert_true(known(link, *n - 1));
			known(link, kv_prng_below(&p, *n));
			link = (unsigned)kv_prng_below(&p, of[c].links);
			if (next[link] > 0)
				assert_true(known(
					link,
					next[link] - 1 - kv_prng_below(&p, KV_MIN(next[link], (uint64_t)ANSWERS_IDS))));
		}
		answers_fini(&a);
	}
}

static void one_link_knows_its_whole_window(void **state)
{
	(void)state;
	begin(1, 1);
	for (uint64_t id = 0; id < IDS; id++) {
		note(0, 1, id, (uint32_t)id % 200);
		if (id >= KV_WINDOW_WIDTH)
			assert_true(known(0, id - KV_WINDOW_WIDTH + ANSWERS_IDS));
	}
	answers_fini(&a);
}

/* A page that was given up comes back without what was in it. */
static void a_forgotten_request_is_not_called_unknown(void **state)
{
	uint32_t posted;
	(void)state;
	begin(LINKS, 1);
	note(0, LINKS, 5, 3);
	for (unsigned i = 0; i < LINKS; i++)
		for (uint64_t id = 1000; id < 9000; id += 50)
			note(i, LINKS, id, 1);
	assert_int_equal(answers_look(&a, &l[0], 0, 5, &posted), -KV_ESTALE);
	note(0, LINKS, 20000, ANSWERS_POSTED + 1); /* more than a page can tell */
	assert_int_equal(answers_look(&a, &l[0], 0, 20000, &posted), -KV_ESTALE);
	answers_fini(&a);
}

/* Requests are answered in any order. One of a page that was given up is forgotten: it does not take the place of later
 * ones. */
static void a_late_answer_costs_no_later_one(void **state)
{
	(void)state;
	begin(LINKS, 1);
	for (unsigned i = 0; i < LINKS; i++)
		for (uint64_t id = 0; id < (ANSWERS_LINK + 1) * ANSWERS_IDS; id++)
			note(i, LINKS, id, 1);
	for (unsigned i = 0; i < LINKS; i++) {
		for (uint64_t id = 0; id < ANSWERS_IDS; id++)
			note(i, LINKS, id, 2);
		for (uint64_t id = 0; id < (ANSWERS_LINK + 1) * ANSWERS_IDS; id++)
			assert_true(known(i, id) || id < ANSWERS_IDS);
	}
	answers_fini(&a);
}

/* Whatever the number of links, and whatever they do. */
static void a_session_takes_64_kib_at_most(void **state)
{
	size_t before = mallinfo2().uordblks, took;
	void *volatile attachment;
	(void)state;
	for (unsigned links = 1; links <= KV_RAILS_MAX; links++)
		assert_true(shard_attachment_bytes(links, 1) <= MEMORY);
	attachment = calloc(1, shard_attachment_bytes(LINKS, 1) - answers_bytes(LINKS, 1));
	begin(LINKS, 1);
	for (unsigned i = 0; i < LINKS; i++)
		for (uint64_t id = 0; id < IDS; id += 17)
			note(i, LINKS, id, 1);
	took = mallinfo2().uordblks - before;
	print_message("%zu bytes with %u links, %zu with one\n", took, LINKS, shard_attachment_bytes(1, 1));
	assert_true(took == 0 || (took >= shard_attachment_bytes(LINKS, 1) &&
				  took <= MEMORY)); /* 0: another allocator, of a sanitizer */
	free(attachment);
	answers_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_session_takes_64_kib_at_most), /* first: nothing was freed yet that could be taken again */
		cmocka_unit_test(an_answer_is_right_and_a_recent_one_is_told),
		cmocka_unit_test(one_link_knows_its_whole_window),
		cmocka_unit_test(a_forgotten_request_is_not_called_unknown),
		cmocka_unit_test(a_late_answer_costs_no_later_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
