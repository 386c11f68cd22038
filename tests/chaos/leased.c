/* SPDX-License-Identifier: Apache-2.0 */
/* leased.c -- values read in place on the server's host, while the server evicts, deletes and moves.
 *
 *   leased --server ADDRESS --gets N [--seed S]     N GETs, every byte of each compared
 *   leased --server ADDRESS --kill N --pid SERVER   kill -9 of a client that holds N leases
 *
 * With --gets each value is made from its key alone. A worker reads keys at random, in place or copied. It compares all
 * bytes, holds some leases for a while, and compares their bytes again before it releases them. A key that is missing
 * is put, one of 64 is deleted. The server should have less memory than the KEYS values need. With --kill the program
 * prints the time until the server has no lease left, and its processor time for that. Exit 1: a wrong byte, a code
 * that a healthy server does not give, or leases that stay; 2: usage, or no server. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

enum { KEYS = 4096, WORKERS = 64, HELD = 8, LEN_MAX = 129 << 10, HOLD_BYTES = 4096, STATS = 256 };

static const char *server;
static uint64_t gets_wanted, kills, seed = 1;
static int server_pid;
static struct kvc_pool *pool;
static _Atomic uint64_t gets, in_place, bytes, missed, refused, compared_again;
static _Atomic bool broken;

/* ---- values ---- */

/* Sizes from 1 to 129 KiB, most of them small, so that large ones need room between them. */
static uint64_t len_of(uint32_t key)
{
	return (1024ull << (key * 2654435761u >> 16) % 8) + key % 1000;
}

static uint64_t word_of(uint32_t key, uint64_t at)
{
	return (key + 1) * 0x9E3779B97F4A7C15ull ^ (at + 1) * 0xD6E8FEB86659FD93ull;
}

static void fill(uint8_t *to, uint32_t key, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t w = word_of(key, at);
		memcpy(to + at, &w, KV_MIN(len - at, (uint64_t)8));
	}
}

static bool same(const uint8_t *from, uint32_t key, uint64_t len)
{
	uint64_t whole = len / 8 * 8, wrong = 0, w;
	for (uint64_t at = 0; at < whole; at += 8) {
		memcpy(&w, from + at, 8);
		wrong |= w ^ word_of(key, at);
	}
	w = word_of(key, whole);
	return wrong == 0 && memcmp(from + whole, &w, len - whole) == 0;
}

static void fail(const char *what, uint32_t key, int64_t rc)
{
	if (!atomic_exchange(&broken, true))
		fprintf(stderr, "leased: %s of key %" PRIu32 " (%" PRIu64 " bytes): %s\n", what, key, len_of(key),
			rc < 0 ? kvc_errname((int)rc) : "wrong bytes");
}

/* ---- the comparison ---- */

struct holding {
	struct kvc_borrowed lent;
	uint32_t key;
};

struct worker {
	struct kv_prng prng;
	struct holding held[HELD];
	unsigned next;
	uint8_t buf[LEN_MAX];
};

static void let_go(struct holding *h)
{
	if (h->lent.data) {
		if (!same(h->lent.data, h->key, len_of(h->key)))
			fail("the held value", h->key, 0);
		atomic_fetch_add(&compared_again, 1);
	}
	kvc_borrowed_release(NULL, &h->lent);
}

static void got(struct worker *k, uint32_t key, const uint8_t *data, int64_t rc)
{
	uint64_t len = len_of(key);
	(void)k;
	if (rc != (int64_t)len || !same(data, key, len))
		fail("a GET", key, rc);
	atomic_fetch_add(&gets, 1);
	atomic_fetch_add(&bytes, len);
}

/* A full server may refuse a value: its memory is leased. */
static void put_missing(struct kvc_client *c, struct worker *k, uint32_t key, struct kvc_key name)
{
	int rc;
	atomic_fetch_add(&missed, 1);
	fill(k->buf, key, len_of(key));
	rc = kvc_put_await(c, name, k->buf, len_of(key), NULL);
	if (rc == -KV_ENOMEM || rc == -KV_EBUSY || rc == -KV_ETIMEOUT)
		atomic_fetch_add(&refused, 1);
	else if (rc < 0)
		fail("a PUT", key, rc);
}

static void step(struct kvc_client *c, struct worker *k)
{
	uint32_t some = (uint32_t)kv_prng_below(&k->prng, KEYS), dice = (uint32_t)kv_prng_below(&k->prng, 64);
	uint32_t key = (uint32_t)kv_prng_below(&k->prng, some + 1); /* low ones more often */
	struct kvc_key name = {&key, sizeof(key)};
	struct kvc_borrowed lent = {0};
	int64_t rc;
	if (dice == 0 && key % 4 == 0) {
		rc = kvc_delete_await(c, name, NULL);
		if (rc < 0 && rc != -KV_ENOTFOUND)
			fail("a DELETE", key, rc);
		return;
	}
	if (dice % 4 == 0)
		rc = kvc_get_await(c, name, k->buf, LEN_MAX, NULL);
	else
		rc = kvc_get_borrowed_await(c, name, len_of(key), NULL, &lent);
	if (rc == -KV_ENOTFOUND) {
		put_missing(c, k, key, name);
		return;
	}
	got(k, key, dice % 4 == 0 ? k->buf : lent.data, rc);
	if (!lent.data)
		return;
	atomic_fetch_add(&in_place, lent.in_place);
	if (dice >= 8) {
		kvc_borrowed_release(NULL, &lent);
		return;
	}
	let_go(&k->held[k->next % HELD]);
	k->held[k->next++ % HELD] = (struct holding){lent, key};
}

static void work(struct kvc_client *c, unsigned w, void *arg)
{
	struct worker *k = calloc(1, sizeof(*k));
	(void)arg;
	if (!k) {
		fail("no memory for a worker", 0, -KV_ENOMEM);
		return;
	}
	kv_prng_seed(&k->prng, seed + w);
	while (atomic_load(&gets) < gets_wanted && !atomic_load(&broken))
		step(c, k);
	for (unsigned i = 0; i < HELD; i++)
		let_go(&k->held[i]);
	free(k);
}

static uint64_t stat_of(const char *name)
{
	struct kvc_stat_item item[STATS];
	int n = kvc_stat(pool, item, STATS, NULL);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, name) == 0)
			return item[i].value;
	fprintf(stderr, "leased: the server has no counter %s: %s\n", name, n < 0 ? kvc_errname(n) : "");
	exit(2);
}

static int pool_open(unsigned clients)
{
	struct kvc_options o = {.size = sizeof(o), .flags = KVC_OPEN_WAIT, .servers = &server, .num_servers = 1};
	struct kv_error err = {0};
	int rc;
	o.num_clients = o.num_threads = clients;
	rc = kvc_pool_open(&o, &pool, &err);
	if (rc < 0)
		fprintf(stderr, "leased: %s: %s\n", kvc_errname(rc), err.text);
	return rc;
}

/* Wait until the server has no lease left. */
static bool leases_end(void)
{
	uint64_t until = kv_clock_now(&kv_clock_monotonic) + 30000000000ull;
	while (stat_of("local_leases") > 0 && kv_clock_now(&kv_clock_monotonic) < until)
		usleep(1000);
	if (stat_of("local_leases") == 0 && stat_of("leased_bytes") == 0)
		return true;
	fprintf(stderr, "leased: %" PRIu64 " leases are left\n", stat_of("local_leases"));
	return false;
}

static int compare(void)
{
	uint64_t begun = kv_clock_now(&kv_clock_monotonic);
	bool ended;
	int rc = pool_open(2);
	if (rc == 0)
		rc = kvc_run(pool, WORKERS, work, NULL);
	if (rc < 0)
		return 2;
	ended = leases_end();
	printf("{\"gets\": %" PRIu64 ", \"in_place\": %" PRIu64 ", \"compared_again\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"missed\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"evictions\": %" PRIu64 ", \"seconds\": %.1f}\n",
	       gets, in_place, compared_again, bytes, missed, refused, stat_of("evictions"),
	       (double)(kv_clock_now(&kv_clock_monotonic) - begun) / 1e9);
	kvc_pool_close(&pool);
	return broken || !ended ? 1 : 0;
}

/* ---- the kill ---- */

/* The child: take the leases, report, and wait for the end. */
static void hold(int ready)
{
	static uint8_t value[HOLD_BYTES];
	struct kvc_borrowed lent;
	uint64_t n = 0;
	if (pool_open(1) < 0)
		_exit(2);
	for (; n < kills; n++) {
		uint64_t key = n % KEYS; /* of another length than those of step() */
		struct kvc_key name = {&key, sizeof(key)};
		if ((n < KEYS && kvc_put(pool, name, value, sizeof(value), NULL) < 0) ||
		    kvc_get_borrowed(pool, name, sizeof(value), NULL, &lent) < 0 || !lent.in_place)
			break;
	}
	if (write(ready, &n, sizeof(n)) != sizeof(n))
		_exit(2);
	for (;;)
		pause();
}

/* Processor time of the server. */
static uint64_t server_ns(void)
{
	struct timespec t = {0};
	clockid_t id;
	if (clock_getcpuclockid(server_pid, &id) == 0)
		clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static int kill_holder(void)
{
	uint64_t held = 0, begun, spent;
	bool ended;
	int ready[2];
	pid_t child;
	if (pipe(ready) != 0 || (child = fork()) < 0)
		return 2;
	if (child == 0)
		hold(ready[1]);
	close(ready[1]);
	if (read(ready[0], &held, sizeof(held)) != sizeof(held) || held != kills || pool_open(1) < 0 ||
	    stat_of("local_leases") != kills) {
		fprintf(stderr, "leased: the client holds %" PRIu64 " leases instead of %" PRIu64 "\n", held, kills);
		kill(child, SIGKILL);
		return 2;
	}
	begun = kv_clock_now(&kv_clock_monotonic);
	spent = server_ns();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ended = leases_end();
	printf("{\"leases\": %" PRIu64 ", \"ms\": %.1f, \"server_cpu_ms\": %.1f}\n", held,
	       (double)(kv_clock_now(&kv_clock_monotonic) - begun) / 1e6, (double)(server_ns() - spent) / 1e6);
	kvc_pool_close(&pool);
	return ended ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"server", 1, NULL, 's'}, {"gets", 1, NULL, 'g'},
						{"kill", 1, NULL, 'k'},   {"pid", 1, NULL, 'p'},
						{"seed", 1, NULL, 'r'},   {0}};
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
		switch (c) {
		case 's':
			server = optarg;
			break;
		case 'g':
			gets_wanted = strtoull(optarg, NULL, 10);
			break;
		case 'k':
			kills = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			server_pid = atoi(optarg);
			break;
		case 'r':
			seed = strtoull(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	if (!server || (gets_wanted == 0) == (kills == 0) || (kills && server_pid <= 0)) {
		fprintf(stderr, "usage: leased --server ADDRESS (--gets N [--seed S] | --kill N --pid SERVER)\n");
		return 2;
	}
	return kills ? kill_holder() : compare();
}
