/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c -- the fence of one peer alone, where the provider allows it (fab_caps.peer_fence): its addresses are cut on
 * every rail, and no other peer notices.
 *
 * A cut applies to an address, and a peer is more than that in two cases. Another peer of ours may have the same
 * address (a server whose client has attached again over the same endpoints): it would lose its connection with this
 * one. And this peer may have had other addresses before, from which bytes can still be on their way. In both cases all
 * endpoints are rebuilt, as they are where the provider cannot cut. Neither happens between our own client and server:
 * a client that is cut keeps its address, and is attached again when nothing of its prior attachment is left.
 *
 * A peer that is void has nothing to cut: it became so by a rebuild or by a cut.
 *
 * Operations that were posted to the peer end by the provider's own events, soon, since its connections are shut. Their
 * memory is safe before that. The operations stay the provider's until then, and with them their address. The next
 * addr_get of that address lets the peer in again; te_peer_open and te_peer_readdress call it, so the owner decides
 * when. Rejected: ending posted operations at once, as a rebuild does. The provider still has their contexts. */
#include "engine/cut.h"
#include "engine/inside.h"
#include "engine/peer.h"

bool cut_able(const struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (!fab_caps(te->rails[i].fab)->peer_fence)
			return false;
	return true;
}

static bool has(const struct te_peer *peer, const struct addr *a)
{
	for (unsigned i = 0; i < peer->nlinks; i++)
		if (peer->links[i].addr == a)
			return true;
	return false;
}

static bool shared(const struct te_peer *peer, const struct addr *a)
{
	KV_LIST_EACH (n, &peer->te->peers) {
		const struct te_peer *other = KV_LIST_ENTRY(n, const struct te_peer, node);
		if (other != peer && has(other, a))
			return true;
	}
	return false;
}

static bool possible(const struct te_peer *peer)
{
	if (peer->strayed)
		return false;
	for (unsigned i = 0; i < peer->nlinks; i++) {
		const struct link *l = &peer->links[i];
		if (l->rail->state >= RAIL_DEAD || (l->addr && shared(peer, l->addr)))
			return false;
	}
	return true;
}

static int addr_cut(struct addr *a)
{
	int rc = a->cut ? 0 : fab_cut(a->rail->fab, a->blob, a->len);
	a->rail->stamp++; /* its connections are gone */
	a->cut |= rc == 0;
	return rc;
}

bool peer_cut(struct te_peer *peer)
{
	struct te *te = peer->te;
	if (!cut_able(te))
		return false;
	if (peer->is_void)
		return true;
	if (!possible(peer))
		return false;
	for (unsigned i = 0; i < peer->nlinks; i++)
		if (peer->links[i].addr && addr_cut(peer->links[i].addr))
			return false;
	te->stats.fences++;
	te->stats.cuts++;
	peer_fail_queued(peer, -KV_ERESET);
	peer_void(peer);
	kv_debug(te->log, "a peer was cut off (%llu so far); the others go on", (unsigned long long)te->stats.cuts);
	return true;
}
