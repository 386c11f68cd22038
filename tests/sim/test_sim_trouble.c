/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_trouble.c -- the whole stack while things break: connections, endpoints, single operations, whole servers and clients.
 *
 * What must hold whatever breaks: no wrong byte, no call that outlives its deadline and grace, no memory touched after its call, and, once the trouble is over, everything
 * works again by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/model.h"

static struct world world;

/* ---- a gremlin ---- */

enum trouble {
	TCP_RESET,
	TCP_CUT,
	SERVER_FREEZE,
	SHARD_FREEZE,
	SERVER_UNPLUG,
	CLIENT_UNPLUG,
	SERVER_BREAK,
	CLIENT_BREAK,
	REBUILD_FAILS,
	OPS_FAIL,
	SLOW,
	SERVER_RESTART,
	TROUBLES
};

struct gremlin {
	struct kv_prng prng;
	unsigned kinds; /* bit mask of enum trouble */
	uint64_t until_ns;
	uint64_t delay_max_ns; /* of the fabric at rest */
	unsigned server[2]; /* those that are alive */
	uint64_t done[TROUBLES];
	bool restart;       /* asked for; done outside of the world's events */
};

static struct gremlin gremlin;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&gremlin.prng, n);
}

static uint64_t some_fab(uint64_t first, uint64_t end)
{
	return first + some(end - first);
}

/* A server that is alive: which of the options' servers. */
static unsigned some_slot(void)
{
	return (unsigned)some(world.options.servers);
}

static const struct world_pool *some_pool(void)
{
	return &world.pool[some(world.options.pools)];
}

/* Everything that lasts is over. */
static void relent(void)
{
	struct sim_fabric_options *f = sim_fabric_options();
	for (unsigned i = 0; i < world.options.servers; i++) {
		sim_port_cut(world.sim, world.server[gremlin.server[i]].port, false);
		world_server_freeze(&world, gremlin.server[i], false);
	}
	for (uint64_t id = 1; id <= sim_fabric_last(); id++) {
		sim_fabric_unplug(id, false);
		sim_fabric_rebuild_fails(id, 0);
	}
	f->fail_ppm = 0;
	f->delay_max_ns = gremlin.delay_max_ns;
}

static void do_trouble(enum trouble t)
{
	unsigned server = gremlin.server[some_slot()];
	const struct world_server *s = &world.server[server];
	const struct world_pool *p = some_pool();
	switch (t) {
	case TCP_RESET:
		sim_port_kill(world.sim, s->port);
		break;
	case TCP_CUT:
		sim_port_cut(world.sim, s->port, true);
		break;
	case SERVER_FREEZE:
		world_server_freeze(&world, server, true);
		break;
	case SHARD_FREEZE:
		sim_loop_freeze(s->loop[some(1 + WORLD_SHARDS)], true);
		break;
	case SERVER_UNPLUG:
		sim_fabric_unplug(some_fab(s->fab_first, s->fab_end), true);
		break;
	case CLIENT_UNPLUG:
		sim_fabric_unplug(some_fab(p->fab_first, p->fab_end), true);
		break;
	case SERVER_BREAK:
		sim_fabric_break(some_fab(s->fab_first, s->fab_end));
		break;
	case CLIENT_BREAK:
		sim_fabric_break(some_fab(p->fab_first, p->fab_end));
		break;
	case REBUILD_FAILS: {
		uint64_t id = some(2) ? some_fab(p->fab_first, p->fab_end) : some_fab(s->fab_first, s->fab_end);
		sim_fabric_rebuild_fails(id, 1 + (unsigned)some(4));
		sim_fabric_break(id);
		break;
	}
	case OPS_FAIL:
		sim_fabric_options()->fail_ppm = 1000 << some(8);
		break;
	case SLOW:
		sim_fabric_options()->delay_max_ns = MS << some(8);
		break;
	case SERVER_RESTART:
		gremlin.restart = true;
		break;
	case TROUBLES:
		break;
	}
	gremlin.done[t]++;
}

static enum trouble some_trouble(void)
{
	enum trouble t;
	do
		t = (enum trouble)some(TROUBLES);
	while (!(gremlin.kinds >> t & 1));
	return t;
}

/* Some things at once, one after another, with pauses. Some are short, some outlast every timeout. */
static void strike(void *arg)
{
	uint64_t now = world_now(&world);
	(void)arg;
	if (some(3) > 0)
		relent();
	if (now >= gremlin.until_ns) {
		relent();
		return;
	}
	for (uint64_t n = some(4); n > 0; n--)
		do_trouble(some_trouble());
	sim_world_at(world.sim, now + 1 + some((5 * MS) << some(10)), strike, NULL);
}

static bool restart_or_done(void *arg)
{
	(void)arg;
	return gremlin.restart || world.workers == 0;
}

static void restart(struct model *m)
{
	unsigned slot = some_slot();
	gremlin.restart = false;
	if (world.num_servers == WORLD_SERVERS)
		return;
	world_server_crash(&world, gremlin.server[slot], some(2));
	model_lost(m);
	world_sleep(&world, some(4 * SECOND));
	gremlin.server[slot] = world_server_again(&world, gremlin.server[slot]);
}

static void choose(uint64_t seed, struct world_options *wo, struct model_options *mo)
{
	/* Slow ones, so that much is under way when something breaks. */
	static const uint64_t delay[] = {50 * US, MS, 4 * MS, 15 * MS};
	struct kv_prng p;
	kv_prng_seed(&p, seed ^ 0xbadbad);
	*wo = (struct world_options){.seed = seed, .pools = 1 + (unsigned)kv_prng_below(&p, 2), .clients = 1 + (unsigned)kv_prng_below(&p, 2)};
	wo->fabric.virt = kv_prng_below(&p, 2);
	wo->fabric.wait_fd = kv_prng_below(&p, 2);
	wo->fabric.eagain_percent = (unsigned)kv_prng_below(&p, 2) * 10;
	wo->fabric.delay_max_ns = gremlin.delay_max_ns = delay[kv_prng_below(&p, KV_COUNT(delay))];
	wo->chunk_bytes = 64 << 10;
	wo->rails = kv_prng_below(&p, 3) ? 1 : 2;
	wo->servers = 1 + (unsigned)kv_prng_below(&p, 2);
	wo->buffer_bytes = kv_prng_below(&p, 2) ? 64 << 20 : 8 << 20;
	wo->memory_bytes = 256 << 20;
	wo->timeout_ns = 3 * SECOND;
	*mo = (struct model_options){.registered = kv_prng_below(&p, 2), .trouble = true, .workers = 4 + (unsigned)kv_prng_below(&p, 12), .len_max = 2 << 20};
	kv_prng_seed(&gremlin.prng, kv_prng_next(&p));
	do
		gremlin.kinds = (unsigned)kv_prng_next(&p) & (unsigned)kv_prng_next(&p) & ((1u << TROUBLES) - 1);
	while (!gremlin.kinds);
	gremlin.server[0] = 0;
	gremlin.server[1] = 1;
	gremlin.restart = false;
	memset(gremlin.done, 0, sizeof(gremlin.done));
}

static void print_stats(uint64_t seed, const struct model *m)
{
	const struct model_counts *c = model_counts(m);
	struct kvc_counters k = world_counters(&world, 0);
	struct sim_fabric_stats f;
	sim_fabric_stats(&f);
	fprintf(stderr, "seed %llu: kinds %03x, %.1f s; calls %llu failed %llu timeouts %llu down %llu", (unsigned long long)seed,
		gremlin.kinds, (double)world_now(&world) / 1e9, (unsigned long long)c->calls, (unsigned long long)c->failed,
		(unsigned long long)c->timeouts, (unsigned long long)c->downs);
	fprintf(stderr, "; pool 0: retries %llu fences %llu reconnects %llu cancels %llu stale %llu corrupt %llu", (unsigned long long)k.retries,
		(unsigned long long)k.fences, (unsigned long long)k.reconnects, (unsigned long long)k.cancels,
		(unsigned long long)k.stale_immediates, (unsigned long long)k.corrupt);
	fprintf(stderr, "; fabric: late %llu bad keys %llu rebuilds %llu failures %llu dropped %llu\n", (unsigned long long)f.late,
		(unsigned long long)f.bad_keys, (unsigned long long)f.rebuilds, (unsigned long long)f.failures, (unsigned long long)f.dropped);
}

static uint64_t trouble(uint64_t seed)
{
	struct world_options wo;
	struct model_options mo;
	struct model *m;
	choose(seed, &wo, &mo);
	world_open(&world, &wo);
	gremlin.until_ns = mo.until_ns = world_now(&world) + 20 * SECOND;
	m = model_create(&world, &mo);
	model_start(m);
	strike(NULL);
	while (world.workers > 0) {
		world_run(&world, restart_or_done, NULL, 120 * SECOND, "workers have not returned");
		if (gremlin.restart)
			restart(m);
	}
	relent();
	world_sleep(&world, 15 * SECOND);
	model_check(m);
	if (getenv("KVRAIL_SIM_STATS"))
		print_stats(seed, m);
	model_destroy(&m);
	return world_close(&world);
}

static const uint64_t seeds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

static void test_trouble_never_shows_wrong_bytes_nor_late_calls(void **state)
{
	(void)state;
	for (unsigned i = 0; i < world_seeds(KV_COUNT(seeds)); i++)
		trouble(seeds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trouble_never_shows_wrong_bytes_nor_late_calls),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
