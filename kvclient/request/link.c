/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- a link: its choice, its credits, and its nonce.
 *
 * Each record with a reply (not PROVE, SESSION, RELEASE) takes a credit with its id (frames.c: id_take). The reply
 * returns it, as does a CANCEL of an unseen request or a lost PING. The last few are reserved for CANCEL and PING, so a
 * stuck link can still cancel.
 *
 * A server serves a link after it got back the nonce of its PING's answer. The nonce heads every frame until another
 * request is answered, since frames may be lost or overtaken (EFA). */
#include "kvclient/request/link.h"

#include "kvclient/request/private.h"

struct kc_link *kc_link_pick(struct kc_attachment *s, unsigned shard)
{
	struct kc_link *first = &s->link[shard * s->links_per_shard], *l;
	if (KV_LIKELY(s->links_per_shard == 1))
		return first;
	for (unsigned tries = 0; tries < s->links_per_shard; tries++) {
		l = &first[s->next_link++ % s->links_per_shard];
		if (l->up)
			return l;
	}
	return first;
}

struct kc_link *kc_link_keep(struct kc_attachment *s, unsigned shard, uint32_t turn)
{
	struct kc_link *first = &s->link[shard * s->links_per_shard];
	for (unsigned tries = 0; tries < s->links_per_shard; tries++)
		if (first[(turn + tries) % s->links_per_shard].up)
			return &first[(turn + tries) % s->links_per_shard];
	return first;
}

static void parked_back(struct kc_link *l)
{
	struct kv_list *node;
	while (!kv_list_empty(&l->parked)) {
		node = l->parked.prev;
		kv_list_del(node);
		kv_list_add_head(KV_LIST_ENTRY(node, struct kc_req, node)->behind ? kc_queue_front_end(&l->queue)
										  : &l->queue,
				 node);
	}
}

void kc_link_dirty(struct kc_link *l)
{
	struct kc_out *out = &kc_link_client(l)->requests->out;
	if (kv_list_empty(&l->dirty_node))
		kv_list_add_tail(&out->dirty, &l->dirty_node);
	if (out->flusher)
		co_wake(out->flusher);
}

void kc_link_look(struct kc_link *l)
{
	if (!l->stuck && kv_list_empty(&l->parked))
		return;
	l->stuck = false;
	parked_back(l);
	if (l->attachment->open)
		kc_link_dirty(l);
}

void kc_link_nonce(struct kc_link *l, uint64_t nonce)
{
	l->nonce = nonce;
	l->prove_due = nonce != 0;
	if (nonce)
		kc_link_dirty(l);
}

void kc_link_credit(struct kc_link *l)
{
	if (l->credits < l->attachment->credits)
		l->credits++;
	if (kc_link_has_work(l))
		kc_link_dirty(l);
}
