/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c -- one data loop: its engine, memory and store, its turns and its end. Attachments are in attachment.c.
 *
 * In a turn the engine's poller delivers frames (frame.c) and completions; then this shard's poller lets the operations
 * continue their work, and sends the frames. After shard_start only the loop's thread runs in here; control work comes
 * as calls (loopcall.h). After a rebuild of the engine all peers are void: the control loop ends the attachments, and
 * clients return to the new addresses. */
#include "kvserver/shard/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/host.h"
#include "kvserver/shard/private.h"
#include "kvserver/shard/local_client.h"
#include "kvserver/shard/loopcall.h"
#include "kvserver/shard/region.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"
#include "kvserver/shard/tenants.h"

/* ---- events of the engine ---- */

/* No client may write with immediates here: it is a client's fault. */
static void shard_immediate(void *arg, unsigned rail, uint32_t imm)
{
	(void)rail, (void)imm;
	shard_count(arg, WIRE_STAT_STRAY_IMMEDIATES);
}

static void shard_room(void *arg)
{
	reply_retry(arg);
}

static void shard_reset(void *arg, int status)
{
	struct shard *s = arg;
	kv_event(s->opt.log, KV_LOG_WARN,
		 KV_EVENT("shard_rebuilt", KV_NUMBER("shard", s->opt.index),
			  KV_FIELD("error", status ? kv_strerror(status) : "")),
		 "shard %u: endpoints were rebuilt%s%s; all sessions must be renewed", s->opt.index,
		 status ? ", not yet successfully: " : "", status ? kv_strerror(status) : "");
	s->calls.reset_due = true;
	report_reset(s);
}

/* ---- a turn ---- */

/* Polled before the engine: no request is served first. With pollers a loop turns every 10 ms or more often. */
static int shard_first(struct loop_poller *p)
{
	struct shard *s = KV_CONTAINER(p, struct shard, doubt.first);
	uint64_t now_ns = loop_turn_now(s->loop), gap_ns = now_ns - s->doubt.turned_ns;
	s->doubt.turned_ns = now_ns;
	if (KV_UNLIKELY(gap_ns > SHARD_TICK_NS) && s->opt.doubt) {
		uint64_t still_ns = atomic_load_explicit(&s->opt.doubt->still_ns, memory_order_relaxed);
		if (still_ns && gap_ns > still_ns)
			shard_doubt_stood(s, now_ns - gap_ns);
	}
	return 0;
}

static bool shard_first_active(struct loop_poller *p)
{
	(void)p;
	return false;
}

/* Pins of ended sessions are to be dropped, unless they are kept for the time after this server. */
static bool pins_due(const struct shard *s)
{
	return pins_leaving(&s->store) && !(s->draining && s->opt.kept);
}

static int shard_poll(struct loop_poller *p)
{
	struct shard *s = KV_CONTAINER(p, struct shard, turns.poller);
	int done = s->opt.ops->turn(s);
	if (KV_UNLIKELY(s->opt.doubt &&
			atomic_load_explicit(&s->opt.doubt->number, memory_order_relaxed) != s->doubt.number))
		shard_doubt_take(s);
	if (s->locals.count)
		done += shard_locals_turn(s);
	done += !kv_list_empty(&s->replies.dirty);
	if (!kv_list_empty(&s->replies.blocked))
		reply_retry(s);
	if (!kv_list_empty(&s->replies.dirty))
		reply_flush(s);
	if (KV_UNLIKELY(!kv_list_empty(&s->calls.undelivered)))
		call_redeliver(s);
	if (KV_UNLIKELY(s->calls.drained != NULL))
		report_drained(s);
	if (KV_UNLIKELY(s->calls.closed != NULL))
		report_closed(s);
	if (KV_UNLIKELY(s->kept.recovering))
		done += shard_kept_turn(s);
	if (KV_UNLIKELY(pins_due(s)))
		done += pins_sweep(&s->store, PINS_AT_ONCE);
	if (KV_UNLIKELY(s->store.cleared_on))
		done += store_cleared_sweep(&s->store, STORE_STEPS_AT_ONCE);
	if (KV_UNLIKELY(s->store.tenancy.trims))
		done += tenancy_step(&s->store, STORE_STEPS_AT_ONCE);
	return done;
}

static bool shard_active(struct loop_poller *p)
{
	const struct shard *s = KV_CONTAINER(p, const struct shard, turns.poller);
	return !kv_list_empty(&s->replies.dirty) || !kv_list_empty(&s->calls.undelivered) || pins_due(s) ||
	       s->store.cleared_on || s->store.tenancy.trims || s->kept.recovering || s->locals.active ||
	       s->opt.ops->active(s);
}

static void values_log(struct shard *s)
{
	const struct store *st = &s->store;
	char used[32], limit[32];
	if (s->counts.values_logged || st->blocks.used < st->blocks_max || st->arena.used > st->arena.limit / 2)
		return;
	s->counts.values_logged = true;
	kv_event(s->opt.log, KV_LOG_WARN,
		 KV_EVENT("values_full", KV_NUMBER("shard", s->opt.index), KV_NUMBER("values", st->blocks_max),
			  KV_NUMBER("used_bytes", st->arena.used), KV_NUMBER("limit_bytes", st->arena.limit)),
		 "shard %u: the limit of %u values is reached, and they take %s of %s: raise --max-values to keep more",
		 s->opt.index, st->blocks_max, kv_size_format(st->arena.used, used, sizeof(used)),
		 kv_size_format(st->arena.limit, limit, sizeof(limit)));
}

static void shard_tick(struct loop_timer *t)
{
	struct shard *s = KV_CONTAINER(t, struct shard, turns.tick);
	uint64_t now_ns = loop_turn_now(s->loop);
	loop_timer_arm(s->loop, t, now_ns + SHARD_TICK_NS);
	store_sweep(&s->store, now_ns, SHARD_SWEEP_NODES);
	shard_tenants_take(s);
	tenancy_step(&s->store, STORE_STEPS_AT_ONCE);
	store_judge_some(&s->store, now_ns, SHARD_SWEEP_NODES);
	for (unsigned i = 0; i < s->attachments.slots; i++)
		if (s->attachments.slot[i] && s->attachments.slot[i]->state == ATTACHMENT_OPEN)
			s->opt.ops->attachment_tick(s->attachments.slot[i], now_ns);
	s->opt.ops->tick(s);
	landings_tick(s, now_ns);
	shard_locals_tick(s);
	if (s->opt.kept)
		shard_kept_tick(s, now_ns);
	shard_quarantine_check(s, now_ns);
	report_reset(s);
	values_log(s);
	if (s->calls.lost_due)
		report_lost(s);
	if (s->te && now_ns >= s->turns.look_ns) { /* its loop still turns after closing */
		s->turns.look_ns = now_ns + SHARD_LOOK_NS;
		te_addresses_check(s->te);
	}
	shard_publish(s);
}

/* ---- create, start, drain, close ---- */

enum { ARENA_HEAD = 64 };

static int shard_arena(struct shard *s, struct kv_error *err)
{
	te_region_announce(s->region, &s->arena, NULL);
	if ((size_t)s->arena.rails * s->arena.parts * sizeof(struct te_key) > KV_CTRL_MAX - ARENA_HEAD)
		return kv_fail(err, -KV_ELIMIT,
			       "allow_pull: the memory has %u parts on each of %u rails, more than can be announced; "
			       "give each shard less memory",
			       s->arena.parts, s->arena.rails);
	return 0;
}

int shard_arena_keys(const struct shard *s, uint8_t **out)
{
	struct te_remote arena;
	return s->te ? region_announce(s->region, &arena, out) : -KV_ECLOSED;
}

static int pull_check(const struct shard *s, struct kv_error *err)
{
	if (!s->opt.allow_pull || !s->info.reads_refused)
		return 0;
	return kv_fail(
		err, -KV_ENOTSUP,
		"allow_pull: clients cannot read over %s of libfabric %s, which crashes a reader if its peer dies "
		"during the read; use libfabric 1.22 or newer or another provider, or do without (kv-server without "
		"--allow-pull, kv-bench without --mode pull)",
		s->info.provider, s->info.libfabric);
}

static int shard_engine(struct shard *s, const struct kv_clock *clock, struct kv_error *err)
{
	const struct te_handlers handlers = {
		.message = frame_message,
		.local = frame_local,
		.immediate = shard_immediate,
		.room = shard_room,
		.follow = reply_follow_flush,
		.reset = shard_reset,
	};
	struct te_options options = s->opt.engine;
	int rc;
	options.clock = clock;
	options.log = s->opt.log;
	rc = te_open(&options, &handlers, s, &s->te, err);
	if (rc)
		return rc;
	te_info(s->te, &s->info);
	s->place = (struct kv_numa_place){.node = s->info.near ? s->info.numa_node : KV_NODE_ANY,
					  .thread = KV_THREAD_FREE,
					  .memory_error = s->info.node_error};
	s->opt.allow_pull |= s->opt.pull_where_safe && !s->info.reads_refused;
	rc = pull_check(s, err);
	if (rc)
		te_close(&s->te);
	return rc;
}

/* On failure the caller closes the engine. */
static int shard_regions(struct shard *s, struct kv_error *err)
{
	int rc = te_region_register(s->te, s->area.base, s->area.len_bytes,
				    TE_LOCAL | (s->opt.allow_pull ? TE_REMOTE_READ : 0u), 0, &s->region, err);
	if (rc == 0 && s->opt.allow_pull)
		rc = shard_arena(s, err);
	if (rc == 0)
		rc = landings_open(s, s->opt.landing_bytes, err);
	if (rc == 0)
		rc = s->opt.ops->open(s, err);
	return rc;
}

/* Kernels before 5.14 lack MADV_POPULATE_WRITE: write to every page instead. Kept memory has values. */
static int shard_prefault(struct shard *s, struct kv_error *err)
{
	volatile uint8_t *p = s->area.base;
	int rc = kv_area_populate(&s->area, NULL);
	if (rc == 0)
		return 0;
	if (rc != -KV_ENOTSUP)
		return kv_fail(err, -KV_ENOMEM, "--prefault: the kernel has no pages for %llu MiB",
			       (unsigned long long)(s->area.len_bytes >> 20));
	for (uint64_t i = 0; i < s->area.len_bytes; i += 4096)
		p[i] = p[i];
	return 0;
}

/* Clients on this host map the memory for values, unless the user or the kernel forbids it. */
static int shard_map(struct shard *s, struct kv_error *err)
{
	struct kv_error why = {0};
	if (s->opt.kept)
		return shard_kept_map(s, err);
	if (!s->opt.arena_private && kv_area_map_shared(s->opt.memory_bytes, s->place.node, &s->area, &why) == 0)
		return 0;
	if (!s->opt.arena_private)
		kv_event(s->opt.log, KV_LOG_WARN,
			 KV_EVENT("arena_private", KV_NUMBER("shard", s->opt.index), KV_FIELD("reason", why.text)),
			 "shard %u: the memory for values cannot be shared with clients of this host, so they get "
			 "copies over the fabric: %s; --arena private avoids the attempt",
			 s->opt.index, why.text);
	return kv_area_map_on(s->opt.memory_bytes, s->place.node, &s->area, err);
}

static int shard_memory(struct shard *s, struct kv_error *err)
{
	int rc = shard_map(s, err);
	if (rc)
		return rc;
	if (s->area.node_error)
		s->place.memory_error = s->area.node_error;
	/* A NIC would pin small pages, which never become huge ones. */
	if (s->info.pins_memory && s->area.ready)
		(void)kv_area_populate(&s->area, NULL);
	rc = s->opt.prefault ? shard_prefault(s, err) : 0;
	if (rc == 0)
		rc = shard_store(s, err);
	if (rc == 0)
		shard_tenants_take(s);
	if (rc)
		kv_area_unmap(&s->area);
	return rc;
}

static void shard_init(struct shard *s)
{
	s->replies.frames_max = s->opt.engine.messages ? s->opt.engine.messages : 256;
	slab_init(&s->requests, sizeof(struct request), SHARD_REQUESTS_MAX);
	slab_init(&s->replies.held, REPLY_HELD_BYTES, SHARD_REQUESTS_MAX);
	kv_list_init(&s->attachments.ending);
	kv_list_init(&s->replies.dirty);
	kv_list_init(&s->replies.blocked);
	kv_list_init(&s->calls.undelivered);
	shard_locals_init(s);
}

static void shard_free(struct shard *s)
{
	slab_fini(&s->requests);
	slab_fini(&s->replies.held);
	s->opt.ops->destroy(s);
	free(s->attachments.slot);
	free(s->counts.published);
	free(s);
}

int shard_create(const struct shard_options *options, const struct kv_entropy *entropy, const struct kv_clock *clock,
		 struct shard **out, struct kv_error *err)
{
	struct shard *s = aligned_alloc(KV_LINES, kv_align_up(sizeof(*s), KV_LINES));
	struct kv_numa_saved saved;
	int rc = -KV_ENOMEM;
	if (!s)
		return kv_fail(err, rc, "no memory for a shard");
	*s = (struct shard){.opt = *options,
			    .loop = options->loop,
			    .entropy = entropy,
			    .born_ns = loop_now(options->loop),
			    .attachments.slots = KV_MIN(options->attachments_max, 0xFFFFu)};
	shard_init(s);
	s->attachments.slot = calloc(s->attachments.slots, sizeof(s->attachments.slot[0]));
	if (!s->attachments.slot) {
		kv_fail(err, rc, "no memory for a shard's sessions");
		goto out_free;
	}
	rc = options->publish ? published_make(&s->counts.published) : 0;
	if (rc) {
		kv_fail(err, rc, "no memory for a shard's counters");
		goto out_free;
	}
	/* The engine first: its NICs decide the node of the memory. */
	rc = shard_engine(s, clock, err);
	if (rc)
		goto out_free;
	(void)kv_numa_prefer(s->place.node, &saved);
	rc = shard_memory(s, err);
	kv_numa_restore(&saved);
	if (rc)
		goto out_engine;
	rc = shard_regions(s, err);
	if (rc)
		goto out_memory;
	*out = s;
	return 0;
out_memory:
	te_close(&s->te); /* registered memory stays mapped until then */
	landings_close(s);
	store_fini(&s->store);
	shard_tenants_end(s);
	kv_area_unmap(&s->area);
out_engine:
	te_close(&s->te);
out_free:
	shard_free(s);
	return rc;
}

int shard_start(struct shard *s)
{
	struct loop *loop = s->loop;
	int rc;
	s->doubt.turned_ns = loop_now(loop);
	s->doubt.first = (struct loop_poller){.poll = shard_first, .wait_fd = -1, .active = shard_first_active};
	rc = loop_poller_add(loop, &s->doubt.first);
	if (rc)
		return rc;
	rc = te_attach(s->te, loop);
	if (s->opt.own_thread && s->place.node != KV_NODE_ANY)
		s->place.thread = kv_numa_bind_thread("", s->place.node, NULL);
	if (rc)
		goto out_first;
	s->turns.poller = (struct loop_poller){.poll = shard_poll, .wait_fd = -1, .active = shard_active};
	rc = loop_poller_add(loop, &s->turns.poller);
	if (rc)
		goto out_engine;
	s->turns.tick.fire = shard_tick;
	loop_timer_arm(loop, &s->turns.tick, loop_now(loop) + SHARD_TICK_NS);
	s->turns.attached = true;
	shard_publish(s);
	return 0;

out_engine:
	te_detach(s->te);
out_first:
	loop_poller_del(loop, &s->doubt.first);
	return rc;
}

void shard_drain(struct shard *s, struct call *drained)
{
	s->draining = true;
	s->calls.drained = drained;
	report_drained(s);
}

void shard_closed(struct shard *s, struct call *closed)
{
	s->calls.closed = closed;
	s->calls.closed_ns = loop_now(s->loop) + SHARD_CLOSE_NS;
	report_closed(s);
}

void shard_close(struct shard *s)
{
	struct te *te = s->te;
	if (!te)
		return;
	s->draining = true;
	for (unsigned i = 0; i < s->attachments.slots; i++)
		for (unsigned k = 0; s->attachments.slot[i] && k < s->attachments.slot[i]->links; k++)
			reply_drop(&s->attachments.slot[i]->link[k]);
	shard_locals_quit(s);
	if (s->turns.attached)
		te_detach(te);
	s->te = NULL;            /* callbacks of te_close start nothing and close no peers */
	s->store.poison = false; /* local clients read what they leased for as long as they like */
	te_close(&te);
	s->region = NULL;
	s->opt.ops->close(s);
}

void shard_destroy(struct shard **shard)
{
	struct shard *s = *shard;
	if (!s)
		return;
	if (s->turns.attached) {
		loop_timer_cancel(s->loop, &s->turns.tick);
		loop_poller_del(s->loop, &s->turns.poller);
		loop_poller_del(s->loop, &s->doubt.first);
	}
	shard_close(s); /* a start that failed half-way has not closed it */
	s->opt.ops->clear(s);
	landings_close(s);
	shard_kept_end(s);
	store_fini(&s->store);
	shard_tenants_end(s);
	if (s->doubt.verdicts)
		shard_doubt_release(s->opt.doubt, s->doubt.verdicts);
	kv_area_unmap(&s->area);
	shard_free(s);
	*shard = NULL;
}
