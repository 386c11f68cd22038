/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c -- open, turn and close an engine.
 *
 * Opening is set-up: one process-wide mutex serialises it, because providers are not safe there (concurrent fi_getinfo
 * crashed) and signal dispositions, which providers change, are the process's. After that nothing is shared between
 * engines.
 *
 * A turn (te_poll) reads like its name list: reap each rail, recover or report endpoints, run what callbacks are due,
 * expire deadlines, post what waits.
 *
 * Closing is in two phases: every endpoint is closed first, so that nothing touches memory any more; then what is left
 * is ended with -KV_ECLOSED; then memory goes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/addr.h"
#include "engine/fence.h"
#include "engine/inside.h"
#include "engine/link.h"
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

/* A child of fork() has none of our threads: what guards the whole process must not be in one of their hands. Held in
 * the order in which te_open takes them. (What fork() waits for is an endpoint that is being opened. libfabric's own
 * locks are not ours to hold; loops that are open take them for moments only.) */
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

/* Without it nothing is wrong but a child that opens an engine, perhaps: a failure is not worth an error. */
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
	kv_list_init(&te->msgs_free);
	kv_list_init(&te->peers);
	kv_list_init(&te->regions);
	kv_list_init(&te->pending);
	kv_list_init(&te->waiting);
	kv_list_init(&te->stalled);
	kv_list_init(&te->following);
	kv_list_init(&te->notify_xfers);
	kv_list_init(&te->notify_msgs);
	if (o->rails > KV_RAILS_MAX)
		return kv_fail(err, -KV_EINVAL, "an engine has at most %d rails, not %u", KV_RAILS_MAX, o->rails);
	te->handlers = *handlers;
	te->arg = arg;
	te->clock = o->clock ? o->clock : &kv_clock_monotonic;
	te->log = o->log;
	te->part_bytes = o->part_bytes;
	te->near = o->near && kv_numa_nodes("") > 1;
	te->peers_heal = o->peers_heal;
	te->chunk_bytes = o->chunk_bytes ? o->chunk_bytes : KV_CHUNK_DEFAULT;
	te->link_ops = o->link_ops;
	te->link_bytes = o->link_bytes;
	te->receives = o->receives ? o->receives : TE_RECEIVES_DEFAULT;
	te->nmsgs = o->messages ? o->messages : TE_MESSAGES_DEFAULT;
	te->next_sweep = KV_NEVER;
	te->fence_tokens = TE_FENCE_BURST;
	te->fence_refilled = te_now(te);
	return 0;
}

static const struct rail_events rail_events = {
	.sent = msg_op_done,
	.moved = xfer_op_done,
	.follow = te_follow,
	.any_well = peers_well,
};

/* *saved: the thread's memory policy, for the caller to restore when the engine is open. */
static int open_rails(struct te *te, const struct te_options *o, const struct fab_device *devices, unsigned count,
		      struct kv_numa_saved *saved, struct kv_error *err)
{
	unsigned at[KV_RAILS_MAX], rails;
	struct te_plan plan;
	int rc = te_plan_devices(o, devices, count, at, &rails, err);
	if (rc)
		return rc;
	te_plan_fill(devices, count, at, rails, &plan);
	te->numa_node = plan.numa_node;
	te->near = te->near && te->numa_node != KV_NODE_ANY;
	/* What the provider allocates, too. */
	if (te->near)
		te->node_error = kv_numa_prefer(te->numa_node, saved);
	te->rails = aligned_alloc(KV_LINES, kv_align_up(rails * sizeof(*te->rails), KV_LINES));
	if (!te->rails)
		return kv_fail(err, -KV_ENOMEM, "no memory for an engine");
	memset(te->rails, 0, rails * sizeof(*te->rails));
	te->nrails = rails;
	for (unsigned i = 0; i < rails; i++)
		te->map[i] = (uint8_t)i;
	for (unsigned i = 0; i < rails && rc == 0; i++)
		rc = rail_open(te, i, &devices[at[i]], o, &rail_events, err);
	return rc;
}

/* What the owner wants, else what suits the provider, else the default. */
static uint32_t first_of(uint32_t wanted, uint32_t provider, uint32_t otherwise)
{
	return wanted ? wanted : provider ? provider : otherwise;
}

static void limits_of_rails(struct te *te, const struct te_options *o)
{
	const struct fab_caps *first = fab_caps(te->rails[0].fab);
	te->link_ops = first_of(o->link_ops, first->link_ops, TE_LINK_OPS_DEFAULT);
	te->link_bytes = first_of(o->link_bytes, first->link_bytes, TE_LINK_BYTES_DEFAULT);
	for (unsigned i = 0; i < te->nrails; i++) {
		const struct fab_caps *c = fab_caps(te->rails[i].fab);
		te->chunk_bytes = (uint32_t)KV_MIN((uint64_t)te->chunk_bytes, c->rma_max);
		te->push_imm_only |= c->push_imm_only;
		te->read_unsafe |= c->read_unsafe;
		te->can_order = c->ordered && (i == 0 || te->can_order);
	}
	te->reads_refused = te->read_unsafe && !o->reads_at_own_risk;
}

static int open_messages(struct te *te, struct kv_error *err)
{
	te->msg_bytes = (uint64_t)te->nmsgs * KV_MSG_MAX;
	for (unsigned i = 0; i < te->nrails; i++)
		te->msg_bytes += (uint64_t)te->rails[i].nrecvs * te->rails[i].sets * KV_MSG_MAX;
	int rc = kv_area_map_on(te->msg_bytes, te->near ? te->numa_node : KV_NODE_ANY, &te->msg_area, err);
	if (rc)
		return rc;
	rc = msgs_init(te, te->nmsgs, te->msg_area.base);
	if (rc)
		return kv_fail(err, rc, "no memory for message buffers");
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

/* shm's own handlers stay: they remove its files from /dev/shm when the process is killed, and call what was there
 * before. */
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
		limits_of_rails(te, options);
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

static void free_regions(struct te *te)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&te->regions)) || (n = kv_list_pop(&te->pending))) {
		struct te_region *region = KV_LIST_ENTRY(n, struct te_region, node);
		free(region->mrs); /* fab_close closed them */
		free(region);
	}
}

void te_close(struct te **te_ref)
{
	struct te *te = *te_ref;
	if (!te)
		return;
	te->closing = true;
	te->generation++; /* no address is removed from a vector that is closed as a whole */
	for (unsigned i = 0; te->rails && i < te->nrails; i++) {
		if (te->rails[i].te == NULL)
			continue;
		(void)rail_end_posted(&te->rails[i], -KV_ECLOSED);
		addrs_void(&te->rails[i]);
	}
	for (unsigned i = 0; te->rails && i < te->nrails; i++)
		rail_stop(&te->rails[i]);
	te->fencing = false;
	end_everything(te);
	free_regions(te);
	for (unsigned i = 0; te->rails && i < te->nrails; i++)
		rail_free(&te->rails[i]);
	kv_area_unmap(&te->msg_area);
	free(te->msgs);
	free(te->rails);
	free(te);
	*te_ref = NULL;
}

/* ---- turn ---- */

static void room(struct te *te)
{
	te->starved = false;
	if (te->handlers.room)
		te->handlers.room(te->arg);
}

int te_poll(struct te *te)
{
	int n = 0;
	if (te->polling)
		return 0;
	te->polling = true;
	for (unsigned i = 0; i < te->nrails; i++)
		n += rail_poll(&te->rails[i]);
	te_reset_turn(te);
	n += te_notify(te);
	if (te->queued || !kv_list_empty(&te->stalled)) {
		te_sweep(te);
		te_pump(te);
		n += te_notify(te);
	}
	if (te->starved && !kv_list_empty(&te->msgs_free))
		room(te);
	if (te->watch)
		te->watch->turned(te->watch);
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
	if (te->down)
		return te_waiting(te) ? -KV_EBUSY : -KV_EPROVIDER;
	if (te->reset_due && te->quiet_until)
		return -KV_EBUSY;
	int rc = fab_name(te->rails[te->map[rail]].fab, out->data, &len);
	if (rc)
		return rc;
	out->len = (uint8_t)len;
	te->exposed = true;
	return 0;
}
