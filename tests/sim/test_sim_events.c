/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_events.c -- a follower knows which values exist, however slow it is, and whatever happens to it and the
 * servers: standstills, deaths with a new process on the port, logs that have moved on, and a follower that leaves and
 * goes on behind its position. Between two events of a log it misses none without notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kvserver/server/server.h"
#include "tests/sim/world.h"

enum { SERVERS = 2, KEYS = 300, LONG = 64 << 10, BATCH = 32, CHANGES = 24 };

static struct world world;

/* What the follower has made of the events of a server. */
static struct view {
	bool has[KEYS];
	char node[64];
	uint64_t epoch, last; /* the last event with a sequence */
} view[SERVERS];

static struct {
	unsigned server[SERVERS]; /* the number of the one that runs there now */
	uint64_t stored, removed, cleared, synced, away;
	bool calm, stop; /* no PUT and DELETE any more; no follower */
} now;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&world.prng, n);
}

static struct kvc_key key_of(const uint32_t *i)
{
	return (struct kvc_key){i, sizeof(*i)};
}

/* ---- the values ---- */

static void churn(struct kvc_client *c, void *arg)
{
	static uint8_t bytes[LONG];
	(void)arg;
	while (!now.calm && !world.wrong[0]) {
		uint32_t i = (uint32_t)some(KEYS);
		if (some(4))
			(void)kvc_put_await(c, key_of(&i), bytes, 1 + some(LONG), NULL);
		else
			(void)kvc_delete_await(c, key_of(&i), NULL);
		co_sleep_await(world_now(&world) + some(3 * MS));
	}
}

static bool exists(unsigned at, uint32_t i)
{
	const struct kvs_server *s = world.server[now.server[at]].server;
	bool found = false;
	for (unsigned k = 0; k < WORLD_SHARDS; k++)
		found |= store_find(&s->shard[k]->store, &i, sizeof(i), world_now(&world)) != NULL;
	return found;
}

/* ---- the follower ---- */

static void key_take(struct view *v, const struct kvc_event *e)
{
	uint32_t i = KEYS;
	if (e->key.len == sizeof(i))
		memcpy(&i, e->key.data, sizeof(i));
	if (i >= KEYS)
		world_wrong(&world, "events: an event of an unknown key");
	else
		v->has[i] = e->type == KVC_EVENT_STORED;
	if (e->sequence && e->epoch == v->epoch && e->sequence != v->last + 1)
		world_wrong(&world, "events: number %llu follows %llu", (unsigned long long)e->sequence,
			    (unsigned long long)v->last);
	if (e->sequence && e->epoch != v->epoch)
		world_wrong(&world, "events: a new epoch without notice");
}

static void take(const struct kvc_event *e)
{
	struct view *v = &view[e->server];
	switch (e->type) {
	case KVC_EVENT_STORED:
	case KVC_EVENT_REMOVED:
		key_take(v, e);
		now.stored += e->type == KVC_EVENT_STORED;
		now.removed += e->type == KVC_EVENT_REMOVED;
		break;
	case KVC_EVENT_CLEARED:
		memset(v->has, 0, sizeof(v->has));
		now.cleared++;
		break;
	default:
		now.synced += e->type == KVC_EVENT_SYNCED;
		now.away += e->type == KVC_EVENT_AWAY;
	}
	snprintf(v->node, sizeof(v->node), "%s", e->node);
	if (e->sequence) {
		v->epoch = e->epoch;
		v->last = e->sequence;
	}
}

/* Follow for a while, behind what was seen. */
static void follow_once(struct kvc_client *c, uint64_t until_ns)
{
	struct kvc_position since[SERVERS];
	struct kvc_events_options o = {.size = sizeof(o), .since = since};
	struct kvc_event e[BATCH];
	struct kvc_events *events;
	struct kv_error err;
	for (unsigned i = 0; i < SERVERS; i++)
		if (view[i].last)
			since[o.num_since++] = (struct kvc_position){view[i].node, view[i].epoch, view[i].last};
	if (kvc_events_open_await(c, &o, &events, &err) < 0) {
		world_wrong(&world, "events: %s", err.text);
		return;
	}
	while (world_now(&world) < until_ns && !now.stop && !world.wrong[0]) {
		int n = kvc_events_next_await(events, e, 1 + (unsigned)some(BATCH), 50 * MS);
		for (int i = 0; i < n; i++)
			take(&e[i]);
		if (n < 0)
			world_wrong(&world, "events: %s", kv_errname(n));
		if (some(100) == 0 && !now.calm)
			co_sleep_await(world_now(&world) + some(2 * SECOND));
	}
	(void)kvc_events_close_await(&events);
}

static void follow(struct kvc_client *c, void *arg)
{
	(void)arg;
	while (!now.stop && !world.wrong[0]) {
		follow_once(c, world_now(&world) + some(20 * SECOND));
		if (!now.calm)
			co_sleep_await(world_now(&world) + some(SECOND));
	}
}

/* ---- trouble ---- */

/* The log has moved on since the follower has read it. */
static void log_pass(unsigned at)
{
	world.server[now.server[at]].server->events.next += EVENTS_LOG + 1;
}

static void change_some(void)
{
	unsigned at = (unsigned)some(SERVERS);
	switch (some(4)) {
	case 0:
		world_server_freeze(&world, now.server[at], true);
		world_sleep(&world, some(3 * SECOND));
		world_server_freeze(&world, now.server[at], false);
		break;
	case 1:
		world_server_crash(&world, now.server[at], some(2));
		world_sleep(&world, some(3 * SECOND));
		now.server[at] = world_server_again(&world, now.server[at]);
		break;
	case 2:
		log_pass(at);
		break;
	}
	world_sleep(&world, some(SECOND));
}

static void run(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .servers = SERVERS,
				   .pools = 1,
				   .clients = 2,
				   .memory_bytes = 8 << 20,
				   .landing_bytes = 1 << 20,
				   .timeout_ns = SECOND,
				   .heartbeat_ms = 100,
				   .peer_timeout_ns = SECOND,
				   .events = true,
				   .fabric.delay_max_ns = MS};
	memset(&now, 0, sizeof(now));
	memset(view, 0, sizeof(view));
	now.server[1] = 1;
	world_open(&world, &wo);
	world_worker(&world, 0, 0, churn, NULL);
	world_worker(&world, 0, 1, follow, NULL);
	for (unsigned k = 0; k < CHANGES && !world.wrong[0]; k++)
		change_some();
	now.calm = true;
	world_sleep(&world, 20 * SECOND);
	for (unsigned at = 0; at < SERVERS; at++)
		for (uint32_t i = 0; i < KEYS; i++)
			if (exists(at, i) != view[at].has[i])
				world_wrong(&world, "events: server %u has%s key %u", at, exists(at, i) ? "" : " not",
					    i);
	now.stop = true;
	world_join(&world, 30 * SECOND);
	assert_true(now.stored > KEYS && now.removed > 0 && now.cleared >= SERVERS && now.synced >= SERVERS);
	world_close(&world);
}

static void a_follower_knows_what_exists(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(24); i++)
		run(3100 + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_follower_knows_what_exists)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
