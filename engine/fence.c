/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c -- rebuilding the endpoints: the fence, and recovery from their failure.
 *
 * The fence must hold when it returns, so it closes and opens at once. What can wait is telling the world: until the
 * owner has been told (te_handlers.reset) and given the new addresses out, nobody can reach the new endpoints, so a
 * second fence in that time is free (te.exposed), and the rate limit is a delay of the telling (te.quiet_until), never
 * of the safety. A burst of TE_FENCE_BURST is allowed, then one per TE_FENCE_REFILL_NS.
 *
 * All rails are rebuilt together. A peer's operations run over every rail, and one epoch for all is what the owner can
 * reason about.
 *
 * Callbacks never run inside te_peer_fence: operations are marked ended and dispatched by te_poll, then reset is told.
 * A rebuild that failed leaves the rail closed, which is as safe; it is retried with back-off from te_poll, and the
 * owner is told of each outcome. */
#include "engine/inside.h"

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

/* Rebuild the rails for which `all`, or which are down. Returns the first failure; the others are rebuilt all the same.
 */
static int rebuild(struct te *te, bool all, struct kv_error *err)
{
	struct kv_error ignored;
	int first = 0;
	for (unsigned i = 0; i < te->nrails; i++) {
		struct rail *r = &te->rails[i];
		if (!all && !r->down)
			continue;
		r->dead = false;
		int rc = fab_rebuild(r->fab, first ? &ignored : err);
		r->down = rc != 0;
		if (rc == 0)
			rail_receives_post(r);
		else
			te->rebuild_failures++;
		first = first ? first : rc;
	}
	te->down = first != 0;
	te->reset_status = first;
	te->reset_due = true;
	if (first) {
		te->backoff_ns = te->backoff_ns ? KV_MIN(te->backoff_ns * 2, TE_REBUILD_MAX_NS) : TE_REBUILD_MIN_NS;
		te->retry_at = te_now(te) + te->backoff_ns;
	} else {
		te->backoff_ns = 0;
	}
	te_await_refd(te);
	return first;
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
		rail_end_posted(&te->rails[i], -KV_ERESET);
		addrs_void(&te->rails[i]);
	}
	KV_LIST_EACH (n, &te->peers)
		peer_void(KV_LIST_ENTRY(n, struct te_peer, node));
	int rc = rebuild(te, true, err);
	te->exposed = false;
	if (rc)
		kv_error_log(te->log, "rebuilding the endpoints: %s", err->text);
	else
		kv_info(te->log, "the endpoints were rebuilt (%llu so far)", (unsigned long long)te->fences);
	return rc;
}

int te_peer_fence(struct te_peer *peer, struct kv_error *err)
{
	struct te *te = peer->te;
	if (te->down)
		return kv_fail(err, te->reset_status,
			       "the endpoints are closed already: a rebuild failed and will be tried again");
	if (!te->exposed)
		return 0;
	return te_reset(te, err);
}

static bool any_dead(const struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (te->rails[i].dead && !te->rails[i].down)
			return true;
	return false;
}

static void retry(struct te *te)
{
	struct kv_error err;
	if (te_now(te) < te->retry_at)
		return;
	if (rebuild(te, false, &err))
		kv_error_log(te->log, "rebuilding the endpoints again: %s", err.text);
	else
		kv_info(te->log, "the endpoints are back");
}

void te_reset_turn(struct te *te)
{
	if (KV_UNLIKELY(te->down))
		retry(te);
	else if (KV_UNLIKELY(any_dead(te)) && te_now(te) >= te->quiet_until)
		(void)te_reset(te, NULL);
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
