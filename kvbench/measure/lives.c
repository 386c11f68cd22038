/* SPDX-License-Identifier: Apache-2.0 */
/* lives.c -- a server's incarnation changes when it is restarted. */
#include "kvbench/measure/lives.h"

#include <string.h>

#include "kvclient/kvclient.h"

void bench_lives_begin(struct kvc_pool *pool, struct bench_lives *lives)
{
	*lives = (struct bench_lives){0};
	for (unsigned i = 0; i < BENCH_LIVES_MAX; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		if (kvc_server_info(pool, 0, i, &s) == 0 && s.state == KVC_SERVER_UP)
			lives->incarnation[i] = s.incarnation;
	}
}

/* A client that rebuilds its endpoints is CONNECTING for a while, and the server lives. */
enum bench_life bench_life_of(uint64_t incarnation, const struct kvc_server_info *now)
{
	if (now->state == KVC_SERVER_DOWN || now->state == KVC_SERVER_CLOSED)
		return BENCH_LIFE_ENDED;
	return now->incarnation == incarnation ? BENCH_LIFE_SAME : BENCH_LIFE_RESTARTED;
}

void bench_lives_end(struct kvc_pool *pool, struct bench_lives *lives)
{
	for (unsigned i = 0; i < BENCH_LIVES_MAX && !lives->changed; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		if (!lives->incarnation[i] || kvc_server_info(pool, 0, i, &s) < 0)
			continue;
		lives->changed = bench_life_of(lives->incarnation[i], &s);
		if (lives->changed)
			memcpy(lives->server, s.name, sizeof(lives->server));
	}
}
