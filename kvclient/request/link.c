/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- a link: which one a request takes, whose turn it is, its credits, and what it has to prove.
 *
 * A credit is taken by every record and comes back with its reply. The last few are kept for CANCEL and PING: a link
 * whose requests are all stuck can still cancel them.
 *
 * A server serves a link once it has back the nonce that its answer to our PING brought (kvc_link_nonce). The nonce
 * goes at the head of every frame until another request by that link is answered: a frame may be lost with a link that
 * comes and goes, or be overtaken by a later one (EFA), whose requests would be dropped else. So the first call after a
 * PING costs no turn more. */
#include "kvclient/request/link.h"

struct kvc_link *kvc_link_pick(struct kvc_session *s, unsigned shard)
{
	struct kvc_link *first = &s->link[shard * s->links_per_shard], *l;
	if (KV_LIKELY(s->links_per_shard == 1))
		return first;
	for (unsigned tries = 0; tries < s->links_per_shard; tries++) {
		l = &first[s->next_link++ % s->links_per_shard];
		if (l->up)
			return l;
	}
	return first;
}

struct kvc_link *kvc_link_keep(struct kvc_session *s, unsigned shard, uint32_t turn)
{
	struct kvc_link *first = &s->link[shard * s->links_per_shard];
	for (unsigned tries = 0; tries < s->links_per_shard; tries++)
		if (first[(turn + tries) % s->links_per_shard].up)
			return &first[(turn + tries) % s->links_per_shard];
	return first;
}

void kvc_link_nonce(struct kvc_link *l, uint64_t nonce)
{
	l->nonce = nonce;
	l->prove_due = nonce != 0;
	if (nonce)
		kvc_link_dirty(l);
}

void kvc_link_credit(struct kvc_link *l)
{
	if (l->credits < l->session->credits)
		l->credits++;
	if (kvc_link_has_work(l))
		kvc_link_dirty(l);
}
