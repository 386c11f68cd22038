/* SPDX-License-Identifier: Apache-2.0 */
/* test_batch.c -- batches at a real kv-server: each item has its own result, also where the server stands still or the
 * batch never begins. */
#include "calls.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static void batches_have_a_result_per_item(void **state)
{
	enum { N = 500, LEN = 70000 };
	static char text[N][32];
	static struct kvc_item items[N];
	uint8_t *buf = memory((size_t)N * LEN);
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "batch", i),
					     .data = buf + (size_t)i * LEN,
					     .len = 1 + (i * 997) % LEN};
		test_fill(items[i].data, items[i].len, i);
	}
	assert_int_equal(kvc_put_batch(shared, items, N, NULL), 0);
	memset(buf, 0, (size_t)N * LEN);
	for (unsigned i = 0; i < N; i += 5)
		assert_int_equal(kvc_delete(shared, items[i].key, NULL), 0);
	for (unsigned i = 0; i < N; i++)
		items[i].len = LEN;
	assert_int_equal(kvc_get_batch(shared, items, N, NULL), -KV_ENOTFOUND);
	for (unsigned i = 0; i < N; i++) {
		if (i % 5 == 0) {
			assert_int_equal(items[i].result, -KV_ENOTFOUND);
			continue;
		}
		assert_int_equal(items[i].result, 1 + (i * 997) % LEN);
		assert_true(test_same(items[i].data, (size_t)items[i].result, i));
		assert_int_equal(kvc_delete(shared, items[i].key, NULL), 0);
	}
	munmap(buf, (size_t)N * LEN);
}

static uint64_t client_writes(struct kvc_pool *pool)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct kvc_rail_info rail = {.size = sizeof(rail)};
		assert_int_equal(kvc_rail_info(pool, i, 0, &rail), 0);
		sum += rail.writes;
	}
	return sum;
}

/* Small items go and come side by side, whatever their places with the caller, several in a write where the fabric
 * allows it. */
static void small_items_of_a_batch_share_writes(void **state)
{
	enum { N = 64, LEN = 4096, GAP = 512 };
	static char text[N][32];
	static struct kvc_item items[N];
	uint8_t *buf = memory((size_t)N * (LEN + GAP));
	struct kvc_server_info server = {.size = sizeof(server)};
	struct kvc_info info = {.size = sizeof(info)};
	struct kvc_mem *mem = NULL;
	struct kvc_options o;
	struct kvc_pool *pool;
	struct kv_error err;
	uint64_t before, writes;
	(void)state;
	need_server();
	o = test_options(one, 1, 2);
	o.local = KVC_LOCAL_OFF;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	assert_int_equal(kvc_info(pool, &info), 0);
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "small", i),
					     .data = buf + (size_t)i * (LEN + GAP),
					     .len = i % 8 == 7 ? 1000 : LEN};
		test_fill(items[i].data, items[i].len, i);
	}
	before = client_writes(pool);
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	writes = client_writes(pool) - before;
	assert_int_equal(kvc_server_info(pool, 0, 0, &server), 0);
	if (server.put_way == KVC_PUT_LAND)
		assert_in_range(writes, 1, N / 4);
	for (unsigned round = 0; round < 2; round++) { /* to memory of the caller's, then registered */
		if (round == 1)
			assert_int_equal(kvc_register(pool, buf, (size_t)N * (LEN + GAP), &mem, &err), 0);
		memset(buf, 0xAA, (size_t)N * (LEN + GAP));
		before = test_stat(pool, "writes");
		assert_int_equal(kvc_get_batch(pool, items, N, NULL), 0);
		writes = test_stat(pool, "writes") - before;
		for (unsigned i = 0; i < N; i++) {
			const uint8_t *end = (uint8_t *)items[i].data + items[i].len;
			assert_int_equal(items[i].result, items[i].len);
			assert_true(test_same(items[i].data, items[i].len, i));
			for (unsigned k = 0; k < GAP; k++)
				assert_int_equal(end[k], 0xAA);
		}
		if (strcmp(info.provider, "tcp;ofi_rxm") == 0)
			assert_true(writes <= N / 4);
	}
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	kvc_pool_close(&pool);
	munmap(buf, (size_t)N * (LEN + GAP));
}

/* Each item of a batch of PUTs is stored, or refused, as by a call of its own. */
static void items_of_a_batch_of_puts_end_each_for_itself(void **state)
{
	enum { N = 60, LEN = 5000 };
	static const int codes[] = {0, 0, -KV_EEXIST, -KV_EINVAL, -KV_EINVAL, -KV_EINVAL};
	static char text[N][32];
	static struct kvc_item items[N];
	uint8_t *buf = memory(3 * LEN), *got = buf + LEN, *other = buf + 2 * LEN;
	(void)state;
	need_server();
	test_fill(buf, LEN, 1);
	test_fill(other, LEN, 2);
	for (unsigned i = 0; i < N; i++) {
		unsigned kind = i % KV_COUNT(codes);
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "each", i),
					     .data = buf,
					     .len = 1 + (i * 97) % LEN,
					     .result = 4711};
		if (kind == 1) /* there already */
			assert_int_equal(kvc_put(shared, items[i].key, buf, items[i].len, NULL), 0);
		if (kind == 2) /* with other bytes */
			assert_int_equal(kvc_put(shared, items[i].key, other, items[i].len, NULL), 0);
		items[i].key.len = kind == 3 ? 0 : items[i].key.len;
		items[i].len = kind == 4 ? 0 : items[i].len;
		items[i].slice = kind == 5;
	}
	assert_int_equal(kvc_put_batch(shared, items, N, NULL), -KV_EEXIST);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(items[i].result, codes[i % KV_COUNT(codes)]);
		if (i % KV_COUNT(codes) > 2)
			continue;
		assert_int_equal(kvc_get(shared, items[i].key, got, LEN, NULL), items[i].len);
		assert_memory_equal(got, i % KV_COUNT(codes) == 2 ? other : buf, items[i].len);
		assert_int_equal(kvc_delete(shared, items[i].key, NULL), 0);
	}
	munmap(buf, 3 * LEN);
}

static void a_batch_larger_than_the_buffer_goes_through(void **state)
{
	enum { N = 40 };
	static char text[N][32];
	static struct kvc_item items[N];
	size_t len = 3 * MIB + 17;
	uint8_t *buf = memory(N * len);
	(void)state;
	need_server();
	for (unsigned i = 0; i < N; i++) {
		items[i] = (struct kvc_item){
			.key = key_of(text[i], sizeof(text[i]), "large", i), .data = buf + i * len, .len = len};
		test_fill(items[i].data, len, i);
	}
	assert_int_equal(kvc_put_batch(shared, items, N, NULL), 0);
	memset(buf, 0, N * len);
	assert_int_equal(kvc_get_batch(shared, items, N, NULL), 0);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(items[i].result, len);
		assert_true(test_same(items[i].data, len, i));
		assert_int_equal(kvc_delete(shared, items[i].key, NULL), 0);
	}
	munmap(buf, N * len);
}

static void every_item_of_a_batch_ends(void **state)
{
	enum { N = 300 };
	static char text[N][32];
	static struct kvc_item items[N];
	static uint8_t buf[N][5000];
	struct kvc_call call = brief();
	struct kvc_pool *pool;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, 64 * MIB);
	for (unsigned i = 0; i < N; i++) {
		int len = snprintf(text[i], sizeof(text[i]), "batch/%u", i);
		items[i] = (struct kvc_item){.key = {text[i], (size_t)len}, .data = buf[i], .len = sizeof(buf[i])};
	}
	assert_int_equal(kvc_put_batch(pool, items, N, NULL), 0);
	test_server_stop(&test_first);
	assert_int_equal(kvc_get_batch(pool, items, N, &call), -KV_ETIMEOUT);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(items[i].result, -KV_ETIMEOUT);
	test_server_cont(&test_first);
	quarantine_wait(pool);
	assert_int_equal(kvc_get_batch(pool, items, N, NULL), 0);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, items[i].key, NULL), 0);
	kvc_pool_close(&pool);
}

/* ---- a batch that never begins ---- */

struct hog {
	_Atomic bool stop, begun;
};

/* Keeps the loop from turning. */
static void hog_worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct hog *h = arg;
	uint64_t until = now_ns() + WAIT_NS;
	(void)client, (void)w;
	h->begun = true;
	while (!h->stop && now_ns() < until)
		usleep(1000);
}

static void *hog_main(void *arg)
{
	void **a = arg;
	kvc_run(a[0], 1, hog_worker, a[1]);
	return NULL;
}

static void items_check(struct kvc_item *items, int rc, int code)
{
	assert_int_equal(rc, code);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(items[i].result, code);
		items[i].result = 0; /* as a caller may have left it: a value of 0 bytes */
	}
}

static void a_batch_that_never_begins_tells_every_item(void **state)
{
	const struct kvc_call bad = {.size = sizeof(bad), .flags = ~0u};
	struct kvc_item items[3] = {{.key = NAMED("x")}, {.key = NAMED("y")}, {.key = NAMED("z")}};
	struct kvc_call call = brief();
	struct hog h = {false};
	struct kvc_pool *pool;
	pthread_t thread;
	(void)state;
	need_server();
	pool = pool_open(one, 1, 1, 64 * MIB);
	items_check(items, kvc_get_batch(pool, items, 3, &bad), -KV_EINVAL);
	items_check(items, kvc_put_batch(pool, items, 3, &bad), -KV_EINVAL);
	assert_int_equal(pthread_create(&thread, NULL, hog_main, (void *[]){pool, &h}), 0);
	while (!h.begun)
		usleep(1000);
	items_check(items, kvc_get_batch(pool, items, 3, &call), -KV_ETIMEOUT);
	items_check(items, kvc_put_batch(pool, items, 3, &call), -KV_ETIMEOUT);
	h.stop = true;
	pthread_join(thread, NULL);
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_have_a_result_per_item),
		cmocka_unit_test(small_items_of_a_batch_share_writes),
		cmocka_unit_test(items_of_a_batch_of_puts_end_each_for_itself),
		cmocka_unit_test(a_batch_larger_than_the_buffer_goes_through),
		cmocka_unit_test_teardown(every_item_of_a_batch_ends, let_go),
		cmocka_unit_test(a_batch_that_never_begins_tells_every_item),
	};
	return test_both_ways(tests, calls_up, calls_down);
}
