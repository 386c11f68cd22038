/* SPDX-License-Identifier: Apache-2.0 */
/* beats.c -- the largest gap between heartbeats that an honest client sees.
 *
 * usage: beats HOST:PORT CERT KEY CA SECONDS
 *
 * A pool of one client; once a millisecond it is asked how long ago the control connection last brought something,
 * which in an idle pool is heartbeats alone. Prints the largest such time and what the server itself says of its
 * heartbeats. It also counts sessions: more than one means that the client took the server for dead. A client that
 * comes in the middle, when half of the time is over, says how long it waited. Status 1 if anything failed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

enum { STATS = 200 };

static struct kvc_pool *pool_open(char **argv)
{
	const char *servers[] = {argv[1]};
	struct kvc_options o = {.size = sizeof(o),
				.flags = KVC_OPEN_WAIT,
				.num_clients = 1,
				.num_threads = 1,
				.buffer_bytes = 1 << 20,
				.servers = servers,
				.num_servers = 1,
				.cert_file = argv[2],
				.key_file = argv[3],
				.ca_file = argv[4],
				.log_level = 2};
	struct kvc_pool *pool = NULL;
	struct kv_error err = {0};
	if (kvc_pool_open(&o, &pool, &err))
		fprintf(stderr, "beats: %s\n", err.text);
	return pool;
}

/* Of the server, in milliseconds; -1: unknown. */
static double late_ms(struct kvc_pool *pool)
{
	struct kvc_stat_item item[STATS];
	int n = kvc_stat(pool, item, STATS, NULL);
	for (int i = 0; i < n; i++)
		if (strcmp(item[i].name, "heartbeat_late_max_ns") == 0)
			return (double)item[i].value / 1e6;
	return -1;
}

static uint64_t now_ns(void)
{
	return kv_clock_now(&kv_clock_monotonic);
}

/* Whether another client gets in, and how long that takes. */
static int newcomer(char **argv)
{
	uint64_t began = now_ns();
	struct kvc_pool *pool = pool_open(argv);
	printf("a new client %s after %.0f ms\n", pool ? "is let in" : "is NOT let in",
	       (double)(now_ns() - began) / 1e6);
	kvc_pool_close(&pool);
	return 0;
}

int main(int argc, char **argv)
{
	struct kvc_server_info info = {.size = sizeof(info)};
	uint64_t gap = 0, began, len;
	struct kvc_pool *pool;
	bool asked = false;
	if (argc != 6)
		return 2;
	pool = pool_open(argv);
	if (!pool)
		return 1;
	len = (uint64_t)(atof(argv[5]) * 1e9);
	for (began = now_ns(); now_ns() - began < len; usleep(1000)) {
		if (kvc_server_info(pool, 0, 0, &info) == 0 && info.heard_ns != UINT64_MAX)
			gap = KV_MAX(gap, info.heard_ns);
		if (!asked && now_ns() - began > len / 2) {
			asked = true;
			newcomer(argv);
		}
	}
	printf("largest gap between heartbeats %.0f ms, sessions %" PRIu64 ", failed attempts %" PRIu64
	       "; the server's own: %.0f ms late at most\n",
	       (double)gap / 1e6, info.connects, info.attempts_failed, late_ms(pool));
	kvc_pool_close(&pool);
	return info.connects == 1 ? 0 : 1;
}
