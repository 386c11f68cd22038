/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- one (client rail, shard rail) pair of an attachment: its seal and windows, its reply frame, and the proof
 * of the client's address. */
#ifndef KVRAIL_KVSERVER_SHARD_LINK_H
#define KVRAIL_KVSERVER_SHARD_LINK_H

#include "base/base.h"
#include "engine/engine.h"
#include "kvserver/shard/answers.h"
#include "wire/wire.h"

struct session;
struct shard_attachment;

struct link {
	struct shard_attachment *attachment;
	struct session *session; /* of the records being read; else the attachment's own */
	uint8_t index;
	bool follows;   /* its frame has replies that must arrive behind bytes (te_msg_follow) */
	bool proven;    /* the client has proven its address: the link is served, and may carry data (link.c) */
	uint32_t pings; /* answered while unproven, since ... */
	uint64_t unproven_ns;
	uint64_t nonce; /* expected in the proof; not 0 */
	struct kv_seal seal;
	struct kv_window window; /* of request ids */
	uint32_t active;         /* unanswered requests: used credits */
	uint32_t held;
	uint32_t frames;        /* reply frames begun and not returned by the engine */
	struct kv_list holding; /* struct held, in order */
	struct kv_list blocked; /* of the shard, while holding is not empty */
	struct kv_list dirty;   /* of the shard, while msg is not NULL */
	struct te_msg *msg;
	struct wire_writer writer;
	struct answers_link answers;
};

/* link_words -- words for the bits of a link's windows: `width` request ids, and half as many frames, since a client
 * has 256 buffers to send them. */
static inline uint32_t link_words(uint32_t width)
{
	return kv_window_words(width) + kv_window_words(width / 2);
}

/* link_open -- for an attachment with its keys and window bits. 0, or a code of kv_entropy_fill; link_close follows in
 * any case. */
int link_open(struct link *l, struct shard_attachment *s, unsigned index);
void link_close(struct link *l);

/* link_unprove -- make a new nonce; until its return this link serves only PING. Returns kv_entropy_fill's code.
 * link_prove -- a nonce arrived. link_admits -- whether a request by an unproven link is served; a refusal is counted.
 */
int link_unprove(struct link *l);
void link_prove(struct link *l, uint64_t nonce);
bool link_admits(struct link *l, uint8_t type, uint64_t now_ns);

#endif
