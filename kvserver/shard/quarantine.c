/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.c -- memory kept by transfers of gone clients, and the fence when it is too much.
 *
 * A client that died with transfers in flight leaves quarantined blocks until the provider ends those transfers. The
 * dead peer is fenced only if they exceed the budget (a quarter of the memory, or 32 attachments), because a fence
 * costs every client a reconnect; on shm after a short time, because they block all live clients
 * (te_info.death_stalls). */
#include "kvserver/shard/private.h"

#include "kvserver/shard/request.h"

/* The arena's bytes kept by an attachment's transfers, except blocks already counted in this walk. live_only: except
 * those the store counts as gone. */
static uint64_t held_bytes(const struct shard *s, const struct shard_attachment *attachment, bool live_only)
{
	uint64_t bytes = 0;
	KV_LIST_EACH (n, &attachment->requests) {
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

/* Bytes not reusable because an operation is unresolved: blocks without a key, and those of ended attachments. */
uint64_t quarantined_bytes(struct shard *s)
{
	uint64_t bytes = s->store.gone_bytes;
	s->mark++;
	KV_LIST_EACH (n, &s->attachments.ending)
		bytes += held_bytes(s, KV_LIST_ENTRY(n, struct shard_attachment, node), true);
	return bytes;
}

unsigned ending_attachments(const struct shard *s)
{
	unsigned count = 0;
	KV_LIST_EACH (n, &s->attachments.ending)
		count++;
	return count;
}

void shard_quarantine_check(struct shard *s, uint64_t now_ns)
{
	struct shard_attachment *worst = NULL;
	uint64_t all = 0, most = 0, wait_ns = s->info.death_stalls ? SHARD_STALL_NS : SHARD_QUARANTINE_NS;
	unsigned count = 0;
	bool within;
	s->mark++;
	KV_LIST_EACH (n, &s->attachments.ending) {
		struct shard_attachment *attachment = KV_LIST_ENTRY(n, struct shard_attachment, node);
		uint64_t bytes;
		if (now_ns < attachment->ended_ns + wait_ns)
			continue;
		bytes = held_bytes(s, attachment, false);
		count++;
		all += bytes;
		if (worst && bytes <= most)
			continue;
		most = bytes;
		worst = attachment;
	}
	within = all <= s->store.arena.limit / SHARD_QUARANTINE_SHARE && count <= SHARD_QUARANTINE_ATTACHMENTS;
	/* Without an engine the shard is closing, and nothing moves any more. */
	if (!worst || !s->te || te_fencing(s->te) || now_ns < s->fenced_ns + wait_ns ||
	    (within && !s->info.death_stalls))
		return;
	kv_event(s->opt.log, KV_LOG_WARN,
		 KV_EVENT("peer_fenced", KV_NUMBER("shard", s->opt.index), KV_NUMBER("client_id", worst->client_id),
			  KV_NUMBER("clients", count), KV_NUMBER("bytes", all)),
		 "shard %u: transfers of %u lost client%s hold %llu MiB%s; client %llu is fenced", s->opt.index, count,
		 count == 1 ? " that is" : "s that are", (unsigned long long)(all >> 20),
		 s->info.death_stalls ? " and block all other transfers" : "", (unsigned long long)worst->client_id);
	s->fenced_ns = now_ns;
	shard_attachment_fence(worst);
}
