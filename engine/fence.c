/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- rebuilding the endpoints: the fence, and recovery from their failure.
 *
 * A rail (enum rail_state; "closed" means that its endpoint is):
 *
 *   UP --a connection broke for good--> BROKE --te_reset--> UP
 *   UP --the machine lost its address (rail.c: rail_stranded)--> BROKE
 *   UP, BROKE --its endpoint failed--> DEAD --te_reset--> UP, or OUT if that happened too often
 *   UP, BROKE, DEAD --te_reset, and it cannot be rebuilt--> OUT
 *   UP, BROKE, DEAD --te_reset, and endpoints given up before are not closed yet--> WAITING
 *   OUT, WAITING --retry, and it can be opened--> FRESH --the reset that tells everybody--> UP
 *   OUT, WAITING --retry, and it cannot be opened--> OUT
 *
 * The engine (enum fence_state):
 *
 *   OPEN --te_reset--> OPEN, or LIMBO where closing an endpoint takes long
 *   LIMBO --all that was given up is closed--> OPEN
 *   LIMBO --te_reset--> DOWN_LIMBO (every rail that was up is WAITING) --all is closed--> DOWN
 *   OPEN --te_reset, and no rail is up--> DOWN
 *   DOWN --retry--> OPEN if a rail is back, else DOWN
 *
 * Each arrow but those out of limbo makes reset_due true, until te_handlers.reset has run.
 *
 * The fence must hold when te_peer_fence returns, so endpoints are closed and opened at once. Telling the world can
 * wait. Until the owner has been told (te_handlers.reset) and has given the new addresses out, no peer can reach the
 * new endpoints. So a second fence in that time is free (`exposed`), and the rate limit delays the telling
 * (`quiet_until`), never the safety. A burst of TE_FENCE_BURST is allowed, then one per TE_FENCE_REFILL_NS.
 *
 * All rails are rebuilt together: a peer's operations run over every rail, and one epoch for all is what the owner can
 * reason about. A rail that cannot be rebuilt, or that fails again soon after it was rebuilt, is out. Its endpoint
 * stays closed, which is as safe as rebuilding it. While others are up one of them stands for it (`map`): that rail's
 * address and keys are announced in the place of the lost one's. So peers see as many rails as before, and need to know
 * nothing.
 *
 * A rail that is out is tried again with back-off. First it registers what was registered on the others meanwhile, some
 * parts in each turn, since that may take seconds and no call waits for it. Then its endpoint is opened, everything is
 * reset once more, and it has its place back. So a rail's return is as much of an event as its loss, and the back-off
 * doubles up to a minute for a rail that fails again and again. A connection that broke for good (addr.c) costs the
 * endpoint too, but says nothing about the NIC: peers break connections, so it does not count against the rail.
 * Rejected: letting new peers use the rail while old ones go on without it. Peers that always have requests would never
 * come to use it, and renewing them one by one is the reset in other words.
 *
 * Where closing an endpoint may take seconds (EFA) it is given up (fabric_retire.c), and the next endpoint is used at
 * once. Operations and receives that were posted to the old one are in limbo until it is closed. Then they end, and the
 * owner is told (te_handlers.fenced). So if one peer is dead, the others miss the engine until they have its new
 * address, and not for the time-out of the device. An engine that is fenced again meanwhile gives those endpoints up,
 * too, and waits until all are closed. That bounds the memory for what is in limbo, its time, and what the device must
 * hold. Rejected: a third endpoint. With fence after fence, what is in limbo because of the first would not end before
 * the last is over. Where the provider allows it one peer is fenced alone (cut.c), and nothing of this happens.
 *
 * No callback runs inside te_peer_fence: operations are marked as ended, te_poll tells their owners, then it tells of
 * the reset. When no rail is left the engine is down: te_poll tries all of them again with back-off, and the owner is
 * told when the first is back. */
#include "engine/addr.h"
#include "engine/cut.h"
#include "engine/fence.h"
#include "engine/inside.h"
#include "engine/notify.h"
#include "engine/peer.h"
#include "engine/rail.h"
#include "engine/region.h"

void fence_init(struct fence *f, uint64_t now)
{
	for (unsigned i = 0; i < KV_RAILS_MAX; i++)
		f->map[i] = (uint8_t)i;
	f->tokens = TE_FENCE_BURST;
	f->refilled_ns = now;
}

/* Take a token, or say until when the owner is not told. */
static void limit(struct fence *f, uint64_t now)
{
	uint64_t earned = (now - f->refilled_ns) / TE_FENCE_REFILL_NS;
	if (earned) {
		f->tokens = (uint32_t)KV_MIN((uint64_t)TE_FENCE_BURST, f->tokens + earned);
		f->refilled_ns += earned * TE_FENCE_REFILL_NS;
	}
	if (f->tokens)
		f->tokens--;
	else
		f->quiet_until = f->refilled_ns + TE_FENCE_REFILL_NS;
}

/* ---- rails ---- */

static unsigned rails_up(const struct te *te)
{
	unsigned n = 0;
	for (unsigned i = 0; i < te->nrails; i++)
		n += rail_up(&te->rails[i]);
	return n;
}

/* Which rail stands for which: those that are up share the places of those that are not. */
static void map(struct te *te)
{
	unsigned up[KV_RAILS_MAX], n = 0;
	for (unsigned i = 0; i < te->nrails; i++)
		if (rail_up(&te->rails[i]))
			up[n++] = i;
	for (unsigned i = 0; i < te->nrails; i++)
		te->fence.map[i] = (uint8_t)(!rail_up(&te->rails[i]) && n ? up[i % n] : i);
}

static void rail_out(struct rail *r, uint64_t min_ns, uint64_t max_ns)
{
	r->state = RAIL_OUT;
	r->backoff_ns = KV_MIN(KV_MAX(r->backoff_ns * 2, min_ns), max_ns);
	r->retry_at = te_now(r->te) + r->backoff_ns;
}

/* Until all that was given up is closed. */
static int rail_wait(struct rail *r, struct kv_error *err)
{
	r->state = RAIL_WAITING;
	r->retry_at = KV_NEVER;
	return kv_fail(err, -KV_EBUSY, "rail %u waits until endpoints that were given up are closed", r->index);
}

static void moved_tell(struct rail *r)
{
	char was[sizeof(r->device)];
	memcpy(was, r->device, sizeof(was));
	rail_device_take(r);
	if (strcmp(was, r->device) != 0)
		kv_event(r->te->log, KV_LOG_INFO,
			 KV_EVENT("rail_moved", KV_NUMBER("rail", r->index), KV_FIELD("was", was),
				  KV_FIELD("device", r->device)),
			 "rail %u: its endpoint was at %s, and is at %s now", r->index, was, r->device);
}

static int rail_rebuild(struct rail *r, struct kv_error *err)
{
	if (fence_limbo(&r->te->fence)) { /* given up once more: what is in limbo would never end if that went on */
		fab_shut(r->fab);
		return rail_wait(r, err);
	}
	int rc = fab_rebuild(r->fab, err);
	if (rc == 0) {
		r->state = RAIL_UP;
		rail_depth_take(r);
		moved_tell(r);
		return 0;
	}
	if (rc == -KV_EBUSY && fab_retiring(r->fab))
		return rail_wait(r, err);
	r->te->stats.rebuild_failures++;
	r->stats.rebuild_failures++;
	rail_out(r, TE_REBUILD_MIN_NS, TE_REBUILD_MAX_NS);
	return rc;
}

/* Whether a rail that failed is to stay out for a while: it had been rebuilt for that not long ago, and others work. */
static bool too_often(const struct rail *r, uint64_t now)
{
	unsigned others = 0;
	for (unsigned i = 0; i < r->te->nrails; i++)
		others += &r->te->rails[i] != r && r->te->rails[i].state < RAIL_DEAD;
	return others > 0 && r->trial_ns && now - r->trial_ns < TE_RAIL_TRIAL_NS;
}

/* A rail is RAIL_DEAD: it failed by itself. True: it stays out. */
static bool dead_stays_out(struct rail *r, uint64_t now)
{
	bool out = too_often(r, now);
	r->stats.rail_failures++;
	if (!out) {
		if (r->trial_ns && now - r->trial_ns >= TE_RAIL_TRIAL_NS)
			r->backoff_ns = 0;
		r->trial_ns = now;
		return false;
	}
	fab_shut(r->fab);
	rail_out(r, TE_RAIL_OUT_MIN_NS, TE_RAIL_OUT_MAX_NS);
	kv_event(r->te->log, KV_LOG_ERROR,
		 KV_EVENT("rail_out", KV_NUMBER("rail", r->index), KV_FIELD("device", r->device)),
		 "rail %u (%s) failed again: it is left out for %llu s", r->index, r->device,
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
		bool fresh = r->state == RAIL_FRESH;
		if (fresh)
			r->state = RAIL_UP;
		if (fresh || !rail_up(r) || (r->state == RAIL_DEAD && dead_stays_out(r, now)))
			continue;
		int rc = rail_rebuild(r, first ? &ignored : err);
		if (rc && rc != -KV_EBUSY && te->nrails > 1)
			kv_error_log(te->log, "rail %u (%s) is out: %s", i, r->device,
				     first ? "its endpoint cannot be rebuilt" : err->text);
		first = first ? first : rc;
	}
	return rails_up(te) ? 0 : first ? first : -KV_EPROVIDER;
}

/* Endpoints that were given up are closed now: no loop waits for their descriptors any more. */
static void retire(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (!fab_retiring(r->fab)) {
			rail_limbo_end(r, -KV_ERESET); /* it was closed at once */
			continue;
		}
		te->fence.state |= FENCE_LIMBO;
		fab_retire(r->fab);
	}
}

/* After a rebuild: note its outcome, post the receives, and close what was given up. */
static void settle(struct te *te, int rc)
{
	te->fence.state = (te->fence.state & FENCE_LIMBO) | (rc ? FENCE_DOWN : FENCE_OPEN);
	te->fence.status = rc;
	te->fence.reset_due = true;
	map(te);
	for (unsigned i = 0; i < te->nrails; i++)
		if (rail_up(&te->rails[i]))
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
	te->fence.generation++;
	te->stats.fences++;
	limit(&te->fence, te_now(te));
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		uint32_t out = rail_end_posted(r, -KV_ERESET);
		fab_posted(r->fab, r->state == RAIL_DEAD ? 0 : out);
		addrs_void(r);
		r->stamp++;
	}
	KV_LIST_EACH (n, &te->peers)
		peer_void(KV_LIST_ENTRY(n, struct te_peer, node));
	int rc = rebuild(te, err);
	settle(te, rc);
	te->fence.exposed = false;
	if (rc)
		kv_event(te->log, KV_LOG_ERROR, KV_EVENT("rebuild_failed", KV_FIELD("reason", err->text)),
			 "rebuilding the endpoints: %s", err->text);
	else
		kv_event(te->log, KV_LOG_INFO,
			 KV_EVENT("rails_rebuilt", KV_NUMBER("times", te->stats.fences), KV_NUMBER("up", rails_up(te)),
				  KV_NUMBER("rails", te->nrails)),
			 "the endpoints were rebuilt (%llu so far), %u of %u rails are up",
			 (unsigned long long)te->stats.fences, rails_up(te), te->nrails);
	return rc;
}

int te_peer_fence(struct te_peer *peer, struct kv_error *err)
{
	struct te *te = peer->te;
	if (te->fence.state == FENCE_DOWN)
		return kv_fail(err, te->fence.status,
			       "the endpoints are closed already: a rebuild failed and will be tried again");
	if (fence_down(&te->fence) || !te->fence.exposed)
		return fence_limbo(&te->fence);
	if (peer_cut(peer))
		return 0;
	int rc = te_reset(te, err);
	return fence_limbo(&te->fence) ? 1 : rc;
}

bool te_fencing(const struct te *te)
{
	return fence_limbo(&te->fence);
}

/* When all endpoints that were given up are closed, operations in limbo end, and rails that waited are tried again. */
static void fence_turn(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (fab_retiring(te->rails[i].fab))
			return;
	te->fence.state &= FENCE_DOWN;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		rail_limbo_end(r, -KV_ERESET);
		if (r->state == RAIL_WAITING) /* until its turn, which the rate limit of fences may delay a little */
			r->retry_at = te_now(te);
	}
	while (te_notify(te))
		;
	if (!fence_limbo(&te->fence) && te->handlers.fenced)
		te->handlers.fenced(te->arg);
}

void te_addresses_check(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		(void)rail_stranded(&te->rails[i]);
}

void te_local_set(struct te *te, const struct sockaddr_storage *local)
{
	for (unsigned i = 0; i < te->nrails && !te->rules.nic_named; i++)
		fab_local_set(te->rails[i].fab, local);
}

bool te_reset_due(const struct te *te)
{
	return te->fence.reset_due;
}

static bool any_dead(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (KV_UNLIKELY(r->addrs.heal_at) && te_now(te) >= r->addrs.heal_at)
			addrs_heal(r);
		if (KV_UNLIKELY(r->state == RAIL_BROKE || r->state == RAIL_DEAD))
			return true;
	}
	return false;
}

static bool any_due(const struct te *te)
{
	bool down = false;
	for (unsigned i = 0; i < te->nrails; i++)
		down |= !rail_up(&te->rails[i]);
	if (KV_LIKELY(!down))
		return false;
	for (unsigned i = 0; i < te->nrails; i++)
		if (!rail_up(&te->rails[i]) && te_now(te) >= te->rails[i].retry_at)
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
		if (rail_up(r) || te_now(te) < r->retry_at || fence_limbo(&te->fence))
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
		kv_event(te->log, KV_LOG_INFO,
			 KV_EVENT("rail_back", KV_NUMBER("rail", i), KV_FIELD("device", r->device)),
			 "rail %u (%s) is back", i, r->device);
		r->state = RAIL_FRESH;
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
	if (!fence_down(&te->fence)) {
		if (back)
			(void)te_reset(te, NULL);
		return;
	}
	for (unsigned i = 0; i < te->nrails; i++)
		if (te->rails[i].state == RAIL_FRESH)
			te->rails[i].state = RAIL_UP;
	settle(te, back ? 0 : rc);
}

void te_reset_turn(struct te *te)
{
	if (KV_UNLIKELY(fence_limbo(&te->fence)))
		fence_turn(te);
	if (!fence_down(&te->fence) && KV_UNLIKELY(any_dead(te)) && te_now(te) >= te->fence.quiet_until)
		(void)te_reset(te, NULL);
	if (KV_UNLIKELY(any_due(te)) && te_now(te) >= te->fence.quiet_until)
		come_back(te);
	if (KV_LIKELY(!te->fence.reset_due) || te_now(te) < te->fence.quiet_until)
		return;
	te->fence.quiet_until = 0;
	/* Operations first: the owner hears of a reset when all of them have ended. */
	while (te_notify(te))
		;
	if (!te->fence.reset_due || te->fence.quiet_until)
		return; /* a callback fenced again */
	te->fence.reset_due = false;
	if (te->handlers.reset)
		te->handlers.reset(te->arg, te->fence.status);
}

int te_peer_cut(struct te_peer *peer)
{
	return peer_cut(peer) ? 0 : -KV_EBUSY;
}
