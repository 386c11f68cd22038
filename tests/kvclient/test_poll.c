/* SPDX-License-Identifier: Apache-2.0 */
/* test_poll.c -- a pool without threads: its host turns it by kvc_poll and by calls that block. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "kvclient/queue/queue.h"
#include "loop/loop.h"
#include "server.h"

enum { LEN = 200000, SMALL = 700, BATCH = 24, MANY = 300 };
#define PATIENCE_NS 120000000000ull

static struct test_server server;
static const struct test_server *const only[] = {&server};

static struct kvc_options options(void)
{
	struct kvc_options o = test_options(only, 1, 3);
	o.flags |= KVC_NO_THREADS;
	o.num_threads = 0;
	o.timeout_ns = PATIENCE_NS;
	o.peer_timeout_ns = PATIENCE_NS;
	return o;
}

static struct kvc_pool *pool_open(void)
{
	struct kvc_options o = options();
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	if (kvc_pool_open(&o, &pool, &err) != 0)
		fail_msg("%s", err.text);
	return pool;
}

static struct kvc_key key_of(const char *name)
{
	return (struct kvc_key){name, strlen(name)};
}

/* The threads of this process that have a loop's name. */
static unsigned loop_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], name[32] = "";
		FILE *f;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f) && strncmp(name, "kvc-", 4) == 0)
			n++;
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

static int setup(void **state)
{
	(void)state;
	test_server_up(&server, "poll");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_server_kill(&server);
	return 0;
}

static int go_on(void **state)
{
	(void)state;
	test_server_cont(&server);
	return 0;
}

static void one_thread_does_it_all(void **state)
{
	struct kvc_info info = {.size = sizeof(info)};
	uint8_t *value = malloc(LEN), *got = malloc(LEN);
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(loop_threads(), 0);
	assert_int_equal(kvc_info(pool, &info), 0);
	assert_int_equal(info.os_threads, 0);
	test_fill(value, LEN, 1);
	assert_int_equal(kvc_put(pool, key_of("alone"), value, LEN, NULL), 0);
	assert_int_equal(kvc_get(pool, key_of("alone"), got, LEN, NULL), LEN);
	assert_true(test_same(got, LEN, 1));
	assert_int_equal(kvc_get(pool, key_of("nothing"), got, LEN, NULL), -KV_ENOTFOUND);
	assert_int_equal(kvc_ping(pool, NULL), 0);
	assert_true(kvc_poll(pool, 0) >= 0);
	kvc_pool_close(&pool);
	free(value);
	free(got);
}

static void registered_memory_and_batches(void **state)
{
	static char name[BATCH][32];
	struct kvc_item item[BATCH] = {0};
	uint8_t *at = malloc((size_t)BATCH * LEN);
	struct kvc_mem *mem = NULL;
	struct kv_error err = {0};
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(kvc_register(pool, at, (uint64_t)BATCH * LEN, &mem, &err), 0);
	for (unsigned i = 0; i < BATCH; i++) {
		snprintf(name[i], sizeof(name[i]), "batch-%u", i);
		test_fill(at + (size_t)i * LEN, LEN, i);
		item[i] = (struct kvc_item){.key = key_of(name[i]), .data = at + (size_t)i * LEN, .len = LEN};
	}
	assert_int_equal(kvc_put_batch(pool, item, BATCH, NULL), 0);
	memset(at, 0, (size_t)BATCH * LEN);
	assert_int_equal(kvc_get_batch(pool, item, BATCH, NULL), 0);
	for (unsigned i = 0; i < BATCH; i++)
		assert_true(test_same(at + (size_t)i * LEN, LEN, i));
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	free(at);
}

/* ---- queues ---- */

static void what_is_submitted_moves_while_the_host_polls(void **state)
{
	uint8_t *value = malloc(LEN), *got = malloc(LEN);
	struct kvc_item put = {.key = key_of("polled"), .data = value, .len = LEN}, get = put;
	struct kvc_completion c;
	struct kvc_queue *q = NULL;
	struct kvc_pool *pool;
	uint64_t turns = 0;
	int64_t id;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	test_fill(value, LEN, 7);
	get.data = got;
	assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
	id = kvc_submit_put(q, &put, 1, NULL, 5);
	assert_true(id > 0);
	/* Nobody has turned the loop. */
	assert_int_equal(kvc_reap(q, &c, 1), 0);
	for (; kvc_reap(q, &c, 1) == 0; turns++)
		assert_true(kvc_poll(pool, UINT64_MAX) > 0);
	assert_true(turns > 0);
	assert_int_equal(c.id, id);
	assert_int_equal(c.tag, 5);
	assert_int_equal(c.result, 0);
	assert_true(kvc_submit_get(q, &get, 1, NULL, 0) > 0);
	while (kvc_reap(q, &c, 1) == 0)
		kvc_poll(pool, 1000000);
	assert_int_equal(c.result, 0);
	assert_int_equal(get.result, LEN);
	assert_true(test_same(got, LEN, 7));
	/* What is under way is ended by the one who closes. */
	for (unsigned i = 0; i < 10; i++)
		assert_true(kvc_submit_get(q, &get, 0, NULL, 0) > 0);
	assert_true(kvc_submit_get(q, &get, 1, NULL, 0) > 0);
	assert_in_range(kvc_queue_close(&q), 1, 11);
	kvc_pool_close(&pool);
	free(value);
	free(got);
}

/* Wait for the descriptor alone, and turn nothing. */
static struct kvc_completion reap_without_polls(struct kvc_queue *q)
{
	struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
	struct kvc_completion c = {0};
	int n;
	while ((n = kvc_reap(q, &c, 1)) == 0)
		if (poll(&p, 1, 30000) != 1)
			fail_msg("the descriptor is silent");
	assert_int_equal(n, 1);
	return c;
}

static void what_no_poll_has_begun_ends_without_one(void **state)
{
	uint8_t got[2][SMALL];
	struct kvc_item get[2];
	struct kvc_call soon = {.size = sizeof(soon), .timeout_ns = 20000000};
	struct kvc_completion c;
	struct kvc_queue *q = NULL;
	struct kvc_pool *pool;
	int64_t id;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	memset(got, 0xA5, sizeof(got));
	for (unsigned i = 0; i < 2; i++)
		get[i] = (struct kvc_item){.key = key_of("nothing"), .data = got[i], .len = SMALL};
	assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
	assert_true((id = kvc_submit_get(q, &get[0], 1, &soon, 0)) > 0);
	c = reap_without_polls(q);
	assert_int_equal(c.id, id);
	assert_int_equal(c.result, -KV_ETIMEOUT);
	assert_true((id = kvc_submit_get(q, &get[1], 1, NULL, 0)) > 0);
	assert_int_equal(kvc_cancel(q, (uint64_t)id), 0);
	c = reap_without_polls(q);
	assert_int_equal(c.id, id);
	assert_int_equal(c.result, -KV_ECANCELED);
	/* The loop comes to both, and leaves them alone. */
	memset(get, 0, sizeof(get));
	for (unsigned i = 0; i < 10; i++)
		assert_true(kvc_poll(pool, 1000000) >= 0);
	assert_int_equal(kvc_reap(q, &c, 1), 0);
	for (unsigned i = 0; i < SMALL; i++)
		assert_true(got[0][i] == 0xA5 && got[1][i] == 0xA5);
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&pool);
}

/* Submit a GET, and poll until its request was sent. False: it ended before that. */
static bool begin(struct kvc_pool *pool, struct kvc_queue *q, struct kvc_item *get, uint64_t timeout_ns,
		  int64_t *out_id)
{
	struct kvc_call call = {.size = sizeof(call), .timeout_ns = timeout_ns};
	struct kvc_counters before = {.size = sizeof(before)}, now = before;
	struct kvc_completion c;
	assert_int_equal(kvc_counters(pool, &before), 0);
	assert_true((*out_id = kvc_submit_get(q, get, 1, &call, 0)) > 0);
	do {
		assert_true(kvc_poll(pool, 0) >= 0);
		if (kvc_reap(q, &c, 1) == 1)
			return false;
		assert_int_equal(kvc_counters(pool, &now), 0);
	} while (now.requests == before.requests);
	return true;
}

static int ends_in_a_poll(struct kvc_pool *pool, struct kvc_queue *q, int64_t id)
{
	struct kvc_completion c;
	assert_int_equal(kvc_reap(q, &c, 1), 0);
	while (kvc_reap(q, &c, 1) == 0)
		assert_true(kvc_poll(pool, UINT64_MAX) >= 0);
	assert_int_equal(c.id, id);
	return c.result;
}

/* Its server stands still, so that nothing but its deadline, or kvc_cancel, can end it. */
static void what_a_poll_has_begun_ends_in_a_poll(void **state)
{
	uint8_t got[SMALL];
	struct kvc_item get = {.key = key_of("nothing"), .data = got, .len = SMALL};
	struct kvc_queue *q = NULL;
	struct kvc_pool *pool;
	uint64_t timeout_ns = 100000000;
	int64_t id;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
	test_server_stop(&server);
	while (!begin(pool, q, &get, timeout_ns, &id)) /* a slow machine */
		assert_true((timeout_ns *= 2) < PATIENCE_NS);
	usleep((useconds_t)(timeout_ns / 1000) + 1000);
	assert_int_equal(ends_in_a_poll(pool, q, id), -KV_ETIMEOUT);
	assert_true(begin(pool, q, &get, PATIENCE_NS, &id));
	assert_int_equal(kvc_cancel(q, (uint64_t)id), 0);
	assert_int_equal(ends_in_a_poll(pool, q, id), -KV_ECANCELED);
	test_server_cont(&server);
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&pool);
}

static void a_queue_outlives_its_pool(void **state)
{
	uint8_t got[SMALL];
	struct kvc_item get = {.key = key_of("nothing"), .data = got, .len = sizeof(got)};
	struct kvc_completion c;
	struct kvc_queue *q = NULL;
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
	assert_true(kvc_submit_get(q, &get, 1, NULL, 0) > 0);
	kvc_pool_close(&pool);
	assert_int_equal(kvc_reap(q, &c, 1), 1);
	assert_true(c.result == -KV_ECLOSED || c.result == -KV_ENOTFOUND);
	assert_int_equal(kvc_queue_close(&q), 0);
}

/* ---- the descriptor ---- */

enum { CROWD = 8 };

struct crowd {
	struct kvc_queue *queue;
	struct kvc_item item[CROWD];
	unsigned reaped;
	bool wrong, left;
};

/* Looks for completions at each turn of the loop, and takes one. */
static void impatient(struct kvc_client *client, unsigned w, void *arg)
{
	struct crowd *n = arg;
	struct kvc_completion c;
	(void)client;
	(void)w;
	for (unsigned i = 0; i < CROWD; i++)
		n->wrong |= kvc_submit_exists(n->queue, &n->item[i], 1, NULL, i) <= 0;
	while (!n->wrong && n->reaped == 0) {
		n->reaped = (unsigned)kvc_reap(n->queue, &c, 1);
		co_yield_await();
	}
	n->left = true;
}

/* Whoever reaps may come between the end of an id and the bell, and leave others that are over. */
static void what_a_reap_leaves_is_told(void **state)
{
	static struct crowd n; /* a failing assertion may leave the worker behind */
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	for (unsigned round = 0; round < 20; round++) {
		n = (struct crowd){0};
		assert_int_equal(kvc_queue_open(pool, NULL, &n.queue, NULL), 0);
		for (unsigned i = 0; i < CROWD; i++)
			n.item[i] = (struct kvc_item){.key = key_of("nothing")};
		assert_int_equal(kvc_spawn(pool, 0, impatient, &n), 0);
		while (!n.left || atomic_load(&n.queue->under_way) > 0)
			assert_true(kvc_poll(pool, UINT64_MAX) > 0);
		assert_false(n.wrong);
		while (n.reaped < CROWD) {
			struct pollfd p = {.fd = kvc_queue_fd(n.queue), .events = POLLIN};
			struct kvc_completion c;
			if (poll(&p, 1, 0) != 1)
				fail_msg("round %u: %u of %u were reaped, and the descriptor is silent", round,
					 n.reaped, CROWD);
			n.reaped += (unsigned)kvc_reap(n.queue, &c, 1);
		}
		assert_int_equal(kvc_queue_close(&n.queue), 0);
	}
	kvc_pool_close(&pool);
}

/* ---- workers ---- */

struct count {
	unsigned ran, wrong;
};

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct count *n = arg;
	uint8_t got[SMALL], value[SMALL];
	char name[32];
	struct kvc_key key = {name, (size_t)snprintf(name, sizeof(name), "worker-%u", w)};
	test_fill(value, SMALL, w);
	n->wrong += kvc_put_await(client, key, value, SMALL, NULL) != 0;
	n->wrong += kvc_get_await(client, key, got, SMALL, NULL) != SMALL || !test_same(got, SMALL, w);
	n->wrong += kvc_poll(kvc_client_pool(client), 0) != -KV_EINVAL;
	n->ran++;
}

static void workers_run_in_the_calling_thread(void **state)
{
	struct count n = {0};
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(kvc_run(pool, MANY, worker, &n), 0);
	assert_int_equal(n.ran, MANY);
	for (unsigned w = 0; w < 5; w++)
		assert_int_equal(kvc_spawn(pool, w, worker, &n), 0);
	while (n.ran < MANY + 5)
		kvc_poll(pool, UINT64_MAX);
	assert_int_equal(n.wrong, 0);
	kvc_pool_close(&pool);
}

/* ---- several threads ---- */

struct caller {
	pthread_t thread;
	struct kvc_pool *pool;
	unsigned w, wrong;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;
	uint8_t *value = malloc(LEN);
	for (unsigned i = 0; i < 40; i++) {
		char name[32];
		struct kvc_key key = {name, (size_t)snprintf(name, sizeof(name), "caller-%u-%u", c->w, i)};
		size_t len = 1 + (c->w * 7919 + i * 104729) % LEN;
		test_fill(value, len, i);
		c->wrong += kvc_put(c->pool, key, value, len, NULL) != 0;
		memset(value, 0, len);
		c->wrong += kvc_get(c->pool, key, value, LEN, NULL) != (int64_t)len || !test_same(value, len, i);
	}
	free(value);
	return NULL;
}

struct poller {
	pthread_t thread;
	struct kvc_pool *pool;
	_Atomic uint64_t turns;
	int last;
};

/* Until the pool is being closed. */
static void *poller_main(void *arg)
{
	struct poller *p = arg;
	int rc;
	while ((rc = kvc_poll(p->pool, UINT64_MAX)) >= 0 || rc == -KV_EBUSY)
		atomic_fetch_add(&p->turns, 1);
	p->last = rc;
	return NULL;
}

/* They take turns at the loop, whether or not another thread polls. */
static void callers_and_a_poller(bool polled)
{
	static struct caller caller[3]; /* a failing assertion may leave threads behind */
	static struct poller poller;
	struct kvc_pool *pool;
	test_server_need(&server);
	pool = pool_open();
	poller = (struct poller){.pool = pool};
	if (polled)
		assert_int_equal(pthread_create(&poller.thread, NULL, poller_main, &poller), 0);
	for (unsigned i = 0; i < KV_COUNT(caller); i++) {
		caller[i] = (struct caller){.pool = pool, .w = i};
		assert_int_equal(pthread_create(&caller[i].thread, NULL, caller_main, &caller[i]), 0);
	}
	for (unsigned i = 0; i < KV_COUNT(caller); i++) {
		pthread_join(caller[i].thread, NULL);
		assert_int_equal(caller[i].wrong, 0);
	}
	if (polled)
		while (atomic_load(&poller.turns) == 0)
			usleep(1000);
	/* It sleeps in kvc_poll, with no end in sight. */
	kvc_pool_close(&pool);
	if (!polled)
		return;
	pthread_join(poller.thread, NULL);
	assert_int_equal(poller.last, -KV_ECLOSED);
}

static void blocking_calls_of_three_threads(void **state)
{
	(void)state;
	callers_and_a_poller(false);
}

static void and_a_fourth_that_polls(void **state)
{
	(void)state;
	callers_and_a_poller(true);
}

enum { SUBMITTERS = 4, IDS = 400, WINDOW = 16 };

struct submitter {
	pthread_t thread;
	struct kvc_queue *queue;
	unsigned w;
	atomic_uint wrong;
	struct kvc_item item[WINDOW];
	char name[WINDOW][32];
	uint8_t data[WINDOW][SMALL];
	atomic_bool out[WINDOW];
};

/* A PUT of each key, then a GET of it. */
static void *submitter_main(void *arg)
{
	struct submitter *s = arg;
	for (unsigned i = 0; i < IDS; i++) {
		unsigned k = i % WINDOW;
		bool put = i / WINDOW % 2 == 0;
		int64_t id;
		while (atomic_load(&s->out[k]))
			usleep(100);
		snprintf(s->name[k], sizeof(s->name[k]), "submitter-%u-%u", s->w, i / WINDOW / 2 * WINDOW + k);
		if (put)
			test_fill(s->data[k], SMALL, i);
		else
			memset(s->data[k], 0, SMALL);
		s->item[k] = (struct kvc_item){.key = key_of(s->name[k]), .data = s->data[k], .len = SMALL};
		atomic_store(&s->out[k], true);
		while ((id = (put ? kvc_submit_put : kvc_submit_get)(s->queue, &s->item[k], 1, NULL, s->w << 16 | i)) ==
		       -KV_EBUSY)
			usleep(100);
		if (id <= 0)
			atomic_fetch_add(&s->wrong, 1);
	}
	return NULL;
}

static void submitter_take(struct submitter *all, const struct kvc_completion *c)
{
	struct submitter *s = &all[c->tag >> 16];
	unsigned i = c->tag & 0xffff, k = i % WINDOW;
	bool put = i / WINDOW % 2 == 0;
	assert_int_equal(c->result, 0);
	assert_int_equal(c->items[0].result, put ? 0 : SMALL);
	assert_true(put || test_same(s->data[k], SMALL, i - WINDOW));
	atomic_store(&s->out[k], false);
}

/* The queue is smaller than what they submit, and another thread makes calls that block. */
static void four_threads_submit_while_one_polls(void **state)
{
	static struct submitter s[SUBMITTERS]; /* a failing assertion may leave threads behind */
	static struct caller caller;
	struct kvc_queue_options o = {.size = sizeof(o), .depth = 24};
	struct kvc_queue *q = NULL;
	struct kvc_pool *pool;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	assert_int_equal(kvc_queue_open(pool, &o, &q, NULL), 0);
	memset(s, 0, sizeof(s));
	for (unsigned w = 0; w < SUBMITTERS; w++) {
		s[w].queue = q;
		s[w].w = w;
		assert_int_equal(pthread_create(&s[w].thread, NULL, submitter_main, &s[w]), 0);
	}
	caller = (struct caller){.pool = pool, .w = 77};
	assert_int_equal(pthread_create(&caller.thread, NULL, caller_main, &caller), 0);
	for (unsigned reaped = 0; reaped < SUBMITTERS * IDS;) {
		struct kvc_completion c[5];
		int n = kvc_poll(pool, 1000000);
		assert_true(n >= 0 || n == -KV_EBUSY);
		n = kvc_reap(q, c, KV_COUNT(c));
		for (int i = 0; i < n; i++, reaped++)
			submitter_take(s, &c[i]);
	}
	for (unsigned w = 0; w < SUBMITTERS; w++) {
		pthread_join(s[w].thread, NULL);
		assert_int_equal(s[w].wrong, 0);
	}
	pthread_join(caller.thread, NULL);
	assert_int_equal(caller.wrong, 0);
	assert_int_equal(kvc_queue_close(&q), 0);
	kvc_pool_close(&pool);
}

static void a_second_thread_that_polls_is_told(void **state)
{
	static struct poller poller;
	struct kvc_pool *pool;
	int rc;
	(void)state;
	test_server_need(&server);
	pool = pool_open();
	poller = (struct poller){.pool = pool};
	assert_int_equal(pthread_create(&poller.thread, NULL, poller_main, &poller), 0);
	while ((rc = kvc_poll(pool, 0)) != -KV_EBUSY)
		assert_true(rc >= 0);
	kvc_pool_close(&pool);
	pthread_join(poller.thread, NULL);
	assert_int_equal(poller.last, -KV_ECLOSED);
}

/* ---- beside another pool ---- */

/* One without threads and one with: the same memory and the same keys; and the end of one is not that of the other. */
static void two_pools_in_one_process(void **state)
{
	struct kvc_options o = test_options(only, 1, 2);
	struct kvc_pool *pool[2] = {NULL, NULL};
	struct kvc_queue *q[2] = {NULL, NULL};
	struct kvc_mem *mem[2] = {NULL, NULL};
	struct kv_error err = {0};
	uint8_t *at = malloc(2 * LEN);
	struct kvc_item item[2];
	struct kvc_completion c;
	(void)state;
	test_server_need(&server);
	o.timeout_ns = o.peer_timeout_ns = PATIENCE_NS;
	pool[0] = pool_open();
	assert_int_equal(kvc_pool_open(&o, &pool[1], &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(kvc_queue_open(pool[i], NULL, &q[i], &err), 0);
		assert_int_equal(kvc_register(pool[i], at, 2 * LEN, &mem[i], &err), 0);
		item[i] = (struct kvc_item){.key = key_of("two pools"), .data = at + (size_t)i * LEN, .len = LEN};
	}
	/* What one puts the other gets, both ways and at the same time. */
	test_fill(at, LEN, 1);
	assert_true(kvc_submit_put(q[0], &item[0], 1, NULL, 0) > 0);
	while (kvc_reap(q[0], &c, 1) == 0)
		assert_true(kvc_poll(pool[0], 1000000) >= 0);
	assert_int_equal(c.result, 0);
	memset(at, 0, LEN);
	for (unsigned i = 0; i < 2; i++)
		assert_true(kvc_submit_get(q[i], &item[i], 1, NULL, i) > 0);
	assert_int_equal(reap_without_polls(q[1]).result, 0);
	while (kvc_reap(q[0], &c, 1) == 0)
		assert_true(kvc_poll(pool[0], 1000000) >= 0);
	assert_int_equal(c.result, 0);
	assert_true(test_same(at, LEN, 1) && test_same(at + LEN, LEN, 1));
	/* A registration belongs to its pool. */
	assert_int_equal(kvc_unregister(pool[0], &mem[1]), -KV_EINVAL);
	/* The end of one, with an id under way, is not the other's. */
	assert_true(kvc_submit_get(q[0], &item[0], 1, NULL, 0) > 0);
	kvc_pool_close(&pool[0]);
	assert_int_equal(kvc_reap(q[0], &c, 1), 1);
	assert_int_equal(kvc_queue_close(&q[0]), 0);
	memset(at, 0, 2 * LEN);
	assert_true(kvc_submit_get(q[1], &item[1], 1, NULL, 0) > 0);
	assert_int_equal(reap_without_polls(q[1]).result, 0);
	assert_true(test_same(at + LEN, LEN, 1));
	assert_int_equal(kvc_get(pool[1], item[1].key, at, LEN, NULL), LEN);
	assert_int_equal(kvc_queue_close(&q[1]), 0);
	assert_int_equal(kvc_unregister(pool[1], &mem[1]), 0);
	kvc_pool_close(&pool[1]);
	free(at);
}

/* ---- refusals, and a server that dies ---- */

static void what_cannot_be_is_refused(void **state)
{
	struct kvc_options o = options();
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	(void)state;
	test_server_need(&server);
	o.num_threads = 2;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_EINVAL);
	assert_non_null(strstr(err.text, "a pool without threads has one loop"));
	assert_int_equal(kvc_poll(NULL, 0), -KV_EINVAL);
	o = test_options(only, 1, 1);
	assert_int_equal(kvc_pool_open(&o, &pool, &err), 0);
	assert_int_equal(kvc_poll(pool, 0), -KV_EINVAL);
	kvc_pool_close(&pool);
}

static bool give_up(void *arg, unsigned clients_open, unsigned clients_up)
{
	unsigned *looked = arg;
	(void)clients_open;
	(void)clients_up;
	return ++*looked < 3;
}

static void opening_is_shown_and_may_be_given_up(void **state)
{
	struct kvc_options o = options();
	const char *nobody = "127.0.0.1:1";
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	unsigned looked = 0;
	(void)state;
	test_server_need(&server);
	o.servers = &nobody;
	o.opening = give_up;
	o.opening_arg = &looked;
	o.num_clients = 8;
	assert_int_equal(kvc_pool_open(&o, &pool, &err), -KV_ECANCELED);
	assert_null(pool);
	assert_int_equal(looked, 3);
}

static void a_dead_server_is_noticed(void **state)
{
	struct kvc_options o = options();
	struct kvc_call brief = {.size = sizeof(brief), .timeout_ns = 2000000000};
	struct kvc_pool *pool = NULL;
	uint8_t value[SMALL], got[SMALL];
	int64_t rc;
	(void)state;
	test_server_need(&server);
	o.peer_timeout_ns = 200000000;
	assert_int_equal(kvc_pool_open(&o, &pool, NULL), 0);
	test_fill(value, SMALL, 3);
	assert_int_equal(kvc_put(pool, key_of("before"), value, SMALL, NULL), 0);
	test_server_kill(&server);
	rc = kvc_get(pool, key_of("before"), got, SMALL, &brief);
	assert_true(rc == -KV_EPEERDOWN || rc == -KV_ETIMEOUT);
	test_server_start(&server, "poll");
	/* The next attempts to connect are made inside polls. */
	do
		assert_true(kvc_poll(pool, 1000000) >= 0);
	while (kvc_put(pool, key_of("after"), value, SMALL, &brief) != 0);
	/* Another client may make the GET, and be connected later. */
	do
		assert_true(kvc_poll(pool, 1000000) >= 0);
	while (kvc_get(pool, key_of("after"), got, SMALL, &brief) != SMALL);
	assert_true(test_same(got, SMALL, 3));
	kvc_pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_does_it_all),
		cmocka_unit_test(registered_memory_and_batches),
		cmocka_unit_test(what_is_submitted_moves_while_the_host_polls),
		cmocka_unit_test(what_no_poll_has_begun_ends_without_one),
		cmocka_unit_test_teardown(what_a_poll_has_begun_ends_in_a_poll, go_on),
		cmocka_unit_test(a_queue_outlives_its_pool),
		cmocka_unit_test(what_a_reap_leaves_is_told),
		cmocka_unit_test(workers_run_in_the_calling_thread),
		cmocka_unit_test(blocking_calls_of_three_threads),
		cmocka_unit_test(and_a_fourth_that_polls),
		cmocka_unit_test(four_threads_submit_while_one_polls),
		cmocka_unit_test(a_second_thread_that_polls_is_told),
		cmocka_unit_test(two_pools_in_one_process),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(opening_is_shown_and_may_be_given_up),
		cmocka_unit_test(a_dead_server_is_noticed),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
