/* SPDX-License-Identifier: Apache-2.0 */
/* world.c -- see world.h.
 *
 * A crashed server or pool is a corpse: its loops are frozen, its endpoints are void, its connections are reset. It
 * cannot be freed as it lies, since its coroutines hold memory; so world_close thaws it into a world in which nobody
 * hears it, and lets it shut itself down as if it had been stopped. That exercises closing, too.
 *
 * kvc_register and its like block their thread on a futex until a job on a client's loop has run. Here that thread is
 * the one that turns the loops, so a futex that is waited for turns the world until its value has changed: this file
 * has a `syscall` of its own, which the library's call finds first. (Rejected: a second thread. When it posts its jobs
 * is not for the seed to say, and no run was like another.)
 *
 * What must never be, and where it is looked for:
 *
 * - A wrong byte: model.c, at each GET; stat_check: no checksum was wrong anywhere.
 *
 * - A write into memory that was given back: landing.c, each piece of each write before it lands, belongs to a request
 *   that is out, or to quarantine; model.c, canaries in registered memory, and borrowed pieces.
 *
 * - A slot or block reused under an unresolved operation: fabric_sim.c, posting_check and local_check (operations'
 *   bytes, contexts and regions).
 *
 * - A call that does not end by deadline + grace: model.c, timed_end; world_run and world_join: nothing hangs.
 *
 * - An operation that completes twice or never: fabric_sim.c (contexts), world_rest_check (requests), stat_check
 * (blocks in quarantine).
 *
 * - Memory beyond its bounds: step_check, after every step: buffer, quarantine, immediates, servers' memory.
 *
 * - Something left at the end: world_rest_check, stat_check, world_close; AddressSanitizer for the heap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/world.h"

#include "tests/sim/recall.h"
#include "tests/sim/resolve_sim.h"
#include "tests/sim/tier_sim.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "kvclient/core/client.h"
#include "kvclient/pool/hosted.h"
#include "kvclient/request/private.h"
#include "kvserver/ops/work.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "kvserver/shard/stat.h"
#include "loop/loop.h"

#define OPEN_NS  (20 * SECOND)
#define CLOSE_NS (60 * SECOND)
#define BLOCK_NS (60 * SECOND)

enum { LATE_PORT = 50000 };

#define WORLD_MEMORY (128ull << 20) /* of a server, if nothing is said */

enum world_local world_local;

static _Thread_local struct world *turned; /* by this thread */

/* ---- what was logged, for failures ---- */

enum { LOG_LINES = 40 };

static struct {
	struct world *world;
	char line[LOG_LINES][480];
	unsigned next;
	bool loud;
} said;

static void log_line(void *arg, enum kv_log_level level, const char *line)
{
	uint64_t now = said.world && said.world->sim ? sim_world_now(said.world->sim) : 0;
	(void)arg;
	snprintf(said.line[said.next++ % LOG_LINES], sizeof(said.line[0]), "%13.6f %s %s", (double)now / 1e9,
		 kv_log_level_name(level), line);
	if (said.loud)
		fprintf(stderr, "%s\n", said.line[(said.next - 1) % LOG_LINES]);
}

static void log_pool(void *arg, int level, const char *line)
{
	log_line(arg, (enum kv_log_level)level, line);
}

static const struct kv_log world_log = {.level = KV_LOG_INFO, .write = log_line};

static void log_print(void)
{
	for (unsigned i = 0; i < LOG_LINES && !said.loud; i++) {
		const char *line = said.line[(said.next + i) % LOG_LINES];
		if (line[0])
			fprintf(stderr, "   %s\n", line);
	}
}

const char *world_said(const char *text)
{
	for (unsigned i = 1; i <= LOG_LINES; i++) {
		const char *line = said.line[(said.next + LOG_LINES - i) % LOG_LINES];
		if (strstr(line, text))
			return line;
	}
	return NULL;
}

static void world_fail(struct world *w, const char *text)
{
	log_print();
	fail_msg("seed 0x%llx, at %.6f s: %s", (unsigned long long)w->options.seed, (double)world_now(w) / 1e9, text);
}

/* A rule of the product is broken (base/assert.h). The stacks of coroutines cannot be left, so the program ends. */
static _Noreturn void rule_broken(const char *rule, const char *file, int line)
{
	log_print();
	fprintf(stderr, "seed 0x%llx, at %.6f s: %s:%d: broken: %s\n", (unsigned long long)turned->options.seed,
		(double)world_now(turned) / 1e9, file, line, rule);
	abort();
}

void world_wrong(struct world *w, const char *fmt, ...)
{
	va_list args;
	if (w->wrong[0])
		return;
	va_start(args, fmt);
	vsnprintf(w->wrong, sizeof(w->wrong), fmt, args);
	va_end(args);
}

uint64_t world_now(const struct world *w)
{
	return sim_world_now(w->sim);
}

/* ---- running ---- */

struct until {
	struct world *w;
	bool (*done)(void *arg);
	void *arg;
};

static void client_step_check(struct world *w, const struct kvc_client *c)
{
	const struct kc_buffer *b = &c->buffer;
	if (c->requests->room.imm_used > c->requests->room.imm_limit || c->reqs.used > c->reqs.count)
		world_wrong(w, "client %u has %u of %u immediates and %u of %u requests out", c->index,
			    c->requests->room.imm_used, c->requests->room.imm_limit, c->reqs.used, c->reqs.count);
	/* One that is being closed does not fence: its endpoints are closed next. */
	if ((b->quarantined_bytes + c->requests->unsafe.orphan_bytes > b->len_bytes / 4 && !c->closing) ||
	    b->free_bytes + b->quarantined_bytes + b->limbo_bytes + c->requests->unsafe.orphan_bytes > b->len_bytes)
		world_wrong(w,
			    "client %u, buffer of %llu bytes: %llu free, "
			    "%llu in quarantine, %llu in limbo, %llu of orphans",
			    c->index, (unsigned long long)b->len_bytes, (unsigned long long)b->free_bytes,
			    (unsigned long long)b->quarantined_bytes, (unsigned long long)b->limbo_bytes,
			    (unsigned long long)c->requests->unsafe.orphan_bytes);
}

static void server_step_check(struct world *w, const struct kvs_server *server)
{
	uint64_t limit = w->options.memory_bytes ? w->options.memory_bytes : WORLD_MEMORY, used = 0;
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		used += server->shard[i] ? server->shard[i]->store.arena.used : 0;
	if (used > limit)
		world_wrong(w, "a server limited to %llu bytes uses %llu", (unsigned long long)limit,
			    (unsigned long long)used);
}

/* What must hold between any two steps. */
static void step_check(struct world *w)
{
	for (unsigned i = 0; i < w->options.pools; i++)
		for (unsigned j = 0; w->pool[i].pool && j < w->options.clients; j++)
			if (w->pool[i].pool->client[j]->opened)
				client_step_check(w, w->pool[i].pool->client[j]);
	for (unsigned i = 0; i < w->num_servers; i++)
		if (w->server[i].server)
			server_step_check(w, w->server[i].server);
}

static bool done_or_wrong(void *arg)
{
	struct until *u = arg;
	step_check(u->w);
	return u->w->wrong[0] || (u->done && u->done(u->arg));
}

void world_run(struct world *w, bool (*done)(void *arg), void *arg, uint64_t within_ns, const char *what)
{
	struct until u = {w, done, arg};
	bool ok = sim_run(w->sim, w->loops, w->num_loops, done_or_wrong, &u, world_now(w) + within_ns);
	char text[600];
	if (w->wrong[0])
		world_fail(w, w->wrong);
	snprintf(text, sizeof(text), "a hang: %s within %.3f s", what, (double)within_ns / 1e9);
	if (!ok)
		world_fail(w, text);
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static bool is_true(void *arg)
{
	return *(bool *)arg;
}

void world_sleep(struct world *w, uint64_t ns)
{
	bool over = false;
	sim_world_at(w->sim, world_now(w) + ns, set_true, &over);
	world_run(w, is_true, &over, ns, "a pause did not end");
}

struct worker {
	struct world *w;
	unsigned pool;
	struct kvc_client *client;
	void (*fn)(struct kvc_client *client, void *arg);
	void *arg;
};

static void worker_main(void *arg)
{
	struct worker k = *(struct worker *)arg;
	free(arg);
	k.fn(k.client, k.arg);
	k.w->pool[k.pool].workers--;
	k.w->workers--;
}

void world_worker(struct world *w, unsigned pool, unsigned client, void (*fn)(struct kvc_client *client, void *arg),
		  void *arg)
{
	struct kvc_pool *p = w->pool[pool].pool;
	struct worker *k = malloc(sizeof(*k));
	assert_non_null(k);
	*k = (struct worker){w, pool, kc_pool_client(p, client), fn, arg};
	assert_int_equal(co_spawn(kc_pool_client_loop(p, client), worker_main, k, "worker"), 0);
	w->pool[pool].workers++;
	w->workers++;
}

static bool no_workers(void *arg)
{
	return ((struct world *)arg)->workers == 0;
}

void world_join(struct world *w, uint64_t within_ns)
{
	char text[80];
	struct until u = {w, no_workers, w};
	bool ok = sim_run(w->sim, w->loops, w->num_loops, done_or_wrong, &u, world_now(w) + within_ns);
	if (w->wrong[0])
		world_fail(w, w->wrong);
	snprintf(text, sizeof(text), "a hang: %u workers have not returned within %.3f s", w->workers,
		 (double)within_ns / 1e9);
	if (!ok)
		world_fail(w, text);
}

void world_do(struct world *w, unsigned pool, void (*fn)(struct kvc_client *client, void *arg), void *arg)
{
	world_worker(w, pool, 0, fn, arg);
	world_join(w, 60 * SECOND);
}

static void fabric_wrong(void *arg, const char *text)
{
	world_wrong(arg, "%s", text);
}

/* ---- opening ---- */

struct loop *world_loop(struct world *w, const char *name, unsigned coroutines_max)
{
	struct loop_options o = {.name = name,
				 .log = &world_log,
				 .entropy = sim_world_entropy(w->sim),
				 .seed = w->options.seed * 64 + w->num_loops + 1,
				 .coroutines_max = coroutines_max};
	struct kv_error err;
	assert_true(w->num_loops < WORLD_LOOPS);
	if (loop_create(&o, &w->loops[w->num_loops], &err) < 0)
		world_fail(w, err.text);
	return w->loops[w->num_loops++];
}

static struct loop *loop_add(struct world *w, const char *name)
{
	return world_loop(w, name, w->options.servers > 8 ? 2048 : 0); /* address space for many loops */
}

static bool server_decided(void *arg)
{
	enum kvs_state state = kvs_server_state(arg, NULL);
	return state == KVS_RUNNING || state == KVS_STOPPED;
}

/* In a mixed world one server in four offers its memory to nobody. */
static bool server_offers(const struct world *w, unsigned as)
{
	return w->options.local == WORLD_LOCAL ||
	       (w->options.local == WORLD_MIXED && (w->options.seed / 8 + as) % 4 != 3);
}

/* In a mixed world one client in three is elsewhere. */
static bool client_remote(void *arg, const struct loop *loop)
{
	const struct world *w = arg;
	for (unsigned i = 0; w->options.local == WORLD_MIXED && i < w->options.pools; i++)
		for (unsigned j = 0; j < w->options.clients; j++)
			if (w->pool[i].loop[j] == loop)
				return (w->options.seed / 32 + i + j) % 3 == 2;
	return false;
}

/* as: the place of it among the options' servers, by which keys are placed, too. */
static unsigned server_open(struct world *w, uint16_t port, unsigned as)
{
	const struct world_options *wo = &w->options;
	struct world_server *s = &w->server[w->num_servers];
	char address[32], node[32];
	struct kvs_options o = {.listen_addr = address,
				.node_id = wo->unnamed ? NULL : node,
				.cluster = as < KV_COUNT(wo->cluster) ? wo->cluster[as] : NULL,
				.provider = "sim",
				.shards = WORLD_SHARDS,
				.rails = wo->server_rails ? wo->server_rails : wo->rails,
				.memory_bytes = wo->memory_bytes ? wo->memory_bytes : WORLD_MEMORY,
				.landing_bytes = wo->landing_bytes,
				.value_max = wo->value_max,
				.chunk_bytes = wo->chunk_bytes,
				.credits = wo->credits,
				.insecure = true,
				.allow_pull = wo->pull_pools > 0,
				.arena_private = wo->local == WORLD_REMOTE,
				.local_off = !server_offers(w, as),
				.lease_ns = wo->lease_ns,
				.events = wo->events,
				.on_drain = wo->on_drain,
				.recall = wo->recall ? recall_ask : NULL,
				.recall_arg = s,
				.heartbeat_ms = wo->heartbeat_ms,
				.max_clients = wo->max_clients,
				.log = &world_log,
				.clock = sim_world_clock(w->sim),
				.entropy = sim_world_entropy(w->sim),
				.loops = s->loop};
	struct kv_error err;
	assert_true(w->num_servers < WORLD_SERVERS);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	snprintf(node, sizeof(node), "node-%u", as);
	s->as = as;
	if (wo->tier_folder) {
		snprintf(s->tier, sizeof(s->tier), "%s/%u.img:%llu", wo->tier_folder, as,
			 (unsigned long long)wo->tier_bytes);
		o.tier = (struct kv_opt_strings){.item = {s->tier}, .count = 1};
		o.tier_segment = 1 << 20;
		o.members = true;
	}
	for (unsigned i = 0; i < KV_COUNT(s->loop); i++)
		s->loop[i] = loop_add(w, i == 0 ? "control" : "shard");
	s->fab_first = sim_fabric_last() + 1;
	if (kvs_server_create(&o, &s->server, &err) < 0 || kvs_server_start(s->server, &err) < 0)
		world_fail(w, err.text);
	s->fab_end = sim_fabric_last() + 1;
	world_run(w, server_decided, s->server, OPEN_NS, "the server did not start");
	if (kvs_server_state(s->server, &err) != KVS_RUNNING)
		world_fail(w, err.text);
	s->port = kvs_server_port(s->server);
	return w->num_servers++;
}

static bool pool_decided(void *arg)
{
	return kc_pool_status(arg, NULL) != 1;
}

static void pool_open(struct world *w, struct world_pool *p)
{
	const struct world_options *wo = &w->options;
	char name[WORLD_SERVERS][64];
	const char *servers[WORLD_SERVERS];
	struct kvc_options o = {.size = sizeof(o),
				.num_clients = wo->clients,
				.num_rails = wo->rails,
				.buffer_bytes = wo->buffer_bytes ? wo->buffer_bytes : 16u << 20,
				.servers = servers + wo->listed_from,
				.num_servers = wo->listed ? wo->listed : wo->servers,
				.servers_max = wo->servers_max,
				.provider = "sim",
				.timeout_ns = wo->timeout_ns,
				.grace_ns = wo->grace_ns,
				.connect_timeout_ns = wo->connect_timeout_ns,
				.peer_timeout_ns = wo->peer_timeout_ns,
				.settle_ns = wo->settle_ns,
				.repair_bytes_s = wo->repair_bytes_s,
				.flags = wo->pool_flags | (wo->open_behind ? 0 : KVC_OPEN_WAIT),
				.slow_ns = wo->slow_ns,
				.namespace_name = wo->namespace_name,
				.pin_lost = wo->pin_lost,
				.mode = p < &w->pool[wo->pull_pools] ? KVC_MODE_PULL : KVC_MODE_AUTO,
				.log_level = 3,
				.log = log_pool};
	struct kv_error err;
	for (unsigned i = 0; i < wo->servers; i++) {
		char id[24];
		snprintf(id, sizeof(id), "node-%u=", i);
		snprintf(name[i], sizeof(name[i]), "%s%s:%u", wo->unnamed || wo->seeds ? "" : id,
			 wo->host[i] ? wo->host[i] : "127.0.0.1", w->server[i].port);
		servers[i] = name[i];
	}
	for (unsigned i = 0; i < wo->clients; i++)
		p->loop[i] = loop_add(w, "client");
	p->fab_first = sim_fabric_last() + 1;
	if (kc_pool_start(&o, p->loop, wo->clients, sim_world_clock(w->sim), &p->pool, &err) < 0)
		world_fail(w, err.text);
	world_run(w, pool_decided, p->pool, OPEN_NS, "the pool did not open");
	p->fab_end = sim_fabric_last() + 1;
	if (kc_pool_status(p->pool, &err) != 0)
		world_fail(w, err.text);
}

void world_server_late(struct world *w)
{
	uint16_t port = w->server[w->num_servers].port;
	server_open(w, port, w->num_servers);
}

unsigned world_pool_open(struct world *w)
{
	unsigned i = w->options.pools++;
	assert_true(i < WORLD_POOLS);
	pool_open(w, &w->pool[i]);
	return i;
}

void world_open(struct world *w, const struct world_options *options)
{
	memset(w, 0, sizeof(*w));
	memset(&said, 0, sizeof(said));
	said.world = turned = w;
	kv_rule_broken = rule_broken;
	said.loud = getenv("KVRAIL_SIM_LOG") != NULL;
	w->options = *options;
	w->options.servers = options->servers ? options->servers : 1;
	w->options.pools = options->pools ? options->pools : 1;
	w->options.clients = options->clients ? options->clients : 2;
	assert_true(w->options.pools <= WORLD_POOLS && w->options.clients <= WORLD_CLIENTS);
	kv_prng_seed(&w->prng, options->seed ^ 0x7e57);
	w->sim = sim_world_create(options->seed);
	tier_sim_begin(w->sim, options->seed, options->tier_fail_ppm);
	w->options.fabric.peer_fence = options->fence == WORLD_FENCE_ONE ||
				       (options->fence == WORLD_FENCE_BY_SEED && (options->seed >> 2 & 1));
	sim_fabric_init(w->sim, &w->options.fabric);
	sim_fabric_watch(&(struct sim_fabric_watch){fabric_wrong, world_landing, world_mark, w});
	w->options.pass.remote = client_remote;
	w->options.pass.arg = w;
	w->options.local = options->local ? options->local : world_local;
	if (w->options.local != WORLD_REMOTE)
		sim_pass_init(w->sim, &w->options.pass);
	for (unsigned i = 0; i < w->options.servers; i++) {
		if (options->late)
			w->server[i] = (struct world_server){.port = (uint16_t)(LATE_PORT + i), .as = i};
		else
			server_open(w, 0, i);
	}
	for (unsigned i = 0; i < w->options.pools; i++)
		pool_open(w, &w->pool[i]);
}

/* ---- closing ---- */

static bool pool_stopped(void *arg)
{
	return kc_pool_stopped(arg);
}

static void pool_close(struct world *w, struct world_pool *p)
{
	for (unsigned i = 0; i < w->options.clients; i++)
		sim_loop_freeze(p->loop[i], false);
	if (p->crashed)
		w->workers += p->workers;
	kc_pool_stop(p->pool);
	world_run(w, pool_stopped, p->pool, CLOSE_NS, "the pool did not close");
	/* A worker may have its coroutine's last turn still to come. */
	world_join(w, SECOND);
	kc_pool_free(&p->pool);
}

static bool server_stopped(void *arg)
{
	return kvs_server_state(arg, NULL) == KVS_STOPPED;
}

static void server_close(struct world *w, struct world_server *s)
{
	for (unsigned i = 0; i < KV_COUNT(s->loop); i++)
		sim_loop_freeze(s->loop[i], false);
	kvs_server_stop(s->server, 100 * MS);
	world_run(w, server_stopped, s->server, CLOSE_NS, "the server did not stop");
	kvs_server_destroy(&s->server);
}

static void loops_close(struct world *w)
{
	char text[80];
	for (unsigned i = 0; i < w->num_loops; i++) {
		struct loop_stats stats;
		loop_stats(w->loops[i], &stats);
		snprintf(text, sizeof(text), "%llu coroutines are left on loop %u",
			 (unsigned long long)stats.coroutines, i);
		if (stats.coroutines)
			world_fail(w, text);
		loop_destroy(&w->loops[i]);
	}
	w->num_loops = 0;
}

uint64_t world_close(struct world *w)
{
	struct sim_fabric_stats stats;
	uint64_t trace = sim_world_trace(w->sim);
	for (unsigned i = 0; i < w->options.pools; i++)
		if (w->pool[i].pool)
			pool_close(w, &w->pool[i]);
	world_join(w, SECOND); /* those of a pool that was killed return only now */
	for (unsigned i = 0; i < w->num_servers; i++)
		if (w->server[i].server)
			server_close(w, &w->server[i]);
	loops_close(w);
	sim_fabric_stats(&stats);
	if (stats.overruns)
		world_fail(w, "a completion queue had more events than it has room for");
	if (sim_fabric_fini() != 0)
		world_fail(w, "endpoints or regions were left open");
	trace ^= sim_world_trace(w->sim);
	sim_pass_fini();
	sim_world_destroy(&w->sim);
	sim_names_forget();
	said.world = turned = NULL;
	return trace;
}

/* ---- at rest ---- */

unsigned world_leases(const struct world *w)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < w->num_servers; i++)
		for (unsigned j = 0; w->server[i].server && !w->server[i].crashed && j < WORLD_SHARDS; j++)
			sum += w->server[i].server->shard[j] ? w->server[i].server->shard[j]->work->leases.locals : 0;
	return sum;
}

static void rest_check(struct world *w, const struct kvc_client *c)
{
	const struct kc_buffer *b = &c->buffer;
	if (c->reqs.used || c->requests->room.imm_used || c->requests->unsafe.orphan_bytes || c->calls ||
	    !kv_list_empty(&c->requests->room.starving) || !kv_list_empty(&c->requests->room.behind) ||
	    c->requests->room.background.reqs || c->requests->room.background.bytes ||
	    c->requests->room.background.imms)
		world_wrong(w, "client %u at rest has %u requests, %u immediates, %llu bytes of orphans, %u calls",
			    c->index, c->reqs.used, c->requests->room.imm_used,
			    (unsigned long long)c->requests->unsafe.orphan_bytes, c->calls);
	if (!kv_list_empty(&c->requests->unsafe.limbo) || b->limbo_bytes)
		world_wrong(w, "client %u at rest has requests or %llu bytes in limbo", c->index,
			    (unsigned long long)b->limbo_bytes);
	if (c->requests->pulls.used || !kv_list_empty(&c->requests->out.releasing))
		world_wrong(w, "client %u at rest has %u reads under way, or leases to give back", c->index,
			    c->requests->pulls.used);
	if (c->requests->packs.used)
		world_wrong(w, "client %u at rest has %u packs", c->index, c->requests->packs.used);
	if (b->free_bytes != b->len_bytes)
		world_wrong(w, "client %u at rest has %llu of %llu bytes of its buffer (%llu in quarantine)", c->index,
			    (unsigned long long)b->free_bytes, (unsigned long long)b->len_bytes,
			    (unsigned long long)b->quarantined_bytes);
	for (unsigned i = 0; i < w->options.servers; i++) {
		const struct kc_room_share *has = &c->node[i].share;
		if (has->reqs || has->imms || has->bytes || has->out || has->out_bytes || has->waiting)
			world_wrong(w,
				    "client %u at rest is charged for %u requests, %u immediates and %llu bytes of "
				    "server %u, %llu of them out",
				    c->index, has->reqs, has->imms, (unsigned long long)has->bytes, i,
				    (unsigned long long)has->out_bytes);
		const struct kc_attachment *s = c->node[i].state == KC_NODE_UP ? c->node[i].attachment : NULL;
		for (uint32_t k = 0; s && k < s->num_links; k++)
			if (s->link[k].credits != s->credits)
				world_wrong(w, "client %u at rest has %u of %u credits of link %u of server %u",
					    c->index, s->link[k].credits, s->credits, k, i);
	}
	if (c->count.corrupt)
		world_wrong(w, "client %u has received values with wrong checksums", c->index);
}

void world_rest_check(struct world *w)
{
	for (unsigned i = 0; i < w->options.pools; i++)
		for (unsigned j = 0; world_pool_usable(w, i) && j < w->options.clients; j++)
			rest_check(w, w->pool[i].pool->client[j]);
	if (world_leases(w))
		world_wrong(w, "servers at rest have %u leases of local clients", world_leases(w));
	if (w->wrong[0])
		world_fail(w, w->wrong);
}

/* ---- calls that block ---- */

struct futex {
	_Atomic uint32_t *at;
	uint32_t value;
};

static bool futex_changed(void *arg)
{
	const struct futex *f = arg;
	return atomic_load(f->at) != f->value;
}

/* A call may sleep with a limit again and again (core/block.c does, to see whether the loop stands still). So what is
 * wrong is told here: the call would not return to tell it, and no time passes in a world that is wrong. */
static void futex_wait(struct world *w, struct futex *f, const struct timespec *timeout)
{
	struct until u = {w, futex_changed, f};
	if (!timeout) {
		world_run(w, futex_changed, f, BLOCK_NS, "a blocking call did not return");
		return;
	}
	sim_run(w->sim, w->loops, w->num_loops, done_or_wrong, &u,
		world_now(w) + (uint64_t)timeout->tv_sec * SECOND + (uint64_t)timeout->tv_nsec);
	if (w->wrong[0])
		world_fail(w, w->wrong);
}

/* Everything but a futex of a thread that turns a world goes to the kernel. */
long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	long a[6];
	va_list args;
	va_start(args, number);
	for (unsigned i = 0; i < KV_COUNT(a); i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex && turned) {
		struct futex f = {(_Atomic uint32_t *)a[0], (uint32_t)a[2]};
		if (a[1] == FUTEX_WAIT_PRIVATE)
			futex_wait(turned, &f, (const struct timespec *)a[3]);
		return 0;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int world_register(struct world *w, unsigned pool, void *base, uint64_t len, struct kvc_mem **out)
{
	struct kv_error err;
	int rc = kvc_register(w->pool[pool].pool, base, len, out, &err);
	if (rc < 0)
		log_line(NULL, KV_LOG_ERROR, err.text);
	return rc;
}

/* ---- trouble ---- */

void world_server_freeze(struct world *w, unsigned server, bool frozen)
{
	struct world_server *s = &w->server[server];
	s->frozen = frozen;
	for (unsigned i = 0; i < KV_COUNT(s->loop); i++)
		sim_loop_freeze(s->loop[i], frozen || s->crashed);
}

void world_server_crash(struct world *w, unsigned server, bool power_loss)
{
	struct world_server *s = &w->server[server];
	s->crashed = true;
	world_server_freeze(w, server, true);
	for (uint64_t id = s->fab_first; id < s->fab_end; id++)
		sim_fabric_crash(id);
	if (power_loss)
		sim_port_cut(w->sim, s->port, true);
	tier_sim_unlock(&s->server->tier);
	for (unsigned i = 0; i < KV_COUNT(s->loop); i++) {
		tier_sim_crash(s->loop[i]);
		if (!power_loss)
			sim_loop_crash(w->sim, s->loop[i]);
		sim_pass_crash(s->loop[i]); /* who is on the host would die as well: to them it is a kill */
	}
}

unsigned world_server_again(struct world *w, unsigned server)
{
	struct world_server *s = &w->server[server];
	for (unsigned i = 0; i < KV_COUNT(s->loop); i++) {
		sim_loop_crash(w->sim, s->loop[i]);
		sim_pass_crash(s->loop[i]);
	}
	sim_port_cut(w->sim, s->port, false);
	return server_open(w, s->port, s->as);
}

unsigned world_server_moved(struct world *w, unsigned server)
{
	return server_open(w, 0, w->server[server].as);
}

void world_pool_crash(struct world *w, unsigned pool)
{
	struct world_pool *p = &w->pool[pool];
	p->crashed = true;
	w->workers -= p->workers;
	for (unsigned i = 0; i < w->options.clients; i++) {
		sim_loop_crash(w->sim, p->loop[i]);
		sim_pass_crash(p->loop[i]);
	}
	for (uint64_t id = p->fab_first; id < p->fab_end; id++)
		sim_fabric_crash(id);
}

void world_pool_stop(struct world *w, unsigned pool)
{
	w->pool[pool].stopped = true;
	kc_pool_stop(w->pool[pool].pool);
}

void world_unplug(struct world *w, uint64_t fab_first, uint64_t fab_end, bool unplugged)
{
	(void)w;
	for (uint64_t id = fab_first; id < fab_end; id++)
		sim_fabric_unplug(id, unplugged);
}

struct kvc_counters world_counters(struct world *w, unsigned pool)
{
	struct kvc_counters c = {.size = sizeof(c)};
	assert_int_equal(kvc_counters(w->pool[pool].pool, &c), 0);
	return c;
}

uint64_t world_server_stat(struct world *w, enum wire_stat stat)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < w->num_servers; i++)
		for (unsigned j = 0; w->server[i].server && j < WORLD_SHARDS; j++)
			sum += w->server[i].server->shard[j] ? shard_stat_get(w->server[i].server->shard[j], stat) : 0;
	return sum;
}
