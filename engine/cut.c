/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c -- the fence of one peer alone, where the provider allows it (fab_caps.peer_fence): its addresses are cut on
 * every rail.
 *
 * Two cases need a rebuild of all endpoints: another peer has the same address, or this peer had other addresses, from
 * which bytes may still arrive. The cut shuts the peer's connections, so posted operations soon fail by the provider's
 * own events; their memory is safe before that. The next addr_get of the address readmits the peer, so the owner
 * decides when. */
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
		const struct te_link *l = &peer->links[i];
		if (l->rail->state >= RAIL_DEAD || (l->addr && shared(peer, l->addr)))
			return false;
	}
	return true;
}

static int addr_cut(struct addr *a)
{
	int rc = a->cut ? 0 : fab_cut(a->rail->fab, a->blob, a->len);
	a->rail->stamp++;
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
	kv_debug(te->log, "one peer was cut off (%llu so far); other peers are not affected",
		 (unsigned long long)te->stats.cuts);
	return true;
}
