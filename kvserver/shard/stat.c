/* SPDX-License-Identifier: Apache-2.0 */
/* stat.c -- the counters and gauges of a shard, as STAT returns them. */
#include "kvserver/shard/stat.h"

#include <stdatomic.h>

#include "kvserver/shard/quarantine.h"
#include "kvserver/shard/shard.h"

/* Of rail `first`; with `last`, of all rails from there. */
static uint64_t rails_stat(struct shard *s, unsigned first, bool last, bool errors)
{
	unsigned end = last ? KV_RAILS_MAX : first + 1;
	uint64_t sum = 0;
	for (unsigned i = first; s->te && i < KV_MIN(end, s->info.rails); i++) {
		struct te_stats te;
		te_rail_stats(s->te, i, &te);
		sum += errors ? te.failed_ops + te.failed_peer + te.failed_endpoint : te.bytes_written + te.bytes_read;
	}
	return sum;
}

static uint64_t rails_up(const struct shard *s)
{
	uint64_t n = 0;
	for (unsigned i = 0; s->te && i < s->info.rails; i++)
		n += te_rail_up(s->te, i);
	return n;
}

/* The counters of the engine. */
static uint64_t engine_stat(struct shard *s, enum wire_stat id)
{
	struct te_stats te = {0};
	if (s->te)
		te_stats(s->te, &te);
	switch (id) {
	case WIRE_STAT_EAGAIN:
		return te.eagain;
	case WIRE_STAT_INFLIGHT:
		return te.inflight;
	case WIRE_STAT_FENCES:
		return te.fences;
	case WIRE_STAT_QUEUED:
		return te.queued;
	case WIRE_STAT_MSG_EXHAUSTED:
		return te.msg_exhausted;
	case WIRE_STAT_FAILED_OPS:
		return te.failed_ops;
	case WIRE_STAT_REBUILD_FAILURES:
		return te.rebuild_failures;
	case WIRE_STAT_SENDS:
		return te.sends;
	case WIRE_STAT_WRITES:
		return te.writes;
	case WIRE_STAT_READS:
		return te.reads;
	case WIRE_STAT_RAIL_FAILURES:
		return te.rail_failures;
	case WIRE_STAT_FAILED_PEER:
		return te.failed_peer;
	case WIRE_STAT_DOOR_LET_IN:
		return te.door_let_in;
	case WIRE_STAT_DOOR_STRANGERS:
		return te.door_strangers;
	case WIRE_STAT_DOOR_CLAIMS:
		return te.door_claims;
	case WIRE_STAT_DOOR_TWICE:
		return te.door_twice;
	case WIRE_STAT_DOOR_SILENT:
		return te.door_silent;
	case WIRE_STAT_DOOR_FULL:
		return te.door_full;
	case WIRE_STAT_DOOR_ALIENS:
		return te.door_aliens;
	default:
		return 0;
	}
}

/* (Long: one line for each gauge.) */
uint64_t shard_stat_get(struct shard *s, enum wire_stat id)
{
	switch (id) {
	case WIRE_STAT_BLOCKS:
		return index_count(&s->store.index);
	case WIRE_STAT_BLOCKS_MAX:
		return s->store.blocks_max;
	case WIRE_STAT_LANDING_BYTES:
		return landings_bytes(s);
	case WIRE_STAT_BYTES_USED:
		return s->store.arena.used;
	case WIRE_STAT_BYTES_LIMIT:
		return s->store.arena.limit;
	case WIRE_STAT_SESSIONS:
		/* Clients sum over shards, and every attachment is on all of them. An attachment ending next to its
		 * client's new one is not counted. */
		return s->opt.index == 0 ? s->attachment_count - ending_attachments(s) : 0;
	case WIRE_STAT_FURTHER_SESSIONS:
		return s->opt.index == 0 ? s->session_count : 0;
	case WIRE_STAT_EVICTIONS:
		return s->store.events[STORE_EVICTED];
	case WIRE_STAT_EXPIRED:
		return s->store.events[STORE_EXPIRED];
	case WIRE_STAT_EVICTED_RETURNED:
		return s->store.evict.returned;
	case WIRE_STAT_EVICTED_RETURNED_HALF:
		return s->store.evict.returned_half;
	case WIRE_STAT_EVICTED_RETURNED_QUARTER:
		return s->store.evict.returned_quarter;
	case WIRE_STAT_TOMBS:
		return s->store.tombs.used;
	case WIRE_STAT_TOMBS_DROPPED:
		return s->store.tombs.dropped;
	case WIRE_STAT_DOUBT_DROPPED:
		return s->store.doubt.dropped;
	case WIRE_STAT_VERSION:
		return s->opt.index == 0 ? kv_version_number(KVRAIL_VERSION) : 0;
	case WIRE_STAT_UPTIME_NS:
		return s->opt.index == 0 ? loop_now(s->loop) - s->born_ns : 0;
	case WIRE_STAT_QUARANTINED_BYTES:
		return quarantined_bytes(s);
	case WIRE_STAT_STAGED_BYTES:
		return s->store.staged_bytes;
	case WIRE_STAT_ENDING_SESSIONS:
		return s->opt.index == 0 ? ending_attachments(s) : 0;
	case WIRE_STAT_PINNED_BYTES:
		return s->store.pinned_bytes;
	case WIRE_STAT_ACTIVE:
		return s->requests.used;
	case WIRE_STAT_HELD:
		return s->held.used;
	case WIRE_STAT_LEASED_BYTES:
		return s->leased_bytes;
	case WIRE_STAT_STAGES:
	case WIRE_STAT_HASHING:
	case WIRE_STAT_LEASES_NOW:
		return s->opt.ops->stat(s, id);
	case WIRE_STAT_RAILS_UP:
		return rails_up(s);
	case WIRE_STAT_RAILS_OUT:
		return s->te ? s->info.rails - rails_up(s) : 0;
	case WIRE_STAT_RAIL_BYTES ... WIRE_STAT_RAIL_BYTES_LAST:
		return rails_stat(s, id - WIRE_STAT_RAIL_BYTES, id == WIRE_STAT_RAIL_BYTES_LAST, false);
	case WIRE_STAT_RAIL_ERRORS ... WIRE_STAT_RAIL_ERRORS_LAST:
		return rails_stat(s, id - WIRE_STAT_RAIL_ERRORS, id == WIRE_STAT_RAIL_ERRORS_LAST, true);
	case WIRE_STAT_EAGAIN:
	case WIRE_STAT_INFLIGHT:
	case WIRE_STAT_FENCES:
	case WIRE_STAT_QUEUED:
	case WIRE_STAT_MSG_EXHAUSTED:
	case WIRE_STAT_FAILED_OPS:
	case WIRE_STAT_REBUILD_FAILURES:
	case WIRE_STAT_SENDS:
	case WIRE_STAT_WRITES:
	case WIRE_STAT_READS:
	case WIRE_STAT_RAIL_FAILURES:
	case WIRE_STAT_FAILED_PEER:
	case WIRE_STAT_DOOR_LET_IN ... WIRE_STAT_DOOR_ALIENS:
		return engine_stat(s, id);
	case WIRE_STAT_TURNS:
		return loop_turns(s->loop);
	default:
		return s->stat[id] +
		       (s->opt.control ? atomic_load_explicit(&s->opt.control[id], memory_order_relaxed) : 0);
	}
}

uint32_t shard_stat_pairs(struct shard *s, uint8_t *buf, uint32_t cap)
{
	uint32_t count = 0;
	for (uint32_t id = 1; id < WIRE_STAT_END; id++)
		if (wire_stat_name(id) && wire_stat_add(buf, cap, &count, id, shard_stat_get(s, id)) != 0)
			break;
	return count;
}
