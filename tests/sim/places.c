/* SPDX-License-Identifier: Apache-2.0 */
/* places.c -- see places.h.
 *
 * The areas are small, and what was given back last is taken first, so that a place that is used again too early is
 * written by two at once within a few milliseconds. The server tells: it has received a wrong checksum, which a client
 * that tries again would hide. Nothing here fails or is damaged, so it must have received none.
 *
 * Some writes are slow, and a refused posting may have gone to another connection: so CANCELs overtake bytes. */
#include "tests/sim/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvclient/conn/node.h"
#include "kvclient/core/client.h"
#include "kvclient/request/landing.h"

enum { PUTTERS = 24, LEN_MAX = 200000 };

static struct {
	struct world *w;
	uint64_t until_ns, delay_ns, names;
	unsigned stored, given_up;
	struct kv_prng prng;
} places;

static uint64_t some(uint64_t n)
{
	return kv_prng_below(&places.prng, n);
}

/* Busy: there was no place in time. */
static bool may_fail(int64_t rc)
{
	return rc == -KV_ETIMEOUT || rc == -KV_EBUSY;
}

/* Short deadlines are of the order of what a message takes. */
static struct kvc_call call_for(bool *out_short)
{
	struct kvc_call call = {.size = sizeof(call)};
	*out_short = some(3) > 0;
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
	if (rc >= 0 && (rc != (int64_t)len || memcmp(back, value, len) != 0))
		world_wrong(places.w, "a value of %llu bytes was stored, and they are not the value's",
			    (unsigned long long)len);
	if (rc < 0)
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
	else if (!may_fail(rc) || !little)
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

/* ---- at rest ---- */

/* Nobody has a place. */
static void areas_check(void)
{
	for (unsigned i = 0; i < places.w->options.clients; i++) {
		const struct kc_attachment *s = places.w->pool[0].pool->client[i]->node[0].attachment;
		for (unsigned k = 0; s && k < s->shards; k++) {
			const struct kc_landing *a = &s->landing[k];
			if (a->placed != 0)
				world_wrong(places.w, "client %u at rest has %u places on shard %u", i, a->placed, k);
		}
	}
}

static void rest(uint64_t ns)
{
	world_join(places.w, 60 * SECOND);
	world_sleep(places.w, ns);
	areas_check();
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
