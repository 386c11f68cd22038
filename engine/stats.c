/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c -- copy out an engine's properties, counters and gauges. Counters live in the rails and in te.stats; gauges
 * are computed here. */
#include <stdio.h>

#include "engine/cut.h"
#include "engine/inside.h"
#include "engine/rail.h"

static uint64_t inflight(const struct rail *r)
{
	return r->pool.limit - r->pool.credits;
}

static void door_add(const struct rail *r, struct te_stats *out)
{
	struct fab_door_counts c;
	if (!r->fab)
		return;
	fab_door_counts(r->fab, &c);
	out->door_let_in += c.let_in;
	out->door_strangers += c.strangers;
	out->door_claims += c.claims;
	out->door_twice += c.twice;
	out->door_silent += c.silent;
	out->door_full += c.full;
	out->door_aliens += c.aliens;
}

void te_rail_stats(const struct te *te, unsigned rail, struct te_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (rail >= te->nrails)
		return;
	*out = te->rails[rail].stats;
	out->inflight = inflight(&te->rails[rail]);
	door_add(&te->rails[rail], out);
}

bool te_rail_up(const struct te *te, unsigned rail)
{
	return rail < te->nrails && rail_up(&te->rails[rail]);
}

int te_rail_numa_node(const struct te *te, unsigned rail)
{
	return rail < te->nrails ? te->rails[rail].numa_node : -1;
}

const char *te_rail_device(const struct te *te, unsigned rail)
{
	return rail < te->nrails ? te->rails[rail].device : "";
}

_Static_assert(sizeof(struct te_stats) % sizeof(uint64_t) == 0, "every field is a uint64_t");

/* Each counter is in te.stats or in the rails' stats; the other is 0. */
static void stats_add(struct te_stats *to, const struct te_stats *more)
{
	uint64_t sum[sizeof(*to) / sizeof(uint64_t)], add[KV_COUNT(sum)];
	memcpy(sum, to, sizeof(sum));
	memcpy(add, more, sizeof(add));
	for (size_t i = 0; i < KV_COUNT(sum); i++)
		sum[i] += add[i];
	memcpy(to, sum, sizeof(sum));
}

void te_stats(const struct te *te, struct te_stats *out)
{
	*out = te->stats;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct te_stats rail;
		te_rail_stats(te, i, &rail);
		stats_add(out, &rail);
	}
	out->queued = te->backlog.queued;
}

/* At most half of the queue, since providers count their own entries differently. Where immediates use up our receives,
 * half of the receives: messages need the others, and a message without a receive waits as long as the peer's NIC
 * retries. */
static uint32_t imm_room(const struct rail *r)
{
	const struct fab_caps *c = fab_caps(r->fab);
	uint32_t receives = rail_receives(r), own = r->pool.limit - r->pool.withheld + receives;
	uint32_t room = KV_MIN(c->cq_depth / 2, c->cq_depth > own ? c->cq_depth - own : 0);
	return c->imm_takes_receive ? KV_MIN(room, receives / 2) : room;
}

/* An immediate may arrive by any rail, also by one that stands for another. So the rail with the least room decides. */
static void depths(const struct te *te, struct te_info *out)
{
	out->tx_depth = out->rx_depth = out->cq_depth = out->imm_room = UINT32_MAX;
	for (unsigned i = 0; i < te->nrails; i++) {
		const struct rail *r = &te->rails[i];
		out->tx_depth = KV_MIN(out->tx_depth, r->pool.limit - r->pool.withheld);
		out->rx_depth = KV_MIN(out->rx_depth, r->recv.count);
		out->cq_depth = KV_MIN(out->cq_depth, fab_caps(r->fab)->cq_depth);
		out->imm_room = KV_MIN(out->imm_room, imm_room(r));
	}
}

void te_info(const struct te *te, struct te_info *out)
{
	const struct fab_caps *c = fab_caps(te->rails[0].fab);
	memset(out, 0, sizeof(*out));
	memcpy(out->provider, c->provider, sizeof(out->provider));
	memcpy(out->fabric, c->fabric, sizeof(out->fabric));
	memcpy(out->domain, c->domain, sizeof(out->domain));
	memcpy(out->libfabric, c->libfabric, sizeof(out->libfabric));
	memcpy(out->why, te->why, sizeof(out->why));
	memcpy(out->no_door, c->no_door, sizeof(out->no_door));
	memcpy(out->congestion, c->congestion, sizeof(out->congestion));
	out->rails = te->nrails;
	out->numa_node = te->place.node;
	out->near = te->place.near;
	out->node_error = te->place.error ? te->place.error : te->msgs.area.node_error;
	out->pins_memory = c->pins_memory;
	out->wait_fd = c->wait_fd;
	out->eager_bytes = c->eager_bytes;
	out->chunk_bytes = te->rules.chunk_bytes;
	depths(te, out);
	out->ip = c->ip;
	out->virt_addr = c->virt_addr;
	out->ordered = te->rules.can_order;
	out->write_emulated = c->write_emulated;
	out->read_emulated = c->read_emulated;
	out->death_fatal = fab_caps(te->rails[0].fab)->local_process_death_fatal;
	out->death_stalls = fab_caps(te->rails[0].fab)->death_stalls;
	out->read_unsafe = te->rules.read_unsafe;
	out->reads_refused = te->rules.reads_refused;
	out->peer_fence = cut_able(te);
	/* Twice: endpoints may be abandoned a second time (fence.c). */
	for (unsigned i = 0; i < te->nrails; i++)
		out->limbo_max_ns = KV_MAX(out->limbo_max_ns, 2 * fab_caps(te->rails[i].fab)->close_max_ns);
	out->msg_memory_bytes = te->msgs.bytes;
}
