/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c -- peers: their links, their addresses, and their end.
 *
 * A peer gets new addresses after a reset. Operations in flight keep the old address until they end, and only then is
 * it removed from the address vector: EFA drops completions of removed peers. Queued operations use the new address. */
#include <stdlib.h>

#include "engine/addr.h"
#include "engine/inside.h"
#include "engine/link.h"
#include "engine/local_peers.h"
#include "engine/msg.h"
#include "engine/peer.h"
#include "engine/rail.h"
#include "engine/xfer.h"

static void addresses_put(struct te_peer *peer, struct addr **addrs)
{
	for (unsigned i = 0; i < peer->nlinks; i++)
		if (addrs[i])
			addr_put(addrs[i]);
}

/* All of them, or none. */
static int addresses_get(struct te_peer *peer, const struct te_address *addrs, struct addr **out, struct kv_error *err)
{
	for (unsigned i = 0; i < peer->nlinks; i++)
		out[i] = NULL;
	for (unsigned i = 0; i < peer->nlinks; i++) {
		const struct te_link *l = &peer->links[i];
		int rc = addr_get(l->rail, &addrs[l->remote], &out[i]);
		if (rc == 0)
			continue;
		addresses_put(peer, out);
		if (rc == -KV_EPROTO)
			return kv_fail(err, rc, "rail %u of the peer: %s", l->remote, fab_last_error(l->rail->fab));
		if (rc == -KV_ELIMIT)
			return kv_fail(err, rc,
				       "rail %u (%s on %s) has %u peers, and its completion queue has no room for "
				       "more; start this program with FI_UNIVERSE_SIZE=%u in the environment",
				       l->rail->index, fab_caps(l->rail->fab)->provider, fab_caps(l->rail->fab)->domain,
				       l->rail->addrs.count, 2 * l->rail->addrs.count);
		return kv_fail(err, rc, "rail %u: inserting the peer's address: %s", l->rail->index,
			       rc == -KV_EPROVIDER ? fab_last_error(l->rail->fab) : kv_strerror(rc));
	}
	return 0;
}

static int usable(const struct te *te, struct kv_error *err)
{
	int rc = rails_down(te);
	if (rc == -KV_EBUSY)
		return kv_fail(err, rc,
			       "the engine abandoned its endpoints twice in a row, "
			       "and the next ones wait until those are closed");
	if (rc)
		return kv_fail(err, rc, "the engine's endpoints are closed: a rebuild failed (%s) and will be retried",
			       kv_strerror(te->fence.status));
	return 0;
}

static void link_addr_put(struct te_link *l)
{
	if (!l->addr)
		return;
	l->addr->used |= l->use;
	addr_put(l->addr);
}

static bool strays(const struct te_peer *peer, struct addr **addrs)
{
	for (unsigned i = 0; i < peer->nlinks; i++)
		if (peer->links[i].addr && peer->links[i].addr != addrs[i])
			return true;
	return false;
}

static void addresses_use(struct te_peer *peer, struct addr **addrs)
{
	peer->strayed |= strays(peer, addrs);
	for (unsigned i = 0; i < peer->nlinks; i++) {
		struct te_link *l = &peer->links[i];
		l->rail->stamp++; /* writes to the old address have no message behind them any more */
		link_addr_put(l);
		l->addr = addrs[i];
		if (link_has_work(l))
			link_activate(l);
	}
	peer->is_void = peer->down = false;
	peer->te->fence.exposed = true;
}

int te_peer_open(struct te *te, const struct te_address *addrs, unsigned count, struct te_peer **out,
		 struct kv_error *err)
{
	struct addr *got[KV_RAILS_MAX];
	unsigned nlinks = KV_MAX(count, te->nrails);
	if (count == 0 || count > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "a peer has 1 to %d rails, not %u", KV_RAILS_MAX, count);
	int rc = usable(te, err);
	if (rc)
		return rc;
	struct te_peer *peer = calloc(1, sizeof(*peer) + nlinks * sizeof(peer->links[0]));
	if (!peer)
		return kv_fail(err, -KV_ENOMEM, "no memory for a peer");
	peer->te = te;
	peer->nlinks = peer->nused = (uint16_t)nlinks;
	peer->remote_rails = (uint16_t)count;
	peer->refs = 1;
	kv_list_init(&peer->waiting);
	kv_list_init(&peer->xfers);
	kv_list_init(&peer->local_msgs);
	kv_list_init(&peer->local_node);
	for (unsigned i = 0; i < nlinks; i++)
		link_init(&peer->links[i], peer, i, &te->rails[te->fence.map[i % te->nrails]], i % count);
	rc = addresses_get(peer, addrs, got, err);
	if (rc) {
		free(peer);
		return rc;
	}
	kv_list_add_tail(&te->peers, &peer->node);
	addresses_use(peer, got);
	*out = peer;
	return 0;
}

/* After a reset the rails in use may differ from those at opening. A void peer stands in no line. */
static void rails_take(struct te_peer *peer)
{
	struct te *te = peer->te;
	for (unsigned i = 0; i < peer->nlinks; i++) {
		struct te_link *l = &peer->links[i];
		if (l->follow) /* of the old rail's operations; te_handlers.follow still runs */
			rail_op_put(l->rail, l->follow);
		l->follow = NULL;
		l->rail = &te->rails[te->fence.map[i % te->nrails]];
	}
}

int te_peer_readdress(struct te_peer *peer, const struct te_address *addrs, unsigned count, struct kv_error *err)
{
	struct addr *got[KV_RAILS_MAX];
	if (count != peer->remote_rails)
		return kv_fail(err, -KV_EINVAL, "the peer had %u rails and now has %u: open it anew",
			       peer->remote_rails, count);
	int rc = usable(peer->te, err);
	if (rc)
		return rc;
	if (peer->is_void)
		rails_take(peer);
	rc = addresses_get(peer, addrs, got, err);
	if (rc)
		return rc;
	addresses_use(peer, got);
	return 0;
}

static void fail_msgs(struct kv_list *queue, int status)
{
	while (!kv_list_empty(queue))
		msg_end_queued(KV_LIST_ENTRY(queue->next, struct msg, node), status);
}

/* Frames for a channel have no seal, so none may leave over the fabric. */
static void local_end(struct te_peer *peer, int status)
{
	fail_msgs(&peer->local_msgs, status);
	local_leave(peer);
}

void peer_void(struct te_peer *peer)
{
	local_end(peer, -KV_ERESET);
	peer->is_void = true;
	peer->strayed = false;
	for (unsigned i = 0; i < peer->nlinks; i++) {
		struct te_link *l = &peer->links[i];
		link_rest(l);
		link_addr_put(l);
		l->addr = NULL;
	}
}

bool peers_well(const struct te *te)
{
	KV_LIST_EACH (n, &te->peers) {
		const struct te_peer *p = KV_LIST_ENTRY(n, const struct te_peer, node);
		bool well = !p->closed && !p->is_void;
		for (unsigned i = 0; well && i < p->nlinks; i++)
			well = p->links[i].addr && !p->links[i].addr->broke;
		if (well)
			return true;
	}
	return false;
}

static void fail_xfers(struct kv_list *queue, int status)
{
	while (!kv_list_empty(queue))
		xfer_fail_queued(KV_LIST_ENTRY(queue->next, struct te_xfer, priv.node), status);
}

void peer_fail_queued(struct te_peer *peer, int status)
{
	fail_xfers(&peer->xfers, status);
	for (unsigned i = 0; i < peer->nlinks; i++) {
		struct te_link *l = &peer->links[i];
		fail_xfers(&l->xfers, status);
		fail_msgs(&l->msgs, status);
	}
	fail_msgs(&peer->local_msgs, status);
}

void peer_down(struct te_peer *peer)
{
	KV_ASSERT(peer->down);
	peer_fail_queued(peer, -KV_EPEERDOWN);
	local_leave(peer);
}

void te_peer_close(struct te_peer **peer_ref)
{
	struct te_peer *peer = *peer_ref;
	if (!peer)
		return;
	*peer_ref = NULL;
	if (peer->closed)
		return; /* by te_close, whose callbacks may close it again */
	peer->closed = true;
	peer_fail_queued(peer, -KV_ECLOSED);
	peer_void(peer);
	peer_release(peer);
}

int te_peer_local(struct te_peer *peer, struct local_channel *channel)
{
	if (peer->channel || !peer->te->handlers.local)
		return -KV_EINVAL;
	if (peer->closed || peer->is_void || peer->down)
		return -KV_EPEERDOWN;
	return local_enter(peer, channel);
}

void te_peer_local_end(struct te_peer *peer)
{
	local_end(peer, -KV_ERESET);
}

bool te_peer_is_local(const struct te_peer *peer)
{
	return peer->channel != NULL;
}

void te_peer_link_use(struct te_peer *peer, unsigned link, bool use)
{
	struct te_link *l = &peer->links[link];
	if (link >= peer->nlinks || l->use == use)
		return;
	l->use = use;
	if (use && l->addr)
		l->addr->used = true;
	peer->nused = (uint16_t)(use ? peer->nused + 1 : peer->nused - 1);
	if (use && link_has_work(l))
		link_activate(l);
}

unsigned te_peer_links(const struct te_peer *peer)
{
	return peer->nlinks;
}

bool te_peer_address(const struct te_peer *peer, unsigned link, struct sockaddr_storage *out)
{
	const struct addr *a = link < peer->nlinks ? peer->links[link].addr : NULL;
	if (!a || !fab_caps(a->rail->fab)->ip || a->len > sizeof(*out))
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out, a->blob, a->len);
	return out->ss_family == AF_INET || out->ss_family == AF_INET6;
}
