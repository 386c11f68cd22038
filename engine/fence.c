/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- rebuilding the endpoints: the fence, and recovery from their failure.
 *
 * The fence must hold when it returns, so it closes and opens at once. What can wait is telling the world: until the
 * owner has been told (te_handlers.reset) and given the new addresses out, nobody can reach the new endpoints, so a
 * second fence in that time is free (te.exposed), and the rate limit is a delay of the telling (te.quiet_until), never
 * of the safety. A burst of TE_FENCE_BURST is allowed, then one per TE_FENCE_REFILL_NS.
 *
 * All rails are rebuilt together. A peer's operations run over every rail, and one epoch for all is what the owner can
 * reason about. A rail that cannot be rebuilt, or that fails again soon after it was, is out: its endpoint stays
 * closed, which is as safe as rebuilding it, and while others are up one of them stands for it (te.map): its address
 * and its keys are announced in the place of the lost one's, so the peers see as many rails as before and need to know
 * nothing. It is tried again with back-off: first what was registered meanwhile is registered on it, some parts in each
 * turn, since that may take seconds and nobody waits for it; then its endpoint is opened. When it opens, everything is
 * reset once more, and it has its place back. So a rail's coming is as much of an event as its going; the back-off
 * doubles up to a minute for one that fails again and again. A connection that broke for good (addr.c) costs the
 * endpoint too, but says nothing about the NIC: peers break them, so it does not count against the rail. Rejected:
 * letting new peers use it while old ones go on without. Peers that have requests all the time would never come to use
 * it, and to renew them one by one is the reset in other words.
 *
 * Where closing an endpoint may take seconds (EFA) it is given up (fabric_retire.c), and the next endpoint is used at
 * once. What was posted to the old one, receives too, is in limbo until it is closed: `fencing`. Then it ends, and the
 * owner is told (te_handlers.fenced). So peers, of which one is dead, are without the engine for a new address, not for
 * the time-out of the device. An engine that is fenced again meanwhile gives those endpoints up, too, and waits until
 * all are closed (`waits`): memory for what is in limbo is bounded, and so are the time of it and what the device must
 * hold. Rejected: a third endpoint. Fence after fence, what is in limbo because of the first would not end before the
 * last is over. Where the provider allows it one peer is fenced alone (cut.c), and nothing of this happens.
 *
 * Callbacks never run inside te_peer_fence: operations are marked ended and dispatched by te_poll, then reset is told.
 * When no rail is left the engine is down: all are tried again with back-off from te_poll, and the owner is told when
 * the first is back. */
#include "engine/addr.h"
#include "engine/cut.h"
#include "engine/fence.h"
#include "engine/inside.h"
#include "engine/notify.h"
#include "engine/peer.h"
#include "engine/rail.h"
#include "engine/region.h"

/* Take a token, or say until when the owner is not told. */
static void limit(struct te *te, uint64_t now)
{
	uint64_t earned = (now - te->fence_refilled) / TE_FENCE_REFILL_NS;
	if (earned) {
		te->fence_tokens = (uint32_t)KV_MIN((uint64_t)TE_FENCE_BURST, te->fence_tokens + earned);
		te->fence_refilled += earned * TE_FENCE_REFILL_NS;
	}
	if (te->fence_tokens) {
		te->fence_tokens--;
		return;
	}
	te->quiet_until = te->fence_refilled + TE_FENCE_REFILL_NS;
}

/* ---- rails ---- */

static unsigned rails_up(const struct te *te)
{
	unsigned n = 0;
	for (unsigned i = 0; i < te->nrails; i++)
		n += !te->rails[i].down;
	return n;
}

/* Who stands for whom: the rails that are up share the places of those that are not. */
static void map(struct te *te)
{
	unsigned up[KV_RAILS_MAX], n = 0;
	for (unsigned i = 0; i < te->nrails; i++)
		if (!te->rails[i].down)
			up[n++] = i;
	for (unsigned i = 0; i < te->nrails; i++)
		te->map[i] = (uint8_t)(te->rails[i].down && n ? up[i % n] : i);
}

static void rail_out(struct rail *r, uint64_t min_ns, uint64_t max_ns)
{
	r->down = true;
	r->waits = false;
	r->backoff_ns = KV_MIN(KV_MAX(r->backoff_ns * 2, min_ns), max_ns);
	r->retry_at = te_now(r->te) + r->backoff_ns;
}

/* Until all that was given up is closed. */
static int rail_wait(struct rail *r, struct kv_error *err)
{
	r->down = r->waits = true;
	r->retry_at = KV_NEVER;
	return kv_fail(err, -KV_EBUSY, "rail %u waits until endpoints that were given up are closed", r->index);
}

static int rail_rebuild(struct rail *r, struct kv_error *err)
{
	if (r->te->fencing) { /* given up once more: what is in limbo would never end if that went on */
		fab_shut(r->fab);
		return rail_wait(r, err);
	}
	int rc = fab_rebuild(r->fab, err);
	if (rc == 0) {
		r->down = r->waits = false;
		rail_depth_take(r);
		return 0;
	}
	if (rc == -KV_EBUSY && fab_retiring(r->fab))
		return rail_wait(r, err);
	r->te->rebuild_failures++;
	r->stats.rebuild_failures++;
	rail_out(r, TE_REBUILD_MIN_NS, TE_REBUILD_MAX_NS);
	return rc;
}

/* Whether a rail that failed is to stay out for a while: it had been rebuilt for that not long ago, and others work. */
static bool too_often(const struct rail *r, uint64_t now)
{
	unsigned others = 0;
	for (unsigned i = 0; i < r->te->nrails; i++)
		others += &r->te->rails[i] != r && !r->te->rails[i].down && !r->te->rails[i].dead;
	return others > 0 && r->trial_ns && now - r->trial_ns < TE_RAIL_TRIAL_NS;
}

/* A rail that failed by itself. True: it stays out. */
static bool rail_failed(struct rail *r, uint64_t now)
{
	bool out = too_often(r, now);
	r->dead = false;
	r->stats.rail_failures++;
	if (!out) {
		if (r->trial_ns && now - r->trial_ns >= TE_RAIL_TRIAL_NS)
			r->backoff_ns = 0;
		r->trial_ns = now;
		return false;
	}
	fab_shut(r->fab);
	rail_out(r, TE_RAIL_OUT_MIN_NS, TE_RAIL_OUT_MAX_NS);
	kv_error_log(r->te->log, "rail %u (%s) failed again: it is left out for %llu s", r->index, r->device,
		     (unsigned long long)(r->backoff_ns / 1000000000));
	return true;
}

/* Rebuild all rails that are not out. Returns 0 when one is up afterwards, or the first failure. */
static int rebuild(struct te *te, struct kv_error *err)
{
	struct kv_error ignored;
	uint64_t now = te_now(te);
	int first = 0;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		bool fresh = r->fresh;
		r->fresh = r->broke = false;
		if (fresh || r->down || (r->dead && rail_failed(r, now)))
			continue;
		int rc = rail_rebuild(r, first ? &ignored : err);
		if (rc && rc != -KV_EBUSY && te->nrails > 1)
			kv_error_log(te->log, "rail %u (%s) is out: %s", i, r->device,
				     first ? "its endpoint cannot be rebuilt" : err->text);
		first = first ? first : rc;
	}
	return rails_up(te) ? 0 : first ? first : -KV_EPROVIDER;
}

/* Nobody waits at descriptors of endpoints that were given up any more: they are closed now. */
static void retire(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (!fab_retiring(r->fab)) {
			rail_limbo_end(r, -KV_ERESET); /* it was closed at once */
			continue;
		}
		te->fencing = true;
		fab_retire(r->fab);
	}
}

/* What follows a rebuild. */
static void settle(struct te *te, int rc)
{
	te->down = rc != 0;
	te->reset_status = rc;
	te->reset_due = true;
	map(te);
	for (unsigned i = 0; i < te->nrails; i++)
		if (!te->rails[i].down)
			rail_receives_post(&te->rails[i]);
	if (te->watch)
		te->watch->refd(te->watch);
	retire(te);
}

int te_reset(struct te *te, struct kv_error *err)
{
	struct kv_error local;
	if (!err)
		err = &local;
	te->generation++;
	te->fences++;
	limit(te, te_now(te));
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		uint32_t out = rail_end_posted(r, -KV_ERESET);
		fab_posted(r->fab, r->dead ? 0 : out);
		addrs_void(r);
		r->stamp++;
	}
	KV_LIST_EACH (n, &te->peers)
		peer_void(KV_LIST_ENTRY(n, struct te_peer, node));
	int rc = rebuild(te, err);
	settle(te, rc);
	te->exposed = false;
	if (rc)
		kv_error_log(te->log, "rebuilding the endpoints: %s", err->text);
	else
		kv_info(te->log, "the endpoints were rebuilt (%llu so far), %u of %u rails are up",
			(unsigned long long)te->fences, rails_up(te), te->nrails);
	return rc;
}

int te_peer_fence(struct te_peer *peer, struct kv_error *err)
{
	struct te *te = peer->te;
	if (te->down && !te->fencing)
		return kv_fail(err, te->reset_status,
			       "the endpoints are closed already: a rebuild failed and will be tried again");
	if (te->down || !te->exposed)
		return te->fencing;
	if (peer_cut(peer))
		return 0;
	int rc = te_reset(te, err);
	return te->fencing ? 1 : rc;
}

bool te_fencing(const struct te *te)
{
	return te->fencing;
}

/* Whether all that was given up is closed. Then what was in limbo ends, and rails that waited are tried again. */
static void fence_turn(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (fab_retiring(te->rails[i].fab))
			return;
	te->fencing = false;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		rail_limbo_end(r, -KV_ERESET);
		if (r->waits)
			r->retry_at =
				te_now(te); /* or a little later, where fences are rate-limited: it waits until then */
	}
	while (te_notify(te))
		;
	if (!te->fencing && te->handlers.fenced)
		te->handlers.fenced(te->arg);
}

bool te_reset_due(const struct te *te)
{
	return te->reset_due;
}

static bool any_dead(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (KV_UNLIKELY(r->heal_at) && te_now(te) >= r->heal_at)
			addrs_heal(r);
		if ((r->dead || r->broke) && !r->down)
			return true;
	}
	return false;
}

static bool any_due(const struct te *te)
{
	bool down = false;
	for (unsigned i = 0; i < te->nrails; i++)
		down |= te->rails[i].down;
	if (KV_LIKELY(!down))
		return false;
	for (unsigned i = 0; i < te->nrails; i++)
		if (te->rails[i].down && te_now(te) >= te->rails[i].retry_at)
			return true;
	return false;
}

/* Try the rails that are out and due. Returns how many are back; *out_rc is a failure, or left alone. */
static unsigned retry(struct te *te, int *out_rc)
{
	uint64_t until = te_now(te) + TE_STEP_NS;
	struct kv_error err;
	unsigned back = 0;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (!r->down || te_now(te) < r->retry_at || te->fencing)
			continue;
		int rc = regions_complete(r, until, &err);
		if (rc == 1)
			continue;
		if (rc)
			rail_out(r, TE_REBUILD_MIN_NS, TE_REBUILD_MAX_NS);
		else
			rc = rail_rebuild(r, &err); /* in this turn, before another region may be ready */
		if (rc) {
			*out_rc = rc;
			kv_error_log(te->log, "rail %u (%s) stays out: %s", i, r->device, err.text);
			continue;
		}
		kv_info(te->log, "rail %u (%s) is back", i, r->device);
		r->dead = r->broke = false;
		r->fresh = true;
		r->trial_ns = te_now(te);
		back++;
	}
	return back;
}

static void come_back(struct te *te)
{
	int rc = 0;
	bool back = retry(te, &rc) > 0;
	if (!back && rc == 0)
		return;
	if (!te->down) {
		if (back)
			(void)te_reset(te, NULL);
		return;
	}
	for (unsigned i = 0; i < te->nrails; i++)
		te->rails[i].fresh = false;
	settle(te, back ? 0 : rc);
}

void te_reset_turn(struct te *te)
{
	if (KV_UNLIKELY(te->fencing))
		fence_turn(te);
	if (!te->down && KV_UNLIKELY(any_dead(te)) && te_now(te) >= te->quiet_until)
		(void)te_reset(te, NULL);
	if (KV_UNLIKELY(any_due(te)) && te_now(te) >= te->quiet_until)
		come_back(te);
	if (KV_LIKELY(!te->reset_due) || te_now(te) < te->quiet_until)
		return;
	te->quiet_until = 0;
	/* Operations first: the owner hears of a reset when all of them have ended. */
	while (te_notify(te))
		;
	if (!te->reset_due || te->quiet_until)
		return; /* a callback fenced again */
	te->reset_due = false;
	if (te->handlers.reset)
		te->handlers.reset(te->arg, te->reset_status);
}
