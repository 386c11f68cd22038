/* SPDX-License-Identifier: Apache-2.0 */
/* test_local.c -- a client and a real kv-server on one host: values are read in the server's memory, PUTs are copied to
 * it, and borrowed values stay until they are given back, whatever happens to pool, server and key. */
#include "calls.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = LENGTHS;

enum { LARGE = 40 << 20 };

static bool is_local(struct kvc_pool *pool, unsigned server)
{
	struct kvc_server_info s = {.size = sizeof(s)};
	assert_int_equal(kvc_server_info(pool, 0, server, &s), 0);
	return s.local;
}

/* Until the server's gauge has this value. */
static void server_wait(struct kvc_pool *pool, const char *name, uint64_t value)
{
	uint64_t until = now_ns() + WAIT_NS;
	while (test_stat(pool, name) != value && now_ns() < until)
		usleep(2000);
	assert_int_equal(test_stat(pool, name), value);
}

static void put(struct kvc_pool *pool, struct kvc_key key, size_t len, uint64_t seed)
{
	uint8_t *buf = memory(len);
	test_fill(buf, len, seed);
	assert_int_equal(kvc_put(pool, key, buf, len, NULL), 0);
	munmap(buf, len);
}

static void borrow(struct kvc_pool *pool, struct kvc_key key, size_t len, uint64_t seed, struct kvc_borrowed *out)
{
	assert_int_equal(kvc_get_borrowed(pool, key, len, NULL, out), len);
	assert_int_equal(out->len, len);
	assert_int_equal(out->value_len, len);
	assert_true(test_same(out->data, len, seed));
}

/* ---- what is used ---- */

static void a_server_on_this_host_is_local(void **state)
{
	struct kvc_info info = {.size = sizeof(info)};
	(void)state;
	need_server();
	assert_true(is_local(shared, 0));
	assert_int_equal(kvc_info(shared, &info), 0);
	assert_string_equal(info.mode, "local");
}

static void a_client_or_a_server_can_do_without(void **state)
{
	struct test_server off = {0};
	const struct test_server *const both[] = {&test_first, &off};
	struct kvc_options o;
	struct kvc_pool *pool;
	struct kvc_counters n;
	uint8_t buf[20000];
	char text[64];
	(void)state;
	need_server();
	o = test_options(one, 1, 1);
	o.local = KVC_LOCAL_OFF;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_false(is_local(pool, 0));
	put(pool, KEY(0), sizeof(buf), 7);
	assert_int_equal(kvc_get(pool, KEY(0), buf, sizeof(buf), NULL), sizeof(buf));
	assert_int_equal(counters(pool).local_gets, 0);
	kvc_pool_close(&pool);

	test_server_start_with(&off, "off", (const char *const[]){"--local", "off", NULL});
	pool = test_pool(both, 2, 1);
	assert_true(is_local(pool, 0));
	assert_false(is_local(pool, 1));
	for (unsigned i = 0; i < 64; i++) {
		struct kvc_key key = key_of(text, sizeof(text), "mixed", i);
		struct kvc_borrowed b;
		put(pool, key, sizeof(buf), i);
		assert_int_equal(kvc_get(pool, key, buf, sizeof(buf), NULL), sizeof(buf));
		assert_true(test_same(buf, sizeof(buf), i));
		borrow(pool, key, sizeof(buf), i, &b);
		kvc_borrowed_release(NULL, &b);
		assert_int_equal(kvc_delete(pool, key, NULL), 0);
	}
	n = counters(pool);
	assert_in_range(n.local_gets, 2, 2 * 64 - 2);
	assert_int_equal(n.local_leases, 0);
	kvc_pool_close(&pool);
	test_server_kill(&off);
}

/* ---- GET and PUT of every kind ---- */

static void values_of_every_length(void **state)
{
	uint8_t *to = memory(LARGE + 4096), *registered = memory(LARGE + 4096);
	struct kvc_mem *mem = NULL;
	(void)state;
	need_server();
	assert_int_equal(kvc_register(shared, registered, LARGE, &mem, NULL), 0);
	for (unsigned i = 0; i <= KV_COUNT(sizes); i++) {
		size_t len = i < KV_COUNT(sizes) ? sizes[i] : LARGE;
		struct kvc_borrowed b;
		put(shared, KEY(i), len, i);
		memset(to, 0xAA, len + 1);
		assert_int_equal(kvc_get(shared, KEY(i), to, LARGE, NULL), len);
		assert_true(test_same(to, len, i));
		assert_int_equal(to[len], 0xAA);
		memset(to, 0xAA, len + 8);
		assert_int_equal(kvc_get(shared, KEY(i), to + 7, LARGE, NULL), len); /* no line begins there */
		assert_true(test_same(to + 7, len, i) && to[6] == 0xAA && to[len + 7] == 0xAA);
		assert_int_equal(kvc_get(shared, KEY(i), registered, len, NULL), len);
		assert_true(test_same(registered, len, i));
		if (len > 1)
			assert_int_equal(kvc_get(shared, KEY(i), to, len - 1, NULL), -KV_ETOOBIG);
		borrow(shared, KEY(i), len, i, &b);
		assert_int_equal(b.in_place, 1);
		kvc_borrowed_release(NULL, &b);
		assert_ptr_equal(b.data, NULL);
		assert_int_equal(kvc_delete(shared, KEY(i), NULL), 0);
	}
	assert_true(counters(shared).local_gets > 0);
	assert_true(counters(shared).local_puts > 0);
	assert_int_equal(kvc_unregister(shared, &mem), 0);
	munmap(to, LARGE + 4096);
	munmap(registered, LARGE + 4096);
}

static void parts_flags_and_misses(void **state)
{
	enum { LEN = 5 << 20 };
	uint8_t *value = memory(LEN), *to = memory(LEN + 4096);
	struct kvc_call call = {.size = sizeof(call)};
	struct kvc_counters before;
	struct kvc_borrowed b;
	(void)state;
	need_server();
	test_fill(value, LEN, 5);
	assert_int_equal(kvc_put(shared, KEY(0), value, LEN, NULL), 0);
	for (uint64_t offset = 0; offset <= LEN; offset += LEN / 5) {
		uint64_t length = KV_MIN((uint64_t)2 << 20, LEN - offset);
		call.offset = offset;
		call.length = 2 << 20;
		assert_int_equal(kvc_get(shared, KEY(0), to, LEN, &call), length);
		assert_memory_equal(to, value + offset, length);
		assert_int_equal(kvc_get_borrowed(shared, KEY(0), 0, &call, &b), length);
		assert_memory_equal(b.data, value + offset, length);
		assert_int_equal(b.value_len, LEN);
		kvc_borrowed_release(NULL, &b);
	}
	call = (struct kvc_call){.size = sizeof(call), .offset = LEN + 1};
	assert_int_equal(kvc_get(shared, KEY(0), to, LEN, &call), -KV_EINVAL);
	call = (struct kvc_call){.size = sizeof(call), .flags = KVC_EXACT};
	before = counters(shared);
	memset(to, 0, LEN + 1);
	assert_int_equal(kvc_get(shared, KEY(0), to, LEN - 1, &call), -KV_ENOTFOUND);
	assert_int_equal(kvc_get(shared, KEY(0), to, LEN + 1, &call), -KV_ENOTFOUND);
	assert_int_equal(counters(shared).local_bytes, before.local_bytes);
	for (uint64_t i = 0; i <= LEN; i++)
		assert_int_equal(to[i], 0);
	assert_int_equal(kvc_get_borrowed(shared, KEY(0), LEN - 1, &call, &b), -KV_ENOTFOUND);
	assert_int_equal(kvc_get_borrowed(shared, KEY(0), LEN, &call, &b), LEN);
	kvc_borrowed_release(NULL, &b);
	call = (struct kvc_call){.size = sizeof(call), .flags = KVC_NO_VERIFY};
	assert_int_equal(kvc_get(shared, KEY(0), to, LEN, &call), LEN);
	assert_memory_equal(to, value, LEN);
	assert_int_equal(kvc_get_borrowed(shared, KEY(1), 0, NULL, &b), -KV_ENOTFOUND);
	assert_int_equal(b.priv[1], 0);
	kvc_borrowed_release(NULL, &b);
	munmap(value, LEN);
	munmap(to, LEN + 4096);
}

enum { ITEMS = 300 };

static size_t item_len(unsigned i)
{
	static const size_t lens[] = {100, 3072, 4096, 65536, 200001};
	return lens[i % KV_COUNT(lens)];
}

static void a_batch_copies_and_lends(void **state)
{
	static struct kvc_item items[ITEMS];
	static struct kvc_borrowed lent[ITEMS];
	static struct kvc_layout layouts[ITEMS];
	static char text[ITEMS][32];
	uint8_t *buf = memory(ITEMS * 200064ull);
	(void)state;
	need_server();
	for (unsigned i = 0; i < ITEMS; i++) {
		items[i] = (struct kvc_item){.key = key_of(text[i], sizeof(text[i]), "lent", i),
					     .data = buf + i * 200064ull,
					     .len = item_len(i)};
		test_fill(items[i].data, items[i].len, i);
	}
	assert_int_equal(kvc_put_batch(shared, items, ITEMS, NULL), 0);
	memset(buf, 0, ITEMS * 200064ull);
	assert_int_equal(kvc_get_batch(shared, items, ITEMS, NULL), 0);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_true(test_same(items[i].data, item_len(i), i));
	for (unsigned i = 0; i < ITEMS; i++) {
		layouts[i] = (struct kvc_layout){.size = sizeof(layouts[i]), .borrowed = &lent[i]};
		memset(&lent[i], 0xEE, sizeof(lent[i]));
		items[i].data = NULL;
		items[i].len = i % 3 ? item_len(i) : 0;
		items[i].layout = &layouts[i];
	}
	assert_int_equal(kvc_get_batch(shared, items, ITEMS, NULL), 0);
	assert_int_equal(counters(shared).local_leases, ITEMS);
	for (unsigned i = 0; i < ITEMS; i++) {
		assert_int_equal(items[i].result, item_len(i));
		assert_int_equal(lent[i].in_place, 1);
		assert_true(test_same(lent[i].data, item_len(i), i));
		kvc_borrowed_release(NULL, &lent[i]);
	}
	assert_int_equal(counters(shared).local_leases, 0);
	/* Not for PUT, and not with another place. */
	assert_int_equal(kvc_put_batch(shared, items, 1, NULL), -KV_EINVAL);
	items[0].data = buf;
	assert_int_equal(kvc_get_batch(shared, items, 1, NULL), -KV_EINVAL);
	munmap(buf, ITEMS * 200064ull);
}

/* Values of a server without shared memory are lent in the client's buffer, one after the other. */
static void a_batch_lends_from_both_kinds_of_servers(void **state)
{
	enum { N = 40, LEN = 30000 };
	struct test_server off = {0};
	const struct test_server *const both[] = {&test_first, &off};
	static struct kvc_item items[N];
	static struct kvc_borrowed lent[N];
	static struct kvc_layout layouts[N];
	static char text[N][32];
	unsigned in_place = 0;
	struct kvc_pool *pool;
	(void)state;
	need_server();
	test_server_start_with(&off, "off", (const char *const[]){"--local", "off", NULL});
	pool = test_pool(both, 2, 1);
	for (unsigned i = 0; i < N; i++) {
		items[i].key = key_of(text[i], sizeof(text[i]), "both", i);
		put(pool, items[i].key, LEN, i);
		layouts[i] = (struct kvc_layout){.size = sizeof(layouts[i]), .borrowed = &lent[i]};
		items[i].layout = &layouts[i];
	}
	assert_int_equal(kvc_delete(pool, items[7].key, NULL), 0);
	assert_int_equal(kvc_get_batch(pool, items, N, NULL), -KV_ENOTFOUND);
	for (unsigned i = 0; i < N; i++) {
		if (i == 7) {
			assert_int_equal(items[i].result, -KV_ENOTFOUND);
			assert_int_equal(lent[i].priv[1], 0);
			continue;
		}
		assert_int_equal(items[i].result, LEN);
		in_place += lent[i].in_place;
		assert_true(test_same(lent[i].data, LEN, i));
	}
	assert_in_range(in_place, 1, N - 2);
	for (unsigned i = 0; i < N; i++)
		kvc_borrowed_release(NULL, &lent[i]);
	kvc_pool_close(&pool);
	test_server_kill(&off);
}

static void a_queue_lends(void **state)
{
	enum { N = 64, LEN = 70000 };
	static struct kvc_item items[N];
	static struct kvc_borrowed lent[N];
	static struct kvc_layout layouts[N];
	static char text[N][32];
	struct kvc_completion done;
	struct kvc_queue *q;
	uint64_t until = now_ns() + WAIT_NS;
	int n = 0;
	(void)state;
	need_server();
	assert_int_equal(kvc_queue_open(shared, NULL, &q, NULL), 0);
	for (unsigned i = 0; i < N; i++) {
		items[i].key = key_of(text[i], sizeof(text[i]), "queued", i);
		put(shared, items[i].key, LEN, i);
		layouts[i] = (struct kvc_layout){.size = sizeof(layouts[i]), .borrowed = &lent[i]};
		items[i].layout = &layouts[i];
	}
	assert_true(kvc_submit_get(q, items, N, NULL, 0) > 0);
	while ((n = kvc_reap(q, &done, 1)) == 0 && now_ns() < until)
		usleep(100);
	assert_int_equal(n, 1);
	assert_int_equal(done.result, 0);
	for (unsigned i = 0; i < N; i++) {
		assert_true(test_same(lent[i].data, LEN, i));
		kvc_borrowed_release(NULL, &lent[i]);
	}
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* Parts of a value, layer by layer, into slices. */
static void parts_arrive_in_slices(void **state)
{
	enum { SLICE = 50000, STRIDE = 60000, PARTS = 12, LEN = SLICE * PARTS };
	uint8_t *value = memory(LEN), *buf = memory(STRIDE * PARTS);
	uint64_t ends[PARTS];
	struct kvc_arrival arrival = {0};
	struct kvc_layout l = {.size = sizeof(l), .num_parts = PARTS, .part_ends = ends, .arrival = &arrival};
	struct kvc_item it = {.key = KEY(0), .data = buf, .len = LEN, .slice = SLICE, .stride = STRIDE, .layout = &l};
	(void)state;
	need_server();
	test_fill(value, LEN, 9);
	for (unsigned i = 0; i < PARTS; i++)
		ends[i] = (i + 1) * (uint64_t)SLICE;
	assert_int_equal(kvc_put(shared, it.key, value, LEN, NULL), 0);
	memset(buf, 0xEE, STRIDE * PARTS);
	assert_int_equal(kvc_get_batch(shared, &it, 1, NULL), 0);
	assert_int_equal(it.result, LEN);
	assert_int_equal(kvc_arrival_parts(&arrival), PARTS);
	for (unsigned i = 0; i < PARTS; i++) {
		assert_memory_equal(buf + i * STRIDE, value + i * SLICE, SLICE);
		for (unsigned k = SLICE; k < STRIDE; k++)
			assert_int_equal(buf[i * STRIDE + k], 0xEE);
	}
	munmap(value, LEN);
	munmap(buf, STRIDE * PARTS);
}

static void room_is_lent_for_puts(void **state)
{
	enum { LEN = 300000, N = 16 };
	struct kvc_borrowed room[N];
	uint64_t copied, in_place = 0;
	uint8_t *to = memory(LEN);
	(void)state;
	need_server();
	copied = counters(shared).local_puts;
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(kvc_put_borrow(shared, KEY(i), LEN, 0, &room[i]), 0);
		assert_int_equal(room[i].len, LEN);
		in_place += room[i].in_place;
		test_fill(room[i].data, LEN, i);
	}
	assert_true(in_place > 0);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(kvc_put_borrowed(shared, KEY(i), &room[i], NULL), 0);
		/* It may be filled again. */
		test_fill(room[i].data, LEN, i + 100);
		assert_int_equal(kvc_put_borrowed(shared, KEY(i + 100), &room[i], NULL), 0);
		kvc_borrowed_release(NULL, &room[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(kvc_get(shared, KEY(i), to, LEN, NULL), LEN);
		assert_true(test_same(to, LEN, i));
		assert_int_equal(kvc_get(shared, KEY(i + 100), to, LEN, NULL), LEN);
		assert_true(test_same(to, LEN, i + 100));
	}
	assert_true(counters(shared).local_puts > copied);
	assert_int_equal(kvc_put_borrow(shared, KEY(0), (uint64_t)1 << 40, 0, &room[0]), -KV_ETOOBIG);
	assert_int_equal(kvc_put_borrowed(shared, KEY(0), &room[0], NULL), -KV_EINVAL);
	munmap(to, LEN);
}

/* ---- the life of a lease ---- */

static void a_lent_value_outlives_key_pool_and_server(void **state)
{
	enum { LEN = 100000 };
	struct test_server own = {0};
	const struct test_server *const servers[] = {&own};
	struct kvc_borrowed b[3];
	struct kvc_pool *pool;
	(void)state;
	need_server();
	test_server_start(&own, "own");
	pool = test_pool(servers, 1, 2);
	for (unsigned i = 0; i < 3; i++) {
		put(pool, KEY(i), LEN, i);
		borrow(pool, KEY(i), LEN, i, &b[i]);
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	}
	for (unsigned i = 0; i < 200; i++) { /* the memory of deleted values is used again */
		char text[64];
		put(pool, key_of(text, sizeof(text), "more", i), 3 * MIB, i + 50);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(test_same(b[i].data, LEN, i));
	kvc_borrowed_release(NULL, &b[0]);
	kvc_pool_close(&pool);
	assert_true(test_same(b[1].data, LEN, 1));
	kvc_borrowed_release(NULL, &b[1]);
	test_server_kill(&own);
	assert_true(test_same(b[2].data, LEN, 2));
	kvc_borrowed_release(NULL, &b[2]);
}

static void a_restarted_server_is_local_again(void **state)
{
	enum { LEN = 100000 };
	struct test_server own = {0};
	const struct test_server *const servers[] = {&own};
	struct kvc_pool *pool;
	struct kvc_borrowed b;
	uint64_t until;
	(void)state;
	need_server();
	test_server_start(&own, "again");
	pool = test_pool(servers, 1, 1);
	put(pool, KEY(0), LEN, 1);
	borrow(pool, KEY(0), LEN, 1, &b);
	test_server_kill(&own);
	test_server_start(&own, "again");
	until = now_ns() + WAIT_NS;
	while (!is_local(pool, 0) && now_ns() < until)
		usleep(1000);
	assert_true(is_local(pool, 0));
	put(pool, KEY(1), LEN, 2);
	assert_true(test_same(b.data, LEN, 1));
	kvc_borrowed_release(NULL, &b);
	borrow(pool, KEY(1), LEN, 2, &b);
	kvc_pool_close(&pool);
	kvc_borrowed_release(NULL, &b);
	test_server_kill(&own);
}

static void *release_main(void *arg)
{
	kvc_borrowed_release(NULL, arg);
	return NULL;
}

static void any_thread_gives_back(void **state)
{
	enum { N = 8, LEN = 5000 };
	struct kvc_borrowed b[N];
	pthread_t thread[N];
	(void)state;
	need_server();
	put(shared, KEY(0), LEN, 3);
	for (unsigned i = 0; i < N; i++)
		borrow(shared, KEY(0), LEN, 3, &b[i]);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, release_main, &b[i]), 0);
	for (unsigned i = 0; i < N; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(counters(shared).local_leases, 0);
	server_wait(shared, "local_leases", 0);
}

static void ten_thousand_leases(void **state)
{
	enum { N = 10000, LEN = 4096 };
	static struct kvc_borrowed b[N];
	unsigned in_place = 0;
	(void)state;
	need_server();
	put(shared, KEY(0), LEN, 4);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(kvc_get_borrowed(shared, KEY(0), LEN, NULL, &b[i]), LEN);
		in_place += b[i].in_place;
	}
	assert_int_equal(in_place, N);
	assert_int_equal(counters(shared).local_leases, N);
	for (unsigned i = 0; i < N; i++)
		kvc_borrowed_release(NULL, &b[i]);
	server_wait(shared, "local_leases", 0);
}

static struct kvc_lease_holder held_by_us(struct kvc_pool *pool, unsigned *out_count)
{
	struct kvc_lease_holder list[64], sum = {.identity = ""};
	int n = kvc_leases(pool, list, KV_COUNT(list), NULL);
	assert_in_range(n, 0, KV_COUNT(list));
	assert_int_equal(kvc_leases(pool, NULL, 0, NULL), n);
	*out_count = (unsigned)n;
	for (int i = 0; i < n; i++) {
		assert_true(i == 0 || list[i - 1].session < list[i].session);
		assert_true(list[i].pid == (uint64_t)getpid() && list[i].client_id != 0 && list[i].session != 0);
		assert_string_equal(list[i].identity, "");
		sum.leases += list[i].leases;
		sum.bytes += list[i].bytes;
		sum.age_ns = KV_MAX(sum.age_ns, list[i].age_ns);
	}
	return sum;
}

/* Two clients of a process are two holders. */
static void holders_are_known(void **state)
{
	enum { LEN = 100000, N = 6 };
	struct kvc_pool *pool;
	struct kvc_borrowed b[N];
	struct kvc_lease_holder sum;
	unsigned holders;
	(void)state;
	need_server();
	server_wait(shared, "local_leases", 0);
	sum = held_by_us(shared, &holders);
	assert_int_equal(holders, 0);
	pool = test_pool(one, 1, 2);
	for (unsigned i = 0; i < N; i++) {
		put(pool, KEY(i), LEN, i);
		borrow(pool, KEY(i), LEN, i, &b[i]);
		assert_int_equal(b[i].in_place, 1);
	}
	usleep(20000);
	sum = held_by_us(shared, &holders);
	assert_in_range(holders, 1, 2);
	assert_int_equal(sum.leases, N);
	assert_in_range(sum.bytes, N * LEN, N * (LEN + 8192));
	assert_in_range(sum.age_ns, 20000000, WAIT_NS);
	for (unsigned i = 0; i < N; i++)
		kvc_borrowed_release(NULL, &b[i]);
	server_wait(shared, "local_leases", 0);
	sum = held_by_us(shared, &holders);
	assert_int_equal(holders, 0);
	assert_int_equal(kvc_leases(shared, NULL, 1, NULL), -KV_EINVAL);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	kvc_pool_close(&pool);
}

/* Beyond its budget the server lends nothing: the fabric brings the value. */
static void a_greedy_client_gets_copies(void **state)
{
	enum { LEN = 8 << 20, N = 40 };
	struct kvc_pool *pool;
	struct kvc_borrowed b[N];
	unsigned in_place = 0, n = 0;
	uint8_t *to = memory(LEN);
	(void)state;
	need_server();
	pool = test_pool(one, 1, 1);
	for (unsigned i = 0; i < N; i++)
		put(pool, KEY(i), LEN, i);
	while (n < N && n == in_place) {
		borrow(pool, KEY(n), LEN, n, &b[n]);
		in_place += b[n++].in_place;
	}
	assert_in_range(in_place, 2, N - 1); /* a quarter of 512 MiB at most */
	assert_true(counters(pool).local_refusals > 0);
	assert_int_equal(kvc_get(pool, KEY(N - 1), to, LEN, NULL), LEN);
	assert_true(test_same(to, LEN, N - 1));
	while (n > 0)
		kvc_borrowed_release(NULL, &b[--n]);
	server_wait(pool, "local_leases", 0);
	usleep(10000);
	borrow(pool, KEY(0), LEN, 0, &b[0]);
	assert_int_equal(b[0].in_place, 1);
	kvc_borrowed_release(NULL, &b[0]);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(kvc_delete(pool, KEY(i), NULL), 0);
	kvc_pool_close(&pool);
	munmap(to, LEN);
}

/* A refused value, here of more than half of a shard, must not keep smaller ones from being lent. */
static void small_values_are_lent_beside_a_refused_one(void **state)
{
	enum { LEN = 130 << 20, SMALL = 5000, ROUNDS = 3 };
	struct kvc_pool *pool;
	struct kvc_borrowed b;
	uint8_t *to = malloc(LEN);
	(void)state;
	need_server();
	assert_non_null(to);
	pool = test_pool(one, 1, 1);
	put(pool, NAMED("small"), SMALL, 77);
	put(pool, NAMED("large"), LEN, 78);
	for (unsigned i = 0; i < ROUNDS; i++) {
		assert_int_equal(kvc_get(pool, NAMED("large"), to, LEN, NULL), LEN);
		borrow(pool, NAMED("small"), SMALL, 77, &b);
		assert_int_equal(b.in_place, 1);
		kvc_borrowed_release(NULL, &b);
	}
	assert_true(counters(pool).local_refusals >= ROUNDS);
	assert_int_equal(kvc_get_borrowed(pool, NAMED("large"), LEN, NULL, &b), -KV_ETOOBIG);
	assert_int_equal(kvc_delete(pool, NAMED("large"), NULL), 0);
	kvc_pool_close(&pool);
	free(to);
}

static int child_status(pid_t pid)
{
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void a_child_gives_nothing_back_and_cannot_write(void **state)
{
	enum { LEN = 50000 };
	struct kvc_borrowed b;
	pid_t pid;
	int status;
	(void)state;
	need_server();
	put(shared, KEY(0), LEN, 6);
	borrow(shared, KEY(0), LEN, 6, &b);
	pid = fork();
	if (pid == 0) {
		bool same = test_same(b.data, LEN, 6);
		kvc_borrowed_release(NULL, &b);
		_exit(same && b.priv[1] == 0 ? 0 : 1);
	}
	assert_int_equal(child_status(pid), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		if (mprotect((void *)((uintptr_t)b.data & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE) == 0)
			_exit(2);
		*(volatile char *)b.data = 1;
		_exit(1);
	}
	status = child_status(pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) > 2); /* sanitizers report it and exit */
	assert_int_equal(counters(shared).local_leases, 1);
	assert_true(test_same(b.data, LEN, 6));
	kvc_borrowed_release(NULL, &b);
	server_wait(shared, "local_leases", 0);
}

/* ---- containers ---- */

static _Atomic unsigned lines;

static void count_lines(void *arg, int level, const char *line)
{
	(void)arg;
	if (level <= 2 && strstr(line, "Unix socket"))
		lines++;
}

static void a_socket_may_be_mounted_elsewhere(void **state)
{
	char dir[] = "/tmp/kvrail-local-XXXXXX", path[64], other[64], none[64];
	struct test_server own = {0};
	const struct test_server *const servers[] = {&own};
	struct kvc_options o;
	struct kvc_pool *pool;
	uint8_t buf[9000];
	(void)state;
	need_server();
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/socket", dir);
	snprintf(other, sizeof(other), "%s/mounted", dir);
	snprintf(none, sizeof(none), "%s/none", dir);
	test_server_start_with(&own, "socket", (const char *const[]){"--local-socket", path, NULL});
	pool = test_pool(servers, 1, 1);
	assert_true(is_local(pool, 0));
	kvc_pool_close(&pool);
	assert_int_equal(symlink(path, other), 0);
	o = test_options(servers, 1, 1);
	o.local_socket = other;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_true(is_local(pool, 0));
	kvc_pool_close(&pool);
	/* Without it the fabric serves, with one line for all clients. */
	o = test_options(servers, 1, 3);
	o.local_socket = none;
	o.log_level = 2;
	o.log = count_lines;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_false(is_local(pool, 0));
	assert_int_equal(lines, 1);
	put(pool, KEY(0), sizeof(buf), 8);
	assert_int_equal(kvc_get(pool, KEY(0), buf, sizeof(buf), NULL), sizeof(buf));
	assert_true(test_same(buf, sizeof(buf), 8));
	kvc_pool_close(&pool);
	test_server_kill(&own);
	unlink(other);
	unlink(path);
	rmdir(dir);
}

/* ---- storms ---- */

static void storm_worker(struct kvc_client *c, unsigned w, void *arg)
{
	struct workers *job = arg;
	uint8_t *buf = malloc(300000);
	struct kvc_borrowed b;
	char text[64];
	job->ran++;
	for (unsigned i = 0; i < 60; i++) {
		unsigned k = (w * 7 + i) % 40;
		size_t len = item_len(k) + k;
		struct kvc_key key = key_of(text, sizeof(text), "storm", k);
		int64_t rc;
		test_fill(buf, len, k);
		rc = kvc_put_await(c, key, buf, len, NULL);
		EXPECT(rc == 0);
		rc = kvc_get_await(c, key, buf, 300000, NULL);
		EXPECT((rc == (int64_t)len && test_same(buf, len, k)) || rc == -KV_ENOTFOUND);
		rc = kvc_get_borrowed_await(c, key, 0, NULL, &b);
		EXPECT((rc == (int64_t)len && test_same(b.data, len, k)) || rc == -KV_ENOTFOUND);
		if (i % 5 == 0)
			(void)kvc_delete_await(c, key, NULL);
		EXPECT(rc < 0 || test_same(b.data, len, k));
		kvc_borrowed_release(c, &b);
	}
	free(buf);
}

static void many_workers(void **state)
{
	struct workers job = {0};
	(void)state;
	need_server();
	assert_int_equal(kvc_run(shared, 32, storm_worker, &job), 0);
	assert_int_equal(job.ran, 32);
	assert_int_equal(job.failed, 0);
	server_wait(shared, "local_leases", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_on_this_host_is_local),
		cmocka_unit_test(a_client_or_a_server_can_do_without),
		cmocka_unit_test(values_of_every_length),
		cmocka_unit_test(parts_flags_and_misses),
		cmocka_unit_test(a_batch_copies_and_lends),
		cmocka_unit_test(a_batch_lends_from_both_kinds_of_servers),
		cmocka_unit_test(a_queue_lends),
		cmocka_unit_test(parts_arrive_in_slices),
		cmocka_unit_test(room_is_lent_for_puts),
		cmocka_unit_test(a_lent_value_outlives_key_pool_and_server),
		cmocka_unit_test(a_restarted_server_is_local_again),
		cmocka_unit_test(any_thread_gives_back),
		cmocka_unit_test(ten_thousand_leases),
		cmocka_unit_test(holders_are_known),
		cmocka_unit_test(a_greedy_client_gets_copies),
		cmocka_unit_test(small_values_are_lent_beside_a_refused_one),
		cmocka_unit_test(a_child_gives_nothing_back_and_cannot_write),
		cmocka_unit_test(a_socket_may_be_mounted_elsewhere),
		cmocka_unit_test(many_workers),
	};
	test_local = KVC_LOCAL_AUTO;
	return cmocka_run_group_tests(tests, calls_up, calls_down);
}
