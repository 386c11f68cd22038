/* SPDX-License-Identifier: Apache-2.0 */
/* info.c -- information about a server: port, address, provider, memory and its NUMA nodes. */
#include <stdio.h>

#include "host/host.h"
#include "kvserver/server/private.h"
#include "kvserver/server/server.h"

uint16_t kvs_server_port(const struct kvs_server *s)
{
	return atomic_load(&s->at.port);
}

char *kvs_server_address(const struct kvs_server *s, char *buf, unsigned cap)
{
	struct sockaddr_storage a = s->at.addr;
	address_set_port(&a, kvs_server_port(s));
	return kv_sockaddr_format(&a, buf, cap);
}

/* If a NUMA node had too few pages: the share of touched memory on the requested node. */
static void share_info(const struct kvs_server *s, struct kvs_info *out)
{
	size_t at = strlen(out->numa);
	int least = 100;
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		int share = shard->place.node == KV_NODE_ANY
				    ? -1
				    : kv_numa_share(shard->area.base, shard->area.len_bytes, shard->place.node);
		if (share >= 0)
			least = KV_MIN(least, share);
	}
	if (least < 100)
		snprintf(out->numa + at, sizeof(out->numa) - at,
			 "; of a shard only %d %% of the memory: the node has no more pages", least);
}

static void memory_info(const struct kvs_server *s, struct kvs_info *out)
{
	struct kv_numa_place place[KV_SHARDS_MAX];
	for (unsigned i = 0; i < s->opt.shards; i++) {
		const struct shard *shard = s->shard[i];
		struct te_region_info region = {0};
		place[i] = shard->place;
		kv_pages_add(&out->pages, &shard->area.pages);
		if (shard->region)
			te_region_info(shard->region, &region);
		out->parts += region.parts;
		out->register_ns += region.ns;
		out->register_threads = KV_MAX(out->register_threads, region.threads);
	}
	kv_numa_describe(place, s->opt.shards, "shard", s->opt.numa_off, out->numa, sizeof(out->numa));
	share_info(s, out);
}

void kvs_server_info(const struct kvs_server *s, struct kvs_info *out)
{
	static const char *const security[] = {[BOOT_PLAIN] = "none", [BOOT_PSK] = "psk", [BOOT_CERT] = "certificate"};
	const struct te_info *info = &s->shard[0]->info;
	*out = (struct kvs_info){
		.provider = info->provider,
		.fabric = info->fabric,
		.libfabric = info->libfabric,
		.device = s->at.fabric.device,
		.device_why = info->ip ? s->at.fabric.why : "",
		.security = security[boot_context_mode(s->keys.boot)],
		.shards = s->opt.shards,
		.rails = info->rails,
		.memory_bytes = s->shard[0]->store.arena.limit * s->opt.shards,
		.pull = s->opt.allow_pull,
		.local = s->locals.on,
		.shared = s->shard[0]->area.shared,
		.open_to_anyone = listen_is_open(s),
		.no_door = info->no_door,
		.congestion = info->congestion,
	};
	memory_info(s, out);
}
