/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread.c -- a large batch of a thread is spread over the pool's loops; items keep their places, each has its own
 * result, and a part that fails fails alone. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "server.h"

enum { LOOPS = 3, CLIENTS = 4, ITEMS = 96, LEN = 200000 };
#define PATIENCE_NS 120000000000ull

static struct test_server server[2];
static const struct test_server *const both[] = {&server[0], &server[1]};
static struct kvc_pool *pool;
static uint8_t *bytes;
static struct kvc_item item[ITEMS];
static char name[ITEMS][32];

static int setup(void **state)
{
	struct kvc_options o;
	struct kv_error err = {0};
	(void)state;
	test_server_up(&server[0], "spread-0");
	if (!server[0].pid)
		return 0;
	test_server_start(&server[1], "spread-1");
	o = test_options(both, 2, CLIENTS);
	o.num_threads = LOOPS;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	bytes = malloc((size_t)ITEMS * LEN);
	assert_non_null(bytes);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvc_pool_close(&pool);
	test_server_kill(&server[0]);
	test_server_kill(&server[1]);
	free(bytes);
	return 0;
}

/* Items `what`-0 to the last one, each LEN bytes. */
static void items_make(const char *what, bool put)
{
	memset(item, 0, sizeof(item));
	for (unsigned i = 0; i < ITEMS; i++) {
		item[i].key = (struct kvc_key){name[i], (size_t)snprintf(name[i], sizeof(name[i]), "%s-%u", what, i)};
		item[i].data = bytes + (size_t)i * LEN;
		item[i].len = LEN;
		item[i].result = 77;
		if (put)
			test_fill(item[i].data, LEN, i);
	}
	if (!put)
		memset(bytes, 0, (size_t)ITEMS * LEN);
}

static struct kvc_call patient(void)
{
	return (struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = PATIENCE_NS};
}

static void all_put(const char *what)
{
	struct kvc_call call = patient();
	items_make(what, true);
	assert_int_equal(kvc_put_batch(pool, item, ITEMS, &call), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].result, 0);
}

static void item_is_good(unsigned i)
{
	assert_int_equal(item[i].result, LEN);
	assert_true(test_same(item[i].data, LEN, i));
}

/* Operations of each client on its NIC. */
static void moved(uint64_t out[CLIENTS])
{
	struct kvc_rail_info r = {.size = sizeof(r)};
	for (unsigned c = 0; c < CLIENTS; c++) {
		r.size = sizeof(r);
		assert_int_equal(kvc_rail_info(pool, c, 0, &r), 0);
		out[c] = r.immediates + r.sends;
	}
}

static void every_loop_has_a_part(void **state)
{
	struct kvc_call call = patient();
	struct kvc_phases phases = {.size = sizeof(phases)};
	struct kvc_counters before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	uint64_t from[CLIENTS], to[CLIENTS], most = 0;
	unsigned loops = 0;
	(void)state;
	test_server_need(&server[0]);
	all_put("order");
	items_make("order", false);
	call.phases = &phases;
	moved(from);
	assert_int_equal(kvc_counters(pool, &before), 0);
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), 0);
	assert_int_equal(kvc_counters(pool, &after), 0);
	moved(to);
	for (unsigned i = 0; i < ITEMS; i++)
		item_is_good(i);
	/* Several items share a frame, so operations are fewer than items; those of three equal parts differ by less
	 * than half. Clients 0 and 3 share a loop. */
	to[0] += to[3] - from[3];
	for (unsigned l = 0; l < LOOPS; l++)
		most = KV_MAX(most, to[l] - from[l]);
	for (unsigned l = 0; l < LOOPS; l++)
		loops += to[l] - from[l] > 0 && 2 * (to[l] - from[l]) >= most;
	assert_int_equal(loops, LOOPS);
	assert_int_equal(after.gets - before.gets, ITEMS);
	assert_int_equal(after.hits - before.hits, ITEMS);
	assert_true(phases.total_ns > 0);
	assert_int_equal(phases.room_ns + phases.queue_ns + phases.server_ns + phases.wire_ns + phases.data_ns +
				 phases.wake_ns + phases.check_ns + phases.other_ns,
			 phases.total_ns);
}

/* ---- items in parts that share a struct kvc_arrival by mistake ---- */

enum { PARTS = 4, PAIRS = ITEMS / 2 };
static uint64_t ends[PARTS];
static struct kvc_arrival arrival[PAIRS];
static struct kvc_layout layout[ITEMS];

/* Items i and i + PAIRS, which are of other loops and often of other servers. */
static void pairs_make(void)
{
	items_make("pairs", false);
	memset(arrival, 0, sizeof(arrival));
	for (unsigned p = 0; p < PARTS; p++)
		ends[p] = (uint64_t)LEN / PARTS * (p + 1);
	for (unsigned i = 0; i < ITEMS; i++) {
		layout[i] = (struct kvc_layout){.size = sizeof(layout[i]),
						.num_parts = PARTS,
						.part_ends = ends,
						.arrival = &arrival[i % PAIRS]};
		item[i].layout = &layout[i];
	}
}

/* The first of each was not read, and the memory of neither has bytes of the other. */
static void pairs_are_good(void)
{
	for (unsigned i = 0; i < ITEMS; i++) {
		if (i >= PAIRS) {
			item_is_good(i);
			assert_int_equal(kvc_arrival_parts(&arrival[i - PAIRS]), PARTS);
			continue;
		}
		assert_int_equal(item[i].result, -KV_EINVAL);
		for (unsigned b = 0; b < LEN; b++)
			assert_int_equal(((uint8_t *)item[i].data)[b], 0);
	}
}

static void pairs_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_call call = patient();
	(void)w;
	*(int *)arg = kvc_get_batch_await(client, item, ITEMS, &call);
}

static void of_items_that_share_an_arrival_the_last_one_has_it(void **state)
{
	struct kvc_call call = patient();
	struct kvc_completion done;
	struct kvc_queue *q = NULL;
	struct kv_error err = {0};
	int rc = 0;
	(void)state;
	test_server_need(&server[0]);
	all_put("pairs");
	pairs_make();
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), -KV_EINVAL);
	pairs_are_good();
	pairs_make();
	assert_int_equal(kvc_run(pool, 1, pairs_worker, &rc), 0);
	assert_int_equal(rc, -KV_EINVAL);
	pairs_are_good();
	pairs_make();
	assert_int_equal(kvc_queue_open(pool, NULL, &q, &err), 0);
	assert_true(kvc_submit_get(q, item, ITEMS, &call, 0) > 0);
	while (kvc_reap(q, &done, 1) == 0)
		sched_yield();
	assert_int_equal(done.result, -KV_EINVAL);
	pairs_are_good();
	assert_int_equal(kvc_queue_close(&q), 0);
}

static void each_item_has_its_own_result(void **state)
{
	struct kvc_call call = patient();
	static const struct kvc_layout unset;
	(void)state;
	test_server_need(&server[0]);
	all_put("errors");
	items_make("errors", false);
	memcpy(name[5], "missing", 8);
	item[5].key.len = 7;
	item[40].len = LEN - 1;
	item[50].key.len = 0;
	item[ITEMS - 1].layout = &unset;
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), -KV_ENOTFOUND);
	for (unsigned i = 0; i < ITEMS; i++)
		if (i == 5 || i == 40 || i == 50 || i == ITEMS - 1)
			assert_int_equal(item[i].result, i == 5 ? -KV_ENOTFOUND : i == 40 ? -KV_ETOOBIG : -KV_EINVAL);
		else
			item_is_good(i);
	/* The code of the whole is that of the first item, not of the first part that ended. */
	items_make("errors", true);
	item[ITEMS - 1].key.len = 0;
	memset(item[60].data, 0xEE, LEN);
	assert_int_equal(kvc_put_batch(pool, item, ITEMS, &call), -KV_EEXIST);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].result, i == 60 ? -KV_EEXIST : i == ITEMS - 1 ? -KV_EINVAL : 0);
}

static void what_is_refused_as_a_whole_is_told_to_all(void **state)
{
	struct kvc_call bad = {.size = 1};
	(void)state;
	test_server_need(&server[0]);
	items_make("refused", true);
	assert_int_equal(kvc_put_batch(pool, item, ITEMS, &bad), -KV_EINVAL);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(item[i].result, -KV_EINVAL);
}

static void a_sessions_batch_is_its_clients(void **state)
{
	struct kvc_call call = patient();
	struct kvc_session_info info = {.size = sizeof(info)};
	struct kv_error err = {0};
	uint64_t requests = 0;
	(void)state;
	test_server_need(&server[0]);
	all_put("session");
	assert_int_equal(kvc_session_open(pool, 1, NULL, &call.session, &err), 0);
	items_make("session", false);
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		item_is_good(i);
	assert_int_equal(kvc_session_info(pool, call.session, 0, &info), 0);
	requests = info.requests;
	assert_true(requests >= ITEMS);
	assert_int_equal(kvc_session_close(pool, &call.session, 0), 0);
}

/* ---- a loop that stands still ---- */

static atomic_bool held, let_go;

static void holding_worker(struct kvc_client *c, unsigned w, void *arg)
{
	(void)c, (void)w, (void)arg;
	atomic_store(&held, true);
	while (!atomic_load(&let_go))
		usleep(1000);
}

static void a_loop_that_stands_still_fails_its_part_alone(void **state)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = 3000000000ull};
	unsigned timeouts = 0, good = 0, changes = 0;
	int rc;
	(void)state;
	test_server_need(&server[0]);
	all_put("stuck");
	items_make("stuck", false);
	assert_int_equal(kvc_spawn(pool, 1, holding_worker, NULL), 0);
	while (!atomic_load(&held))
		usleep(1000);
	rc = kvc_get_batch(pool, item, ITEMS, &call);
	atomic_store(&let_go, true);
	assert_int_equal(rc, -KV_ETIMEOUT);
	for (unsigned i = 0; i < ITEMS; i++) {
		timeouts += item[i].result == -KV_ETIMEOUT;
		good += item[i].result == LEN && test_same(item[i].data, LEN, i);
		changes += i > 0 && (item[i].result == LEN) != (item[i - 1].result == LEN);
	}
	assert_int_equal(timeouts + good, ITEMS);
	/* At least the part of that loop; the others had time for theirs, unless this machine stood still, too. */
	assert_true(timeouts >= ITEMS / LOOPS - 2);
	if (good >= ITEMS - ITEMS / LOOPS - 2)
		assert_true(changes <= 2);
	call = patient();
	items_make("stuck", false);
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		item_is_good(i);
}

/* The last: one of the servers is killed. */
static void items_of_a_dead_server_go_to_the_other(void **state)
{
	struct kvc_call call = patient();
	bool other[ITEMS];
	unsigned dead = 0;
	(void)state;
	test_server_need(&server[0]);
	if (test_provider_is("shm")) {
		print_message(
			"on shm a server that is killed may keep a lock of the provider's: nobody promises to go on\n");
		skip();
	}
	all_put("dead");
	/* Whose key it is, is seen by which server has it. */
	test_server_kill(&server[1]);
	items_make("dead", false);
	kvc_get_batch(pool, item, ITEMS, &call);
	for (unsigned i = 0; i < ITEMS; i++) {
		other[i] = item[i].result != LEN;
		if (other[i])
			assert_int_equal(item[i].result, -KV_ENOTFOUND);
		else
			item_is_good(i);
		dead += other[i];
	}
	assert_true(dead > 0 && dead < ITEMS);
	all_put("dead");
	items_make("dead", false);
	assert_int_equal(kvc_get_batch(pool, item, ITEMS, &call), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		item_is_good(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_loop_has_a_part),
		cmocka_unit_test(of_items_that_share_an_arrival_the_last_one_has_it),
		cmocka_unit_test(each_item_has_its_own_result),
		cmocka_unit_test(what_is_refused_as_a_whole_is_told_to_all),
		cmocka_unit_test(a_sessions_batch_is_its_clients),
		cmocka_unit_test(a_loop_that_stands_still_fails_its_part_alone),
		cmocka_unit_test(items_of_a_dead_server_go_to_the_other),
	};
	test_local = KVC_LOCAL_OFF; /* operations of the fabric show which loop works */
	return cmocka_run_group_tests(tests, setup, teardown);
}
