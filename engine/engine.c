/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c -- open, turn and close an engine.
 *
 * One mutex of the process serialises opening: concurrent fi_getinfo crashed, and signal dispositions, which providers
 * change, belong to the process. Closing has two phases: first every endpoint closes, so that nothing touches memory;
 * then every remaining operation ends with -KV_ECLOSED, and the memory is freed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/addr.h"
#include "engine/fence.h"
#include "engine/inside.h"
#include "engine/link.h"
#include "engine/local_peers.h"
#include "engine/msg.h"
#include "engine/notify.h"
#include "engine/peer.h"
#include "engine/plan.h"
#include "engine/pump.h"
#include "engine/rail.h"
#include "engine/region.h"
#include "engine/signals.h"
#include "engine/xfer.h"
#include "host/host.h"

static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- fork ---- */

/* A child of fork() has none of our threads, so no thread may hold a lock of the process during the fork. The locks are
 * taken in the order of te_open. libfabric's own locks are out of reach; loops hold them for moments only. */
static void fork_begins(void)
{
	pthread_mutex_lock(&setup_lock);
	fab_fork(true);
}

static void fork_ends(void)
{
	fab_fork(false);
	pthread_mutex_unlock(&setup_lock);
}

/* A failure is no error: only a child that opens an engine could suffer. */
static void fork_watch(void)
{
	(void)pthread_atfork(fork_begins, fork_ends, fork_ends);
}

static void fork_guard(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, fork_watch);
}

/* ---- open ---- */

static int init(struct te *te, const struct te_options *o, const struct te_handlers *handlers, void *arg,
		struct kv_error *err)
{
	kv_list_init(&te->peers);
	msgs_init(&te->msgs, o->messages ? o->messages : TE_MESSAGES_DEFAULT);
	backlog_init(&te->backlog);
	notify_init(&te->ended, &te->order);
	te_regions_init(&te->regions);
	if (o->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "an engine has at most %d rails, not %u", KV_RAILS_MAX, o->rails);
	te->handlers = *handlers;
	te->arg = arg;
	te->clock = o->clock ? o->clock : &kv_clock_monotonic;
	te->log = o->log;
	te->rules.part_bytes = o->part_bytes;
	te->place.near = o->near && kv_numa_nodes("") > 1;
	te->rules.peers_heal = o->peers_heal;
	te->rules.nic_named = o->nic != NULL;
	te->rules.chunk_bytes = o->chunk_bytes ? o->chunk_bytes : KV_CHUNK_DEFAULT;
	te->rules.receives = o->receives ? o->receives : TE_RECEIVES_DEFAULT;
	fence_init(&te->fence, te_now(te));
	return 0;
}

/* *saved: the thread's memory policy; the caller restores it when the engine is open. */
static int open_rails(struct te *te, const struct te_options *o, const struct fab_device *devices, unsigned count,
		      struct kv_numa_saved *saved, struct kv_error *err)
{
	unsigned at[KV_RAILS_MAX], rails;
	struct te_plan plan;
	int rc = te_plan_devices(o, devices, count, at, &rails, err);
	if (rc)
		return rc;
	te_plan_fill(devices, count, at, rails, &plan);
	te->place.node = plan.numa_node;
	te->place.near = te->place.near && te->place.node != KV_NODE_ANY;
	/* The provider's allocations come from that node as well. */
	if (te->place.near)
		te->place.error = kv_numa_prefer(te->place.node, saved);
	te->rails = aligned_alloc(KV_LINES, kv_align_up(rails * sizeof(*te->rails), KV_LINES));
	if (!te->rails)
		return kv_fail(err, -KV_ENOMEM, "no memory for an engine");
	memset(te->rails, 0, rails * sizeof(*te->rails));
	te->nrails = rails;
	for (unsigned i = 0; i < rails && rc == 0; i++)
		rc = rail_open(te, i, &devices[at[i]], o, err);
	return rc;
}

static uint32_t first_of(uint32_t wanted, uint32_t provider, uint32_t otherwise)
{
	if (wanted)
		return wanted;
	return provider ? provider : otherwise;
}

static void rules_of_rails(struct te_rules *rules, const struct te_options *o, const struct rail *rails,
			   unsigned nrails)
{
	const struct fab_caps *first = fab_caps(rails[0].fab);
	rules->link_ops = first_of(o->link_ops, first->link_ops, TE_LINK_OPS_DEFAULT);
	rules->link_bytes = first_of(o->link_bytes, first->link_bytes, TE_LINK_BYTES_DEFAULT);
	for (unsigned i = 0; i < nrails; i++) {
		const struct fab_caps *c = fab_caps(rails[i].fab);
		rules->chunk_bytes = (uint32_t)KV_MIN((uint64_t)rules->chunk_bytes, c->rma_max);
		rules->push_imm_only |= c->push_imm_only;
		rules->read_unsafe |= c->read_unsafe;
		rules->can_order = c->ordered && (i == 0 || rules->can_order);
	}
	rules->reads_refused = rules->read_unsafe && !o->reads_at_own_risk;
}

static int open_messages(struct te *te, struct kv_error *err)
{
	uint64_t bytes = (uint64_t)te->msgs.count * KV_MSG_MAX;
	for (unsigned i = 0; i < te->nrails; i++)
		bytes += (uint64_t)te->rails[i].recv.count * te->rails[i].sets * KV_MSG_MAX;
	int rc = msgs_open(&te->msgs, bytes, te->place.near ? te->place.node : KV_NODE_ANY, err);
	for (unsigned i = 0; i < te->nrails && rc == 0; i++)
		rc = rail_start(&te->rails[i], err);
	return rc;
}

static int find_devices(const struct te_options *o, struct fab_device *devices, unsigned *out_count, char *why,
			struct kv_error *err)
{
	struct fab_query query = {.provider = o->provider, .nic = o->nic, .local = o->local, .log = o->log};
	return fab_devices(&query, devices, KV_RAILS_MAX, out_count, why, err);
}

static int open_devices(struct te *te, const struct te_options *o, struct kv_numa_saved *saved, struct kv_error *err)
{
	struct fab_device devices[KV_RAILS_MAX];
	unsigned count = 0;
	int rc = find_devices(o, devices, &count, te->why, err);
	if (rc)
		return rc;
	rc = open_rails(te, o, devices, count, saved, err);
	fab_devices_free(devices, count);
	return rc;
}

int te_devices_find(const struct te_options *options, struct fab_device *devices, unsigned *out_count, char *why,
		    struct kv_error *err)
{
	struct te_signals signals;
	fork_guard();
	pthread_mutex_lock(&setup_lock);
	te_signals_evict();
	te_signals_save(&signals);
	int rc = find_devices(options, devices, out_count, why, err);
	te_signals_restore(&signals);
	pthread_mutex_unlock(&setup_lock);
	return rc;
}

int te_plan(const struct te_options *options, struct te_plan *out, struct kv_error *err)
{
	struct fab_device devices[KV_RAILS_MAX];
	unsigned at[KV_RAILS_MAX], count = 0, rails;
	int rc = te_devices_find(options, devices, &count, NULL, err);
	if (rc)
		return rc;
	rc = te_plan_devices(options, devices, count, at, &rails, err);
	if (rc == 0)
		te_plan_fill(devices, count, at, rails, out);
	fab_devices_free(devices, count);
	return rc;
}

/* shm's handlers stay: they remove its files from /dev/shm when the process is killed, then call the earlier handlers.
 */
static void signals_after(const struct te *te, const struct te_signals *signals)
{
	const struct fab *fab = te->rails && te->rails[0].fab ? te->rails[0].fab : NULL;
	if (!fab || !fab_caps(fab)->local_process_death_fatal)
		te_signals_restore(signals);
}

int te_open(const struct te_options *options, const struct te_handlers *handlers, void *arg, struct te **out,
	    struct kv_error *err)
{
	struct te_signals signals;
	struct kv_numa_saved saved = {.changed = false};
	struct te *te = aligned_alloc(KV_LINES, kv_align_up(sizeof(*te), KV_LINES));
	if (!te)
		return kv_fail(err, -KV_ENOMEM, "no memory for an engine");
	memset(te, 0, sizeof(*te));
	fork_guard();
	int rc = init(te, options, handlers, arg, err);
	if (rc)
		goto fail;
	pthread_mutex_lock(&setup_lock);
	te_signals_evict();
	te_signals_save(&signals);
	rc = open_devices(te, options, &saved, err);
	if (rc == 0) {
		rules_of_rails(&te->rules, options, te->rails, te->nrails);
		rc = open_messages(te, err);
	}
	kv_numa_restore(&saved);
	signals_after(te, &signals);
	pthread_mutex_unlock(&setup_lock);
	if (rc)
		goto fail;
	*out = te;
	return 0;
fail:
	te_close(&te);
	return rc;
}

/* ---- close ---- */

static void end_everything(struct te *te)
{
	KV_LIST_EACH_SAFE (n, &te->peers) {
		struct te_peer *peer = KV_LIST_ENTRY(n, struct te_peer, node);
		peer_hold(peer); /* callbacks may name any peer until the last of them has run */
		te_peer_close(&peer);
	}
	while (te_notify(te))
		;
	KV_LIST_EACH_SAFE (n, &te->peers)
		peer_release(KV_LIST_ENTRY(n, struct te_peer, node));
}

void te_close(struct te **te_ref)
{
	struct te *te = *te_ref;
	if (!te)
		return;
	KV_ASSERT(!te->polling && !te->watch); /* not from a callback; after te_detach */
	te->closing = true;
	te->fence.generation++; /* the vector closes as a whole: no address is removed from it */
	for (unsigned i = 0; te->rails && i < te->nrails; i++) {
		if (te->rails[i].te == NULL)
			continue;
		(void)rail_end_posted(&te->rails[i], -KV_ECLOSED);
		addrs_void(&te->rails[i]);
	}
	for (unsigned i = 0; te->rails && i < te->nrails; i++)
		rail_stop(&te->rails[i]);
	te->fence.state &= FENCE_DOWN;
	end_everything(te);
	te_regions_free(&te->regions);
	locals_free(&te->locals);
	for (unsigned i = 0; te->rails && i < te->nrails; i++)
		rail_free(&te->rails[i]);
	msgs_close(&te->msgs);
	free(te->rails);
	free(te);
	*te_ref = NULL;
}

/* ---- turn ---- */

/* Whether a link stands in line. Its operation may have ended already. While it stands there, no ordered write is
 * posted, and the loop does not sleep. */
static bool in_line(const struct te *te)
{
	for (unsigned i = 0; i < te->nrails; i++)
		if (!kv_list_empty(&te->rails[i].ready))
			return true;
	return false;
}

int te_poll(struct te *te)
{
	int n;
	if (te->polling)
		return 0;
	te->polling = true;
	n = te_reap(te);
	te_reset_turn(te);
	n += te_notify(te);
	if (te->backlog.queued || !kv_list_empty(&te->backlog.stalled) || in_line(te)) {
		te_sweep(te);
		te_pump(te);
		n += te_notify(te);
	}
	if (te->msgs.starved)
		msgs_room(te);
	te->polling = false;
	return n;
}

bool te_busy(const struct te *te)
{
	return te->live > 0;
}

int te_address(struct te *te, unsigned rail, struct te_address *out)
{
	size_t len = sizeof(out->data);
	if (rail >= te->nrails)
		return -KV_EINVAL;
	int rc = rails_down(te);
	if (rc)
		return rc;
	if (te->fence.reset_due && te->fence.quiet_until)
		return -KV_EBUSY;
	rc = fab_name(te->rails[te->fence.map[rail]].fab, out->data, &len);
	if (rc)
		return rc;
	out->len = (uint8_t)len;
	te->fence.exposed = true;
	return 0;
}
