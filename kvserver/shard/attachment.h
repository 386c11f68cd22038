/* SPDX-License-Identifier: Apache-2.0 */
/* attachment.h -- an attachment on one shard: its peer, links, requests, stages, leases, pins and regions. */
#ifndef KVRAIL_KVSERVER_SHARD_ATTACHMENT_H
#define KVRAIL_KVSERVER_SHARD_ATTACHMENT_H

#include <stdatomic.h>

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "kvserver/shard/answers.h"
#include "kvserver/shard/landing.h"
#include "kvserver/shard/link.h"
#include "kvserver/shard/session.h"
#include "kvserver/shard/region.h"
#include "kvserver/shard/shard.h"

enum {
	ATTACHMENT_HELD_SLACK = 16, /* replies that may wait for a send buffer beyond the link's credits */
	ATTACHMENT_STAGES_MAX = 256,
	ATTACHMENT_STAGE_SHARE =
		2 /* an attachment may stage half of a shard's memory (a single value: any size that fits) */
};

/* GONE: only reply frames in the engine refer to it. */
enum shard_attachment_state { ATTACHMENT_OPEN, ATTACHMENT_ENDING, ATTACHMENT_GONE };

struct shard_attachment {
	struct shard *shard;
	uint32_t number, mark; /* mark: the client's name for it, in all frames */
	enum shard_attachment_state state;
	uint64_t ended_ns;
	uint64_t client_id;
	struct te_peer *peer;
	_Atomic bool *anew;      /* set: the client must begin a new attachment; NULL: no way to inform it */
	struct kv_list node;     /* of the shard, once ENDING */
	struct kv_list requests; /* struct request, until nothing of them is in flight */
	uint32_t request_count, frames;
	struct kv_list stages;
	uint32_t stage_count;  /* includes PUTs waiting for memory */
	uint64_t staged_bytes; /* of the arena, in its stages */
	struct lease_holder holder;
	struct shard_local *local; /* its client is on this host, and frames come by its channel; NULL: by the fabric */
	struct shard_local *passing; /* what its client has not mapped yet, or NULL */
	struct session own;          /* the connection's own session */
	struct sessions sessions;    /* further sessions */
	struct answers answers;
	struct regions regions;
	struct landing *landing;  /* NULL: none */
	bool parting;             /* its client has said goodbye: nothing is in flight */
	bool gone_away;           /* its connection ended: its client has not returned over the same endpoints yet */
	struct call *idle, *gone; /* finished when no request is left; with `gone` the attachment is freed then */
	unsigned links;
	uint32_t window_width;
	struct kv_macs macs; /* of the links' seals */
	struct link link[];  /* followed by the bits of their windows: link_words for each */
};

struct shard_attachment_args {
	uint32_t number; /* never 0: the lower 16 bits are the slot, the upper ones a generation */
	uint32_t mark;
	const uint8_t *frame_secret; /* BOOT_FRAME_SECRET bytes, from which frame keys are made; not kept */
	uint64_t client_id;
	const struct te_address *addrs;
	unsigned rails;
	_Atomic bool *anew;
	const struct grant *grant; /* of its own session */
};

/* shard_attachment_open -- insert the client's addresses. Requests may then come, by each link once it is proven. 0,
 * -KV_ENOMEM, -KV_EFULL (of attachments or namespaces), -KV_ECLOSED, or the engine's code with *err. */
int shard_attachment_open(struct shard *shard, const struct shard_attachment_args *args, struct shard_attachment **out,
			  struct kv_error *err);

/* link_answered -- record `posted` for a CANCEL of this id (answers.h). */
static inline void link_answered(struct link *l, uint64_t id, uint32_t posted)
{
	struct shard_attachment *s = l->attachment;
	answers_note(&s->answers, &l->answers, l->index, s->links, sizeof(*l), id, posted);
}

/* shard_attachment_bytes -- allocated bytes of an attachment with this many links at one of this many shards, without
 * OpenSSL's memory for its two keys, values and pins. */
size_t shard_attachment_bytes(unsigned links, unsigned shards);

/* shard_attachment_lost -- `writes` posted data writes of it failed, or replies to it did (0). The client waits for
 * immediates or replies that may never come, so it must begin a new attachment. Reported once per attachment. */
void shard_attachment_lost(struct shard_attachment *s, uint32_t writes);

/* shard_attachment_request_freed -- a request was freed: finish the calls waiting for that. May free the attachment.
 * shard_attachment_last_freed -- its slow part: the last request was freed, and a call may wait. */
void shard_attachment_last_freed(struct shard_attachment *s);
static inline void shard_attachment_request_freed(struct shard_attachment *s)
{
	if (s->request_count == 0 && KV_UNLIKELY(s->idle || s->gone || s->shard->calls.drained))
		shard_attachment_last_freed(s);
}

/* shard_attachment_ordered -- whether its messages stay behind earlier data writes: those of a channel do not. */
static inline bool shard_attachment_ordered(const struct shard_attachment *s)
{
	return s->shard->info.ordered && !s->local;
}

/* shard_attachment_fence -- fence its peer; a failure is logged. May free the attachment. */
void shard_attachment_fence(struct shard_attachment *s);

/* shard_attachment_find -- a shard's attachment by number, or NULL. */
static inline struct shard_attachment *shard_attachment_find(const struct shard *shard, uint32_t number)
{
	unsigned slot = number & 0xFFFF;
	struct shard_attachment *attachment = slot < shard->attachments.slots ? shard->attachments.slot[slot] : NULL;
	return attachment && attachment->number == number ? attachment : NULL;
}

/* shard_attachment_frame_sent -- the engine returned a reply frame. May free the attachment. */
void shard_attachment_frame_sent(struct shard_attachment *s);

/* shard_attachment_stop -- take no new requests and drop queued work. Transfers in flight stay until they complete, and
 * count as left behind by a gone client (shard_quarantine_check). A second call does nothing. */
void shard_attachment_stop(struct shard_attachment *s);

/* shard_attachment_end -- shard_attachment_stop; when nothing is in flight, close the peer, free the attachment and
 * finish `gone`. */
void shard_attachment_end(struct shard_attachment *s, struct call *gone);

/* shard_attachment_hurry -- the client waits for the attachment to end: cut its peer, if that harms no others. */
void shard_attachment_hurry(struct shard_attachment *s);

/* shard_attachment_when_idle -- finish `idle` when no request of the attachment is in flight (at once if there is
 * none). */
void shard_attachment_when_idle(struct shard_attachment *s, struct call *idle);

/* shard_attachment_readdress -- the client has other addresses: stop its requests without an answer; it must prove its
 * links again. 0, -KV_ECLOSED, or a code of kv_entropy_fill or te_peer_readdress, after which the links are unproven as
 * well. */
int shard_attachment_readdress(struct shard_attachment *s, const struct te_address *addrs, unsigned rails,
			       struct kv_error *err);

#endif
