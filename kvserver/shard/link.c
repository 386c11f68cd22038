/* SPDX-License-Identifier: Apache-2.0 */
/* link.c -- a link of a session: its seal, and the proof that the client is at its address.
 *
 * A client names its own fabric addresses in HELLO, and may name another client's. So a link begins UNPROVEN: the reply
 * to each PING, which goes to the announced address, has a random nonce, and the client sends it back (PROVE). A client
 * that cannot read what arrives there cannot prove the link: the nonce is all random and is told nowhere else. Until
 * then the link serves nothing but some PINGs, and no data goes by it. Any other request is dropped before its id is
 * remembered, as if it had not come: a CANCEL of it finds it unseen.
 *
 * A link stays PROVEN as long as the address is the same. A client that moves proves its links again.
 *
 * Each PING of an unproven link sends a small frame to an address that may be a stranger's. There are few at once
 * (PINGS_AT_ONCE), and then one per PING_AGAIN_NS: enough for a client whose network is broken and comes back.
 * Rejected: a fixed number, after which a link never works again in this session. */
#include "kvserver/shard/session.h"
#include "kvserver/shard/shard.h"

enum { PINGS_AT_ONCE = 16 };

#define PING_AGAIN_NS 10000000000ull

/* Make a nonce; 0 means that there is none. */
static int nonce_make(struct link *l)
{
	int rc = kv_entropy_fill(l->session->shard->entropy, &l->nonce, sizeof(l->nonce));

	l->nonce |= l->nonce == 0;
	return rc;
}

int link_unprove(struct link *l)
{
	l->proven = false;
	l->pings = 0;
	l->unproven_ns = loop_turn_now(l->session->shard->loop);
	te_peer_link_use(l->session->peer, l->index, false);
	return nonce_make(l);
}

int link_open(struct link *l, struct session *s, unsigned index)
{
	uint32_t width = s->window_width;
	uint64_t *seen = (uint64_t *)&s->link[s->links] + (size_t)index * link_words(width);

	l->session = s;
	l->owner = &s->own;
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
		shard_count(l->session->shard, WIRE_STAT_BAD_PROOFS);
		return;
	}
	l->proven = true;
	te_peer_link_use(l->session->peer, l->index, true);
}

bool link_admits(struct link *l, uint8_t type, uint64_t now_ns)
{
	uint64_t again = (now_ns - l->unproven_ns) / PING_AGAIN_NS;

	if (type == WIRE_PING && l->pings < PINGS_AT_ONCE + again) {
		l->pings++;
		return true;
	}
	shard_count(l->session->shard, WIRE_STAT_UNPROVEN_REQUESTS);
	return false;
}
