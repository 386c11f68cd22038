/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.c -- a shard's tenants follow the newest table, and their limits are kept when requests begin.
 *
 * Each shard has an equal part of each limit, as it has of the memory, so shards need no word between them. Reading is
 * limited by a clock that runs ahead with each value: a GET that comes before it has caught up is BUSY. */
#include "kvserver/shard/tenants.h"

#include "kvserver/shard/session.h"
#include "kvserver/shard/shard.h"

enum { REQUESTS_PART = SHARD_REQUESTS_MAX / 2 }; /* which a tenant may have at most: others find room */

#define READ_BURST_NS 100000000ull /* of its rate at once, after a pause */

void tenants_order(struct tenant_orders *o, struct tenants *table)
{
	pthread_mutex_lock(&o->lock);
	tenants_unref(&o->table);
	o->table = tenants_ref(table);
	atomic_fetch_add(&o->number, 1);
	pthread_mutex_unlock(&o->lock);
}

static const char *owner_name(void *arg, const char *space)
{
	const struct tenant_row *row = tenants_owner(arg, space);
	return row ? row->name : NULL;
}

static uint64_t part_of(uint64_t limit, unsigned shards)
{
	return limit == UINT64_MAX ? limit : limit / shards;
}

static void tenants_set(struct shard *s, struct tenants *t)
{
	unsigned shards = KV_MAX(s->opt.shards, 1u);
	const struct tenant_row *row;
	tenancy_begin(&s->store, owner_name, t);
	for (unsigned i = 0; (row = tenants_row(t, i)) != NULL; i++) {
		const struct tenant_limits *l = &row->limits;
		const struct tenant_part part = {.share = part_of(l->memory_share, shards),
						 .cap = part_of(l->memory_cap, shards),
						 .tier = part_of(l->tier_cap, shards),
						 .pins = part_of(l->pins_cap, shards),
						 .requests = part_of(l->requests_max, shards),
						 .read_rate = part_of(l->read_rate, shards)};
		int rc = tenant_set(&s->store, row->name, &part);
		if (rc)
			kv_event(s->opt.log, KV_LOG_ERROR,
				 KV_EVENT("tenant_failed", KV_NUMBER("shard", s->opt.index),
					  KV_FIELD("tenant", row->name), KV_FIELD("reason", kv_strerror(rc))),
				 "shard %u: tenant \"%s\" has no place: %s; its clients are refused until SIGHUP",
				 s->opt.index, row->name, kv_strerror(rc));
	}
	tenancy_end(&s->store, loop_turn_now(s->loop));
}

void shard_tenants_take(struct shard *s)
{
	struct tenant_orders *o = s->opt.tenants;
	struct tenants *former = s->tenants;
	if (KV_LIKELY(!o || atomic_load_explicit(&o->number, memory_order_acquire) == s->tenants_number))
		return;
	pthread_mutex_lock(&o->lock);
	s->tenants = tenants_ref(o->table);
	s->tenants_number = atomic_load(&o->number);
	pthread_mutex_unlock(&o->lock);
	tenants_set(s, s->tenants);
	tenants_unref(&former);
}

void shard_tenants_end(struct shard *s)
{
	tenants_unref(&s->tenants);
}

/* ---- limits ---- */

bool tenant_admits(struct session *o, const struct wire_request *q, uint64_t now_ns)
{
	struct tenant *t = o->tenant;
	bool moves = q->type == WIRE_GET || q->type == WIRE_PUT;
	uint64_t most = KV_MIN(t->limit.requests, (uint64_t)REQUESTS_PART);
	bool admits = !moves || (t->active < most && (q->type != WIRE_GET || t->read_free_ns <= now_ns));
	t->denied += !admits;
	return admits;
}

void tenant_reads(struct session *o, uint64_t bytes, uint64_t now_ns)
{
	struct tenant *t = o->tenant;
	if (!t)
		return;
	t->read_bytes += bytes;
	if (t->limit.read_rate == UINT64_MAX)
		return;
	t->read_free_ns = KV_MAX(t->read_free_ns, now_ns - KV_MIN(now_ns, (uint64_t)READ_BURST_NS)) +
			  (uint64_t)((double)bytes * 1e9 / (double)t->limit.read_rate);
}
