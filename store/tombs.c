/* SPDX-License-Identifier: Apache-2.0 */
/* tombs.c -- a ring of tombstones, in which the newest replace the oldest, and chains by hash.
 *
 * A key has at most one tombstone, under a hash of 64 bits. A wrong match costs a copy and a miss, nothing more. The
 * ring bounds memory, not time: beyond its places within TOMBS_KEEP_NS the oldest tombstones are dropped and
 * counted. */
#include "store/tombs.h"

#include <stdlib.h>

int tombs_init(struct tombs *t, uint64_t limit_bytes)
{
	uint64_t want = KV_MIN(KV_MAX(limit_bytes / TOMBS_BYTES_EACH, (uint64_t)TOMBS_MIN), (uint64_t)TOMBS_MAX);
	uint32_t max = TOMBS_MIN;
	while (max < want)
		max *= 2;
	*t = (struct tombs){.count_max = max, .mask = max - 1};
	t->ring = calloc(max, sizeof(*t->ring));
	t->next = calloc(max, sizeof(*t->next));
	t->chain = calloc(max, sizeof(*t->chain));
	if (t->ring && t->next && t->chain)
		return 0;
	tombs_fini(t);
	return -KV_ENOMEM;
}

void tombs_fini(struct tombs *t)
{
	free(t->ring);
	free(t->next);
	free(t->chain);
	*t = (struct tombs){0};
}

uint64_t tombs_id(const void *key, size_t len)
{
	enum { SEED = 4 }; /* unlike the hash that spreads keys over servers */
	return kv_hash_key(key, len, SEED);
}

/* The link with the index of the tombstone's place; *link is 0 if there is none. */
static uint32_t *link_of(const struct tombs *t, uint64_t hash)
{
	uint32_t *link = &t->chain[hash & t->mask];
	while (*link && t->ring[*link - 1].hash != hash)
		link = &t->next[*link - 1];
	return link;
}

static void place_free(struct tombs *t, uint32_t *link)
{
	uint32_t at = *link - 1;
	*link = t->next[at];
	t->ring[at] = (struct tomb){0};
	t->used--;
}

static bool over(const struct tomb *d, uint64_t now_ns)
{
	return now_ns > d->time_ns && now_ns - d->time_ns > TOMBS_KEEP_NS;
}

/* The next place of the ring. */
static struct tomb *place_take(struct tombs *t, uint64_t now_ns)
{
	struct tomb *d = &t->ring[t->put & t->mask];
	if (d->hash) {
		t->dropped += !over(d, now_ns);
		t->since_ns = KV_MAX(t->since_ns, (int64_t)d->time_ns);
		place_free(t, link_of(t, d->hash));
	}
	t->put++;
	t->used++;
	return d;
}

/* Whether `old` includes the other tombstone for all values. */
static bool covers(const struct tomb *old, uint64_t time_ns, uint64_t expires_ns)
{
	return !old->reborn && old->time_ns >= time_ns &&
	       (old->expires_ns == 0 || (expires_ns != 0 && old->expires_ns <= expires_ns));
}

void tombs_put(struct tombs *t, uint64_t hash, uint64_t id, uint64_t time_ns, uint64_t expires_ns, uint64_t now_ns)
{
	uint32_t *link;
	struct tomb *d;
	hash = hash ? hash : 1;
	link = link_of(t, hash);
	if (*link) {
		const struct tomb *old = &t->ring[*link - 1];
		bool deleted = old->expires_ns == 0 && !old->reborn && !over(old, now_ns);
		/* A deletion counts more than a later TOUCH of nothing. */
		if (covers(old, time_ns, expires_ns) || (deleted && expires_ns != 0))
			return;
		time_ns = KV_MAX(time_ns, old->time_ns);
		place_free(t, link);
	}
	d = place_take(t, now_ns);
	link = &t->chain[hash & t->mask];
	*d = (struct tomb){.hash = hash, .id = id, .time_ns = time_ns, .expires_ns = expires_ns};
	t->next[d - t->ring] = *link;
	*link = (uint32_t)(d - t->ring) + 1;
}

void tombs_former(struct tombs *t, uint64_t id, uint64_t time_ns, bool touched, uint64_t now_ns)
{
	uint64_t put = t->put;
	tombs_put(t, id, id, time_ns, touched ? KV_NEVER : 0, now_ns);
	if (t->put != put)
		t->ring[put & t->mask].former = true;
}

const struct tomb *tombs_seek(const struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	uint32_t at = *link_of(t, hash ? hash : 1);
	return at && !over(&t->ring[at - 1], now_ns) ? &t->ring[at - 1] : NULL;
}

void tombs_reborn(struct tombs *t, uint64_t hash, uint64_t born_ns)
{
	uint32_t at = t->used ? *link_of(t, hash ? hash : 1) : 0;
	if (at && born_ns >= t->ring[at - 1].time_ns)
		t->ring[at - 1].reborn = true;
}

void tombs_yielded(struct tombs *t, uint64_t hash)
{
	uint32_t at = t->used ? *link_of(t, hash ? hash : 1) : 0;
	if (at)
		t->ring[at - 1].yielded = true;
}

bool tombs_yielded_take(struct tombs *t, uint64_t hash, uint64_t now_ns)
{
	uint32_t at = t->used ? *link_of(t, hash ? hash : 1) : 0;
	struct tomb *d = at ? &t->ring[at - 1] : NULL;
	bool yielded = d && d->yielded && !d->reborn && !over(d, now_ns);
	if (d)
		d->yielded = false;
	return yielded;
}

const struct tomb *tombs_next(const struct tombs *t, uint64_t *at, uint32_t *budget)
{
	if (t->put > t->count_max)
		*at = KV_MAX(*at, t->put - t->count_max);
	while (*at < t->put && *budget > 0) {
		const struct tomb *d = &t->ring[(*at)++ & t->mask];
		--*budget;
		if (d->hash)
			return d;
	}
	return NULL;
}
