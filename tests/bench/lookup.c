/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c -- how long a lookup of many keys takes, in round trips: `lookup HOST:PORT [KEYS [KEY_BYTES [PAIRS]]]`.
 *
 * A worker asks for all keys (kvc_exists_await) and for a PING of one shard in turn, so that whatever else the machine
 * does falls on both. Half of the keys exist. What counts is the ratio of the medians; the times themselves are of this
 * machine at this moment. Environment: KVRAIL_PSK (a file), KVRAIL_PROVIDER (tcp). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvclient/kvclient.h"

enum { KEYS_MAX = 4096, PAIRS_MAX = 100000 };

static unsigned keys_n = 1000, key_bytes = 64, pairs = 2000;
static char text[KEYS_MAX][KVC_KEY_MAX + 1];
static struct kvc_key key[KEYS_MAX];
static double took[2][PAIRS_MAX];
static int failed;

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void worker(struct kvc_client *client, unsigned w, void *arg)
{
	struct kvc_call one = {.size = sizeof(one), .shard = 1};
	unsigned prefix = 0;
	(void)w;
	(void)arg;
	for (unsigned i = 0; i < keys_n / 2 && !failed; i++)
		failed = kvc_put_await(client, key[i], "x", 1, NULL);
	for (unsigned i = 0; i < pairs && !failed; i++) {
		double begin = now_us(), middle;
		failed = kvc_ping_await(client, &one);
		middle = now_us();
		took[0][i] = middle - begin;
		if (!failed)
			failed = kvc_exists_await(client, key, keys_n, NULL, &prefix, NULL);
		took[1][i] = now_us() - middle;
		if (!failed && prefix != keys_n / 2)
			failed = -KV_EINTERNAL;
	}
}

int main(int argc, char **argv)
{
	const char *server = argc > 1 ? argv[1] : NULL, *provider = getenv("KVRAIL_PROVIDER");
	struct kvc_options o = {.size = sizeof(o),
				.num_clients = 1,
				.servers = &server,
				.num_servers = 1,
				.provider = provider ? provider : "tcp",
				.psk_file = getenv("KVRAIL_PSK"),
				.log_level = 1,
				.flags = KVC_OPEN_WAIT};
	struct kvc_pool *pool;
	struct kv_error err = {0};
	int rc;
	if (argc > 2)
		keys_n = (unsigned)atoi(argv[2]);
	if (argc > 3)
		key_bytes = (unsigned)atoi(argv[3]);
	if (argc > 4)
		pairs = (unsigned)atoi(argv[4]);
	if (!server || keys_n < 2 || keys_n > KEYS_MAX || key_bytes < 8 || key_bytes > KVC_KEY_MAX || pairs < 1 ||
	    pairs > PAIRS_MAX) {
		fprintf(stderr, "usage: lookup HOST:PORT [KEYS 2-%d [KEY_BYTES 8-%d [PAIRS 1-%d]]]\n", KEYS_MAX,
			KVC_KEY_MAX, PAIRS_MAX);
		return 2;
	}
	for (unsigned i = 0; i < keys_n; i++) {
		snprintf(text[i], sizeof(text[i]), "%0*u", (int)key_bytes, key_bytes * KEYS_MAX + i);
		key[i] = (struct kvc_key){text[i], key_bytes};
	}
	kvc_program_setup();
	if (kvc_pool_open(&o, &pool, &err) < 0) {
		fprintf(stderr, "lookup: %s\n", err.text);
		return 1;
	}
	rc = kvc_run(pool, 1, worker, NULL);
	failed = failed ? failed : rc;
	kvc_pool_close(&pool);
	if (failed) {
		fprintf(stderr, "lookup: %s\n", kvc_strerror(failed));
		return 1;
	}
	for (unsigned i = 0; i < 2; i++)
		qsort(took[i], pairs, sizeof(double), ascending);
	printf("%u keys of %u bytes: ping %.1f us, lookup %.1f us, %.2f round trips (medians of %u pairs)\n", keys_n,
	       key_bytes, took[0][pairs / 2], took[1][pairs / 2], took[1][pairs / 2] / took[0][pairs / 2], pairs);
	return 0;
}
