/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c -- the options of a server: fill in defaults, and refuse impossible values. */
#include "kvserver/server/private.h"

#include "host/host.h"
#include "kvserver/server/server.h"
#include "kvserver/ops/lease.h"
#include "kvserver/shard/session.h"

enum { RECOVER_BYTES_PER_VALUE = 16 << 10, RECOVER_VALUES_MIN = 1024 };

void settings_fill(struct kvs_options *o)
{
	if (!o->listen_addr)
		o->listen_addr = KV_SERVER_DEFAULT;
	if (!o->cluster)
		o->cluster = "";
	if (!o->shards)
		o->shards = KV_MIN(4u, kv_cpus_available());
	if (!o->memory_bytes)
		o->memory_bytes = 1ull << 30;
	if (!o->landing_bytes)
		o->landing_bytes = KVS_LANDING_DEFAULT;
	if (!o->max_clients)
		o->max_clients = KVS_CLIENTS_DEFAULT;
	if (!o->max_sessions)
		o->max_sessions = KV_MAX(o->max_clients / 2, 1u);
	if (!o->credits)
		o->credits = KVS_CREDITS_DEFAULT;
	if (!o->heartbeat_ms)
		o->heartbeat_ms = KVS_HEARTBEAT_MS_DEFAULT;
	if (!o->value_max)
		o->value_max = KV_VALUE_MAX;
	if (!o->lease_ns)
		o->lease_ns = LEASE_NS;
	if (!o->tier_segment)
		o->tier_segment = TIER_SEGMENT_DEFAULT;
	if (o->recover && !o->values_max) /* a record of each takes memory from the start */
		o->values_max = KV_MAX(o->memory_bytes / RECOVER_BYTES_PER_VALUE, (uint64_t)RECOVER_VALUES_MIN);
	if (!o->clock)
		o->clock = &kv_clock_monotonic;
	if (!o->entropy)
		o->entropy = &kv_entropy_kernel;
}

int settings_check(const struct kvs_options *o, struct kv_error *err)
{
	int policies = 0;
	while (evict_policy_names[policies])
		policies++;
	if (o->shards > KV_SHARDS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u shards; there are at most %d", o->shards, KV_SHARDS_MAX);
	if (o->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u rails; there are at most %d", o->rails, KV_RAILS_MAX);
	if (o->max_clients > KVS_CLIENTS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u clients; one server admits at most %d", o->max_clients,
			       KVS_CLIENTS_MAX);
	if (o->lease_ns < LEASE_MIN_NS || o->lease_ns > LEASE_MAX_NS)
		return kv_fail(err, -KV_EINVAL, "a lease of %llu us; it is 10 ms to 60 s",
			       (unsigned long long)(o->lease_ns / 1000));
	if (o->max_sessions > SESSIONS_MAX)
		return kv_fail(err, -KV_EINVAL, "%u further sessions; one connection has at most %d", o->max_sessions,
			       SESSIONS_MAX);
	if (o->local_socket && (o->local_off || o->arena_private))
		return kv_fail(err, -KV_EINVAL,
			       "--local-socket %.200s has no effect with --local off or --arena private: remove one of "
			       "them",
			       o->local_socket);
	if (o->tier_segment < TIER_SEGMENT_MIN || o->tier_segment > TIER_SEGMENT_MAX || o->tier_segment % TIER_BUFFER)
		return kv_fail(err, -KV_EINVAL,
			       "--tier-segment: %llu bytes; it is a multiple of 1 MiB, 256 MiB at most",
			       (unsigned long long)o->tier_segment);
	if (o->eviction < 0 || o->eviction >= policies)
		return kv_fail(err, -KV_EINVAL, "there is no eviction policy number %d", o->eviction);
	return 0;
}

int settings_fit(const struct kvs_options *o, struct kv_error *err)
{
	char want[32];
	if (o->memory_bytes / o->shards < 1 << 20)
		return kv_fail(err, -KV_EINVAL,
			       "%s for %u shard%s: a shard needs 1 MiB at least; give more memory (--memory-mb) or "
			       "fewer shards (--worker-threads)",
			       kv_size_format(o->memory_bytes, want, sizeof(want)), o->shards,
			       o->shards == 1 ? "" : "s");
	return 0;
}
