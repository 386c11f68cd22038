/* SPDX-License-Identifier: Apache-2.0 */
/* server.c -- the calls about one server or shard: ping, stat, and tombstones. */
#include "kvclient/call/keyed.h"
#include "kvclient/conn/alias.h"
#include "kvclient/transfer/ask.h"
#include "kvclient/transfer/call.h"

static int shards_await(struct kvc_client *c, const struct kvc_call *call, const struct wire_request *wire, void *into,
			struct kc_trace *t)
{
	uint64_t deadline = kc_call_deadline(c, call, 0);
	struct kc_node *n;
	int rc = 0;
	if (call->server >= c->num_nodes)
		return -KV_EINVAL;
	n = kc_alias_node_await(c, call->server, deadline);
	if (call->shard > 0) {
		rc = kc_ask_shard_await(n, wire, call->shard - 1, deadline, into, t);
		return rc == 1 ? -KV_EINVAL : rc;
	}
	for (uint32_t shard = 0; rc == 0; shard++)
		rc = kc_ask_shard_await(n, wire, shard, deadline, into, t);
	return rc == 1 ? 0 : rc;
}

static int server_await(struct kvc_client *c, const struct kvc_call *call, enum kvc_op op,
			const struct wire_request *wire, void *into)
{
	struct kvc_call own;
	struct kc_trace t;
	int rc = kc_call_open(c, &t, op, call, &own);
	return rc < 0 ? rc : (int)kc_call_end(c, &t, shards_await(c, &own, wire, into, &t));
}

int kvc_ping_await(struct kvc_client *client, const struct kvc_call *call)
{
	return server_await(client, call, KVC_OP_PING, &(struct wire_request){.type = WIRE_PING}, NULL);
}

int kc_tombs_await(struct kvc_client *c, uint64_t from, struct kc_tombs *out, const struct kvc_call *call)
{
	return server_await(c, call, KVC_OP_STAT, &(struct wire_request){.type = WIRE_TOMBS, .tombs.from = from}, out);
}

int kvc_stat_await(struct kvc_client *client, struct kvc_stat_item *out, unsigned max, const struct kvc_call *call)
{
	struct kc_stats stats = {0};
	unsigned n = 0;
	int rc;
	if (!out && max > 0)
		return -KV_EINVAL;
	rc = server_await(client, call, KVC_OP_STAT, &(struct wire_request){.type = WIRE_STAT}, &stats);
	for (uint32_t id = 1; rc == 0 && id < WIRE_STAT_END && n < max; id++) {
		struct wire_stat_info info = wire_stat_info(id);
		if (id >= WIRE_STAT_RAIL_BYTES && id <= WIRE_STAT_RAIL_ERRORS_LAST && stats.value[id] == 0)
			continue;
		if (info.name)
			out[n++] = (struct kvc_stat_item){.name = info.name,
							  .value = stats.value[id],
							  .group = info.group,
							  .unit = info.unit,
							  .kind = (enum kvc_stat_kind)info.kind};
	}
	return rc < 0 ? rc : (int)n;
}
