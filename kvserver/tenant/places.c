/* SPDX-License-Identifier: Apache-2.0 */
/* places.c -- the places of each tenant among a server's clients.
 *
 * They outlive the table: a tenant that has left it keeps its counts until its last connection has ended. */
#include "kvserver/tenant/places.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_PART = 2 /* one in this many is kept for the tenants, in equal parts */ };

static uint64_t taken(const struct tenant_places *t, enum place_kind kind)
{
	return atomic_load_explicit(&t->taken[kind], memory_order_relaxed);
}

static struct tenant_places *entry(struct kv_list *n)
{
	return KV_LIST_ENTRY(n, struct tenant_places, node);
}

static struct tenant_places *find_any(const struct places *p, const char *tenant)
{
	KV_LIST_EACH (n, &p->all)
		if (strcmp(entry(n)->name, tenant) == 0)
			return entry(n);
	return NULL;
}

static bool unused(const struct tenant_places *t)
{
	for (enum place_kind k = 0; k < PLACE_KINDS; k++)
		if (taken(t, k))
			return false;
	return !t->listed;
}

static void forget(struct tenant_places *t)
{
	if (!unused(t))
		return;
	kv_list_del(&t->node);
	free(t);
}

void places_init(struct places *p)
{
	pthread_mutex_init(&p->lock, NULL);
	kv_list_init(&p->all);
}

void places_fini(struct places *p)
{
	KV_LIST_EACH_SAFE (n, &p->all) {
		kv_list_del(n);
		free(entry(n));
	}
	pthread_mutex_destroy(&p->lock);
}

/* Places for the tenants that have none yet, in `fresh`. */
static int fresh_make(const struct places *p, const struct tenants *table, struct kv_list *fresh)
{
	const struct tenant_row *row;
	for (unsigned i = 0; (row = tenants_row(table, i)) != NULL; i++) {
		struct tenant_places *t;
		if (find_any(p, row->name))
			continue;
		t = calloc(1, sizeof(*t));
		if (!t)
			return -KV_ENOMEM;
		memcpy(t->name, row->name, sizeof(t->name));
		kv_list_add_tail(fresh, &t->node);
	}
	return 0;
}

static void list_all(struct places *p, const struct tenants *table)
{
	const struct tenant_row *row;
	unsigned n = 0;
	while (tenants_row(table, n))
		n++;
	p->listed = n;
	KV_LIST_EACH (at, &p->all)
		entry(at)->listed = false;
	while (n-- > 0) { /* each to the front, the first row last */
		struct tenant_places *t;
		row = tenants_row(table, n);
		t = find_any(p, row->name);
		t->listed = true;
		t->sessions_max = row->limits.sessions_max;
		kv_list_del(&t->node);
		kv_list_add_head(&p->all, &t->node);
	}
	KV_LIST_EACH_SAFE (at, &p->all)
		forget(entry(at));
}

int places_follow(struct places *p, const struct tenants *table)
{
	struct kv_list fresh, *n;
	int rc;
	kv_list_init(&fresh);
	rc = fresh_make(p, table, &fresh);
	pthread_mutex_lock(&p->lock);
	while ((n = kv_list_pop(&fresh)) != NULL)
		if (rc == 0)
			kv_list_add_tail(&p->all, n);
		else
			free(entry(n));
	if (rc == 0)
		list_all(p, table);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

struct tenant_places *places_find(const struct places *p, const char *tenant)
{
	struct tenant_places *t = find_any(p, tenant);
	return t && t->listed ? t : NULL;
}

bool places_left(const struct places *p, const struct tenant_places *t, enum place_kind kind, uint64_t open,
		 uint64_t limit)
{
	uint64_t part = limit / KEPT_PART / KV_MAX(p->listed, 1u), kept = 0;
	if (taken(t, kind) < part)
		return true;
	KV_LIST_EACH (n, &p->all) {
		const struct tenant_places *other = entry(n);
		uint64_t its = KV_MIN(part, other->sessions_max);
		if (other != t && other->listed)
			kept += its - KV_MIN(its, taken(other, kind));
	}
	return open + kept < limit;
}

/* ---- counts: written by the control loop alone ---- */

void places_take(struct tenant_places *t, enum place_kind kind)
{
	if (t)
		atomic_store_explicit(&t->taken[kind], taken(t, kind) + 1, memory_order_relaxed);
}

void places_give(struct places *p, struct tenant_places *t, enum place_kind kind)
{
	if (!t)
		return;
	KV_ASSERT(taken(t, kind) > 0);
	atomic_store_explicit(&t->taken[kind], taken(t, kind) - 1, memory_order_relaxed);
	if (!unused(t))
		return;
	pthread_mutex_lock(&p->lock);
	forget(t);
	pthread_mutex_unlock(&p->lock);
}

unsigned places_read(struct places *p, struct place_row *out, unsigned max, struct place_row *rest)
{
	unsigned n = 0;
	*rest = (struct place_row){0};
	pthread_mutex_lock(&p->lock);
	KV_LIST_EACH (at, &p->all) {
		const struct tenant_places *t = entry(at);
		struct place_row *to = t->listed && n < max ? &out[n++] : rest;
		if (to != rest) {
			*to = (struct place_row){0};
			memcpy(to->name, t->name, sizeof(to->name));
		}
		to->sessions += taken(t, PLACE_SESSION);
		to->refused += atomic_load_explicit(&t->refused, memory_order_relaxed);
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}
