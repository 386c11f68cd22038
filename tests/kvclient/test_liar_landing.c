/* SPDX-License-Identifier: Apache-2.0 */
/* test_liar_landing.c -- a client that writes the bytes of its PUTs, against a server that lies about where they may
 * land and what became of them. Whatever it says, a PUT ends soon after its deadline, what counts as landed has the
 * right bytes, and a server that becomes honest is used again.
 *
 * Over tcp (or KVRAIL_TEST_PROVIDER), where messages stay behind writes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"
#include "victim.h"

#define WAIT_NS  60000000000ull
#define SHORT_NS 300000000ull

enum { VALUE = 60000, SMALL = 5000 }; /* of one range; SMALL: written with others */

static bool lands;

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

static int setup(void **state)
{
	struct kvc_server_info server = {.size = sizeof(server)};
	(void)state;
	kvc_program_setup();
	victim = (struct victim){.timeout_ns = 2000000000, .connect_timeout_ns = WAIT_NS, .wait_ns = WAIT_NS};
	liar_lands = true;
	victim_start(KVC_MODE_AUTO);
	assert_int_equal(kvc_server_info(victim.pool, 0, 0, &server), 0);
	lands = server.put_way == KVC_PUT_LAND;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	victim_stop();
	return 0;
}

static void need_landing(void)
{
	if (!lands) {
		print_message("messages do not stay behind writes here\n");
		skip();
	}
}

/* One PUT, which ends in time. It has little time where an answer need not be its end. The bytes may be changed as soon
 * as it has ended. */
static int put(struct kvc_pool *to, uint8_t *from, size_t len, uint64_t seed, int expected)
{
	bool unanswered = expected == VICTIM_ANY || expected == -KV_ETIMEOUT;
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = unanswered ? SHORT_NS : victim.timeout_ns};
	uint64_t began = now_ns();
	int rc;
	test_fill(from, len, seed);
	rc = kvc_put(to, (struct kvc_key){"k", 1}, from, len, &call);
	assert_true(now_ns() - began < call.timeout_ns + VICTIM_LATE_NS);
	memset(from, 0xEE, len);
	return rc;
}

static void recovers(void)
{
	uint64_t until = now_ns() + victim.wait_ns, landed = atomic_load(&liar_landed);
	atomic_store(&liar_lie, LIE_NONE);
	for (unsigned i = 0; i < 2; i++)
		while (put(victim.pool, victim.dst[i], VALUE, i, 0) < 0)
			assert_true(now_ns() < until);
	assert_true(atomic_load(&liar_landed) >= landed + 2);
}

static const struct {
	enum lie lie;
	const char *name;
	int code;
} about_puts[] = {
	{LIE_NONE, "none", 0},
	{LIE_LANDED_SILENT, "no answer", -KV_ETIMEOUT},
	{LIE_LANDED_UNSEEN, "a PUT that was never seen", -KV_ETIMEOUT},
	{LIE_LANDED_LATE, "two answers after CANCEL was told of one", -KV_ETIMEOUT},
	{LIE_LANDED_POSTED, "CANCEL is told of writes", -KV_ETIMEOUT},
	{LIE_LANDED_ID, "another id", VICTIM_ANY},
	{LIE_LANDED_TYPE, "the answer to a GET", VICTIM_ANY},
	{LIE_LANDED_TWICE, "two answers", 0},
	{LIE_LANDED_CORRUPT, "wrong bytes", VICTIM_ANY},
	{LIE_LANDED_INVALID, "a place outside", VICTIM_ANY},
};

static void lies_about_a_put_end_it_in_time(void **state)
{
	uint64_t strewn = atomic_load(&liar_strewn);
	(void)state;
	need_landing();
	for (unsigned i = 0; i < 2 * KV_COUNT(about_puts); i++) {
		unsigned k = i / 2;
		atomic_store(&liar_lie, about_puts[k].lie);
		victim_tell(about_puts[k].name, i % 2,
			    put(victim.pool, victim.dst[0], i % 2 ? SMALL : VALUE, i, about_puts[k].code),
			    about_puts[k].code);
		recovers();
	}
	assert_int_equal(atomic_load(&liar_strewn), strewn);
}

/* ---- many values at once ---- */

enum { ITEMS = 40 };

static void items_fill(struct kvc_item *item, char (*key)[4], uint8_t *from, uint64_t seed)
{
	for (unsigned i = 0; i < ITEMS; i++) {
		snprintf(key[i], sizeof(key[i]), "%02u", i);
		item[i] = (struct kvc_item){.key = {key[i], 2},
					    .data = from + (size_t)i * SMALL,
					    .len = SMALL - i % 3 * 1000,
					    .result = 99};
		test_fill(item[i].data, item[i].len, seed + i);
	}
}

/* Values that were written as one have a result each, whatever becomes of the others. */
static void items_that_are_refused_are_told_and_no_others(void **state)
{
	static struct kvc_item item[ITEMS];
	static char key[ITEMS][4];
	uint8_t *from = calloc(ITEMS, SMALL);
	uint64_t landed = atomic_load(&liar_landed), strewn = atomic_load(&liar_strewn);
	(void)state;
	need_landing();
	recovers();
	landed = atomic_load(&liar_landed);
	items_fill(item, key, from, 7);
	atomic_store(&liar_lie, LIE_LANDED_ODD);
	assert_int_equal(kvc_put_batch(victim.pool, item, ITEMS, NULL), -KV_ENOMEM);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].result, i % 2 ? -KV_ENOMEM : 0);
	assert_int_equal(atomic_load(&liar_landed), landed + ITEMS);
	assert_int_equal(atomic_load(&liar_strewn), strewn);
	free(from);
	recovers();
}

/* The answers to as many PUTs as the area has places for are lost, and again. The server knows of them when they are
 * cancelled, and so their places are free. (Their credits are not. So they are fewer than a link has, and all is over
 * before the client begins anew because of them.) */
static void answers_that_are_lost_cost_no_place(void **state)
{
	static struct kvc_item item[ITEMS];
	static char key[ITEMS][4];
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = SHORT_NS};
	uint8_t *from = calloc(ITEMS, SMALL);
	uint64_t sessions = atomic_load(&liar_sessions);
	(void)state;
	need_landing();
	for (unsigned round = 0; round < 3; round++) {
		unsigned n = round == 1 ? ITEMS : LIAR_LANDING / (64 << 10); /* in packs; alone */
		items_fill(item, key, from, round);
		for (unsigned i = 0; i < n && round != 1; i++)
			item[i] = (struct kvc_item){.key = item[i].key, .data = from, .len = VALUE};
		atomic_store(&liar_lie, LIE_LANDED_SILENT);
		assert_int_equal(kvc_put_batch(victim.pool, item, n, &call), -KV_ETIMEOUT);
		recovers();
	}
	assert_int_equal(atomic_load(&liar_sessions), sessions);
	free(from);
}

struct batcher {
	pthread_t thread;
	struct kvc_item item[ITEMS];
	char key[ITEMS][4];
	uint8_t *from;
	int rc;
};

static void *put_items(void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = WAIT_NS};
	struct batcher *b = arg;
	b->rc = kvc_put_batch(victim.pool, b->item, ITEMS, &call);
	return NULL;
}

/* The server takes values that were written as one one by one: none of their places is used again before it has
 * answered all of them. */
static void values_wait_where_they_landed_for_their_answers(void **state)
{
	static struct batcher first, later;
	uint64_t landed, strewn = atomic_load(&liar_strewn), until = now_ns() + WAIT_NS;
	(void)state;
	need_landing();
	recovers();
	landed = atomic_load(&liar_landed);
	first.from = calloc(ITEMS, SMALL);
	later.from = calloc(ITEMS, SMALL);
	items_fill(first.item, first.key, first.from, 1);
	items_fill(later.item, later.key, later.from, 2);
	for (unsigned i = 0; i < ITEMS; i++)
		later.key[i][1] = '0'; /* even: answered at once */
	atomic_store(&liar_lie, LIE_LANDED_HALF);
	assert_int_equal(pthread_create(&first.thread, NULL, put_items, &first), 0);
	while (atomic_load(&liar_landed) < landed + ITEMS / 2)
		assert_true(now_ns() < until);
	for (unsigned i = 0; i < 8; i++) {
		put_items(&later);
		assert_int_equal(later.rc, 0);
	}
	recovers(); /* with which the others are answered */
	assert_int_equal(pthread_join(first.thread, NULL), 0);
	assert_int_equal(first.rc, 0);
	assert_int_equal(atomic_load(&liar_strewn), strewn);
	free(first.from);
	free(later.from);
}

/* CANCEL is told that some values of each pack were answered, and has no answer of others, to which the server comes
 * later: their bytes still lie where they landed, whoever PUTs meanwhile. */
static void values_wait_though_some_of_their_pack_are_cancelled(void **state)
{
	static struct batcher first, later;
	uint64_t landed, strewn = atomic_load(&liar_strewn);
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = SHORT_NS};
	(void)state;
	need_landing();
	recovers();
	first.from = calloc(ITEMS, SMALL);
	later.from = calloc(ITEMS, SMALL);
	items_fill(first.item, first.key, first.from, 1);
	items_fill(later.item, later.key, later.from, 2);
	for (unsigned i = 0; i < ITEMS; i++)
		later.key[i][1] = '0';
	atomic_store(&liar_lie, LIE_LANDED_PART);
	assert_int_equal(kvc_put_batch(victim.pool, first.item, ITEMS, &call), -KV_ETIMEOUT);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(first.item[i].result, i % 2 ? -KV_ETIMEOUT : 0);
	memset(first.from, 0xEE, (size_t)ITEMS * SMALL);
	for (unsigned i = 0; i < 8; i++) {
		put_items(&later);
		assert_int_equal(later.rc, 0);
	}
	landed = atomic_load(&liar_landed);
	recovers();
	assert_int_equal(atomic_load(&liar_strewn), strewn);
	assert_int_equal(atomic_load(&liar_landed), landed + 2 + ITEMS / 2);
	free(first.from);
	free(later.from);
}

/* A server that answers no more: every item ends in time, and what the pack has of memory comes back with the next
 * attachment. */
static void items_without_an_answer_end_in_time(void **state)
{
	static const enum lie lies[] = {LIE_LANDED_SILENT,  LIE_LANDED_UNSEEN, LIE_LANDED_TWICE,
					LIE_LANDED_CORRUPT, LIE_LANDED_LATE,   LIE_LANDED_POSTED};
	static struct kvc_item item[ITEMS];
	static char key[ITEMS][4];
	uint8_t *from = calloc(ITEMS, SMALL);
	(void)state;
	need_landing();
	for (unsigned k = 0; k < KV_COUNT(lies); k++) {
		uint64_t began = now_ns();
		int code = lies[k] == LIE_LANDED_TWICE     ? 0
			   : lies[k] == LIE_LANDED_CORRUPT ? -KV_ECORRUPT
							   : -KV_ETIMEOUT;
		items_fill(item, key, from, k);
		atomic_store(&liar_lie, lies[k]);
		assert_int_equal(kvc_put_batch(victim.pool, item, ITEMS, NULL), code);
		memset(from, 0xEE, (size_t)ITEMS * SMALL);
		assert_true(now_ns() - began < victim.timeout_ns + VICTIM_LATE_NS);
		for (unsigned i = 0; i < ITEMS; i++)
			assert_int_equal(item[i].result, code);
		recovers();
	}
	free(from);
}

/* ---- what is corrupt is tried once more ---- */

struct scripted {
	struct kvc_item item;
	bool batch;
};

static void scripted_put(struct kvc_client *c, unsigned w, void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = WAIT_NS};
	struct scripted *job = arg;
	(void)w;
	if (job->batch)
		kvc_put_batch_await(c, &job->item, 1, &call);
	else
		job->item.result = kvc_put_await(c, job->item.key, job->item.data, job->item.len, &call);
}

static void two_corrupt_copies_are_the_end_of_a_put(void **state)
{
	static const struct {
		const char *script, *left;
		int64_t result;
	} table[] = {{"c", "", 0},
		     {"bc", "", 0},
		     {"cbb", "", 0},
		     {"cccc", "cc", -KV_ECORRUPT},
		     {"cbccc", "cc", -KV_ECORRUPT},
		     {"bcccc", "cc", -KV_ECORRUPT},
		     {"cbbccc", "cc", -KV_ECORRUPT}};
	static const size_t sizes[] = {SMALL, VALUE};
	(void)state;
	need_landing();
	recovers();
	for (unsigned i = 0; i < 4 * KV_COUNT(table); i++) {
		struct scripted job = {.item = {.key = {"k", 1}, .data = victim.dst[0], .len = sizes[i % 2]},
				       .batch = i % 4 / 2};
		test_fill(job.item.data, job.item.len, i);
		atomic_store(&liar_script, table[i / 4].script);
		atomic_store(&liar_lie, LIE_SCRIPT);
		assert_int_equal(kvc_run(victim.pool, 1, scripted_put, &job), 0);
		if (job.item.result != table[i / 4].result)
			print_message("# %s, %s of %zu bytes\n", table[i / 4].script, job.batch ? "batch" : "call",
				      sizes[i % 2]);
		assert_int_equal(job.item.result, table[i / 4].result);
		assert_string_equal(atomic_load(&liar_script), table[i / 4].left);
	}
	recovers();
}

static uint64_t memory_kib(void)
{
	struct rusage usage;
	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (uint64_t)usage.ru_maxrss;
}

static void lies_about_the_area_harm_nobody(void **state)
{
	static const struct {
		enum lie lie;
		const char *name;
		int open, put;
	} rows[] = {{LIE_NONE, "none", 0, 0},
		    {LIE_LANDING_KEY, "another key", 0, VICTIM_ANY},
		    {LIE_LANDING_BASE, "another base", 0, VICTIM_ANY},
		    {LIE_LANDING_SHARD, "another shard", -KV_EPROTO, 0},
		    {LIE_LANDING_RAILS, "more rails", -KV_EPROTO, 0},
		    {LIE_LANDING_SPLIT, "several parts", 0, -KV_ECORRUPT},
		    {LIE_LANDING_PARTS, "too many parts", -KV_EPROTO, 0},
		    {LIE_LANDING_HUGE, "a huge one", 0, 0},
		    {LIE_LANDING_TINY, "a tiny one", -KV_EPROTO, 0},
		    {LIE_LANDING_EMPTY, "none left", 0, VICTIM_ANY},
		    {LIE_LANDING_TWICE, "two answers", VICTIM_ANY, VICTIM_ANY},
		    {LIE_LANDING_NONE, "no answer", -KV_ETIMEOUT, 0}};
	(void)state;
	need_landing();
	for (unsigned i = 0; i < KV_COUNT(rows); i++) {
		struct kvc_options o = victim_options();
		struct kvc_pool *other = NULL;
		struct kv_error err = {0};
		uint64_t before = memory_kib();
		int rc;
		if (rows[i].open == -KV_ETIMEOUT)
			o.connect_timeout_ns = 1000000000ull;
		o.base_client_id = LIAR_NEWCOMER;
		atomic_store(&liar_lie, rows[i].lie);
		rc = kvc_pool_open(&o, &other, &err);
		atomic_store(&liar_lie, LIE_NONE);
		print_message("# %s: %s\n", rows[i].name, rc < 0 ? err.text : "taken");
		if (rows[i].open != VICTIM_ANY)
			assert_int_equal(rc, rows[i].open);
		if (rc == 0)
			victim_tell(rows[i].name, 0, put(other, victim.dst[0], VALUE, i, rows[i].put), rows[i].put);
		if (rc == 0) { /* where there are several parts it may fit the first one */
			int code = rows[i].put == -KV_ECORRUPT ? VICTIM_ANY : rows[i].put;
			victim_tell(rows[i].name, 1, put(other, victim.dst[0], SMALL, i, code), code);
		}
		kvc_pool_close(&other);
		assert_true(memory_kib() - before < test_memory_bound(512) << 10);
	}
	recovers();
}

struct putter {
	pthread_t thread;
	uint8_t *from;
	int rc;
};

static void *put_whole(void *arg)
{
	const struct kvc_call call = {.size = sizeof(call), .timeout_ns = 8000000000ull};
	struct putter *p = arg;
	p->rc = kvc_put(victim.pool, (struct kvc_key){"k", 1}, p->from, LIAR_LANDING / 4, &call);
	return NULL;
}

enum { PUTTERS = 12 };

static void putters_begin(struct putter *p)
{
	for (unsigned i = 0; i < PUTTERS; i++) {
		p[i].from = calloc(1, LIAR_LANDING / 4);
		assert_int_equal(pthread_create(&p[i].thread, NULL, put_whole, &p[i]), 0);
	}
}

static void putters_end(struct putter *p)
{
	for (unsigned i = 0; i < PUTTERS; i++) {
		assert_int_equal(pthread_join(p[i].thread, NULL), 0);
		free(p[i].from);
	}
}

/* There are places for a third of the PUTs. The others stand aside, and each gets one in the end. */
static void puts_that_wait_for_a_place_get_one(void **state)
{
	struct putter p[PUTTERS];
	(void)state;
	need_landing();
	recovers();
	for (unsigned round = 0; round < 20; round++) {
		putters_begin(p);
		putters_end(p);
		for (unsigned i = 0; i < PUTTERS; i++)
			assert_int_equal(p[i].rc, 0);
	}
}

/* PUTs that wait for places keep nobody from asking whether the link lives (the server is slow, and not away), nor
 * GETs from passing them. */
static void puts_that_wait_for_a_place_end_no_attachment(void **state)
{
	const struct kvc_call soon = {.size = sizeof(soon), .timeout_ns = 1000000000ull};
	struct putter p[PUTTERS];
	uint64_t sessions;
	(void)state;
	need_landing();
	recovers();
	sessions = atomic_load(&liar_sessions);
	atomic_store(&liar_lie, LIE_LANDED_SILENT);
	putters_begin(p);
	sleep(6);
	assert_int_equal(atomic_load(&liar_sessions), sessions);
	for (unsigned i = 0; i < 4; i++) /* what needs no place is not behind them */
		assert_int_equal(kvc_get(victim.pool, (struct kvc_key){"g", 1}, victim.dst[0], LIAR_VALUE, &soon),
				 LIAR_VALUE);
	atomic_store(&liar_lie, LIE_NONE);
	putters_end(p);
	recovers();
}

/* Each test has a server and an attachment of its own: a lie may cost places of the landing area until the next one. */
#define LIAR_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIAR_TEST(lies_about_a_put_end_it_in_time),
		LIAR_TEST(answers_that_are_lost_cost_no_place),
		LIAR_TEST(items_that_are_refused_are_told_and_no_others),
		LIAR_TEST(values_wait_where_they_landed_for_their_answers),
		LIAR_TEST(values_wait_though_some_of_their_pack_are_cancelled),
		LIAR_TEST(items_without_an_answer_end_in_time),
		LIAR_TEST(two_corrupt_copies_are_the_end_of_a_put),
		LIAR_TEST(lies_about_the_area_harm_nobody),
		LIAR_TEST(puts_that_wait_for_a_place_get_one),
		LIAR_TEST(puts_that_wait_for_a_place_end_no_attachment),
	};
	return cmocka_run_group_tests_name("kvclient/liar_landing", tests, NULL, NULL);
}
