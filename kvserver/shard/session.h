/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- one client session on one shard: its peer, links, requests, stages, pins and regions. */
#ifndef KVRAIL_KVSERVER_SHARD_SESSION_H
#define KVRAIL_KVSERVER_SHARD_SESSION_H

#include <stdatomic.h>

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "kvserver/shard/answers.h"
#include "kvserver/control/loopcall.h"
#include "kvserver/shard/owner.h"
#include "kvserver/control/region.h"
#include "wire/wire.h"

enum {
	SESSION_HELD_SLACK = 16, /* replies that may wait for a send buffer beyond the link's credits */
	SESSION_STAGES_MAX = 256,
	SESSION_STAGE_SHARE = 2 /* of a shard's memory, one session may stage a half (one value alone: what fits) */
};

/* One (client rail, shard rail) pair. */
struct link {
	struct session *session;
	struct owner *owner; /* whose the records are that are being read; else the session's own */
	uint8_t index;
	bool follows; /* it has replies that must arrive behind bytes (te_msg_follow) */
	bool proven;  /* the client has shown that it is at the address: it is served, and data may go by it (link.c) */
	uint32_t pings; /* answered while it was not, since ... */
	uint64_t unproven_ns;
	uint64_t nonce; /* that proves it; not 0 */
	struct kv_seal seal;
	struct kv_window window; /* of request ids */
	uint32_t active;         /* requests begun and not answered */
	uint32_t held;           /* replies waiting for a send buffer */
	uint32_t frames;         /* reply frames begun and not yet out of the engine's hands */
	struct kv_list holding;  /* struct held, in order */
	struct kv_list blocked;  /* of the shard, while holding is not empty */
	struct kv_list dirty;    /* of the shard, while msg is not NULL */
	struct te_msg *msg;      /* the reply frame being filled */
	struct wire_writer writer;
	struct answers_link answers; /* of its requests, for a late CANCEL */
};

/* GONE: nothing refers to it any more but reply frames that the engine has not given back. */
enum session_state { SESSION_OPEN, SESSION_ENDING, SESSION_GONE };

struct session {
	struct shard *shard;
	uint32_t number, mark; /* mark: what the client calls it, in all frames */
	enum session_state state;
	uint64_t ended_ns;
	uint64_t client_id;
	struct te_peer *peer;
	_Atomic uint64_t *received; /* requests, for the heartbeat; one writer */
	_Atomic bool *anew;         /* set: the client shall begin a new session; NULL: cannot be told */
	struct kv_list node;        /* of the shard, once ENDING */
	struct kv_list requests;    /* struct request, until nothing of them is in flight */
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
	struct kv_list regions[REGION_BUCKETS];
	uint32_t region_count;
	struct call *idle, *gone; /* finished when no request is left; `gone` then frees the session */
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
	_Atomic uint64_t *received;
	_Atomic bool *anew;
};

/* session_open -- insert the client's addresses; requests may come from now on, by each link once its client has proven
 * it. 0, -KV_ENOMEM, -KV_EFULL, -KV_ECLOSED, or the engine's code with *err. */
int session_open(struct shard *shard, const struct session_args *args, struct session **out, struct kv_error *err);

/* session_stop -- no new requests, queued work is dropped, what is in flight is kept until it completes and counts as
 * left behind by a client that is gone (shard_quarantine_check). A second time it does nothing. */
void session_stop(struct session *s);

/* session_end -- session_stop, and when nothing is in flight any more the peer is closed, the session freed and `gone`
 * finished. */
void session_end(struct session *s, struct call *gone);

/* session_hurry -- it ends, and its client waits for that: cut off its peer, if the engine can do so without harm to
 * others. */
void session_hurry(struct session *s);

/* session_when_idle -- finish `idle` as soon as no request of the session is in flight (at once if there is none). */
void session_when_idle(struct session *s, struct call *idle);

/* session_readdress -- the client has other addresses: what was under way for it is stopped without an answer, and it
 * has to prove its links again. 0, -KV_ECLOSED, or what kv_entropy_fill and te_peer_readdress say; the links are
 * unproven then, too. */
int session_readdress(struct session *s, const struct te_address *addrs, unsigned rails, struct kv_error *err);

/* session_region_add -- 0, -KV_EEXIST, -KV_ELIMIT or -KV_ENOMEM. session_region_revoke -- finish `revoked` when nothing
 * uses the region; at once if it is not there. */
int session_region_add(struct session *s, const struct region *region);
void session_region_revoke(struct session *s, uint32_t id, struct call *revoked);
struct region_use *session_region_find(const struct session *s, uint32_t id);
void region_use_release(struct region_use *u);

/* session_frame -- the records of a frame that was unsealed. */
void session_frame(struct session *s, unsigned link, struct wire_reader *records, uint64_t now_ns);

/* ---- link.c ---- */

/* link_words -- of the bits of a link's windows, one of so many request ids and one of half as many frames: a frame has
 * several ids, and a client has 256 buffers to send them in. */
static inline uint32_t link_words(uint32_t width)
{
	return kv_window_words(width) + kv_window_words(width / 2);
}

/* link_open -- of a session that has its keys and the bits of its windows. 0, or what kv_entropy_fill says; link_close
 * follows in any case. */
int link_open(struct link *l, struct session *s, unsigned index);
void link_close(struct link *l);

/* link_unprove -- a new nonce, and until it comes back nothing but PING is served by this link. What kv_entropy_fill
 * says. link_prove -- a nonce came. link_admits -- whether a request by a link that is not proven is served; if not it
 * is counted. */
int link_unprove(struct link *l);
void link_prove(struct link *l, uint64_t nonce);
bool link_admits(struct link *l, uint8_t type, uint64_t now_ns);

/* link_answered -- what a CANCEL of this id is told from now on (answers.h). */
static inline void link_answered(struct link *l, uint64_t id, uint32_t posted)
{
	struct session *s = l->session;

	answers_note(&s->answers, &l->answers, l->index, s->links, sizeof(*l), id, posted);
}

/* session_bytes -- that a session of so many links takes of the allocator at a shard, of so many shards, without what
 * OpenSSL has for its two keys, and without what it stores and pins. */
size_t session_bytes(unsigned links, unsigned shards);

/* session_lost -- `writes` data writes of it failed after they had been posted, or replies to it did (0). Their
 * immediates may never come, or they themselves, and the client waits for them: it is told to begin a new session.
 * Once per session, whatever else fails of it; what the next one meets is that one's. */
void session_lost(struct session *s, uint32_t writes);

/* session_tick -- now and then: give up stages without progress. */
void session_tick(struct session *s, uint64_t now_ns);

/* session_settle -- a request went: see whether somebody waited for that. May free the session: nothing of it may be
 * used afterwards. */
void session_settle(struct session *s);

/* session_frame_sent -- the engine gave a reply frame back. May free the session. */
void session_frame_sent(struct session *s);

#endif
