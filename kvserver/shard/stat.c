/* SPDX-License-Identifier: Apache-2.0 */
/* stat.c -- the counters and gauges of a shard, as STAT returns them: events counted in s->counts, and gauges read from
 * the parts of the shard. */
#include "kvserver/shard/stat.h"

#include <stdatomic.h>
#include <string.h>

#include "kvserver/shard/private.h"
#include "kvserver/shard/shard.h"

static void store_stats(const struct store *st, uint64_t *out)
{
	out[WIRE_STAT_BLOCKS] = index_count(&st->index);
	out[WIRE_STAT_BLOCKS_MAX] = st->blocks_max;
	out[WIRE_STAT_BYTES_USED] = st->arena.used;
	out[WIRE_STAT_BYTES_LIMIT] = st->arena.limit;
	out[WIRE_STAT_STAGED_BYTES] = st->staged_bytes;
	out[WIRE_STAT_PINNED_BYTES] = st->pinned_bytes;
	out[WIRE_STAT_EVICTIONS] = st->events[STORE_EVICTED];
	out[WIRE_STAT_EXPIRED] = st->events[STORE_EXPIRED];
	for (unsigned i = 0; i < st->tenancy.count; i++) {
		const struct evict *e = i == 0 ? &st->evict : &st->tenancy.at[i]->evict;
		out[WIRE_STAT_EVICTED_RETURNED] += e->returned;
		out[WIRE_STAT_EVICTED_RETURNED_HALF] += e->returned_half;
		out[WIRE_STAT_EVICTED_RETURNED_QUARTER] += e->returned_quarter;
	}
	out[WIRE_STAT_TOMBS] = st->tombs.used;
	out[WIRE_STAT_TOMBS_DROPPED] = st->tombs.dropped;
	out[WIRE_STAT_DOUBT_DROPPED] = st->doubt.dropped;
}

static void engine_stats(const struct te *te, uint64_t *out)
{
	struct te_stats t;
	te_stats(te, &t);
	out[WIRE_STAT_EAGAIN] = t.eagain;
	out[WIRE_STAT_INFLIGHT] = t.inflight;
	out[WIRE_STAT_FENCES] = t.fences;
	out[WIRE_STAT_QUEUED] = t.queued;
	out[WIRE_STAT_MSG_EXHAUSTED] = t.msg_exhausted;
	out[WIRE_STAT_FAILED_OPS] = t.failed_ops;
	out[WIRE_STAT_REBUILD_FAILURES] = t.rebuild_failures;
	out[WIRE_STAT_SENDS] = t.sends;
	out[WIRE_STAT_WRITES] = t.writes;
	out[WIRE_STAT_READS] = t.reads;
	out[WIRE_STAT_RAIL_FAILURES] = t.rail_failures;
	out[WIRE_STAT_FAILED_PEER] = t.failed_peer;
	out[WIRE_STAT_DOOR_LET_IN] = t.door_let_in;
	out[WIRE_STAT_DOOR_STRANGERS] = t.door_strangers;
	out[WIRE_STAT_DOOR_CLAIMS] = t.door_claims;
	out[WIRE_STAT_DOOR_TWICE] = t.door_twice;
	out[WIRE_STAT_DOOR_SILENT] = t.door_silent;
	out[WIRE_STAT_DOOR_FULL] = t.door_full;
	out[WIRE_STAT_DOOR_ALIENS] = t.door_aliens;
}

/* The last place counts all further rails. */
static void rails_stats(const struct te *te, unsigned rails, uint64_t *out)
{
	for (unsigned i = 0; i < rails; i++) {
		unsigned at = KV_MIN(i, (unsigned)(WIRE_STAT_RAIL_BYTES_LAST - WIRE_STAT_RAIL_BYTES));
		struct te_stats t;
		te_rail_stats(te, i, &t);
		out[WIRE_STAT_RAIL_BYTES + at] += t.bytes_written + t.bytes_read;
		out[WIRE_STAT_RAIL_ERRORS + at] += t.failed_ops + t.failed_peer + t.failed_endpoint;
		out[te_rail_up(te, i) ? WIRE_STAT_RAILS_UP : WIRE_STAT_RAILS_OUT]++;
	}
}

/* Clients sum over shards, and these are the server's: the first shard shows them. */
static void server_stats(const struct shard *s, uint64_t *out)
{
	unsigned ending = ending_attachments(s);
	/* An attachment ending next to its client's new one is not counted. */
	out[WIRE_STAT_SESSIONS] = s->attachments.count - ending;
	out[WIRE_STAT_ENDING_SESSIONS] = ending;
	out[WIRE_STAT_LOCALS] = s->locals.count;
	out[WIRE_STAT_FURTHER_SESSIONS] = s->attachments.sessions;
	out[WIRE_STAT_SPACES] = s->store.spaces.count;
	out[WIRE_STAT_VERSION] = kv_version_number(KVRAIL_VERSION);
	out[WIRE_STAT_UPTIME_NS] = loop_now(s->loop) - s->born_ns;
}

void shard_stats(struct shard *s, uint64_t out[WIRE_STAT_END])
{
	memcpy(out, s->counts.of, sizeof(s->counts.of));
	for (uint32_t id = 1; s->opt.control && id < WIRE_STAT_END; id++)
		out[id] += atomic_load_explicit(&s->opt.control[id], memory_order_relaxed);
	store_stats(&s->store, out);
	s->opt.ops->stats(s, out);
	if (s->te) {
		engine_stats(s->te, out);
		rails_stats(s->te, s->info.rails, out);
	}
	if (s->opt.index == 0)
		server_stats(s, out);
	out[WIRE_STAT_LANDING_BYTES] = landings_bytes(s);
	out[WIRE_STAT_QUARANTINED_BYTES] = quarantined_bytes(s);
	out[WIRE_STAT_SHARED_BYTES] = s->area.shared ? s->store.arena.limit : 0;
	shard_kept_stats(s, out);
	out[WIRE_STAT_LEASED_BYTES] = s->leased_bytes;
	out[WIRE_STAT_ACTIVE] = s->requests.used;
	out[WIRE_STAT_HELD] = s->replies.held.used;
	out[WIRE_STAT_TURNS] = loop_turns(s->loop);
}

uint64_t shard_stat_get(struct shard *s, enum wire_stat id)
{
	uint64_t all[WIRE_STAT_END];
	shard_stats(s, all);
	return all[id];
}

uint32_t shard_stat_pairs(struct shard *s, uint8_t *buf, uint32_t cap)
{
	uint64_t all[WIRE_STAT_END];
	uint32_t count = 0;
	shard_stats(s, all);
	for (uint32_t id = 1; id < WIRE_STAT_END; id++)
		if (wire_stat_name(id) && wire_stat_add(buf, cap, &count, id, all[id]) != 0)
			break;
	return count;
}
