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

void bench_lives_end(struct kvc_pool *pool, struct bench_lives *lives)
{
	for (unsigned i = 0; i < BENCH_LIVES_MAX; i++) {
		struct kvc_server_info s = {.size = sizeof(s)};
		if (!lives->incarnation[i] || kvc_server_info(pool, 0, i, &s) < 0)
			continue;
		if (s.state == KVC_SERVER_UP && s.incarnation == lives->incarnation[i])
			continue;
		lives->changed = s.state == KVC_SERVER_UP ? BENCH_LIFE_RESTARTED : BENCH_LIFE_ENDED;
		memcpy(lives->server, s.name, sizeof(lives->server));
		return;
	}
}
