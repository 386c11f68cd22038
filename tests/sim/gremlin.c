/* SPDX-License-Identifier: Apache-2.0 */
/* gremlin.c -- see gremlin.h.
 *
 * It strikes at random moments, several things at once or none, and mostly takes back before what lasts. Pauses are
 * from a few milliseconds to some seconds: some trouble is over before anybody notices, some outlasts every timeout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "loop/loop.h"
#include "tests/sim/gremlin.h"

enum { MEM_BYTE = 0x5A };

static uint64_t some(struct gremlin *g, uint64_t n)
{
	return kv_prng_below(&g->prng, n);
}

static uint64_t some_fab(struct gremlin *g, uint64_t first, uint64_t end)
{
	return first + some(g, end - first);
}

/* One of the options' servers; g->server says which one is it now. */
static unsigned some_slot(struct gremlin *g)
{
	return (unsigned)some(g, g->w->options.servers);
}

static unsigned some_pool(struct gremlin *g)
{
	return (unsigned)some(g, g->w->options.pools);
}

const char *gremlin_name(enum trouble t)
{
	static const char *const name[TROUBLES] = {
		[TCP_RESET] = "connections reset",
		[TCP_CUT] = "connections cut",
		[SERVER_FREEZE] = "servers stopped",
		[SHARD_FREEZE] = "server threads stopped",
		[SERVER_UNPLUG] = "server endpoints unplugged",
		[CLIENT_UNPLUG] = "client endpoints unplugged",
		[SERVER_BREAK] = "server endpoints broken",
		[CLIENT_BREAK] = "client endpoints broken",
		[REBUILD_FAILS] = "rebuilds that fail",
		[OPS_FAIL] = "times of failing operations",
		[SLOW] = "times of a slow fabric",
		[SERVER_RESTART] = "servers killed or powerless",
		[TCP_SLOW] = "times of slow connections",
		[EAGAIN_BURSTS] = "times of EAGAIN",
		[DUPLICATES] = "times of duplicates",
		[REGISTER] = "memory registered",
		[POOL_ENDS] = "pools killed or closed",
	};
	return name[t];
}

void gremlin_init(struct gremlin *g, struct world *w, uint64_t seed, unsigned kinds, uint64_t until_ns)
{
	*g = (struct gremlin){.w = w,
			      .kinds = kinds,
			      .until_ns = until_ns,
			      .rest = *sim_fabric_options(),
			      .net_rest = *sim_world_net(w->sim)};
	kv_prng_seed(&g->prng, seed);
	for (unsigned i = 0; i < w->options.servers; i++)
		g->server[i] = i;
}

void gremlin_relent(struct gremlin *g)
{
	for (unsigned i = 0; i < g->w->options.servers; i++) {
		sim_port_cut(g->w->sim, g->w->server[g->server[i]].port, false);
		world_server_freeze(g->w, g->server[i], false);
	}
	for (uint64_t id = 1; id <= sim_fabric_last(); id++) {
		sim_fabric_unplug(id, false);
		sim_fabric_rebuild_fails(id, 0);
	}
	*sim_fabric_options() = g->rest;
	*sim_world_net(g->w->sim) = g->net_rest;
}

/* ---- inside the world ---- */

static void endpoint_trouble(struct gremlin *g, enum trouble t, const struct world_server *s,
			     const struct world_pool *p)
{
	bool server = t == SERVER_UNPLUG || t == SERVER_BREAK || (t == REBUILD_FAILS && some(g, 2));
	uint64_t id = server ? some_fab(g, s->fab_first, s->fab_end) : some_fab(g, p->fab_first, p->fab_end);
	if (t == SERVER_UNPLUG || t == CLIENT_UNPLUG) {
		sim_fabric_unplug(id, true);
		return;
	}
	if (t == REBUILD_FAILS)
		sim_fabric_rebuild_fails(id, 1 + (unsigned)some(g, 4));
	sim_fabric_break(id);
}

static void fabric_trouble(struct gremlin *g, enum trouble t)
{
	struct sim_fabric_options *f = sim_fabric_options();
	if (t == OPS_FAIL)
		f->fail_ppm = 1000u << some(g, 8);
	else if (t == SLOW)
		f->delay_max_ns = MS << some(g, 8);
	else if (t == EAGAIN_BURSTS)
		f->eagain_percent = 10 + (unsigned)some(g, 60);
	else
		f->dup_ppm = 1000u << some(g, 8);
}

static void do_trouble(struct gremlin *g, enum trouble t)
{
	struct world *w = g->w;
	unsigned server = g->server[some_slot(g)];
	const struct world_server *s = &w->server[server];
	switch (t) {
	case TCP_RESET:
		sim_port_kill(w->sim, s->port);
		break;
	case TCP_CUT:
		sim_port_cut(w->sim, s->port, true);
		break;
	case TCP_SLOW:
		sim_world_net(w->sim)->delay_max_ns = MS << some(g, 10);
		break;
	case SERVER_FREEZE:
		world_server_freeze(w, server, true);
		break;
	case SHARD_FREEZE:
		if (!s->crashed)
			sim_loop_freeze(s->loop[some(g, 1 + WORLD_SHARDS)], true);
		break;
	case SERVER_UNPLUG:
	case CLIENT_UNPLUG:
	case SERVER_BREAK:
	case CLIENT_BREAK:
	case REBUILD_FAILS:
		endpoint_trouble(g, t, s, &w->pool[some_pool(g)]);
		break;
	case OPS_FAIL:
	case SLOW:
	case EAGAIN_BURSTS:
	case DUPLICATES:
		fabric_trouble(g, t);
		break;
	case SERVER_RESTART:
	case REGISTER:
	case POOL_ENDS:
		g->due |= 1u << t;
		return; /* counted when it is done */
	case TROUBLES:
		break;
	}
	g->done[t]++;
}

static enum trouble some_trouble(struct gremlin *g)
{
	enum trouble t;
	do
		t = (enum trouble)some(g, TROUBLES);
	while (!(g->kinds >> t & 1));
	return t;
}

static void strike(void *arg)
{
	struct gremlin *g = arg;
	uint64_t now = world_now(g->w);
	if (some(g, 3) > 0)
		gremlin_relent(g);
	if (now >= g->until_ns) {
		gremlin_relent(g);
		return;
	}
	for (uint64_t n = some(g, 4); n > 0; n--)
		do_trouble(g, some_trouble(g));
	sim_world_at(g->w->sim, now + 1 + some(g, (5 * MS) << some(g, 10)), strike, g);
}

void gremlin_start(struct gremlin *g)
{
	strike(g);
}

/* ---- outside of it ---- */

static void server_restart(struct gremlin *g, struct model *m)
{
	unsigned slot = some_slot(g);
	if (g->w->num_servers == WORLD_SERVERS)
		return;
	world_server_crash(g->w, g->server[slot], some(g, 2));
	model_lost(m);
	world_sleep(g->w, some(g, 4 * SECOND));
	g->server[slot] = world_server_again(g->w, g->server[slot]);
	g->done[SERVER_RESTART]++;
}

/* Memory that no call uses: nobody may write to it. */
static int mem_drop(struct gremlin *g, struct gremlin_mem *m)
{
	int rc = world_pool_usable(g->w, m->pool) ? kvc_unregister(g->w->pool[m->pool].pool, &m->mem) : 0;
	for (unsigned i = 0; i < GREMLIN_MEM_BYTES; i++)
		if (m->base[i] != MEM_BYTE)
			world_wrong(g->w, "registered memory that no call has used was written to");
	if (rc < 0)
		return rc;
	if (world_pool_usable(g->w, m->pool)) {
		free(m->base);
		m->base = NULL;
	}
	m->mem = NULL;
	return 0;
}

static void mem_make(struct gremlin *g, struct gremlin_mem *m)
{
	uint64_t failures;
	struct sim_fabric_stats stats;
	int rc;
	m->pool = some_pool(g);
	if (!world_pool_usable(g->w, m->pool))
		return;
	m->base = aligned_alloc(4096, GREMLIN_MEM_BYTES);
	assert_non_null(m->base);
	memset(m->base, MEM_BYTE, GREMLIN_MEM_BYTES);
	sim_fabric_stats(&stats);
	failures = stats.mr_failures;
	sim_fabric_mr_fails((unsigned)some(g, 4));
	rc = world_register(g->w, m->pool, m->base, GREMLIN_MEM_BYTES, &m->mem);
	sim_fabric_mr_fails(UINT32_MAX);
	sim_fabric_stats(&stats);
	if (rc == 0 && stats.mr_failures != failures)
		world_wrong(g->w, "memory was registered although the fabric refused");
	if (rc == 0)
		return;
	free(m->base);
	m->base = NULL;
}

static void registration(struct gremlin *g)
{
	struct gremlin_mem *m = &g->mem[some(g, GREMLIN_MEMS)];
	g->done[REGISTER]++;
	if (m->mem)
		mem_drop(g, m);
	else if (!m->base)
		mem_make(g, m);
}

static void pool_end(struct gremlin *g)
{
	if (g->w->options.pools < 2 || !world_pool_usable(g->w, 1))
		return;
	g->done[POOL_ENDS]++;
	if (some(g, 2))
		world_pool_crash(g->w, 1);
	else
		world_pool_stop(g->w, 1);
}

void gremlin_act(struct gremlin *g, struct model *m)
{
	unsigned due = g->due;
	g->due = 0;
	if (due >> SERVER_RESTART & 1)
		server_restart(g, m);
	if (due >> REGISTER & 1)
		registration(g);
	/* Once, and not right at the beginning of every world. */
	if ((due >> POOL_ENDS & 1) && some(g, 3) == 0)
		pool_end(g);
}

void gremlin_end(struct gremlin *g)
{
	gremlin_relent(g);
	for (unsigned i = 0; i < GREMLIN_MEMS; i++) {
		struct gremlin_mem *m = &g->mem[i];
		int rc = m->mem ? mem_drop(g, m) : 0;
		if (rc < 0)
			world_wrong(g->w, "unregistering memory at rest: %s", kv_errname(rc));
	}
}

void gremlin_free(struct gremlin *g)
{
	for (unsigned i = 0; i < GREMLIN_MEMS; i++)
		free(g->mem[i].base);
}
