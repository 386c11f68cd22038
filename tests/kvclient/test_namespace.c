/* SPDX-License-Identifier: Apache-2.0 */
/* test_namespace.c -- namespaces of pools against real servers: whose a key is, clears, PUTs beside them, and a server
 * that does not answer. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "calls.h"
#include "liar.h"

enum { BIG = 3 << 20, MANY = 200 };

static struct kvc_pool *open_in(const char *space, unsigned servers, unsigned clients)
{
	struct kvc_options o = test_options(two, servers, clients);
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	need_server();
	o.namespace_name = space;
	o.flags |= KVC_OPEN_WAIT;
	if (kvc_pool_open(&o, &pool, &err) != 0)
		fail_msg("%s", err.text);
	return pool;
}

static void put_text(struct kvc_pool *pool, struct kvc_key key, const char *text)
{
	assert_int_equal(kvc_put(pool, key, text, strlen(text), NULL), 0);
}

static void has_text(struct kvc_pool *pool, struct kvc_key key, const char *text)
{
	char to[64];
	assert_int_equal(kvc_get(pool, key, to, sizeof(to), NULL), strlen(text));
	assert_memory_equal(to, text, strlen(text));
}

static void has_none(struct kvc_pool *pool, struct kvc_key key)
{
	char to[64];
	uint8_t found = 1;
	assert_int_equal(kvc_get(pool, key, to, sizeof(to), NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_exists(pool, &key, 1, &found, NULL, NULL), 0);
	assert_int_equal(found, 0);
	assert_int_equal(kvc_ttl(pool, key, NULL, NULL), -KV_ENOTFOUND);
}

static void a_key_belongs_to_its_pools_namespace(void **state)
{
	struct kvc_pool *a, *b, *none;
	struct kvc_session *session;
	struct kv_error err;
	struct kvc_call call = {.size = sizeof(call)};
	char to[8];
	(void)state;
	need_server();
	a = open_in("belongs-a", 2, 1);
	b = open_in("b\xc3\xa9long", 2, 1);
	none = open_in(NULL, 2, 1);
	put_text(a, KEY(0), "of a");
	has_none(b, KEY(0));
	has_none(none, KEY(0));
	put_text(b, KEY(0), "of b");
	put_text(none, KEY(0), "of none");
	has_text(a, KEY(0), "of a");
	has_text(b, KEY(0), "of b");
	assert_int_equal(kvc_delete(a, KEY(0), NULL), 0);
	has_none(a, KEY(0));
	has_text(b, KEY(0), "of b");
	has_text(none, KEY(0), "of none");
	assert_int_equal(kvc_session_open(b, 0, NULL, &session, &err), 0); /* a session is of its pool's */
	call.session = session;
	assert_int_equal(kvc_get(b, KEY(0), to, sizeof(to), &call), 4);
	assert_memory_equal(to, "of b", 4);
	kvc_pool_close(&a);
	kvc_pool_close(&b);
	kvc_pool_close(&none);
}

static void a_name_is_text(void **state)
{
	static const char *const wrong[] = {
		"a\nb", "\x7f",     "\xff",
		"\xc3", "\xc2\x85", "12345678901234567890123456789012345678901234567890123456789012345"};
	(void)state;
	need_server();
	for (unsigned i = 0; i < KV_COUNT(wrong); i++) {
		struct kvc_options o = test_options(two, 2, 1);
		struct kvc_pool *pool = NULL;
		struct kv_error err = {0};
		o.namespace_name = wrong[i];
		assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
		check_contains(err.text, "namespace");
	}
}

static void a_clear_forgets_all_of_one_namespace(void **state)
{
	struct kvc_pool *a = open_in("clear", 2, 2), *other = open_in("clear", 2, 1), *b = open_in("clear-not", 2, 1);
	uint64_t first = 0, second = 0;
	uint8_t *big = memory(BIG);
	(void)state;
	test_fill(big, BIG, 1);
	for (unsigned i = 0; i < MANY; i++) {
		put_text(a, KEY(i), "old");
		put_text(b, KEY(i), "kept");
	}
	assert_int_equal(kvc_put(a, KEY(MANY), big, BIG, NULL), 0);
	assert_int_equal(kvc_namespace_clear(a, &first, NULL), 0);
	assert_true(first > 0);
	for (unsigned i = 0; i <= MANY; i++)
		has_none(i % 2 ? a : other, KEY(i));
	for (unsigned i = 0; i < MANY; i++)
		has_text(b, KEY(i), "kept");
	/* Both pools put again at once, though one of them was not told. */
	for (unsigned i = 0; i < MANY; i++) {
		put_text(i % 2 ? a : other, KEY(i), "new");
		has_text(i % 2 ? other : a, KEY(i), "new");
	}
	assert_int_equal(kvc_put(other, KEY(MANY), big, BIG, NULL), 0);
	assert_int_equal(kvc_get(a, KEY(MANY), big, BIG, NULL), BIG);
	assert_true(test_same(big, BIG, 1));
	assert_int_equal(kvc_namespace_clear(other, &second, NULL), 0);
	assert_true(second > first);
	has_none(a, KEY(0));
	munmap(big, BIG);
	kvc_pool_close(&a);
	kvc_pool_close(&other);
	kvc_pool_close(&b);
}

static struct kvc_namespace listed(struct kvc_pool *pool, const char *name)
{
	struct kvc_namespace list[64], sum = {.name = ""};
	for (unsigned server = 0; server < 2; server++) {
		struct kvc_call call = {.size = sizeof(call), .server = server};
		int n = kvc_namespaces(pool, list, KV_COUNT(list), &call);
		assert_in_range(n, 1, KV_COUNT(list));
		assert_int_equal(kvc_namespaces(pool, NULL, 0, &call), n);
		assert_string_equal(list[0].name, ""); /* by name */
		for (int i = 0; i < n; i++) {
			assert_true(i == 0 || strcmp(list[i - 1].name, list[i].name) < 0);
			if (strcmp(list[i].name, name) != 0)
				continue;
			sum.generation = KV_MAX(sum.generation, list[i].generation);
			sum.blocks += list[i].blocks;
			sum.bytes += list[i].bytes;
			sum.gets += list[i].gets;
			sum.hits += list[i].hits;
		}
	}
	return sum;
}

static void namespaces_are_listed(void **state)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct kvc_pool *a = open_in("listed", 2, 1);
	struct kvc_namespace n;
	uint64_t generation, until = now_ns() + WAIT_NS;
	char to[16];
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		put_text(a, KEY(i), "value");
	for (unsigned i = 0; i < MANY + 50; i++)
		(void)kvc_get(a, KEY(i), to, sizeof(to), NULL);
	n = listed(a, "listed");
	assert_int_equal(n.blocks, MANY);
	assert_int_equal(n.gets, MANY + 50);
	assert_int_equal(n.hits, MANY);
	assert_true(n.bytes >= (uint64_t)MANY * 5);
	assert_int_equal(n.generation, 0);
	assert_int_equal(kvc_namespace_clear(a, &generation, NULL), 0);
	do { /* memory is freed in steps */
		nanosleep(&pause, NULL);
		n = listed(a, "listed");
	} while (n.blocks > 0 && now_ns() < until);
	assert_int_equal(n.blocks + n.bytes, 0);
	assert_int_equal(n.generation, generation);
	assert_int_equal(kvc_namespaces(a, NULL, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_tenants(a, NULL, 1, NULL), -KV_EINVAL);
	assert_int_equal(kvc_tenants(a, NULL, 0, NULL), 0); /* the servers have none */
	kvc_pool_close(&a);
}

/* ---- PUTs beside clears ---- */

enum { PUTTERS = 4, ROUNDS = 40 };

struct race {
	struct kvc_pool *pool;
	_Atomic uint64_t last;           /* of the PUTs' numbers */
	_Atomic uint64_t begun[PUTTERS]; /* the number of each putter's last PUT of which the submit has returned */
	_Atomic bool stop;
	_Atomic unsigned failed;
};

struct putter {
	pthread_t thread;
	struct race *race;
	unsigned index;
};

/* A thread may stand still between the choice of a number and its call, so the PUT counts as begun after the submit. */
static void *putter(void *arg)
{
	struct putter *me = arg;
	struct race *r = me->race;
	struct kvc_queue *queue = NULL;
	struct kvc_completion done;
	if (kvc_queue_open(r->pool, NULL, &queue, NULL) != 0) {
		r->failed++;
		return NULL;
	}
	while (!r->stop) {
		uint64_t value[600] = {++r->last, me->index}; /* too large for a frame */
		struct pollfd readable = {.fd = kvc_queue_fd(queue), .events = POLLIN};
		char key[32];
		struct kvc_item item = {.data = value, .len = value[0] % 2 ? 16 : sizeof(value)};
		snprintf(key, sizeof(key), "race/%u", (unsigned)(value[0] % 8));
		item.key = (struct kvc_key){key, strlen(key)};
		r->failed += kvc_submit_put(queue, &item, 1, NULL, 0) < 0;
		r->begun[me->index] = value[0];
		while (kvc_reap(queue, &done, 1) == 0)
			poll(&readable, 1, -1);
		r->failed += item.result != 0 && item.result != -KV_EEXIST;
	}
	kvc_queue_close(&queue);
	return NULL;
}

static void a_put_that_began_before_a_clear_is_not_found(void **state)
{
	struct kvc_pool *pool = open_in("race", 2, 2), *clearer = open_in("race", 2, 1);
	struct race r = {.pool = pool};
	struct putter putters[PUTTERS];
	unsigned found = 0;
	(void)state;
	for (unsigned i = 0; i < PUTTERS; i++) {
		putters[i] = (struct putter){.race = &r, .index = i};
		assert_int_equal(pthread_create(&putters[i].thread, NULL, putter, &putters[i]), 0);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t begun[PUTTERS];
		for (unsigned i = 0; i < PUTTERS; i++)
			begun[i] = r.begun[i];
		assert_int_equal(kvc_namespace_clear(round % 2 ? pool : clearer, NULL, NULL), 0);
		for (unsigned i = 0; i < 64; i++) {
			uint64_t value[600];
			char key[32];
			int64_t rc;
			snprintf(key, sizeof(key), "race/%u", i % 8);
			rc = kvc_get(clearer, (struct kvc_key){key, strlen(key)}, value, sizeof(value), NULL);
			if (rc > 0 && value[0] <= begun[value[1]])
				fail_msg("PUT %llu is found after a clear that began after the submit of PUT %llu",
					 (unsigned long long)value[0], (unsigned long long)begun[value[1]]);
			found += rc > 0;
		}
	}
	r.stop = true;
	for (unsigned i = 0; i < PUTTERS; i++)
		pthread_join(putters[i].thread, NULL);
	assert_int_equal(r.failed, 0);
	assert_int_not_equal(found, 0);
	kvc_pool_close(&pool);
	kvc_pool_close(&clearer);
}

/* A queue takes PUTs up before the clear, and the pool's loop turns only after it. */
static void a_put_submitted_before_a_clear_is_not_found(void **state)
{
	enum { N = 32 };
	struct kvc_options o = test_options(two, 2, 1);
	struct kvc_pool *clearer = open_in("queued", 2, 1), *pool = NULL;
	struct kvc_item item[N] = {0};
	struct kvc_queue *queue = NULL;
	struct kvc_completion done;
	struct kv_error err;
	char key[N][64];
	(void)state;
	o.namespace_name = "queued";
	o.flags |= KVC_OPEN_WAIT | KVC_NO_THREADS;
	o.num_threads = 0;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	assert_int_equal(kvc_queue_open(pool, NULL, &queue, &err), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < N; i++) {
			item[i] = (struct kvc_item){
				.key = key_of(key[i], sizeof(key[i]), __func__, i), .data = "old", .len = 3};
			assert_true(kvc_submit_put(queue, &item[i], 1, NULL, i) >= 0);
		}
		assert_int_equal(kvc_namespace_clear(clearer, NULL, NULL), 0);
		for (unsigned i = 0; i < N; i += (unsigned)kvc_reap(queue, &done, 1))
			kvc_poll(pool, 1000000);
		for (unsigned i = 0; i < N; i++) {
			assert_int_equal(item[i].result, 0);
			has_none(clearer, item[i].key);
		}
	}
	kvc_queue_close(&queue);
	kvc_pool_close(&pool);
	kvc_pool_close(&clearer);
}

/* ---- a server that does not answer ---- */

static void a_clear_needs_every_server(void **state)
{
	struct kvc_pool *pool = open_in("every", 2, 1);
	struct kvc_call call = brief();
	uint64_t generation;
	int rc;
	(void)state;
	for (unsigned i = 0; i < MANY; i++)
		put_text(pool, KEY(i), "old");
	test_server_stop(&test_second);
	rc = kvc_namespace_clear(pool, &generation, &call);
	test_server_cont(&test_second);
	assert_true(rc == -KV_ETIMEOUT || rc == -KV_EPEERDOWN);
	assert_int_equal(kvc_namespace_clear(pool, &generation, NULL), 0);
	for (unsigned i = 0; i < MANY; i++)
		has_none(pool, KEY(i));
	kvc_pool_close(&pool);
}

static void far_ahead(struct wire_ctrl_msg *m)
{
	m->welcome.generation = UINT64_MAX - 1;
}

/* One server claims a generation that no honest one can have. The others must not get it: later clears would end with
 * the last number. */
static void a_servers_lie_about_generations_stays_with_it(void **state)
{
	struct kvc_options o = test_options(one, 1, 1);
	struct kvc_pool *honest, *pool = NULL;
	struct kvc_call call = brief();
	const char *names[2] = {o.servers[0], NULL};
	uint64_t generation = 0;
	(void)state;
	need_server();
	names[1] = liar_start();
	atomic_store(&liar_welcome, far_ahead);
	o.servers = names;
	o.num_servers = 2;
	o.namespace_name = "lies";
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	assert_true(kvc_namespace_clear(pool, &generation, &call) < 0); /* the liar answers no CLEAR */
	kvc_pool_close(&pool);
	liar_stop();
	honest = open_in("lies", 1, 1);
	assert_int_equal(kvc_namespace_clear(honest, &generation, NULL), 0);
	assert_in_range(generation, 1, 1000);
	kvc_pool_close(&honest);
}

static void calls_are_checked(void **state)
{
	struct kvc_pool *pool = open_in(NULL, 1, 1);
	struct kvc_namespace one_of;
	uint64_t generation;
	(void)state;
	assert_int_equal(kvc_namespace_clear(NULL, &generation, NULL), -KV_EINVAL);
	assert_int_equal(kvc_namespaces(NULL, &one_of, 1, NULL), -KV_EINVAL);
	assert_int_equal(
		kvc_namespaces(pool, &one_of, 1, &(struct kvc_call){.size = sizeof(struct kvc_call), .server = 77}),
		-KV_EINVAL);
	assert_string_equal(kvc_opname(KVC_OP_CLEAR), "CLEAR");
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_belongs_to_its_pools_namespace),
		cmocka_unit_test(a_name_is_text),
		cmocka_unit_test(a_clear_forgets_all_of_one_namespace),
		cmocka_unit_test(namespaces_are_listed),
		cmocka_unit_test(a_put_that_began_before_a_clear_is_not_found),
		cmocka_unit_test(a_put_submitted_before_a_clear_is_not_found),
		cmocka_unit_test_teardown(a_clear_needs_every_server, let_go),
		cmocka_unit_test_teardown(a_servers_lie_about_generations_stays_with_it, let_go),
		cmocka_unit_test(calls_are_checked),
	};
	return cmocka_run_group_tests(tests, test_two_up, test_two_down);
}
