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
	SESSION_STAGE_SHARE = 2 /* a session may stage half of a shard's memory (a single value: any size that fits) */
};

/* GONE: only reply frames in the engine refer to it. */
enum session_state { SESSION_OPEN, SESSION_ENDING, SESSION_GONE };

struct session {
	struct shard *shard;
	uint32_t number, mark; /* mark: the client's name for it, in all frames */
	enum session_state state;
	uint64_t ended_ns;
	uint64_t client_id;
	struct te_peer *peer;
	_Atomic bool *anew;      /* set: the client must begin a new session; NULL: no way to inform it */
	struct kv_list node;     /* of the shard, once ENDING */
	struct kv_list requests; /* struct request, until nothing of them is in flight */
	uint32_t request_count, frames;
	struct kv_list stages;
	uint32_t stage_count;  /* includes PUTs waiting for memory */
	uint64_t staged_bytes; /* of the arena, in its stages */
	struct kv_list leases; /* struct lease */
	uint32_t lease_count;
	uint64_t leased_bytes; /* of the arena, each lease counted */
	struct owner own;      /* the session as an owner of requests, stages and pins */
	struct owners owners;  /* further sessions */
	struct answers answers;
	struct regions regions;
	struct landing *landing;  /* its client has said goodbye: nothing is in flight */
	bool parting;             /* its connection ended: its client has not returned over the same endpoints yet */
	bool gone_away;           /* finished when no request is left; with `gone` the session is freed then */
	struct call *idle, *gone; /* finished when no request is left; with `gone` the session is freed then */
	unsigned links;
	uint32_t window_width;
	struct kv_macs macs; /* of the links' seals */
	struct link link[];  /* followed by the bits of their windows: link_words for each */
};

struct session_args {
	uint32_t number; /* never 0: the lower 16 bits are the slot, the upper ones a generation */
	uint32_t mark;
	const uint8_t *frame_secret; /* BOOT_FRAME_SECRET bytes, from which frame keys are made; not kept */
	uint64_t client_id;
	const struct te_address *addrs;
	unsigned rails;
	_Atomic bool *anew;
};

/* session_open -- insert the client's addresses. Requests may then come, by each link once it is proven. 0, -KV_ENOMEM,
 * -KV_EFULL, -KV_ECLOSED, or the engine's code with *err. */
int session_open(struct shard *shard, const struct session_args *args, struct session **out, struct kv_error *err);

/* link_answered -- record `posted` for a CANCEL of this id (answers.h). */
static inline void link_answered(struct link *l, uint64_t id, uint32_t posted)
{
	struct session *s = l->session;

	answers_note(&s->answers, &l->answers, l->index, s->links, sizeof(*l), id, posted);
}

/* session_bytes -- allocated bytes of a session with this many links at one of this many shards, without OpenSSL's
 * memory for its two keys, values and pins. */
size_t session_bytes(unsigned links, unsigned shards);

/* session_lost -- `writes` posted data writes of it failed, or replies to it did (0). The client waits for immediates
 * or replies that may never come, so it must begin a new session. Reported once per session. */
void session_lost(struct session *s, uint32_t writes);

/* session_settle -- a request was freed: finish the calls waiting for that. May free the session. session_settled --
 * its slow part: the last request was freed, and a call may wait. */
void session_settled(struct session *s);
static inline void session_settle(struct session *s)
{
	if (s->request_count == 0 && KV_UNLIKELY(s->idle || s->gone || s->shard->drained))
		session_settled(s);
}

/* session_find -- a shard's session by number, or NULL. */
static inline struct session *session_find(const struct shard *shard, uint32_t number)
{
	unsigned slot = number & 0xFFFF;
	struct session *session = slot < shard->slots ? shard->slot[slot] : NULL;

	return session && session->number == number ? session : NULL;
}

/* session_frame_sent -- the engine returned a reply frame. May free the session. */
void session_frame_sent(struct session *s);

#endif
