/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.c -- what transfers of clients that are gone keep from being used.
 *
 * A client that died with transfers in flight leaves quarantined blocks until the provider ends those transfers: they
 * are not reused, and charged to the memory limit. Only if they hold more than the budget (a quarter of the memory, or
 * 32 sessions) is the dead peer fenced, because that costs everybody a reconnect. */
#include "kvserver/shard/quarantine.h"

#include "kvserver/shard/request.h"

/* The arena's bytes that a session's transfers keep from being reused, without blocks that were counted in this walk
 * already. live_only: without those that the store counts as gone. */
static uint64_t held_bytes(const struct shard *s, const struct session *session, bool live_only)
{
	uint64_t bytes = 0;

	KV_LIST_EACH (n, &session->requests) {
		const struct request *r = KV_LIST_ENTRY(n, struct request, node);
		struct block *b;
		for (unsigned i = 0; request_block(r, i, &b); i++) {
			if (!b || b->mark == s->mark || (live_only && b->state == BLOCK_GONE))
				continue;
			b->mark = s->mark;
			bytes += b->mem->size;
		}
	}
	return bytes;
}

/* What may not be reused because an operation is unresolved: blocks without a key, and those of sessions that ended. */
uint64_t quarantined_bytes(struct shard *s)
{
	uint64_t bytes = s->store.gone_bytes;

	s->mark++;
	KV_LIST_EACH (n, &s->ending)
		bytes += held_bytes(s, KV_LIST_ENTRY(n, struct session, node), true);
	return bytes;
}

unsigned ending_sessions(const struct shard *s)
{
	unsigned count = 0;

	KV_LIST_EACH (n, &s->ending)
		count++;
	return count;
}

void shard_quarantine_check(struct shard *s, uint64_t now_ns)
{
	struct session *worst = NULL;
	uint64_t all = 0, most = 0;
	unsigned count = 0;
	struct kv_error err;

	s->mark++;
	KV_LIST_EACH (n, &s->ending) {
		struct session *session = KV_LIST_ENTRY(n, struct session, node);
		uint64_t bytes;
		if (now_ns < session->ended_ns + SHARD_QUARANTINE_NS)
			continue;
		bytes = held_bytes(s, session, false);
		count++;
		all += bytes;
		if (worst && bytes <= most)
			continue;
		most = bytes;
		worst = session;
	}
	/* Without an engine the shard is being closed, and nothing moves any more. */
	if (!worst || !s->te || te_fencing(s->te) || now_ns < s->fenced_ns + SHARD_QUARANTINE_NS ||
	    (all <= s->store.arena.limit / SHARD_QUARANTINE_SHARE && count <= SHARD_QUARANTINE_SESSIONS))
		return;
	kv_warn(s->opt.log,
		"shard %u: transfers of %u clients that are gone hold %llu MiB; the peer of client %llu is fenced",
		s->opt.index, count, (unsigned long long)(all >> 20), (unsigned long long)worst->client_id);
	s->fenced_ns = now_ns;
	if (te_peer_fence(worst->peer, &err) < 0)
		kv_error_log(s->opt.log, "shard %u: %s", s->opt.index, err.text);
}
