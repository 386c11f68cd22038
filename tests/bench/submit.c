/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c -- what submitting a key to a queue costs the thread that submits: `submit HOST:PORT [KEYS [ROUNDS]]`.
 *
 * A round submits as many GETs of KEYS keys each as the queue takes without waiting (IDS), and then reaps them all;
 * only the submissions are timed, all of a round together. No key exists, so that the loops have little to do
 * meanwhile. The median of the rounds counts: where a loop shares the processor with this thread, some rounds are
 * interrupted. Prints
 * {"ns_per_key": N, "ns_per_call": N, "keys": N, "rounds": N}. Environment: KVRAIL_PSK (a file), KVRAIL_PROVIDER (tcp).
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kvclient/kvclient.h"

enum { IDS = 64, KEYS_MAX = 1024, ROUNDS_MAX = 100000 };

static struct kvc_item item[IDS][KEYS_MAX];
static char name[KEYS_MAX][24], value[64];
static double took[ROUNDS_MAX];

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Until `ids` of them are over, each with nothing but misses. 0 or a code. */
static int reap_all(struct kvc_queue *q, unsigned ids)
{
	struct pollfd p = {.fd = kvc_queue_fd(q), .events = POLLIN};
	for (unsigned reaped = 0; reaped < ids;) {
		struct kvc_completion c[IDS];
		int n = kvc_reap(q, c, IDS);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++, reaped++)
			if (c[i].result != -KV_ENOTFOUND)
				return c[i].result < 0 ? c[i].result : -KV_EINTERNAL;
		if (n == 0)
			(void)poll(&p, 1, 1000);
	}
	return 0;
}

static int round_run(struct kvc_queue *q, unsigned keys, double *out_ns)
{
	double begin;
	for (unsigned w = 0; w < IDS; w++)
		for (unsigned i = 0; i < keys; i++)
			item[w][i] = (struct kvc_item){
				.key = {name[i], (size_t)snprintf(name[i], sizeof(name[i]), "absent-%u", i)},
				.data = value,
				.len = sizeof(value)};
	begin = now_ns();
	for (unsigned w = 0; w < IDS; w++) {
		int64_t id = kvc_submit_get(q, item[w], keys, NULL, w);
		if (id < 0)
			return (int)id;
	}
	*out_ns = (now_ns() - begin) / IDS;
	return reap_all(q, IDS);
}

static int measure(struct kvc_pool *pool, unsigned keys, unsigned rounds)
{
	struct kvc_queue *q = NULL;
	double warm;
	int rc = kvc_queue_open(pool, NULL, &q, NULL);
	for (unsigned i = 0; i < rounds / 10 + 1 && rc == 0; i++)
		rc = round_run(q, keys, &warm);
	for (unsigned i = 0; i < rounds && rc == 0; i++)
		rc = round_run(q, keys, &took[i]);
	kvc_queue_close(&q);
	return rc;
}

int main(int argc, char **argv)
{
	const char *server = argc > 1 ? argv[1] : NULL, *provider = getenv("KVRAIL_PROVIDER");
	unsigned keys = argc > 2 ? (unsigned)atoi(argv[2]) : 1, rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;
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
	if (!server || keys < 1 || keys > KEYS_MAX || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: submit HOST:PORT [KEYS 1-%d [ROUNDS 1-%d]]\n", KEYS_MAX, ROUNDS_MAX);
		return 2;
	}
	kvc_program_setup();
	if (kvc_pool_open(&o, &pool, &err) < 0) {
		fprintf(stderr, "submit: %s\n", err.text);
		return 1;
	}
	rc = measure(pool, keys, rounds);
	kvc_pool_close(&pool);
	if (rc < 0) {
		fprintf(stderr, "submit: %s\n", kvc_strerror(rc));
		return 1;
	}
	qsort(took, rounds, sizeof(double), ascending);
	printf("{\"ns_per_key\": %.2f, \"ns_per_call\": %.1f, \"keys\": %u, \"rounds\": %u}\n", took[rounds / 2] / keys,
	       took[rounds / 2], keys, rounds);
	return 0;
}
