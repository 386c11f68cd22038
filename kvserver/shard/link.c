/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- a link of an attachment: its seal, and the proof of the client's address.
 *
 * A client announces its fabric addresses in HELLO, and may name another client's. So a link begins UNPROVEN. The reply
 * to each PING, sent to the announced address, has a random nonce, and the client returns it (PROVE). Until then the
 * link answers some PINGs (a burst of PINGS_AT_ONCE, then one per PING_AGAIN_NS) and carries no data. Other requests
 * are dropped before their id is remembered, so a CANCEL finds them unseen. A channel would bring the nonce to a client
 * without that address, so a local client gets none: it proves the links that it pinged before. */
#include "kvserver/shard/attachment.h"
#include "kvserver/shard/shard.h"

enum { PINGS_AT_ONCE = 16 };

#define PING_AGAIN_NS 10000000000ull

/* Make a nonce; 0 is never one. */
static int nonce_make(struct link *l)
{
	int rc = kv_entropy_fill(l->attachment->shard->entropy, &l->nonce, sizeof(l->nonce));
	l->nonce |= l->nonce == 0;
	return rc;
}

int link_unprove(struct link *l)
{
	l->proven = false;
	l->pings = 0;
	l->unproven_ns = loop_turn_now(l->attachment->shard->loop);
	te_peer_link_use(l->attachment->peer, l->index, false);
	return nonce_make(l);
}

int link_open(struct link *l, struct shard_attachment *s, unsigned index)
{
	uint32_t width = s->window_width;
	uint64_t *seen = (uint64_t *)&s->link[s->links] + (size_t)index * link_words(width);
	l->attachment = s;
	l->session = &s->own;
	l->index = (uint8_t)index;
	kv_window_init(&l->window, seen, width);
	answers_link_init(&l->answers);
	kv_list_init(&l->holding);
	kv_list_init(&l->blocked);
	kv_list_init(&l->dirty);
	kv_seal_init(&l->seal, &s->macs, index, seen + kv_window_words(width), width / 2);
	return link_unprove(l);
}

void link_close(struct link *l)
{
	kv_seal_fini(&l->seal);
	explicit_bzero(&l->nonce, sizeof(l->nonce));
}

void link_prove(struct link *l, uint64_t nonce)
{
	if (!kv_equal_secret(&nonce, &l->nonce, sizeof(nonce))) {
		shard_count(l->attachment->shard, WIRE_STAT_BAD_PROOFS);
		return;
	}
	l->proven = true;
	te_peer_link_use(l->attachment->peer, l->index, true);
}

bool link_admits(struct link *l, uint8_t type, uint64_t now_ns)
{
	uint64_t again = (now_ns - l->unproven_ns) / PING_AGAIN_NS;
	if (type == WIRE_PING && !l->attachment->local && l->pings < PINGS_AT_ONCE + again) {
		l->pings++;
		return true;
	}
	shard_count(l->attachment->shard, WIRE_STAT_UNPROVEN_REQUESTS);
	return false;
}
