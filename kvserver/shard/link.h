/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- one (client rail, shard rail) pair of a session: its seal and windows, the reply frame that is being
 * filled, and the proof that the client is at its address. */
#ifndef KVRAIL_KVSERVER_SHARD_LINK_H
#define KVRAIL_KVSERVER_SHARD_LINK_H

#include "base/base.h"
#include "engine/engine.h"
#include "kvserver/shard/answers.h"
#include "wire/wire.h"

struct owner;
struct session;

/* One (client rail, shard rail) pair. */
struct link {
	struct session *session;
	struct owner *owner; /* the owner of the records that are being read; else the session's own */
	uint8_t index;
	bool follows;   /* its frame has replies that must arrive behind bytes (te_msg_follow) */
	bool proven;    /* the client has shown that it is at the address: the link is served, and data may go by it
			 * (link.c) */
	uint32_t pings; /* answered while it was not, since ... */
	uint64_t unproven_ns;
	uint64_t nonce; /* that proves it; not 0 */
	struct kv_seal seal;
	struct kv_window window; /* of request ids */
	uint32_t active;         /* requests begun and not answered: credits that are taken */
	uint32_t held;           /* replies waiting for a send buffer: their credits are taken still */
	uint32_t frames;         /* reply frames begun and not yet out of the engine's hands */
	struct kv_list holding;  /* struct held, in order */
	struct kv_list blocked;  /* of the shard, while holding is not empty */
	struct kv_list dirty;    /* of the shard, while msg is not NULL */
	struct te_msg *msg;      /* the reply frame being filled */
	struct wire_writer writer;
	struct answers_link answers; /* of its requests, for a late CANCEL */
};

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

/* link_unprove -- make a new nonce; until it comes back this link serves nothing but PING. Returns what kv_entropy_fill
 * says. link_prove -- a nonce came. link_admits -- whether a request by a link that is not proven is served; if not, it
 * is counted. */
int link_unprove(struct link *l);
void link_prove(struct link *l, uint64_t nonce);
bool link_admits(struct link *l, uint8_t type, uint64_t now_ns);

#endif
