/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c -- makes the shards of a server, with their options, and receives their requests for new attachments. */
#include "kvserver/server/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvserver/conn/conn.h"
#include "kvserver/server/kept.h"
#include "kvserver/server/server.h"
#include "kvserver/ops/ops.h"

enum {
	PREFAULT_PERCENT = 25, /* of a core */
	PAGE_PLAIN = 4096
};

/* ---- void attachments ---- */

static void on_reset(void *arg)
{
	conns_anew(arg, true);
}

static void on_lost(void *arg)
{
	struct kvs_server *s = arg;
	atomic_store(&s->clients.lost_reported,
		     false); /* first: a shard that marks an attachment from now on reports again */
	conns_anew(s, false);
}

/* A lost network ends thousands of attachments at once, and each check visits all connections. */
static int shard_lost_session(void *arg, struct shard *shard)
{
	struct kvs_server *s = arg;
	int rc;
	(void)shard;
	if (atomic_exchange(&s->clients.lost_reported, true))
		return 0;
	rc = loop_post(s->control, on_lost, s);
	if (rc)
		atomic_store(&s->clients.lost_reported, false);
	return rc;
}

/* A full queue means a busy control loop. The engine's peers stay void, and the shard's tick reports again. */
static int shard_was_reset(void *arg, struct shard *shard)
{
	struct kvs_server *s = arg;
	(void)shard;
	return loop_post(s->control, on_reset, s);
}

/* ---- create ---- */

static struct te_options engine_options(struct kvs_server *s)
{
	const struct kvs_options *o = &s->opt;
	return (struct te_options){.peers_heal = true,
				   .provider = o->provider,
				   .nic = o->nic,
				   .local = s->at.fabric.addr,
				   .rails = o->rails,
				   .engines = o->shards,
				   .chunk_bytes = o->chunk_bytes,
				   .messages = 512,
				   .receives = 512,
				   .near = !o->numa_off,
				   .door = (enum te_door)o->door,
				   .log = o->log};
}

/* Where it is short, options not given become smaller. */
static int room_make(struct kvs_server *s, const struct te_options *engine, const struct te_load *load,
		     struct kv_error *err)
{
	struct kvs_options *o = &s->opt;
	struct te_budget *budget = malloc(sizeof(*budget));
	struct kv_footprint room = {
		.values_bytes = o->memory_bytes, .values_max = o->values_max, .clients = o->max_clients};
	int rc = budget ? te_budget(engine, load, budget, err) : kv_fail(err, -KV_ENOMEM, "no memory for a budget");
	if (rc == 0)
		room.engines_bytes = te_budget_beside(budget, load);
	for (unsigned i = 0; i < s->tier.count; i++)
		room.tier_bytes += s->tier.file[i].bytes;
	room.tier_drives = s->tier.count * o->shards;
	free(budget);
	if (rc)
		return rc;
	if (o->landing_bytes == KVS_LANDING_DEFAULT)
		o->landing_bytes = kv_footprint_landing("", o->landing_bytes);
	room.landing_bytes = o->landing_off ? 0 : o->landing_bytes;
	rc = kv_footprint_fits("", &room, err);
	if (rc == 0 && o->values_max == 0)
		o->values_max = kv_footprint_values("", &room);
	return rc;
}

/* Check the machine's resources for all shards before the first is opened, with one client: others come later. */
static int preflight(struct kvs_server *s, struct kv_error *err)
{
	enum { LOOP_FILES = 2, OWN_FILES = 8 };
	const struct kvs_options *o = &s->opt;
	int rc;
	struct te_options engine = engine_options(s);
	struct te_load load = {.engines = o->shards,
			       .region_bytes = o->memory_bytes / o->shards,
			       .peers = 1,
			       .threads = o->shards + 1, /* and the control loop's */
			       .files = (o->shards + 1) * LOOP_FILES + OWN_FILES};
	/* The limits are ignored with the caller's loops, in a simulation or a test. */
	rc = o->loops ? 0 : room_make(s, &engine, &load, err);
	return o->loops || rc ? rc : te_preflight(&engine, &load, NULL, err);
}

static int shards_create(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	struct shard_options options = {
		.memory_bytes = kv_align_down(o->memory_bytes / o->shards, ARENA_GRANULE),
		.attachments_max = s->clients.slots,
		.credits = o->credits,
		.shard_seed = s->shard_seed,
		.ttl_ns = o->ttl_ns,
		.allow_pull = o->allow_pull,
		.publish = o->publish,
		.arena_private = o->arena_private,
		.landing_bytes = o->landing_off ? 0 : o->landing_bytes / o->shards,
		.pull_where_safe = o->pull_where_safe,
		.lease_ns = o->lease_ns,
		.slow_ns = o->slow_ns,
		.prefault = o->prefault == KVS_PREFAULT_START,
		.own_thread = !o->loops,
		.ops = &kvs_ops,
		.policy = evict_policies[o->eviction],
		.log = o->log,
		.engine = engine_options(s),
		.reports = {.reset = shard_was_reset, .lost = shard_lost_session, .arg = s},
		.doubt = &s->doubt_orders,
		.tenants = &s->tenant_orders,
		.tier_files = &s->tier,
		.tier = {.members = o->members,
			 .segment_bytes = o->tier_segment,
			 .admit = (enum tier_admit)o->tier_admit,
			 .rate_bytes = o->tier_rate / o->shards,
			 .day_bytes = o->tier_day / o->shards,
			 .clock = o->clock},
	};
	int rc = 0;
	options.values_max = (o->values_max + o->shards - 1) / o->shards;
	s->opt.value_max = options.value_max = KV_MIN(o->value_max, options.memory_bytes);
	for (unsigned i = 0; rc == 0 && i < o->shards; i++) {
		options.index = i;
		options.kept = kept_of_shard(s, i);
		options.shards = s->opt.shards;
		options.control = i == 0 ? s->control_stat : NULL;
		options.loop = s->shard_loop[i];
		options.engine.engine = i;
		options.journal = s->events.journal[i];
		rc = shard_create(&options, o->entropy, o->clock, &s->shard[i], err);
		if (rc)
			kv_fail_more(err,
				     rc == -EADDRNOTAVAIL ? "--listen-addr %s is not an address of this machine (`ip "
							    "addr` lists them); shard %u of %u"
							  : "on %s: shard %u of %u",
				     o->listen_addr, i, o->shards);
	}
	if (rc == 0)
		s->opt.allow_pull = s->shard[0]->opt.allow_pull; /* one provider for all */
	return rc;
}

/* The first shard speaks for all: they have one provider. */
static void identity_make(struct kvs_server *s)
{
	const struct te_info *info = &s->shard[0]->info;
	memcpy(s->identity.provider, info->provider, sizeof(s->identity.provider));
	memcpy(s->identity.fabric, info->fabric, sizeof(s->identity.fabric));
	s->identity.eager_bytes = info->eager_bytes;
}

static void fabric_log(struct kvs_server *s)
{
	struct fabric_at *at = &s->at.fabric;
	snprintf(at->device, sizeof(at->device), "%s", te_rail_device(s->shard[0]->te, 0));
	if (at->others[0] && s->shard[0]->info.ip) /* other providers chose by themselves */
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("fabric_address_unsure", KV_FIELD("device", at->device),
				  KV_FIELD("addresses", at->others)),
			 "the fabric uses %s: this machine has several addresses (%s), "
			 "and neither --advertise nor a default route decides among them; "
			 "if clients do not reach that one, give --advertise HOST:PORT or --nic",
			 at->device, at->others);
}

int shards_make(struct kvs_server *s, struct kv_error *err)
{
	const struct te_options engine = engine_options(s);
	int rc = preflight(s, err);
	if (rc == 0)
		rc = shards_create(s, err);
	if (rc)
		return rc;
	identity_make(s);
	fabric_log(s);
	return client_limit_plan(s, &engine, err);
}

/* Memory of NICs is locked, and huge pages of the pool were touched when they were mapped: those need no prefault. */
void shards_prefault(struct kvs_server *s)
{
	struct kv_prefault_area area[KV_SHARDS_MAX];
	struct kv_error err;
	unsigned n = 0;
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		if (!shard->info.pins_memory && shard->area.page_bytes == PAGE_PLAIN)
			area[n++] = (struct kv_prefault_area){shard->area.base, shard->area.len_bytes,
							      shard->place.node, &shard->area};
	}
	if (s->opt.prefault != KVS_PREFAULT_BACKGROUND || n == 0)
		return;
	if (kv_prefault_start(area, n, PREFAULT_PERCENT, &s->control_stat[WIRE_STAT_PREFAULT_LEFT], s->opt.log,
			      &s->prefault, &err))
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("prefault_failed", KV_FIELD("reason", err.text)),
			 "the first PUTs wait for their pages: %s", err.text);
}
