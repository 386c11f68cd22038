/* SPDX-License-Identifier: Apache-2.0 */
/* test_hotpath.c -- a GET takes no memory from the allocator and no lock, on the client's loop and on the server's, nor
 * in a thread that submits it to a queue and reaps it; nor do EXISTS, PUT and DELETE of a queue. All that over the
 * fabric, and with the server's memory mapped.
 *
 * Server and client are in this process, so that one count sees both. The count begins when every worker has warmed up
 * and ends before the first of them returns: starting and ending a worker is not a GET. Nothing else happens in
 * between: each case has a server and a pool of its own, whose heartbeats, for which OpenSSL allocates, are a minute
 * apart, and a case that took longer is tried again. Our own code makes no such call at all; what the provider does is
 * reported. */
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

#include "kvclient/kvclient.h"
#include "kvserver/kvserver.h"
#include "loop/stack.h"
#include "tests/hotpath/count.h"
#include "tests/provider.h"
#include "tests/short.h"

enum {
	WORKERS = 8,
	CLIENTS = 2,
	SHARDS = 2,
	BATCH = 16,
	KEYS = 64,
	GETS = 2000,
	FEW_GETS = 600,
	SIZE_MAX_BYTES = 64 << 10,
	BEAT_MS = 60000
};

static const char psk[] = "hotpath:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static unsigned rounds; /* how many GETs are counted */
static struct kvs_server *server;
static struct kvc_pool *pool;
static struct kvc_mem *mem;

static uint8_t value[SIZE_MAX_BYTES], plain[WORKERS][BATCH * SIZE_MAX_BYTES];
static _Alignas(4096) uint8_t registered[WORKERS][BATCH * SIZE_MAX_BYTES];
static char key_text[KEYS][16];

/* What is being run. It has two parts, the warm-up and what is counted, each of which ends when every worker has done
 * its share of the GETs. The first worker alone begins and ends the count, and no worker returns before that: on a busy
 * machine a loop may start its workers long after another one, or be late with anything else. */
enum part { WARM_UP, COUNTED, OVER };

static struct {
	int64_t (*get)(struct kvc_client *, unsigned w, unsigned from);
	unsigned each; /* GETs that one call makes */
	uint64_t size;
	uint8_t (*at)[BATCH * SIZE_MAX_BYTES]; /* where values of PUTs lie */
	_Atomic enum part part;
	_Atomic unsigned failed;
	_Atomic uint64_t gets[WORKERS];
	uint64_t before[WORKERS]; /* what each had when the present part began */
	uint64_t counted;         /* GETs of all while the count was on */
} run;

static struct kvc_key key_at(unsigned i)
{
	return (struct kvc_key){key_text[i % KEYS], strlen(key_text[i % KEYS])};
}

static int64_t get_plain(struct kvc_client *client, unsigned w, unsigned from)
{
	return kvc_get_await(client, key_at(from), plain[w], run.size, NULL) - (int64_t)run.size;
}

static int64_t get_registered(struct kvc_client *client, unsigned w, unsigned from)
{
	return kvc_get_await(client, key_at(from), registered[w], run.size, NULL) - (int64_t)run.size;
}

static int64_t get_borrowed(struct kvc_client *client, unsigned w, unsigned from)
{
	struct kvc_borrowed v;
	int64_t rc = kvc_get_borrowed_await(client, key_at(from), run.size, NULL, &v);
	(void)w;
	if (rc < 0)
		return rc;
	kvc_borrowed_release(client, &v);
	return rc - (int64_t)run.size;
}

static int64_t get_batch(struct kvc_client *client, unsigned w, unsigned from)
{
	struct kvc_item items[BATCH];
	for (unsigned i = 0; i < BATCH; i++)
		items[i] = (struct kvc_item){.key = key_at(from + i), .data = plain[w] + i * run.size, .len = run.size};
	return kvc_get_batch_await(client, items, BATCH, NULL);
}

static bool all_have_their_share(void)
{
	for (unsigned w = 0; w < WORKERS; w++)
		if (run.gets[w] - run.before[w] < rounds / WORKERS)
			return false;
	return true;
}

static void part_end(void)
{
	if (run.part == OVER || !all_have_their_share())
		return;
	if (run.part == COUNTED)
		count_stop();
	for (unsigned w = 0; w < WORKERS; w++) {
		uint64_t gets = run.gets[w];
		run.counted += run.part == COUNTED ? gets - run.before[w] : 0;
		run.before[w] = gets;
	}
	if (++run.part == COUNTED)
		count_start();
}

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	(void)arg;
	for (unsigned i = 0; run.part != OVER && run.failed == 0; i++) {
		if (run.get(client, w, w * 7 + i) != 0)
			run.failed++;
		run.gets[w] += run.each;
		if (w == 0)
			part_end();
	}
}

static void skip_if_impossible(void)
{
	if (count_possible())
		return;
	printf("# skip: a sanitizer has the allocator and the locks for itself\n");
	skip();
}

static void up(bool local)
{
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = kv_log_stderr};
	const struct kvs_options so = {.listen_addr = "127.0.0.1:0",
				       .provider = test_provider(),
				       .shards = SHARDS,
				       .memory_bytes = 64 << 20,
				       .prefault = KVS_PREFAULT_START, /* the kernel is asked before */
				       .heartbeat_ms = BEAT_MS,
				       .psk = psk,
				       .log = &log};
	char name[64];
	const char *names[] = {name};
	struct kvc_options co = {.size = sizeof(co),
				 .flags = KVC_OPEN_WAIT,
				 .num_clients = CLIENTS,
				 .num_threads = CLIENTS,
				 .buffer_bytes = 16 << 20,
				 .servers = names,
				 .num_servers = 1,
				 .provider = test_provider(),
				 .timeout_ns = 10000000000,
				 .peer_timeout_ns = 200000000000,
				 .psk = psk,
				 .local = local ? KVC_LOCAL_AUTO : KVC_LOCAL_OFF,
				 .log_level = KV_LOG_WARN};
	struct kvc_server_info info = {.size = sizeof(info)};
	struct kv_error err = {0};
	struct kv_prng p;
	kv_prng_seed(&p, 1);
	kv_prng_fill(&p, value, sizeof(value));
	if (kvs_server_create(&so, &server, &err) < 0 || kvs_server_start(server, &err) < 0)
		goto fail;
	kvs_server_address(server, name, sizeof(name));
	if (kvc_pool_open(&co, &pool, &err) < 0 || kvc_register(pool, registered, sizeof(registered), &mem, &err) < 0)
		goto fail;
	assert_int_equal(kvc_server_info(pool, 0, 0, &info), 0);
	assert_int_equal(info.local, local);
	return;
fail:
	fail_msg("%s", err.text);
}

static void down(void)
{
	assert_int_equal(kvc_unregister(pool, &mem), 0);
	kvc_pool_close(&pool);
	kvs_server_destroy(&server);
}

static void put_all(uint64_t size)
{
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(key_text[i], sizeof(key_text[i]), "%llu/%u", (unsigned long long)size, i);
		assert_int_equal(kvc_put(pool, key_at(i), value, size, NULL), 0);
	}
}

struct row {
	const char *name;
	int64_t (*get)(struct kvc_client *, unsigned, unsigned);
	unsigned each; /* GETs that one call makes */
	uint64_t size;
	bool local;
};

static void measure(const struct row *row)
{
	for (unsigned i = 0; i < 2; i++) { /* the first time is the warm-up of starting and ending, too */
		memset(&run, 0, sizeof(run));
		run.get = row->get;
		run.each = row->each;
		run.size = row->size;
		assert_int_equal(kvc_run(pool, WORKERS, worker, NULL), 0);
		assert_int_equal(run.failed, 0);
	}
}

static void no_memory_and_no_lock_is_taken(void **state)
{
	const struct row *row = *state;
	uint64_t begun_ns, took_ns;
	unsigned tries = 0;
	skip_if_impossible();
	do { /* until no heartbeat can have fallen into the count */
		if (++tries > 3) {
			print_message("this machine needs more than a minute for %u GETs\n", 4 * rounds);
			skip();
		}
		begun_ns = kv_clock_now(&kv_clock_monotonic);
		up(row->local);
		put_all(row->size);
		measure(row);
		took_ns = kv_clock_now(&kv_clock_monotonic) - begun_ns;
		down();
	} while (took_ns > BEAT_MS * 1000000ull);
	assert_in_range(run.counted, rounds, UINT64_MAX);
	printf("#: the provider makes %.2f calls of the allocator and takes %.1f locks for each\n",
	       (double)count_get(COUNT_FABRIC, COUNT_ALLOC) / (double)run.counted,
	       (double)count_get(COUNT_FABRIC, COUNT_LOCK) / (double)run.counted);
	count_print(COUNT_OURS);
	count_print(COUNT_OTHER);
	for (unsigned i = 0; i < COUNT_WHATS; i++) {
		assert_int_equal(count_get(COUNT_OURS, i), 0);
		assert_int_equal(count_get(COUNT_OTHER, i), 0);
	}
}

/* A call that takes no memory and no lock would not show whether the counting works. */
static void what_is_not_a_get_is_counted(void **state)
{
	void *volatile p;
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	(void)state;
	skip_if_impossible();
	count_start();
	p = malloc(100);
	free(p);
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	p = strdup("the C library's malloc");
	count_stop();
	free(p);
	assert_int_equal(count_get(COUNT_OURS, COUNT_ALLOC), 2);
	assert_int_equal(count_get(COUNT_OURS, COUNT_LOCK), 1);
	assert_int_equal(count_get(COUNT_OTHER, COUNT_ALLOC), 1);
	assert_int_equal(count_get(COUNT_FABRIC, COUNT_ALLOC), 0);
}

/* ---- queues ---- */

enum { WINDOW = 24 }; /* batches that are submitted at a time */

static struct kvc_item batch[WINDOW][BATCH];

static bool completion_good(const struct kvc_completion *c)
{
	static const bool writes[KVC_OPS] = {[KVC_OP_PUT] = true, [KVC_OP_DELETE] = true};
	bool good = c->result == 0;
	for (uint32_t i = 0; i < c->n; i++)
		good &= c->items[i].result == (c->op == KVC_OP_EXISTS ? 1 : writes[c->op] ? 0 : (int64_t)run.size);
	return good;
}

/* Batches of a window share memory, with equal bytes: nobody looks at them. */
static void batch_fill(unsigned w, unsigned first, uint8_t (*at)[BATCH * SIZE_MAX_BYTES])
{
	for (unsigned i = 0; i < BATCH; i++)
		batch[w][i] = (struct kvc_item){
			.key = key_at(first + i), .data = at[w % WORKERS] + i * run.size, .len = run.size};
}

static void reap_all(struct kvc_queue *q, unsigned batches)
{
	for (unsigned reaped = 0; reaped < batches;) {
		struct kvc_completion c[8];
		int n = kvc_reap(q, c, KV_COUNT(c));
		for (int i = 0; i < n; i++, reaped++)
			run.failed += !completion_good(&c[i]);
		if (n == 0)
			usleep(100);
	}
}

/* Windows of batches, of which each second is a look-up, until so many keys were asked for. */
static void queue_reads(struct kvc_queue *q, unsigned keys)
{
	for (unsigned k = 0; k < keys && run.failed == 0; k += WINDOW * BATCH) {
		for (unsigned w = 0; w < WINDOW; w++) {
			batch_fill(w, w, plain);
			if ((w % 2 ? kvc_submit_exists(q, batch[w], BATCH, NULL, w)
				   : kvc_submit_get(q, batch[w], BATCH, NULL, w)) < 0)
				run.failed++;
		}
		reap_all(q, WINDOW);
	}
}

/* All keys are deleted, then put anew, so that bytes travel; each key is in one batch alone. */
static void queue_writes(struct kvc_queue *q, unsigned keys)
{
	for (unsigned k = 0; k < keys && run.failed == 0; k += 2 * KEYS)
		for (unsigned put = 0; put < 2; put++) {
			for (unsigned w = 0; w < KEYS / BATCH; w++) {
				batch_fill(w, w * BATCH, run.at);
				if ((put ? kvc_submit_put(q, batch[w], BATCH, NULL, w)
					 : kvc_submit_delete(q, batch[w], BATCH, NULL, w)) < 0)
					run.failed++;
			}
			reap_all(q, KEYS / BATCH);
		}
}

/* It waits at the gate of kvc_run until all are there. */
static void nothing(struct kvc_client *client, unsigned w, void *arg)
{
	(void)client;
	(void)w;
	(void)arg;
}

/* How many coroutines make a window is a matter of moments, and where one more runs than ever before the loop makes its
 * stack. So each loop makes, before anything is counted, as many as a window can need: one for each batch, and those
 * that are at their end when it is submitted. Fewer than STACK_HOT_MAX: none is given back to the kernel. */
static void stacks_make(void)
{
	_Static_assert(2 * WINDOW < STACK_HOT_MAX, "all of them stay");
	assert_int_equal(kvc_run(pool, CLIENTS * 2 * WINDOW, nothing, NULL), 0);
}

struct queue_row {
	const char *name;
	void (*use)(struct kvc_queue *q, unsigned keys);
	uint8_t (*at)[BATCH * SIZE_MAX_BYTES];
	uint64_t size;
	bool local;
};

static void a_queue_takes_no_memory_and_no_lock(void **state)
{
	const struct queue_row *row = *state;
	struct kvc_queue *q = NULL;
	uint64_t begun_ns, took_ns;
	unsigned tries = 0;
	skip_if_impossible();
	do {
		if (++tries > 3) {
			print_message("this machine needs more than a minute\n");
			skip();
		}
		begun_ns = kv_clock_now(&kv_clock_monotonic);
		up(row->local);
		memset(&run, 0, sizeof(run));
		run.size = row->size;
		run.at = row->at;
		put_all(run.size);
		assert_int_equal(kvc_queue_open(pool, NULL, &q, NULL), 0);
		stacks_make();
		row->use(q, 4 * rounds);
		count_start();
		row->use(q, 4 * rounds);
		count_stop();
		assert_int_equal(run.failed, 0);
		assert_int_equal(kvc_queue_close(&q), 0);
		took_ns = kv_clock_now(&kv_clock_monotonic) - begun_ns;
		down();
	} while (took_ns > BEAT_MS * 1000000ull);
	count_print(COUNT_OURS);
	count_print(COUNT_OTHER);
	for (unsigned i = 0; i < COUNT_WHATS; i++) {
		assert_int_equal(count_get(COUNT_OURS, i), 0);
		assert_int_equal(count_get(COUNT_OTHER, i), 0);
	}
}

static const struct queue_row queue_rows[] = {
	{"a queue takes no memory and no lock for GET and EXISTS", queue_reads, plain, 4 << 10, false},
	{"a queue takes none for PUT and DELETE of 1 KiB", queue_writes, plain, 1 << 10, false},
	{"a queue takes none for PUT and DELETE of 4 KiB", queue_writes, plain, 4 << 10, false},
	{"a queue takes none for PUT and DELETE of 64 KiB", queue_writes, plain, 64 << 10, false},
	{"a queue takes none for PUT and DELETE of registered 64 KiB", queue_writes, registered, 64 << 10, false},
	{"local: a queue takes no memory and no lock for GET and EXISTS", queue_reads, plain, 4 << 10, true},
	{"local: a queue takes none for PUT and DELETE of 1 KiB", queue_writes, plain, 1 << 10, true},
	{"local: a queue takes none for PUT and DELETE of 64 KiB", queue_writes, plain, 64 << 10, true},
};

static const struct row rows[] = {
	{"a GET of 64 KiB into plain memory takes no memory and no lock", get_plain, 1, 64 << 10, false},
	{"a GET of 64 KiB into registered memory takes no memory and no lock", get_registered, 1, 64 << 10, false},
	{"a GET of 64 KiB into a borrowed piece takes no memory and no lock", get_borrowed, 1, 64 << 10, false},
	{"a GET of 4 KiB into plain memory takes no memory and no lock", get_plain, 1, 4 << 10, false},
	{"a GET of 4 KiB into a borrowed piece takes no memory and no lock", get_borrowed, 1, 4 << 10, false},
	{"a GET of 1 KiB inside the reply takes no memory and no lock", get_plain, 1, 1 << 10, false},
	{"a batch of 16 of 4 KiB takes no memory and no lock", get_batch, BATCH, 4 << 10, false},
	{"a batch of 16 of 64 KiB takes no memory and no lock", get_batch, BATCH, 64 << 10, false},
	{"local: a GET of 64 KiB into plain memory takes no memory and no lock", get_plain, 1, 64 << 10, true},
	{"local: a GET of 64 KiB in place takes no memory and no lock", get_borrowed, 1, 64 << 10, true},
	{"local: a GET of 1 KiB inside the reply takes no memory and no lock", get_plain, 1, 1 << 10, true},
	{"local: a batch of 16 of 4 KiB takes no memory and no lock", get_batch, BATCH, 4 << 10, true},
};

int main(void)
{
	enum { QUEUES = KV_COUNT(queue_rows) };
	struct CMUnitTest tests[1 + QUEUES + KV_COUNT(rows)] = {cmocka_unit_test(what_is_not_a_get_is_counted)};
	for (unsigned i = 0; i < QUEUES; i++)
		tests[1 + i] = (struct CMUnitTest){.name = queue_rows[i].name,
						   .test_func = a_queue_takes_no_memory_and_no_lock,
						   .initial_state = (void *)(uintptr_t)&queue_rows[i]};
	for (unsigned i = 0; i < KV_COUNT(rows); i++)
		tests[1 + QUEUES + i] = (struct CMUnitTest){.name = rows[i].name,
							    .test_func = no_memory_and_no_lock_is_taken,
							    .initial_state = (void *)(uintptr_t)&rows[i]};
	rounds = test_rounds(GETS, FEW_GETS);
	kvc_program_setup();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
