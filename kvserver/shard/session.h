/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- an attachment's session on one shard: its peer, links, requests, stages, leases, pins and regions. */
#ifndef KVRAIL_KVSERVER_SHARD_SESSION_H
#define KVRAIL_KVSERVER_SHARD_SESSION_H

#include <stdatomic.h>

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "kvserver/shard/answers.h"
#include "kvserver/shard/landing.h"
#include "kvserver/shard/link.h"
#include "kvserver/shard/owner.h"
#include "kvserver/shard/region.h"
#include "kvserver/shard/shard.h"

enum {
	SESSION_HELD_SLACK = 16, /* replies that may wait for a send buffer beyond the link's credits */
	SESSION_STAGES_MAX = 256,
	SESSION_STAGE_SHARE = 2 /* of a shard's memory, one session may stage a half (one value alone: what fits) */
};

/* GONE: nothing refers to it any more but reply frames that the engine has not given back. */
enum session_state { SESSION_OPEN, SESSION_ENDING, SESSION_GONE };

struct session {
	struct shard *shard;
	uint32_t number, mark; /* mark: the client's name for it, in all frames */
	enum session_state state;
	uint64_t ended_ns;
	uint64_t client_id;
	struct te_peer *peer;
	_Atomic bool *anew;      /* set: the client must begin a new session; NULL: it cannot be told */
	struct kv_list node;     /* of the shard, once ENDING */
	struct kv_list requests; /* struct request, until nothing of them is in flight */
	uint32_t request_count, frames;
	struct kv_list stages;
	uint32_t stage_count;  /* and PUTs that wait for memory */
	uint64_t staged_bytes; /* of the arena, in its stages */
	struct kv_list leases; /* struct lease */
	uint32_t lease_count;
	uint64_t leased_bytes; /* of the arena, each lease counted */
	struct owner own;      /* the session as an owner of requests, stages and pins */
	struct owners owners;  /* further sessions */
	struct answers answers;
	struct regions regions;
	struct landing *landing;  /* NULL: it has none */
	bool parting;             /* its client has said goodbye: nothing of it is under way */
	bool gone_away;           /* its connection ended: its client is not back over the same endpoints yet */
	struct call *idle, *gone; /* finished when no request is left; with `gone` the session is freed then */
	unsigned links;
	uint32_t window_width;
	struct kv_macs macs; /* of the links' seals */
	struct link link[];  /* and behind them the bits of their windows: link_words for each */
};

struct session_args {
	uint32_t number; /* never 0: the lower 16 bits are the slot, the upper ones a generation */
	uint32_t mark;
	const uint8_t *frame_secret; /* BOOT_FRAME_SECRET bytes, that keys of frames are made of; not kept */
	uint64_t client_id;
	const struct te_address *addrs;
	unsigned rails;
	_Atomic bool *anew;
};

/* session_open -- insert the client's addresses. Requests may come from now on, by each link once the client has proven
 * it. 0, -KV_ENOMEM, -KV_EFULL, -KV_ECLOSED, or the engine's code with *err. */
int session_open(struct shard *shard, const struct session_args *args, struct session **out, struct kv_error *err);

/* link_answered -- a CANCEL of this id is told `posted` from now on (answers.h). */
static inline void link_answered(struct link *l, uint64_t id, uint32_t posted)
{
	struct session *s = l->session;

	answers_note(&s->answers, &l->answers, l->index, s->links, sizeof(*l), id, posted);
}

/* session_bytes -- the bytes that a session of so many links takes from the allocator at one of so many shards. Not
 * counted: OpenSSL's memory for its two keys, and values and pins. */
size_t session_bytes(unsigned links, unsigned shards);

/* session_lost -- `writes` data writes of it failed after they had been posted, or replies to it did (0). The client
 * waits for immediates or replies that may never come, so it is told to begin a new session. Once per session, whatever
 * else fails of it; failures of its next session count for that one. */
void session_lost(struct session *s, uint32_t writes);

/* session_settle -- a request was freed: finish the calls that waited for that. May free the session: nothing of it may
 * be used afterwards. session_settled -- its slow part: the last request was freed, and a call may wait. */
void session_settled(struct session *s);
static inline void session_settle(struct session *s)
{
	if (s->request_count == 0 && KV_UNLIKELY(s->idle || s->gone || s->shard->drained))
		session_settled(s);
}

/* session_find -- of a shard, by number, or NULL. */
static inline struct session *session_find(const struct shard *shard, uint32_t number)
{
	unsigned slot = number & 0xFFFF;
	struct session *session = slot < shard->slots ? shard->slot[slot] : NULL;

	return session && session->number == number ? session : NULL;
}

/* session_frame_sent -- the engine gave a reply frame back. May free the session. */
void session_frame_sent(struct session *s);

#endif
