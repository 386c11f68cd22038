/* SPDX-License-Identifier: Apache-2.0 */
/* places.c -- see places.h.
 *
 * The areas are small, and what was given back last is taken first, so that a place that is used again too early is
 * written by two at once within a few milliseconds. The server tells: it has received a wrong checksum, which a client
 * that tries again would hide. Nothing here fails or is damaged, so it must have received none.
 *
 * In the first world some writes are slow, and what was refused may be on another connection: so CANCELs overtake
 * bytes. In the second world no posting is refused. The simulated fabric lets a message overtake all writes before a
 * refusal, since the connection may have been replaced; the answer to a PING would say nothing about bare writes then.
 */
#include "tests/sim/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/client.h"
#include "kvclient/raw.h"
#include "kvclient/request/landing.h"

enum { PUTTERS = 24, BARES = 4, LEN_MAX = 200000, SLAB = 512 << 10 };

static struct {
	struct world *w;
	uint64_t until_ns, delay_ns, names;
	bool trouble, steady, closing;
	unsigned stored, given_up, bare_good, bare_failed;
	uint8_t *slab;
	struct kvc_mem *mem;
	struct kv_prng prng;
} places;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&places.prng, n);
}

/* Busy: there was no place in time. */
static bool may_fail(int64_t rc)
{
	return rc == -KV_ETIMEOUT || rc == -KV_EBUSY || (places.trouble && rc == -KV_EPEERDOWN) ||
	       (places.closing && rc == -KV_ECLOSED);
}

/* Short deadlines are of the order of what a message takes. */
static struct kvc_call call_for(bool *out_short)
{
	struct kvc_call call = {.size = sizeof(call)};
	*out_short = !places.steady && some(3) > 0;
	if (*out_short)
		call.timeout_ns = 1 + some(4 * places.delay_ns);
	return call;
}

static void took_check(const char *what, uint64_t begun_ns, const struct kvc_call *call, int64_t rc)
{
	const struct world_options *wo = &places.w->options;
	uint64_t most = (call->timeout_ns ? call->timeout_ns : wo->timeout_ns) + wo->grace_ns + MS;
	if (world_now(places.w) - begun_ns > most)
		world_wrong(places.w, "%s returned %s after %.3f ms", what, rc < 0 ? kv_errname((int)rc) : "success",
			    (double)(world_now(places.w) - begun_ns) / 1e6);
}

/* ---- PUTs ---- */

static void stored_check(struct kvc_client *c, struct kvc_key key, const uint8_t *value, uint64_t len, uint8_t *back)
{
	int64_t rc = kvc_get_await(c, key, back, LEN_MAX, NULL);
	bool gone = rc == -KV_ENOTFOUND && places.trouble;
	if (rc >= 0 && (rc != (int64_t)len || memcmp(back, value, len) != 0))
		world_wrong(places.w, "a value of %llu bytes was stored, and they are not the value's",
			    (unsigned long long)len);
	if (rc < 0 && !gone && !(places.trouble && may_fail(rc)))
		world_wrong(places.w, "GET returned %s", kv_errname((int)rc));
}

/* Small values go into packs, others alone, and some in several ranges. */
static uint64_t some_length(void)
{
	switch (some(4)) {
	case 0:
		return 20000 + some(LEN_MAX - 20000);
	case 1:
		return 17000 + some(40000);
	default:
		return KV_INLINE_MAX + 1 + some(8000);
	}
}

static void put_one(struct kvc_client *c, uint8_t *value, uint8_t *back)
{
	bool little;
	uint64_t name = ++places.names, len = some_length(), begun = world_now(places.w);
	struct kvc_key key = {&name, sizeof(name)};
	struct kvc_call call = call_for(&little);
	int rc;
	kv_prng_fill(&places.prng, value, len);
	rc = kvc_put_await(c, key, value, len, &call);
	took_check("PUT", begun, &call, rc);
	if (rc == 0)
		stored_check(c, key, value, len, back);
	else if (!may_fail(rc) || (!little && !places.trouble))
		world_wrong(places.w, "PUT returned %s", kv_errname(rc));
	places.stored += rc == 0;
	places.given_up += rc == -KV_ETIMEOUT;
	(void)kvc_delete_await(c, key, NULL);
}

static void putter(struct kvc_client *c, void *arg)
{
	uint8_t *value = malloc(LEN_MAX), *back = malloc(LEN_MAX);
	(void)arg;
	while (world_now(places.w) < places.until_ns && !places.w->wrong[0]) {
		put_one(c, value, back);
		co_sleep_await(world_now(places.w) + some(places.delay_ns));
	}
	free(value);
	free(back);
}

/* ---- bare writes ---- */

/* It is not made again when the attachment is fenced for others. So many areas rest then that there may be no other. */
static bool bare_may_fail(int64_t rc)
{
	return may_fail(rc) || rc == -KV_EPEERDOWN || rc == -KV_ENOTSUP;
}

static int bare_one(struct kvc_client *c, const uint8_t *slab, uint64_t most_ops)
{
	bool little;
	uint64_t len = 1 + some(some(2) ? LEN_MAX : 5000), begun = world_now(places.w);
	struct kvc_call call = call_for(&little);
	int rc = kvc_raw_put_await(c, (unsigned)some(WORLD_SHARDS), slab, SLAB, len, 1 + some(most_ops),
				   (unsigned)(1 + some(8)), some(UINT64_MAX), &call);
	took_check("a bare run", begun, &call, rc);
	if (rc != 0 && (places.steady || !bare_may_fail(rc)))
		world_wrong(places.w, "a bare run returned %s", kv_errname(rc));
	places.bare_good += rc == 0;
	places.bare_failed += rc != 0;
	return rc;
}

static void bare(struct kvc_client *c, void *arg)
{
	while (world_now(places.w) < places.until_ns && !places.w->wrong[0]) {
		bare_one(c, arg, 40);
		co_sleep_await(world_now(places.w) + some(4 * places.delay_ns));
	}
}

static bool area_whole(const struct kvc_attachment *s)
{
	for (unsigned k = 0; s && s->landing && k < s->shards; k++)
		if (s->landing[k].pieces.free_bytes != s->landing[k].pieces.len_bytes)
			return false;
	return true;
}

/* With nobody else there it waits for no place. So what was begun in one attachment, and succeeds, ended in it. All is
 * on its way at once, most of the time. */
static void bare_alone(struct kvc_client *c, void *arg)
{
	const struct kvc_node *n = &c->node[0];
	while (world_now(places.w) < places.until_ns && !places.w->wrong[0]) {
		uint64_t attaches = n->attaches;
		bool up = n->state == KVC_NODE_UP && area_whole(n->attachment);
		if (bare_one(c, arg, 2) == 0 && up && (n->attaches != attaches || n->state != KVC_NODE_UP))
			world_wrong(places.w, "bare writes are said to have arrived, and their attachment had ended");
		co_sleep_await(world_now(places.w) + some(places.delay_ns));
	}
}

/* ---- trouble ---- */

static const struct world_server *server_now(void)
{
	return &places.w->server[places.w->num_servers - 1];
}

static void thaw(void)
{
	world_unplug(places.w, server_now()->fab_first, server_now()->fab_end, false);
	for (unsigned i = 0; i < WORLD_SHARDS; i++)
		sim_loop_freeze(server_now()->loop[1 + i], false);
}

/* Shards and wires stand still for longer than most calls have time, and clients begin anew. */
static void disturb(void *arg)
{
	struct world *w = places.w;
	(void)arg;
	thaw();
	if (world_now(w) >= places.until_ns)
		return;
	if (some(3) == 0)
		sim_loop_freeze(server_now()->loop[1 + some(WORLD_SHARDS)], true);
	if (some(4) == 0)
		world_unplug(w, server_now()->fab_first, server_now()->fab_end, true);
	if (some(3) == 0)
		kvc_node_redo(&w->pool[0].pool->client[some(w->options.clients)]->node[0], "the test wants it");
	sim_world_at(w->sim, world_now(w) + 1 + some(8 * places.delay_ns), disturb, NULL);
}

/* ---- at rest ---- */

/* Nobody has a place. whole: nor was one lost since the attachment began. */
static void areas_check(bool whole)
{
	for (unsigned i = 0; i < places.w->options.clients; i++) {
		const struct kvc_attachment *s = places.w->pool[0].pool->client[i]->node[0].attachment;
		for (unsigned k = 0; s && k < s->shards; k++) {
			const struct kvc_landing *a = &s->landing[k];
			if (a->placed != 0)
				world_wrong(places.w, "client %u at rest has %u places on shard %u", i, a->placed, k);
			if (whole && a->pieces.free_bytes != a->pieces.len_bytes)
				world_wrong(places.w, "client %u at rest has %llu free bytes of %llu on shard %u", i,
					    (unsigned long long)a->pieces.free_bytes,
					    (unsigned long long)a->pieces.len_bytes, k);
		}
	}
}

static void rest(uint64_t ns)
{
	world_join(places.w, 60 * SECOND);
	world_sleep(places.w, ns);
	areas_check(places.steady);
	if (world_server_stat(places.w, WIRE_STAT_CORRUPT))
		world_wrong(places.w, "a server has received values with wrong checksums");
}

static void open_world(struct world *w, const struct world_options *wo, uint64_t for_ns)
{
	memset(&places, 0, sizeof(places));
	places.w = w;
	places.delay_ns = wo->fabric.delay_max_ns;
	kv_prng_seed(&places.prng, wo->seed ^ 0x91ace5);
	world_open(w, wo);
	places.until_ns = world_now(w) + for_ns;
}

void places_run(struct world *w, uint64_t seed)
{
	const struct world_options wo = {.seed = seed,
					 .clients = 1,
					 .fence = WORLD_FENCE_ONE,
					 .chunk_bytes = 64 << 10,
					 .rails = 2,
					 .timeout_ns = 20 * SECOND,
					 .grace_ns = 100 * MS,
					 .landing_bytes = WORLD_SHARDS * (1 << 20),
					 .fabric = {.delay_max_ns = (1 + seed % 4) * MS,
						    .eagain_percent = 10,
						    .slow_percent = 20,
						    .ordered = true,
						    .virt = seed & 1}};
	open_world(w, &wo, SECOND);
	for (unsigned i = 0; i < PUTTERS; i++)
		world_worker(w, 0, 0, putter, NULL);
	rest(40 * SECOND);
	if (!places.stored || !places.given_up)
		world_wrong(w, "nothing was seen: %u PUTs were stored, %u were given up", places.stored,
			    places.given_up);
	world_rest_check(w);
	world_close(w);
}

/* A part of a bare world: some PUTs and bare runs at once. */
static void bare_part(unsigned putters, unsigned bares, void (*fn)(struct kvc_client *, void *), uint64_t for_ns)
{
	struct world *w = places.w;
	places.until_ns = world_now(w) + for_ns;
	for (unsigned i = 0; i < putters; i++)
		world_worker(w, 0, i % w->options.clients, putter, NULL);
	for (unsigned i = 0; i < bares; i++)
		world_worker(w, 0, i % w->options.clients, fn, places.slab + (size_t)i * SLAB);
	if (places.trouble)
		disturb(NULL);
}

void bare_run(struct world *w, uint64_t seed)
{
	const struct world_options wo = {
		.seed = seed,
		.clients = 1 + seed % 2,
		.fence = WORLD_FENCE_ONE,
		.chunk_bytes = 64 << 10,
		.rails = 1 + seed / 2 % 2,
		.timeout_ns = 20 * SECOND,
		.grace_ns = 20 * MS,
		.landing_bytes = WORLD_SHARDS * (4 << 20),
		.fabric = {.delay_max_ns = (1 + seed % 3 * 3) * MS, .ordered = true, .virt = seed & 1}};
	open_world(w, &wo, 0);
	places.slab = aligned_alloc(4096, (size_t)BARES * SLAB);
	assert_non_null(places.slab);
	kv_prng_fill(&places.prng, places.slab, (size_t)BARES * SLAB);
	assert_int_equal(world_register(w, 0, places.slab, (size_t)BARES * SLAB, &places.mem), 0);
	/* Nothing ends early: all of the area comes back. */
	places.steady = true;
	bare_part(6, BARES, bare, SECOND / 2);
	rest(SECOND);
	/* Deadlines. */
	places.steady = false;
	bare_part(6, BARES, bare, SECOND);
	rest(SECOND);
	if (!places.bare_good || !places.bare_failed)
		world_wrong(w, "nothing was seen: %u bare runs were good, %u were not", places.bare_good,
			    places.bare_failed);
	/* And attachments that end, shards that stand still, and a server that is killed. */
	places.trouble = true;
	bare_part(6, BARES, bare, SECOND);
	if (seed % 4 == 3) {
		world_sleep(w, some(SECOND));
		thaw();
		world_server_crash(w, 0, false);
		world_server_again(w, 0);
	}
	rest(5 * SECOND);
	bare_part(0, 1, bare_alone, SECOND);
	rest(SECOND);
	/* The client closes under them. */
	bare_part(6, BARES, bare, SECOND / 4);
	if (seed & 4) {
		world_sleep(w, some(SECOND / 4));
		places.closing = true;
		places.until_ns = 0;
		world_pool_stop(w, 0);
		world_join(w, 60 * SECOND);
	} else {
		rest(5 * SECOND);
		assert_int_equal(kvc_unregister(w->pool[0].pool, &places.mem), 0);
	}
	world_close(w);
	free(places.slab);
}
