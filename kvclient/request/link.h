/* SPDX-License-Identifier: Apache-2.0 */
/* link.h -- a link: its choice, its credits, and its work. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LINK_H
#define KVRAIL_KVCLIENT_REQUEST_LINK_H

#include "kvclient/core/client.h"
#include "kvclient/request/lanes.h"

static inline void kc_link_redo(struct kc_node *n, const char *why)
{
	n->client->hooks->node_redo(n, why);
}

/* kc_link_pick -- the shard's next working link, in turn, of an attachment that is up. */
struct kc_link *kc_link_pick(struct kc_attachment *s, unsigned shard);
/* kc_link_keep -- the same, but one link per turn while the attachment lasts. */
struct kc_link *kc_link_keep(struct kc_attachment *s, unsigned shard, uint32_t turn);

/* kc_link_head -- the next request, if it has a credit; or NULL. kc_link_has_work -- whether there is anything to
 * send. */
static inline struct kc_req *kc_link_head(const struct kc_link *l)
{
	struct kc_req *r;
	if (KV_UNLIKELY(l->stuck))
		return NULL;
	if (KV_UNLIKELY(!kv_list_empty(&l->turns)))
		r = kc_turn_head(l);
	else if (kv_list_empty(&l->queue))
		return NULL;
	else
		r = KV_LIST_ENTRY(l->queue.next, struct kc_req, node);
	return l->credits > (r->wire.type == WIRE_PING ? 0 : l->reserve) ? r : NULL;
}

static inline bool kc_link_has_work(const struct kc_link *l)
{
	return (!kv_list_empty(&l->cancels) && l->credits > 0) || l->releases.due || l->prove_due || kc_link_head(l);
}

/* kc_link_dirty -- the link has something to send: the flusher runs after the ready coroutines. */
void kc_link_dirty(struct kc_link *l);

/* kc_link_look -- retry a stuck link and its parked requests, in order. */
void kc_link_look(struct kc_link *l);

/* kc_link_credit -- a credit came back (taken by id_take in frames.c). */
void kc_link_credit(struct kc_link *l);

/* kc_link_nonce -- the server expects this nonce from our address; 0: it has it. */
void kc_link_nonce(struct kc_link *l, uint64_t nonce);

#endif
