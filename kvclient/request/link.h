/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- a link: which one a request takes, its credits, and whether it has something to send. Private to kvclient/.
 * All functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LINK_H
#define KVRAIL_KVCLIENT_REQUEST_LINK_H

#include "kvclient/core/client.h"
#include "kvclient/request/lanes.h"

/* What this room calls when an attachment is of no more use. The room of the connection fills it (client->link_events).
 */
struct kvc_link_events {
	/* The break is ours (our endpoints were rebuilt, a frame could not be sent, requests were never answered): the
	 * node shall attach anew at once. why: a constant, for the log. On the client's loop, on any stack; does not
	 * park. May end the requests of an attachment that is still being set up. */
	void (*redo)(struct kvc_node *n, const char *why);
};

static inline void kvc_link_redo(struct kvc_node *n, const char *why)
{
	n->client->link_events->redo(n, why);
}

/* kvc_link_pick -- a link of the shard, of an attachment that is up: the next one that works, in turn. */
struct kvc_link *kvc_link_pick(struct kvc_attachment *s, unsigned shard);
/* kvc_link_keep -- the same, but the same link for the same turn, while the attachment lasts. */
struct kvc_link *kvc_link_keep(struct kvc_attachment *s, unsigned shard, uint32_t turn);

/* kvc_link_head -- the request whose turn it is, if there is a credit for it; or NULL. kvc_link_has_work -- whether
 * there is anything to send. */
static inline struct kvc_req *kvc_link_head(const struct kvc_link *l)
{
	struct kvc_req *r;
	if (KV_UNLIKELY(l->stuck))
		return NULL;
	if (KV_UNLIKELY(!kv_list_empty(&l->turns)))
		r = kvc_turn_head(l);
	else if (kv_list_empty(&l->queue))
		return NULL;
	else
		r = KV_LIST_ENTRY(l->queue.next, struct kvc_req, node);
	return l->credits > (r->wire.type == WIRE_PING ? 0 : l->reserve) ? r : NULL;
}

static inline bool kvc_link_has_work(const struct kvc_link *l)
{
	return (!kv_list_empty(&l->cancels) && l->credits > 0) || l->release_due || l->prove_due || kvc_link_head(l);
}

/* kvc_link_dirty -- the link has something to send: the flusher comes to it after the coroutines that are ready. */
void kvc_link_dirty(struct kvc_link *l);

/* kvc_link_look -- what kept the link stuck, or requests parked, may be over: try them again, in their order. */
void kvc_link_look(struct kvc_link *l);

/* kvc_link_credit -- a credit came back (frames.c: id_take took it). */
void kvc_link_credit(struct kvc_link *l);

/* kvc_link_nonce -- the server wants this back from the address that we announced; 0: it has it. */
void kvc_link_nonce(struct kvc_link *l, uint64_t nonce);

#endif
