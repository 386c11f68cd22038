/* SPDX-License-Identifier: Apache-2.0 */
/* life.c -- see life.h.
 *
 * One world in four has no trouble at all: every call must succeed. One in four has so little memory that servers
 * evict. In the others things break; the kinds of trouble are few in some worlds, so that each comes often, and many in
 * others. Values are small for the most part and few are large: what costs is bytes, and what is tested is what happens
 * between messages. */
#include "tests/sim/life.h"

#include "kvclient/pool/hosted.h"

#define PAUSE_AT_REST_NS (20 * SECOND) /* until everything is connected again and lost memory was reclaimed */

struct choice {
	enum life_kind kind;
	struct world_options wo;
	struct model_options mo;
	unsigned kinds; /* of trouble */
	uint64_t trouble_ns, seed;
};

static void choose_fabric(struct choice *ch, struct kv_prng *p)
{
	/* With trouble, slow ones: much is under way when something breaks. */
	static const uint64_t delay[] = {50 * US, 300 * US, MS, 4 * MS, 15 * MS};
	struct sim_fabric_options *f = &ch->wo.fabric;
	f->virt = kv_prng_below(p, 2);
	f->wait_fd = kv_prng_below(p, 2);
	f->eagain_percent = (unsigned)kv_prng_below(p, 3) * 15;
	f->tx_depth = 8u << kv_prng_below(p, 5);
	f->ordered = ch->wo.seed & 1; /* not drawn: the worlds of seeds stay what they were */
	f->close_max_ns = ch->wo.seed / 2 % 3 == 1 ? 3 * SECOND : 0;
	f->delay_max_ns = delay[kv_prng_below(p, ch->kind == LIFE_TROUBLED ? KV_COUNT(delay) : 2)];
}

/* Not drawn either: half of the worlds have clients on the servers' hosts. */
static void choose_local(struct world_options *wo)
{
	static const enum world_local local[] = {WORLD_REMOTE, WORLD_MIXED, WORLD_REMOTE,
						 WORLD_LOCAL,  WORLD_MIXED, WORLD_REMOTE};
	wo->local = local[wo->seed / 7 % KV_COUNT(local)];
	wo->pass = (struct sim_pass_options){.slow_percent = wo->seed / 11 % 3 * 5,
					     .refuse_percent = wo->seed / 13 % 4 * 10,
					     .break_percent = wo->seed / 17 % 3 * 5};
}

static void choose_world(struct choice *ch, struct kv_prng *p)
{
	static const uint32_t chunk[] = {0, 0, 65536, 4096 * 5, 1 << 18};
	struct world_options *wo = &ch->wo;
	choose_fabric(ch, p);
	choose_local(wo);
	wo->pools = 1 + (unsigned)kv_prng_below(p, 2);
	wo->clients = 1 + (unsigned)kv_prng_below(p, 3);
	wo->servers = 1 + (unsigned)kv_prng_below(p, 3);
	wo->rails = kv_prng_below(p, 3) ? 1 : 2;
	wo->chunk_bytes = chunk[kv_prng_below(p, KV_COUNT(chunk))];
	wo->credits = kv_prng_below(p, 2) ? 0 : 3 + (uint32_t)kv_prng_below(p, 30);
	wo->buffer_bytes = (uint64_t)1 << (21 + kv_prng_below(p, 5));
	wo->memory_bytes = ch->kind == LIFE_SMALL ? 3u << 20 << kv_prng_below(p, 3) : 256u << 20;
	wo->timeout_ns = ch->kind == LIFE_TROUBLED ? 3 * SECOND : 30 * SECOND;
	/* Not drawn either. Where nothing may fail, leases last. */
	wo->pull_pools = wo->seed / 2 % 3 ? 0 : 1 + (unsigned)(wo->seed / 6 % 2 && wo->pools > 1);
	wo->lease_ns = ch->kind == LIFE_TROUBLED ? 30 * MS << wo->seed / 12 % 6 : 10 * SECOND;
}

static void choose_model(struct choice *ch, struct kv_prng *p)
{
	struct model_options *mo = &ch->mo;
	mo->workers = 4 + (unsigned)kv_prng_below(p, 20);
	mo->calls = LIFE_CALLS / mo->workers + 1;
	mo->calls_min = LIFE_CALLS;
	mo->registered = kv_prng_below(p, 2);
	mo->mostly_small = true;
	mo->slab_bytes = 256 << 10;
	mo->len_max = kv_prng_below(p, 8) || ch->kind == LIFE_SMALL ? 1 << 20 : 18 << 20;
	mo->evicts = ch->kind == LIFE_SMALL;
	mo->trouble = ch->kind == LIFE_TROUBLED;
	mo->pause_ns = ch->kind == LIFE_TROUBLED ? 60 * MS : 0;
	mo->sessions = ch->wo.seed % 5 < 2 ? 1 + (unsigned)(ch->wo.seed / 5 % MODEL_SESSIONS) : 0; /* not drawn */
}

static void choose(uint64_t seed, enum life_kind kind, struct choice *ch)
{
	struct kv_prng p;
	unsigned pick;
	kv_prng_seed(&p, seed ^ 0x5eed);
	pick = (unsigned)kv_prng_below(&p, 4);
	*ch = (struct choice){.kind = pick == 0 ? LIFE_CALM : pick == 1 ? LIFE_SMALL : LIFE_TROUBLED};
	if (kind != LIFE_ANY)
		ch->kind = kind;
	ch->wo.seed = seed;
	choose_world(ch, &p);
	choose_model(ch, &p);
	ch->seed = kv_prng_next(&p);
	if (ch->kind != LIFE_TROUBLED)
		return;
	ch->trouble_ns = 3 * SECOND + kv_prng_below(&p, 12 * SECOND);
	do {
		ch->kinds = (unsigned)kv_prng_next(&p);
		if (kv_prng_below(&p, 2))
			ch->kinds &= (unsigned)kv_prng_next(&p) & (unsigned)kv_prng_next(&p);
		ch->kinds &= (1u << TROUBLES) - 1;
	} while (!ch->kinds);
}

static bool due_or_done(void *arg)
{
	const struct gremlin *g = arg;
	return g->due || g->w->workers == 0;
}

static void troubled(struct world *w, struct gremlin *g, struct model *m)
{
	gremlin_start(g);
	while (w->workers > 0) {
		world_run(w, due_or_done, g, 120 * SECOND, "workers have not returned");
		if (g->due)
			gremlin_act(g, m);
	}
	gremlin_relent(g);
	world_sleep(w, PAUSE_AT_REST_NS);
	gremlin_end(g);
}

/* ---- the report ---- */

static void report_local(struct world *w, struct life_report *r)
{
	struct sim_pass_stats p;
	if (w->options.local == WORLD_REMOTE)
		return;
	sim_pass_stats(&p);
	r->local_connects += p.connects;
	r->local_refused += p.refused;
	r->local_broken += p.broken;
}

static void report_clients(struct world *w, struct life_report *r)
{
	for (unsigned i = 0; i < w->options.pools; i++) {
		struct kvc_counters k;
		if (!world_pool_usable(w, i))
			continue;
		k = world_counters(w, i);
		r->retries += k.retries;
		r->cancels += k.cancels;
		r->fences += k.fences;
		r->reconnects += k.reconnects;
		r->reattaches += k.reattaches;
		r->stale_immediates += k.stale_immediates;
		r->local_gets += k.local_gets;
		r->local_puts += k.local_puts;
		r->local_refusals += k.local_refusals;
	}
	report_local(w, r);
	r->landings += w->landings;
	r->late_landings += w->late_landings;
}

static void report_fabric(struct life_report *r)
{
	struct sim_fabric_stats f;
	sim_fabric_stats(&f);
	r->messages += f.messages;
	r->writes += f.writes;
	r->reads += f.reads;
	r->late_pieces += f.late;
	r->eagain += f.eagain;
	r->failures += f.failures;
	r->dropped += f.dropped;
	r->rebuilds += f.rebuilds;
	r->slow_closes += f.slow_closes;
	r->mr_failures += f.mr_failures + f.landing_failures;
	r->duplicates += f.duplicates;
}

/* All clients here are honest: whatever the fabric does to their frames, none is taken for a stranger's, and no request
 * comes before the proof of its link. (A PING of a link that was out may arrive once the client uses its channel: then
 * the link stays out.) */
static void strangers_none(struct world *w)
{
	bool late = w->options.local != WORLD_REMOTE && w->options.rails > 1;
	static const enum wire_stat none[] = {WIRE_STAT_BAD_TAG, WIRE_STAT_UNPROVEN_REQUESTS, WIRE_STAT_BAD_PROOFS};
	for (unsigned i = 0; i < KV_COUNT(none); i++) {
		uint64_t n = world_server_stat(w, none[i]);
		if (n && !(late && none[i] == WIRE_STAT_UNPROVEN_REQUESTS))
			world_wrong(w, "%s is %llu, though there are no strangers", wire_stat_name(none[i]),
				    (unsigned long long)n);
	}
}

static void report(struct world *w, const struct choice *ch, const struct gremlin *g, const struct model *m,
		   struct life_report *r)
{
	const struct model_counts *c = model_counts(m);
	r->worlds[ch->kind]++;
	r->virtual_ns += world_now(w);
	r->calls += c->calls;
	r->bytes += c->bytes;
	r->misses += c->misses;
	r->failed += c->failed;
	r->timeouts += c->timeouts;
	r->downs += c->downs;
	r->closed += c->closed;
	r->sessions_opened += c->opened;
	r->sessions_refused += c->refused;
	report_clients(w, r);
	report_fabric(r);
	strangers_none(w);
	r->replayed_frames += world_server_stat(w, WIRE_STAT_REPLAYED_FRAMES);
	r->duplicate_requests += world_server_stat(w, WIRE_STAT_DUPLICATE_REQUESTS);
	r->evictions += world_server_stat(w, WIRE_STAT_EVICTIONS);
	r->server_cancels += world_server_stat(w, WIRE_STAT_CANCELS);
	r->expired_requests += world_server_stat(w, WIRE_STAT_EXPIRED_REQUESTS);
	r->server_fences += world_server_stat(w, WIRE_STAT_FENCES);
	for (unsigned i = 0; i < TROUBLES; i++)
		r->trouble[i] += g->done[i];
}

uint64_t life_run(struct world *w, uint64_t seed, enum life_kind kind, struct life_report *out)
{
	struct choice ch;
	struct gremlin g;
	struct model *m;
	uint64_t trace;
	choose(seed, kind, &ch);
	world_open(w, &ch.wo);
	gremlin_init(&g, w, ch.seed, ch.kinds, world_now(w) + ch.trouble_ns);
	ch.mo.until_ns = ch.kind == LIFE_TROUBLED ? g.until_ns : 0;
	m = model_create(w, &ch.mo);
	model_start(m);
	if (ch.kind == LIFE_TROUBLED)
		troubled(w, &g, m);
	else
		world_join(w, 600 * SECOND);
	model_check(m);
	report(w, &ch, &g, m, out);
	model_end(m);
	trace = world_close(w);
	model_destroy(&m);
	gremlin_free(&g);
	return trace;
}
