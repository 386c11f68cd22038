/* SPDX-License-Identifier: Apache-2.0 */
/* leased.c -- see leased.h.
 *
 * Servers have little memory, and writers make them evict all the time. Holders borrow values, compare all bytes, hold
 * them for up to two seconds, and compare again before they release. Meanwhile connections break, shards stand still,
 * servers are killed, and the second pool is killed or closed. A holder whose server was killed still has the bytes; of
 * a holder that was killed the servers take everything back.
 *
 * Some holders give back leases that are not theirs: one that they have given back already, or one of another client.
 * Servers must not believe it. Each such lie costs the liar its attachment. */
#include "tests/sim/leased.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/client.h"
#include "kvclient/core/local_server.h"
#include "kvserver/server/server.h"
#include "kvserver/shard/shard.h"
#include "tests/sim/world.h"

enum { KEYS = 300, HOT_KEYS = 10, HOLDERS = 5, WRITERS = 3, HELD = 6, LEN_MAX = 200 << 10, GUESS = 64 << 10 };

static struct world world;

/* The start of each value: its bytes depend on nothing else. */
struct head {
	uint32_t key, version, len, unused;
};

static struct {
	bool stop, liars;
	uint32_t version;
	uint64_t gets, in_place, lies, killed;
	uint64_t foreign[16]; /* leases of holders, for liars, and their shards */
	uint32_t foreign_shard[16];
	struct kc_local *foreign_local[16];
} leased;

struct holder {
	unsigned pool;
	struct kvc_borrowed held[HELD];
};
static struct holder holders[WORLD_POOLS * WORLD_CLIENTS * HOLDERS];

static uint32_t some(uint64_t n)
{
	return (uint32_t)kv_prng_below(&world.prng, n);
}

static uint32_t length_of(uint32_t key, uint32_t version)
{
	struct kv_prng p;
	kv_prng_seed(&p, (uint64_t)key << 32 | version);
	return (uint32_t)sizeof(struct head) + (uint32_t)kv_prng_below(&p, key % 4 ? LEN_MAX / 8 : LEN_MAX);
}

static void value_fill(uint8_t *at, uint32_t key, uint32_t version)
{
	struct head h = {.key = key, .version = version, .len = length_of(key, version)};
	struct kv_prng p;
	memcpy(at, &h, sizeof(h));
	kv_prng_seed(&p, (uint64_t)version << 32 | key);
	kv_prng_fill(&p, at + sizeof(h), h.len - sizeof(h));
}

static bool value_right(const uint8_t *at, uint64_t len, uint32_t key)
{
	static uint8_t want[LEN_MAX + sizeof(struct head)];
	struct head h;
	if (len < sizeof(h))
		return false;
	memcpy(&h, at, sizeof(h));
	if (h.key != key || h.len != len || h.len != length_of(h.key, h.version))
		return false;
	value_fill(want, h.key, h.version);
	return memcmp(want, at, h.len) == 0;
}

static struct kvc_key key_of(const uint32_t *key)
{
	return (struct kvc_key){key, sizeof(*key)};
}

/* ---- writers ---- */

static void writer(struct kvc_client *c, void *arg)
{
	uint8_t *at = malloc(LEN_MAX + sizeof(struct head));
	(void)arg;
	while (!leased.stop && !world.wrong[0]) {
		uint32_t key = some(some(8) ? KEYS : HOT_KEYS), version = ++leased.version;
		if (some(2))
			kvc_delete_await(c, key_of(&key), NULL);
		value_fill(at, key, version);
		kvc_put_await(c, key_of(&key), at, length_of(key, version), NULL);
		co_sleep_await(world_now(&world) + some(2 * MS));
	}
	free(at);
}

static void clearer(struct kvc_client *c, void *arg)
{
	(void)arg;
	for (uint32_t key = 0; key < KEYS; key++)
		for (int rc = -1, tries = 0; rc != 0 && rc != -KV_ENOTFOUND && tries < 10; tries++)
			rc = kvc_delete_await(c, key_of(&key), NULL);
}

/* ---- holders ---- */

static uint32_t key_in(const struct kvc_borrowed *b)
{
	struct head h;
	memcpy(&h, b->data, sizeof(h));
	return h.key;
}

static void release(struct holder *h, struct kvc_client *c, struct kvc_borrowed *b)
{
	const struct world_pool *p = &world.pool[h->pool];
	if ((p->stopped || p->crashed) && !b->in_place) { /* the piece has ended with its pool */
		*b = (struct kvc_borrowed){0};
		return;
	}
	if (!p->crashed && !value_right(b->data, b->len, key_in(b)))
		world_wrong(&world, "bytes changed under a lease (%s)", b->in_place ? "in place" : "a piece");
	kvc_borrowed_release(c, b);
}

static void borrow(struct kvc_client *c, struct kvc_borrowed *b)
{
	uint32_t key = some(some(2) ? KEYS : HOT_KEYS);
	int64_t rc = kvc_get_borrowed_await(c, key_of(&key), GUESS, NULL, b);
	if (rc <= 0)
		return;
	leased.gets++;
	leased.in_place += b->in_place;
	if (!value_right(b->data, b->len, key))
		world_wrong(&world, "a borrowed value of key %u is wrong", key);
	if (!b->in_place)
		return;
	unsigned at = some(KV_COUNT(leased.foreign));
	leased.foreign[at] = b->priv[0];
	leased.foreign_shard[at] = (uint32_t)b->priv[1] - 1;
	leased.foreign_local[at] = (struct kc_local *)(uintptr_t)b->priv[2];
}

/* Give back a lease of another client. */
static void lie_foreign(const struct kvc_borrowed *own)
{
	const struct kc_local *l = (struct kc_local *)(uintptr_t)own->priv[2];
	unsigned at = some(KV_COUNT(leased.foreign));
	if (!leased.foreign_local[at] || leased.foreign_local[at] == l)
		return;
	leased.lies++;
	local_release(l->shard[leased.foreign_shard[at]].channel, leased.foreign[at]);
}

/* Give a lease back twice, and have another one in its place by then. */
static void lie_twice(struct kvc_client *c, struct holder *h, struct kvc_borrowed *b)
{
	struct kc_local *l = (struct kc_local *)(uintptr_t)b->priv[2];
	struct local_channel *channel = l->shard[b->priv[1] - 1].channel;
	uint64_t id = b->priv[0];
	atomic_fetch_add(&l->refs, 1);
	release(h, c, b);
	borrow(c, b);
	leased.lies++;
	local_release(channel, id);
	kc_local_unref(l);
}

static void release_or_lie(struct kvc_client *c, struct holder *h, struct kvc_borrowed *b)
{
	if (!leased.liars || !b->in_place || some(20) > 0)
		release(h, c, b);
	else if (some(2))
		lie_twice(c, h, b);
	else
		lie_foreign(b);
}

static void holder(struct kvc_client *c, void *arg)
{
	struct holder *h = arg;
	while (!leased.stop && !world.wrong[0]) {
		struct kvc_borrowed *b = &h->held[some(HELD)];
		if (b->data)
			release_or_lie(c, h, b);
		else
			borrow(c, b);
		co_sleep_await(world_now(&world) + (some(40) ? some(5 * MS) : some(2 * SECOND)));
	}
	for (unsigned i = 0; i < HELD; i++)
		if (h->held[i].data)
			release(h, c, &h->held[i]);
}

/* ---- trouble ---- */

static void kill_server(unsigned *server)
{
	world_server_crash(&world, *server, some(2));
	world_sleep(&world, some(500 * MS));
	*server = world_server_again(&world, *server);
	leased.killed++;
}

/* What ends attachments, and no process. */
static void disturb(unsigned server)
{
	const struct world_server *s = &world.server[server];
	struct world_pool *p = &world.pool[0];
	switch (some(5)) {
	case 0:
		sim_port_kill(world.sim, s->port);
		break;
	case 1:
		kc_node_redo(&p->pool->client[some(world.options.clients)]->node[some(world.options.servers)],
			     "the test wants it");
		break;
	case 2:
		sim_fabric_break(s->fab_first + some(s->fab_end - s->fab_first));
		break;
	case 3:
		sim_fabric_break(p->fab_first + some(p->fab_end - p->fab_first));
		break;
	default:
		sim_loop_freeze(s->loop[some(1 + WORLD_SHARDS)], true);
		world_sleep(&world, some(some(3) ? 100 * MS : 3 * SECOND));
		for (unsigned i = 0; i <= WORLD_SHARDS; i++)
			sim_loop_freeze(s->loop[i], false);
	}
}

static void trouble(void)
{
	unsigned server[2] = {0, 1}, end_at = some(40);
	for (unsigned i = 0; i < 40; i++) {
		unsigned *at = &server[some(world.options.servers)];
		world_sleep(&world, some(150 * MS));
		if (!leased.liars && some(8) == 0)
			kill_server(at);
		else if (some(3))
			disturb(*at);
		if (i == end_at && world.options.pools > 1)
			(some(2) ? world_pool_crash : world_pool_stop)(&world, 1);
	}
}

/* ---- the world ---- */

static uint64_t blocks_left(void)
{
	uint64_t used = 0;
	for (unsigned i = 0; i < world.num_servers; i++)
		for (unsigned j = 0; !world.server[i].crashed && j < WORLD_SHARDS; j++)
			used += world.server[i].server->shard[j]->store.arena.used;
	return used;
}

static void open_world(uint64_t seed)
{
	struct world_options wo = {.seed = seed,
				   .local = seed % 4 == 3 ? WORLD_MIXED : WORLD_LOCAL,
				   .pass = {.slow_percent = seed % 5 == 1 ? 10 : 0,
					    .refuse_percent = seed % 5 == 2 ? 30 : 0,
					    .break_percent = seed % 5 == 3 ? 10 : 0},
				   .servers = 1 + seed / 2 % 2,
				   .pools = 2,
				   .clients = 1 + seed / 4 % 2,
				   .memory_bytes = 6 << 20,
				   .timeout_ns = 3 * SECOND,
				   .peer_timeout_ns = SECOND,
				   .heartbeat_ms = 200,
				   .pull_pools = seed / 8 % 3 == 2,
				   .fabric = {.delay_max_ns = (1 + seed % 3) * MS, .virt = seed & 1}};
	memset(&leased, 0, sizeof(leased));
	memset(holders, 0, sizeof(holders));
	leased.liars = wo.servers == 1 && seed % 4 == 0;
	world_open(&world, &wo);
}

void leased_run(uint64_t seed)
{
	struct holder *h = holders;
	open_world(seed);
	for (unsigned p = 0; p < world.options.pools; p++)
		for (unsigned c = 0; c < world.options.clients; c++) {
			for (unsigned i = 0; i < HOLDERS; i++, h++) {
				h->pool = p;
				world_worker(&world, p, c, holder, h);
			}
			for (unsigned i = 0; p == 0 && i < WRITERS; i++)
				world_worker(&world, p, c, writer, NULL);
		}
	trouble();
	leased.stop = true;
	world_join(&world, 60 * SECOND);
	world_sleep(&world, 10 * SECOND);
	world_do(&world, 0, clearer, NULL);
	world_sleep(&world, SECOND);
	world_rest_check(&world);
	if (!leased.lies && !world.options.pull_pools && world_server_stat(&world, WIRE_STAT_BAD_RELEASES))
		world_wrong(&world, "servers were given back leases that nobody held, and nobody lied");
	if (blocks_left())
		world_wrong(&world, "servers at rest have %llu bytes in blocks that were deleted",
			    (unsigned long long)blocks_left());
	world_sleep(&world, 1);
	printf("# seed %llu: %llu GETs, %llu in place; %llu lies, %llu servers killed, %llu evictions\n",
	       (unsigned long long)seed, (unsigned long long)leased.gets, (unsigned long long)leased.in_place,
	       (unsigned long long)leased.lies, (unsigned long long)leased.killed,
	       (unsigned long long)world_server_stat(&world, WIRE_STAT_EVICTIONS));
	assert_true(leased.in_place > 0);
	world_close(&world);
}
