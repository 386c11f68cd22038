/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c -- values reported as hot are kept at two servers (KVC_HOT_COPIES).
 *
 * After such a reply the value is copied to the key's second server (copy.c), and GETs ask the server with fewer
 * requests. Each client learns from its own replies, and none knows the others' copies: so DELETE and TOUCH reach both
 * servers of any key.
 *
 * A key is fresh while replies report it, and FRESH_NS longer. For misses it counts KEPT_NS more, since a pending GET
 * may have asked the second server. */
#include "kvclient/route/hot.h"

#include <stdlib.h>

#include "kvclient/core/pool.h"
#include "kvclient/route/repair.h"

enum { SETS = 256, WAYS = 4 };

struct hot {
	uint64_t digest;   /* of its key; 0: never taken */
	uint64_t fresh_ns; /* GETs ask both servers until then; 0: no second copy by this client */
	uint64_t until_ns; /* the place is the key's until then */
	uint64_t again_ns; /* no copy before then */
};

struct kc_hots {
	struct hot key[SETS * WAYS];
	unsigned used; /* places ever taken */
};

#define FRESH_NS 30000000000ull
#define KEPT_NS  600000000000ull
#define AGAIN_NS 10000000000ull

int route_hot_ready(struct kvc_client *c)
{
	if (!(c->pool->options.flags & KVC_HOT_COPIES))
		return 0;
	c->hot = calloc(1, sizeof(*c->hot));
	if (!c->hot)
		return -KV_ENOMEM;
	repair_ready(c);
	return 0;
}

void route_hot_fini(struct kvc_client *c)
{
	free(c->hot);
	c->hot = NULL;
}

static uint64_t digest_of(struct kvc_key key)
{
	enum { SEED = 3 }; /* spread unlike over servers and clients */
	uint64_t digest = kv_hash_key(key.data, key.len, SEED);
	return digest ? digest : 1;
}

static struct hot *set_of(const struct kvc_client *c, uint64_t digest)
{
	return &c->hot->key[digest % SETS * WAYS];
}

static struct hot *find(const struct kvc_client *c, uint64_t digest)
{
	struct hot *set = set_of(c, digest);
	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].digest == digest)
			return &set[i];
	return NULL;
}

static struct hot *place(struct kvc_client *c, uint64_t digest)
{
	struct hot *set = set_of(c, digest), *at = find(c, digest);
	for (unsigned i = 0; !at && i < WAYS; i++)
		if (loop_now(c->loop) >= set[i].until_ns)
			at = &set[i];
	if (!at)
		return NULL;
	c->hot->used += at->digest == 0;
	if (at->digest != digest)
		*at = (struct hot){.digest = digest};
	return at;
}

bool route_hot_read(const struct kvc_client *c, struct kvc_key key)
{
	const struct hot *h = find(c, digest_of(key));
	return h && h->fresh_ns && loop_now(c->loop) < h->until_ns;
}

bool route_hot_fresh(const struct kvc_client *c, struct kvc_key key)
{
	const struct hot *h = find(c, digest_of(key));
	return h && loop_now(c->loop) < h->fresh_ns;
}

static void refresh(struct kvc_client *c, struct hot *h)
{
	h->fresh_ns = loop_now(c->loop) + FRESH_NS;
	h->until_ns = h->fresh_ns + KEPT_NS;
}

/* Do not try for a while. A key copied before stays for misses. */
static void put_off(struct kvc_client *c, uint64_t digest)
{
	struct hot *h = place(c, digest);
	if (!h)
		return;
	h->again_ns = loop_now(c->loop) + AGAIN_NS;
	h->until_ns = KV_MAX(h->until_ns, h->again_ns);
}

void route_hot_reported(struct kvc_client *c, struct kvc_key key, const struct kc_node *n)
{
	uint64_t digest;
	struct hot *h;
	struct kc_node *second;
	if (!c->hot || route_two_copies(c, 0))
		return;
	digest = digest_of(key);
	h = find(c, digest);
	if (h && loop_now(c->loop) < h->fresh_ns) {
		refresh(c, h);
		return;
	}
	if ((h && loop_now(c->loop) < h->again_ns) || n != route_first(c, key))
		return;
	second = place(c, digest) ? route_second(c, key) : NULL;
	if (!second || second->state != KC_NODE_UP || !repair_hot(c, key, n, second))
		put_off(c, digest);
}

void route_hot_copied(struct kvc_client *c, struct kvc_key key, int64_t rc)
{
	uint64_t digest = digest_of(key);
	struct hot *h = rc < 0 ? NULL : place(c, digest);
	if (h)
		refresh(c, h);
	else
		put_off(c, digest);
}

void route_hot_lost(struct kvc_client *c, struct kvc_key key)
{
	struct hot *h = route_hot_any(c) ? find(c, digest_of(key)) : NULL;
	if (!h || loop_now(c->loop) >= h->fresh_ns)
		return;
	h->fresh_ns = loop_now(c->loop); /* not 0: after a miss the second one is still asked */
	put_off(c, h->digest);
}

bool route_hot_used(const struct kvc_client *c)
{
	return c->hot->used > 0;
}
