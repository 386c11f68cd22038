/* SPDX-License-Identifier: Apache-2.0 */
/* honest.c -- an honest process that embeds the library, beside an attack: it makes every kind of call and knows what
 * each must answer.
 *
 * usage: honest --server HOST:PORT --psk-file FILE [--provider NAME] [--clients N] [--seed N] [--pace-us N] [--warm
 * CALLS]
 *
 * Each worker has keys of its own, so it knows for each of them whether the server has it: a key that somebody else
 * deleted is a call with a wrong answer, as is one that somebody else stored. Every byte that a GET brings is compared.
 * A call that ends with an error is a lost call: no server of this test is ever stopped, so nothing excuses one. After
 * a lost PUT or DELETE a key is in doubt until the next answer.
 *
 * A page of registered memory is used for nothing: a client that writes to it had a region's number and no right to use
 * it.
 *
 * Keys are 24 bytes long, of the workers' and of the canaries' that port.py stores alike: an attacker who cannot see a
 * frame has to guess its length, and the test wants his guess to be good.
 *
 * With --warm so many calls come first, as fast as may be: libfabric's pools fill for some 300,000 of them (40 MiB at
 * both ends), which is nobody's attack.
 *
 * Standard output has a line "CALLS LOST WRONG" every 100 ms. When standard input ends the workers stop, the pool is
 * closed, and the last line is "END CALLS LOST WRONG CLOSE_MS". Exit status 0, or 2 if it could not begin. port.py
 * judges; this program only counts.
 *
 * Rejected: tests/chaos/load.c. Its workers share keys, so that a forged DELETE looks like another worker's; and it
 * excuses errors. */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/kvclient.h"
#include "loop/loop.h"

enum {
	WORKERS = 8, /* coroutines; the last worker is a thread that makes blocking calls */
	KEYS = 10,   /* of a worker */
	BATCH = 3,
	STATS = 200,
	GUARD = 64,
	PAGE = 65536, /* registered, and nobody's */
	VALUE_MAX = 400000,
	BUFFER = BATCH * VALUE_MAX + GUARD,
	TOLD_MAX = 100, /* lines about lost calls */
	EXIT_SETUP = 2
};

#define MS 1000000ull

enum known { ABSENT, PRESENT, DOUBT };

struct worker {
	unsigned w;
	struct kvc_client *client; /* NULL: it makes blocking calls */
	struct kv_prng prng;
	uint8_t *buf;
	enum known known[KEYS];
};

static struct {
	const char *server, *psk, *provider;
	unsigned clients;
	uint64_t seed, pace_us, warm;
	uint64_t timeout_ns; /* of a call, and of a server's silence */
} opt = {.clients = 2, .seed = 1, .pace_us = 4000, .timeout_ns = 2000 * MS};

static struct worker workers[WORKERS + 1];
static struct kvc_pool *pool;
static _Atomic uint64_t calls, lost, wrong;
static _Atomic bool stop;
static uint8_t *page;

/* ---- keys and values: a value is made from its key alone ---- */

struct key_text {
	char text[32];
};

static struct kvc_key key_of(struct key_text *t, const struct worker *k, unsigned key)
{
	return (struct kvc_key){t->text, (size_t)snprintf(t->text, sizeof(t->text), "honest/%02u/%02u/%011" PRIx64,
							  k->w, key, (uint64_t)(opt.seed & 0xFFFFFFFFFFull))};
}

static uint64_t value_len(unsigned key)
{
	static const uint64_t len[KEYS] = {1, 8, 100, 1000, 3000, 5000, 20000, 70000, 200000, VALUE_MAX};
	return len[key];
}

static uint8_t value_byte(const struct worker *k, unsigned key, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull ^
		     (k->w * 1000003ull + key * 7919ull + opt.seed) * 0xBF58476D1CE4E5B9ull;
	return (uint8_t)(x >> 32 ^ x >> 57);
}

static void value_make(const struct worker *k, unsigned key, uint8_t *to)
{
	for (uint64_t i = 0; i < value_len(key); i++)
		to[i] = value_byte(k, key, i);
}

static bool value_is_right(const struct worker *k, unsigned key, const uint8_t *from)
{
	for (uint64_t i = 0; i < value_len(key); i++)
		if (from[i] != value_byte(k, key, i))
			return false;
	return true;
}

/* ---- outcomes ---- */

static void tell(const struct worker *k, const char *what, unsigned key, const char *how)
{
	static _Atomic unsigned told;
	if (atomic_fetch_add(&told, 1) < TOLD_MAX)
		fprintf(stderr, "honest: worker %u: %s of key %u: %s\n", k->w, what, key, how);
}

static void lose(const struct worker *k, const char *what, unsigned key, int64_t rc)
{
	atomic_fetch_add(&lost, 1);
	tell(k, what, key, kvc_errname((int)rc));
}

static void mistake(const struct worker *k, const char *what, unsigned key, const char *how)
{
	atomic_fetch_add(&wrong, 1);
	tell(k, what, key, how);
}

/* What a key that is there answers with 0 or more, and one that is not with -KV_ENOTFOUND. True: it is there. */
static bool found(struct worker *k, const char *what, unsigned key, int64_t rc)
{
	bool miss = rc == -KV_ENOTFOUND;
	if (rc < 0 && !miss) {
		lose(k, what, key, rc);
		return false;
	}
	if (k->known[key] != DOUBT && miss != (k->known[key] == ABSENT))
		mistake(k, what, key,
			miss ? "WRONG: it is gone, and nobody deleted it" : "WRONG: it is there, and nobody stored it");
	k->known[key] = miss ? ABSENT : PRESENT;
	return !miss;
}

static void got(struct worker *k, const char *what, unsigned key, int64_t rc, const uint8_t *at)
{
	if (!found(k, what, key, rc))
		return;
	if ((uint64_t)rc != value_len(key) || !value_is_right(k, key, at))
		mistake(k, what, key, "WRONG BYTES");
}

static struct kvc_call call_make(void)
{
	atomic_fetch_add(&calls, 1);
	return (struct kvc_call){.size = sizeof(struct kvc_call), .timeout_ns = opt.timeout_ns};
}

/* ---- the calls ---- */

static void do_get_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	uint64_t len = value_len(key);
	int64_t rc;
	memset(k->buf, 0x5A, len + GUARD);
	rc = k->client ? kvc_get_await(k->client, key_of(&t, k, key), k->buf, len, &call)
		       : kvc_get(pool, key_of(&t, k, key), k->buf, len, &call);
	got(k, "GET", key, rc, k->buf);
	for (unsigned i = 0; i < GUARD; i++)
		if (k->buf[len + i] != 0x5A) {
			mistake(k, "GET", key, "WRONG BYTES behind the destination");
			break;
		}
}

static void do_get_borrowed_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	struct kvc_borrowed borrowed = {0};
	int64_t rc;
	if (!k->client) {
		do_get_await(k, key);
		return;
	}
	rc = kvc_get_borrowed_await(k->client, key_of(&t, k, key), value_len(key), &call, &borrowed);
	got(k, "GET into a borrowed piece", key, rc, borrowed.data);
	kvc_borrowed_release(k->client, &borrowed);
}

static void do_put_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	int64_t rc;
	value_make(k, key, k->buf);
	rc = k->client ? kvc_put_await(k->client, key_of(&t, k, key), k->buf, value_len(key), &call)
		       : kvc_put(pool, key_of(&t, k, key), k->buf, value_len(key), &call);
	if (rc == -KV_EEXIST)
		mistake(k, "PUT", key, "WRONG: another value is stored");
	else if (rc < 0)
		lose(k, "PUT", key, rc);
	k->known[key] = rc < 0 ? DOUBT : PRESENT;
}

static void do_put_borrowed_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	struct kvc_borrowed borrowed = {0};
	int64_t rc;
	if (!k->client) {
		do_put_await(k, key);
		return;
	}
	rc = kvc_borrow_await(k->client, value_len(key), opt.timeout_ns, &borrowed);
	if (rc < 0) {
		lose(k, "a borrowed piece for PUT", key, rc);
		return;
	}
	value_make(k, key, borrowed.data);
	rc = kvc_put_await(k->client, key_of(&t, k, key), borrowed.data, value_len(key), &call);
	if (rc < 0)
		lose(k, "PUT from a borrowed piece", key, rc);
	k->known[key] = rc < 0 ? DOUBT : PRESENT;
	kvc_borrowed_release(k->client, &borrowed);
}

static void do_delete_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	int64_t rc = k->client ? kvc_delete_await(k->client, key_of(&t, k, key), &call)
			       : kvc_delete(pool, key_of(&t, k, key), &call);
	found(k, "DELETE", key, rc);
	k->known[key] = rc < 0 && rc != -KV_ENOTFOUND ? DOUBT : ABSENT;
}

static void do_touch_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	found(k, "TOUCH", key,
	      k->client ? kvc_touch_await(k->client, key_of(&t, k, key), &call)
			: kvc_touch(pool, key_of(&t, k, key), &call));
}

static void do_pin_await(struct worker *k, unsigned key)
{
	struct key_text t;
	struct kvc_call call = call_make();
	int64_t rc;
	if (!k->client || !found(k, "PIN", key, kvc_pin_await(k->client, key_of(&t, k, key), &call)))
		return;
	call = call_make();
	rc = kvc_unpin_await(k->client, key_of(&t, k, key), &call);
	if (rc < 0)
		lose(k, "UNPIN", key, rc);
}

static void do_exists_await(struct worker *k)
{
	struct key_text t[KEYS];
	struct kvc_key keys[KEYS];
	uint8_t there[KEYS];
	unsigned prefix;
	struct kvc_call call = call_make();
	int rc;
	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = key_of(&t[i], k, i);
	rc = k->client ? kvc_exists_await(k->client, keys, KEYS, there, &prefix, &call)
		       : kvc_exists(pool, keys, KEYS, there, &prefix, &call);
	if (rc < 0)
		lose(k, "EXISTS", 0, rc);
	for (unsigned i = 0; rc == 0 && i < KEYS; i++)
		found(k, "EXISTS", i, there[i] ? 0 : -KV_ENOTFOUND);
}

static void do_batch_await(struct worker *k, bool put)
{
	struct key_text t[BATCH];
	struct kvc_item item[BATCH];
	unsigned first = (unsigned)kv_prng_below(&k->prng, KEYS);
	struct kvc_call call = call_make();
	for (unsigned i = 0; i < BATCH; i++) {
		unsigned key = (first + i) % KEYS;
		item[i] = (struct kvc_item){
			.key = key_of(&t[i], k, key), .data = k->buf + i * VALUE_MAX, .len = value_len(key)};
		if (put)
			value_make(k, key, item[i].data);
	}
	if (put)
		(void)(k->client ? kvc_put_batch_await(k->client, item, BATCH, &call)
				 : kvc_put_batch(pool, item, BATCH, &call));
	else
		(void)(k->client ? kvc_get_batch_await(k->client, item, BATCH, &call)
				 : kvc_get_batch(pool, item, BATCH, &call));
	for (unsigned i = 0; i < BATCH; i++) {
		unsigned key = (first + i) % KEYS;
		if (!put) {
			got(k, "a batch's GET", key, item[i].result, item[i].data);
			continue;
		}
		if (item[i].result < 0)
			lose(k, "a batch's PUT", key, item[i].result);
		k->known[key] = item[i].result < 0 ? DOUBT : PRESENT;
	}
}

static void do_stat_await(struct worker *k)
{
	struct kvc_stat_item item[STATS];
	struct kvc_call call = call_make();
	int rc = k->client ? kvc_stat_await(k->client, item, STATS, &call) : kvc_stat(pool, item, STATS, &call);
	if (rc < 0)
		lose(k, "STAT", 0, rc);
}

static void do_ping_await(struct worker *k)
{
	struct kvc_call call = call_make();
	int rc = k->client ? kvc_ping_await(k->client, &call) : kvc_ping(pool, &call);
	if (rc < 0)
		lose(k, "PING", 0, rc);
}

static void one_call_await(struct worker *k)
{
	unsigned key = (unsigned)kv_prng_below(&k->prng, KEYS);
	switch (kv_prng_below(&k->prng, 16)) {
	case 0 ... 3:
		do_get_await(k, key);
		break;
	case 4:
		do_get_borrowed_await(k, key);
		break;
	case 5:
		do_batch_await(k, false);
		break;
	case 6 ... 7:
		do_put_await(k, key);
		break;
	case 8:
		do_put_borrowed_await(k, key);
		break;
	case 9:
		do_batch_await(k, true);
		break;
	case 10:
		do_delete_await(k, key);
		break;
	case 11:
		do_touch_await(k, key);
		break;
	case 12:
		do_pin_await(k, key);
		break;
	case 13 ... 14:
		do_exists_await(k);
		break;
	default:
		kv_prng_below(&k->prng, 2) ? do_stat_await(k) : do_ping_await(k);
		break;
	}
}

/* Between two calls. */
static uint64_t pace_ns(void)
{
	return atomic_load(&calls) < opt.warm ? 0 : opt.pace_us * 1000;
}

static void worker_main(struct kvc_client *client, unsigned w, void *arg)
{
	struct worker *k = &workers[w];
	(void)arg;
	k->client = client;
	while (!atomic_load(&stop)) {
		one_call_await(k);
		uint64_t pace = pace_ns();
		co_sleep_await(loop_now(loop_current()) + pace / 2 + kv_prng_below(&k->prng, pace + 1));
	}
}

static void *blocking_main(void *arg)
{
	struct worker *k = arg;
	while (!atomic_load(&stop)) {
		one_call_await(k);
		usleep((useconds_t)(pace_ns() / 1000 + 1));
	}
	return NULL;
}

static void page_check(void)
{
	static const struct worker nobody = {.w = 99};
	for (unsigned i = 0; i < PAGE; i++)
		if (page[i] != 0xC3) {
			mistake(&nobody, "nothing", 0, "WRONG BYTES in memory that no call was given");
			memset(page, 0xC3, PAGE);
			return;
		}
}

/* Counts go out ten times a second; the end of standard input stops it all. */
static void *watch_main(void *arg)
{
	uint8_t in;
	(void)arg;
	while (read(STDIN_FILENO, &in, 1) > 0)
		;
	atomic_store(&stop, true);
	return NULL;
}

static void *count_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		page_check();
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", atomic_load(&calls), atomic_load(&lost),
		       atomic_load(&wrong));
		fflush(stdout);
		usleep(100000);
	}
	return NULL;
}

/* ---- set-up ---- */

static int pool_open(void)
{
	struct kv_error err = {0};
	struct kvc_options o = {.size = sizeof(o),
				.flags = KVC_OPEN_WAIT,
				.servers = &opt.server,
				.num_servers = 1,
				.num_clients = opt.clients,
				.num_threads = opt.clients,
				.buffer_bytes = 16 << 20,
				.provider = opt.provider,
				.psk_file = opt.psk,
				.timeout_ns = opt.timeout_ns,
				.peer_timeout_ns = opt.timeout_ns,
				.log_level = 2};
	int rc = kvc_pool_open(&o, &pool, &err);
	if (rc < 0)
		fprintf(stderr, "honest: %s: %s\n", kvc_errname(rc), err.text);
	return rc;
}

/* Every second worker's buffer is registered. */
static int workers_make(struct kvc_mem **mem)
{
	struct kv_error err = {0};
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i <= WORKERS; i++) {
		workers[i].w = i;
		workers[i].buf = aligned_alloc(4096, (BUFFER + 4095) & ~4095u);
		kv_prng_seed(&workers[i].prng, opt.seed * 100 + i);
		if (!workers[i].buf)
			return -KV_ENOMEM;
		memset(workers[i].buf, 0, BUFFER);
		if (i % 2 == 0)
			rc = kvc_register(pool, workers[i].buf, (BUFFER + 4095) & ~4095u, &mem[i], &err);
	}
	page = aligned_alloc(4096, PAGE);
	if (!page)
		return -KV_ENOMEM;
	memset(page, 0xC3, PAGE);
	if (rc == 0)
		rc = kvc_register(pool, page, PAGE, &mem[WORKERS + 1], &err);
	if (rc < 0)
		fprintf(stderr, "honest: %s: registering: %s\n", kvc_errname(rc), err.text);
	return rc;
}

static int run(void)
{
	struct kvc_mem *mem[WORKERS + 2] = {0};
	pthread_t blocking, watch, count;
	uint64_t start;
	int rc = pool_open();
	if (rc < 0 || workers_make(mem) < 0)
		return EXIT_SETUP;
	if (pthread_create(&blocking, NULL, blocking_main, &workers[WORKERS]) != 0 ||
	    pthread_create(&watch, NULL, watch_main, NULL) != 0 ||
	    pthread_create(&count, NULL, count_main, NULL) != 0) {
		fprintf(stderr, "honest: cannot start a thread\n");
		return EXIT_SETUP;
	}
	rc = kvc_run(pool, WORKERS, worker_main, NULL);
	if (rc < 0)
		fprintf(stderr, "honest: %s: starting the workers\n", kvc_errname(rc));
	pthread_join(blocking, NULL);
	pthread_join(count, NULL);
	for (unsigned i = 0; i <= WORKERS + 1; i++)
		if (mem[i] && (rc = kvc_unregister(pool, &mem[i])) < 0)
			lose(&workers[i % WORKERS], "unregistering a buffer", 0, rc);
	start = kv_clock_now(&kv_clock_monotonic);
	kvc_pool_close(&pool);
	printf("END %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", atomic_load(&calls), atomic_load(&lost),
	       atomic_load(&wrong), (uint64_t)((kv_clock_now(&kv_clock_monotonic) - start) / MS));
	for (unsigned i = 0; i <= WORKERS; i++)
		free(workers[i].buf);
	free(page);
	return 0;
}

static const struct option long_options[] = {
	{"server", required_argument, NULL, 's'},
	{"psk-file", required_argument, NULL, 'k'},
	{"provider", required_argument, NULL, 'P'},
	{"clients", required_argument, NULL, 'c'},
	{"seed", required_argument, NULL, 'r'},
	{"pace-us", required_argument, NULL, 'p'},
	{"warm", required_argument, NULL, 'w'},
	{"timeout-ms", required_argument, NULL, 't'},
	{NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
	int o;
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		if (o == 's')
			opt.server = optarg;
		else if (o == 'k')
			opt.psk = optarg;
		else if (o == 'P')
			opt.provider = optarg;
		else if (o == 'c')
			opt.clients = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'r')
			opt.seed = strtoull(optarg, NULL, 10);
		else if (o == 'p')
			opt.pace_us = strtoull(optarg, NULL, 10);
		else if (o == 'w')
			opt.warm = strtoull(optarg, NULL, 10);
		else if (o == 't')
			opt.timeout_ns = strtoull(optarg, NULL, 10) * MS;
		else
			return EXIT_SETUP;
	}
	if (!opt.server || optind != argc) {
		fprintf(stderr, "usage: honest --server HOST:PORT --psk-file FILE [--provider NAME] [--clients N] "
				"[--seed N] [--pace-us N] [--warm CALLS] [--timeout-ms N]\n");
		return EXIT_SETUP;
	}
	kvc_program_setup();
	return run();
}
