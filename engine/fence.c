/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- rebuilding the endpoints: the fence, and recovery from failed endpoints. States: rail.h and fence.h.
 *
 * The fence must hold when te_peer_fence returns, so it closes and opens endpoints at once, and runs no callback. Until
 * te_handlers.reset has run no peer can reach the new endpoints, so another fence is free (`exposed`). The rate limit
 * (a burst of TE_FENCE_BURST, then one per TE_FENCE_REFILL_NS) delays the report (`quiet_until`), never the safety.
 *
 * All rails are rebuilt together. A rail that cannot be rebuilt, or fails again soon, is out; another rail stands for
 * it (`map`): its address and keys are announced in both places. It is retried with back-off: it registers the regions
 * it lacks, some parts per turn; then its endpoint opens, and everything is reset once more.
 *
 * Where closing is slow (EFA), an endpoint is abandoned (fabric/retire.c). Its operations and receives are in limbo
 * until it is closed; then te_handlers.fenced runs. A second fence before that opens no endpoint until all are closed.
 */
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

/* Choose the rail that stands for each rail: rails in use share the places of the others. */
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

/* Until all abandoned endpoints are closed. */
static int rail_wait(struct rail *r, struct kv_error *err)
{
	r->state = RAIL_WAITING;
	r->retry_at = KV_NEVER;
	return kv_fail(err, -KV_EBUSY, "rail %u waits until the abandoned endpoints are closed", r->index);
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
			 "rail %u: its endpoint moved from %s to %s", r->index, was, r->device);
}

static int rail_rebuild(struct rail *r, struct kv_error *err)
{
	if (fence_limbo(&r->te->fence)) { /* abandoned once more: repeated fences must not prolong limbo */
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
	r->stats.rebuild_failures++;
	rail_out(r, TE_REBUILD_MIN_NS, TE_REBUILD_MAX_NS);
	return rc;
}

/* Whether a failed rail stays out: it was rebuilt for a failure not long ago, and others work. */
static bool too_often(const struct rail *r, uint64_t now)
{
	unsigned others = 0;
	for (unsigned i = 0; i < r->te->nrails; i++)
		others += &r->te->rails[i] != r && r->te->rails[i].state < RAIL_DEAD;
	return others > 0 && r->trial_ns && now - r->trial_ns < TE_RAIL_TRIAL_NS;
}

/* A RAIL_DEAD rail failed by itself. True: it stays out. */
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
		 "rail %u (%s) failed again: out for %llu s", r->index, r->device,
		 (unsigned long long)(r->backoff_ns / 1000000000));
	return true;
}

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
	if (rails_up(te))
		return 0;
	return first ? first : -KV_EPROVIDER;
}

static void retire(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (!fab_retiring(r->fab)) {
			rail_limbo_end(r, -KV_ERESET); /* it closed at once */
			continue;
		}
		te->fence.state |= FENCE_LIMBO;
		fab_retire(r->fab);
	}
}

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
			       "the endpoints are closed already: a rebuild failed and will be retried");
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

static void fence_turn(struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (fab_retiring(te->rails[i].fab))
			return;
	te->fence.state &= FENCE_DOWN;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		rail_limbo_end(r, -KV_ERESET);
		if (r->state == RAIL_WAITING) /* the rate limit of fences may delay this a little */
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

/* Retry the rails that are out and due. Returns the number of returned rails; *out_rc is a failure, or unchanged. */
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
			rc = rail_rebuild(r, &err); /* in this turn, before another region becomes ready */
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
	/* Operations first: the owner hears of a reset after all of them have ended. */
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
