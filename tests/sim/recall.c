/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c -- see recall.h. kvserver/push/recall.c is a client with threads of its own, which a simulated world has no
 * place for. Here the tombstones are read where they are, some milliseconds after the question. As there, a member that
 * does not run is asked again and again, and without it there is no answer. */
#include "tests/sim/recall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/ops/tier.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/members.h"

#define FIRST_NS  (5 * MS)
#define AGAIN_NS  (100 * MS)
#define WITHIN_NS (8 * SECOND)

static bool runs(const struct world_server *s)
{
	return s->server && !s->crashed && !s->frozen;
}

/* NULL: this member does not run. */
static const struct world_server *member_find(const char *node_id)
{
	for (unsigned i = 0; i < members.world.num_servers; i++) {
		const struct world_server *s = &members.world.server[i];
		char name[24];
		snprintf(name, sizeof(name), "node-%u", s->as);
		if (runs(s) && strcmp(name, node_id) == 0)
			return s;
	}
	return NULL;
}

static uint32_t shard_read(const struct shard *shard, struct verdict *v)
{
	const struct tombs *t = &shard->store.tombs;
	uint32_t n = 0, budget = UINT32_MAX;
	const struct tomb *d;
	uint64_t at = 0;
	while ((d = tombs_next(t, &at, &budget)) != NULL)
		v[n++] = verdict_of(d->id, d->time_ns, d->expires_ns != 0);
	return n;
}

static void spaces_read(const struct shard *shard, struct kvs_recalled *out)
{
	const struct spaces *t = &shard->store.spaces;
	for (uint32_t i = 0; i < t->count; i++) {
		struct kvs_space *to;
		if (t->at[i]->generation == 0)
			continue;
		out->space = realloc(out->space, (out->spaces + 1) * sizeof(*out->space));
		assert_non_null(out->space);
		to = &out->space[out->spaces++];
		memcpy(to->name, t->at[i]->name, sizeof(to->name));
		to->generation = t->at[i]->generation;
	}
	out->floor = KV_MAX(out->floor, t->floor);
}

/* As kvserver/ops/small.c says it. */
static int64_t since_of(const struct world_server *s, unsigned shard)
{
	const struct doubt_orders *d = &s->server->doubt_orders;
	uint64_t left_ns = KV_MAX(atomic_load(&d->away_ns), atomic_load(&d->lost_ns));
	return KV_MAX(s->server->shard[shard]->store.tombs.since_ns, (int64_t)left_ns);
}

/* NULL: not all members answer. */
static struct verdict *all_read(const struct world_server *self, struct kvs_recalled *out)
{
	const struct kv_view *view = &self->server->views.now;
	struct verdict *v = malloc(DOUBT_VERDICTS_MAX * sizeof(*v));
	assert_non_null(v);
	for (uint32_t i = 0; i < view->count; i++) {
		const struct world_server *s = member_find(view->member[i].node_id);
		if (!s) {
			free(v);
			return NULL;
		}
		for (unsigned k = 0; s != self && k < WORLD_SHARDS; k++) {
			if (!shard_tier_remembers(s->server->shard[k]) || since_of(s, k) > self->recall_since_ns) {
				free(v);
				return NULL;
			}
			spaces_read(s->server->shard[k], out);
			out->count += shard_read(s->server->shard[k], v + out->count);
		}
	}
	return v;
}

static void answer(void *server)
{
	struct world_server *s = server;
	struct kvs_recalled got = {0};
	if (!s->server || s->crashed)
		return;
	if (!s->frozen)
		got.verdict = all_read(s, &got);
	if (got.verdict || (!s->frozen && world_now(&members.world) >= s->recall_until_ns)) {
		assert_int_equal(kvs_server_recalled(s->server, &got), 0);
		return;
	}
	free(got.space);
	sim_world_at(members.world.sim, world_now(&members.world) + AGAIN_NS, answer, s);
}

int recall_ask(void *server, const struct kv_view *view, int64_t since_ns)
{
	struct world_server *s = server;
	(void)view;
	s->recall_since_ns = since_ns;
	s->recall_until_ns = world_now(&members.world) + WITHIN_NS;
	sim_world_at(members.world.sim, world_now(&members.world) + FIRST_NS, answer, s);
	return 0;
}
