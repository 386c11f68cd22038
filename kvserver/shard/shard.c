/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c -- one data loop: from a frame to its session, and everything that is not about one session.
 *
 * A turn: the engine's poller delivers frames and completions (replies gather in frames), then this shard's poller sums
 * up bytes of values that arrive and sends the frames. The loop's thread is the only one in here after shard_start;
 * control work comes as calls (loopcall.h).
 *
 * A frame is believed step by step: layout, then session, link and shard, which say under which key its tag must be
 * right, then the tag in constant time, then its counter, and only then its records. What fails is counted and dropped
 * without an answer: an answer would have to go to whom the sender claims to be.
 *
 * When the engine was rebuilt all peers are void. Nothing is mended in place: the control loop ends the sessions, and
 * clients come back for the new addresses.
 *
 * A client that died with transfers in flight leaves quarantined blocks until the provider ends those transfers: they
 * are not reused, and charged to the memory limit. Only if they hold more than the budget (a quarter of the memory, or
 * 32 sessions) is the dead peer fenced, because that costs everybody a reconnect. */
#include "kvserver/shard/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/host.h"
#include "kvserver/shard/reply.h"

/* ---- from a frame to a session ---- */

struct session *shard_session(const struct shard *s, uint32_t number)
{
	unsigned slot = number & 0xFFFF;
	struct session *session = slot < s->slots ? s->slot[slot] : NULL;

	return session && session->number == number ? session : NULL;
}

static void shard_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct shard *s = arg;
	struct wire_reader reader;
	struct wire_frame frame;
	struct session *session;
	int rc;

	(void)rail;
	if (wire_frame_open(&reader, data, len, &frame) != 0) {
		shard_count(s, WIRE_STAT_BAD_FRAMES);
		return;
	}
	session = shard_session(s, frame.session);
	if (!session || session->state != SESSION_OPEN) {
		shard_count(s, WIRE_STAT_UNKNOWN_SESSION);
		return;
	}
	if (frame.link >= session->links || frame.shard != s->opt.index || frame.mark != session->mark) {
		shard_count(s, WIRE_STAT_BAD_FRAMES);
		return;
	}
	rc = wire_unseal(&session->link[frame.link].seal, data, len);
	if (KV_LIKELY(rc == 0))
		session_frame(session, frame.link, &reader, loop_turn_now(s->loop));
	else
		shard_count(s, rc == -KV_EEXIST ? WIRE_STAT_REPLAYED_FRAMES : WIRE_STAT_BAD_TAG);
}

/* Clients are not asked to write into our memory: an immediate here is noise of theirs. */
static void shard_immediate(void *arg, unsigned rail, uint32_t imm)
{
	(void)rail, (void)imm;
	shard_count(arg, WIRE_STAT_STRAY_IMMEDIATES);
}

static void shard_follow(void *arg)
{
	reply_follow_flush(arg);
}

static void shard_room(void *arg)
{
	reply_room(arg);
}

static void reset_tell(struct shard *s)
{
	if (s->reset_due && (!s->opt.reset || s->opt.reset(s->opt.arg, s) == 0))
		s->reset_due = false;
}

void shard_lost(struct shard *s)
{
	s->lost_due = s->opt.lost && s->opt.lost(s->opt.arg, s) != 0;
}

static void shard_reset(void *arg, int status)
{
	struct shard *s = arg;

	kv_warn(s->opt.log, "shard %u: endpoints were rebuilt%s%s; all sessions are made anew", s->opt.index,
		status ? ", not yet successfully: " : "", status ? kv_strerror(status) : "");
	s->reset_due = true;
	reset_tell(s);
}

/* ---- a turn ---- */

static void hash_puts(struct shard *s, uint64_t *budget)
{
	while (*budget && !kv_list_empty(&s->hashing))
		stage_hash(KV_LIST_ENTRY(s->hashing.next, struct stage, hashing), budget);
}

static void hash_gets(struct shard *s, uint64_t *budget)
{
	while (*budget && !kv_list_empty(&s->hash_gets))
		get_hash(KV_LIST_ENTRY(s->hash_gets.next, struct request, get.hashing), budget);
}

/* Values on their way in and parts of values on their way out have half of a turn's bytes each, and what the other
 * leaves. */
static int hash_some(struct shard *s)
{
	uint64_t budget = SHARD_HASH_BYTES, first = kv_list_empty(&s->hash_gets) ? budget : budget / 2;

	budget -= first;
	hash_puts(s, &first);
	budget += first;
	hash_gets(s, &budget);
	hash_puts(s, &budget);
	return budget < SHARD_HASH_BYTES;
}

uint64_t shard_kept(const struct shard *s)
{
	return s->store.pinned_bytes + s->store.staged_bytes + s->leases.bytes;
}

uint64_t shard_keep_left(const struct shard *s)
{
	uint64_t budget = s->store.arena.limit - s->store.arena.limit / SHARD_KEEP_PART, kept = shard_kept(s);

	return budget > kept ? budget - kept : 0;
}

static int shard_poll(struct loop_poller *p)
{
	struct shard *s = KV_CONTAINER(p, struct shard, poller);
	int done = hash_some(s) + !kv_list_empty(&s->dirty);

	if (!kv_list_empty(&s->rooms)) {
		put_turn(s);
		done++;
	}
	if (!kv_list_empty(&s->blocked))
		reply_room(s);
	if (!kv_list_empty(&s->benches)) {
		bench_turn(s);
		done++;
	}
	reply_flush(s);
	call_redeliver(s);
	shard_settle(s);
	return done;
}

static bool shard_active(struct loop_poller *p)
{
	const struct shard *s = KV_CONTAINER(p, const struct shard, poller);

	return !kv_list_empty(&s->dirty) || !kv_list_empty(&s->rooms) || !kv_list_empty(&s->hashing) ||
	       !kv_list_empty(&s->hash_gets) || !kv_list_empty(&s->undelivered);
}

/* The arena's bytes that a session's transfers keep from being reused, without blocks that were counted in this walk
 * already. live_only: without those that the store counts as gone. */
static uint64_t held_bytes(const struct shard *s, const struct session *session, bool live_only)
{
	uint64_t bytes = 0;

	KV_LIST_EACH (n, &session->requests) {
		const struct request *r = KV_LIST_ENTRY(n, struct request, node);
		struct block *b;
		for (unsigned i = 0; request_block(r, i, &b); i++) {
			if (!b || b->mark == s->mark || (live_only && b->state == BLOCK_GONE))
				continue;
			b->mark = s->mark;
			bytes += b->mem->size;
		}
	}
	return bytes;
}

/* What may not be reused because an operation is unresolved: blocks without a key, and those of sessions that ended. */
static uint64_t quarantined_bytes(struct shard *s)
{
	uint64_t bytes = s->store.gone_bytes;

	s->mark++;
	KV_LIST_EACH (n, &s->ending)
		bytes += held_bytes(s, KV_LIST_ENTRY(n, struct session, node), true);
	return bytes;
}

static unsigned ending_sessions(const struct shard *s)
{
	unsigned count = 0;

	KV_LIST_EACH (n, &s->ending)
		count++;
	return count;
}

void shard_quarantine_check(struct shard *s, uint64_t now_ns)
{
	struct session *worst = NULL;
	uint64_t all = 0, most = 0;
	unsigned count = 0;
	struct kv_error err;

	s->mark++;
	KV_LIST_EACH (n, &s->ending) {
		struct session *session = KV_LIST_ENTRY(n, struct session, node);
		uint64_t bytes;
		if (now_ns < session->ended_ns + SHARD_QUARANTINE_NS)
			continue;
		bytes = held_bytes(s, session, false);
		count++;
		all += bytes;
		if (worst && bytes <= most)
			continue;
		most = bytes;
		worst = session;
	}
	/* Without an engine the shard is being closed, and nothing moves any more. */
	if (!worst || !s->te || te_fencing(s->te) || now_ns < s->fenced_ns + SHARD_QUARANTINE_NS ||
	    (all <= s->store.arena.limit / SHARD_QUARANTINE_SHARE && count <= SHARD_QUARANTINE_SESSIONS))
		return;
	kv_warn(s->opt.log,
		"shard %u: transfers of %u clients that are gone hold %llu MiB; the peer of client %llu is fenced",
		s->opt.index, count, (unsigned long long)(all >> 20), (unsigned long long)worst->client_id);
	s->fenced_ns = now_ns;
	if (te_peer_fence(worst->peer, &err) < 0)
		kv_error_log(s->opt.log, "shard %u: %s", s->opt.index, err.text);
}

/* Once: values are evicted although there is memory. */
static void values_tell(struct shard *s)
{
	const struct store *st = &s->store;
	char used[32], limit[32];

	if (s->told_values || st->blocks.used < st->blocks_max || st->arena.used > st->arena.limit / 2)
		return;
	s->told_values = true;
	kv_warn(s->opt.log,
		"shard %u: %u values are there, as many as there may be, and take %s of %s: raise --max-values to keep "
		"more",
		s->opt.index, st->blocks_max, kv_size_format(st->arena.used, used, sizeof(used)),
		kv_size_format(st->arena.limit, limit, sizeof(limit)));
}

static void shard_tick(struct loop_timer *t)
{
	struct shard *s = KV_CONTAINER(t, struct shard, tick);
	uint64_t now_ns = loop_turn_now(s->loop);

	loop_timer_arm(s->loop, t, now_ns + SHARD_TICK_NS);
	store_sweep(&s->store, now_ns, SHARD_SWEEP_NODES);
	for (unsigned i = 0; i < s->slots; i++)
		if (s->slot[i] && s->slot[i]->state == SESSION_OPEN)
			session_tick(s->slot[i], now_ns);
	kv_list_splice_tail(&s->rooms, &s->rooms_later);
	kv_list_splice_tail(&s->rooms, &s->rooms_queued);
	shard_quarantine_check(s, now_ns);
	reset_tell(s);
	values_tell(s);
	if (s->lost_due)
		shard_lost(s);
}

/* ---- statistics ---- */

/* Checksums being made: of staged values and of parts of values. */
static uint64_t hashing(const struct shard *s)
{
	uint64_t n = 0;

	KV_LIST_EACH (node, &s->hashing)
		n++;
	KV_LIST_EACH (node, &s->hash_gets)
		n++;
	return n;
}

/* Of rail `first`; of it and all behind it where the counters end. */
static uint64_t rails_stat(struct shard *s, unsigned first, bool last, bool errors)
{
	unsigned end = last ? KV_RAILS_MAX : first + 1;
	uint64_t sum = 0;

	for (unsigned i = first; s->te && i < KV_MIN(end, s->info.rails); i++) {
		struct te_stats te;
		te_rail_stats(s->te, i, &te);
		sum += errors ? te.failed_ops + te.failed_peer + te.failed_endpoint : te.bytes_written + te.bytes_read;
	}
	return sum;
}

static uint64_t rails_up(const struct shard *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; s->te && i < s->info.rails; i++)
		n += te_rail_up(s->te, i);
	return n;
}

/* What the engine counts. */
static uint64_t engine_stat(struct shard *s, enum wire_stat id)
{
	struct te_stats te = {0};

	if (s->te)
		te_stats(s->te, &te);
	switch (id) {
	case WIRE_STAT_EAGAIN:
		return te.eagain;
	case WIRE_STAT_INFLIGHT:
		return te.inflight;
	case WIRE_STAT_FENCES:
		return te.fences;
	case WIRE_STAT_QUEUED:
		return te.queued;
	case WIRE_STAT_MSG_EXHAUSTED:
		return te.msg_exhausted;
	case WIRE_STAT_FAILED_OPS:
		return te.failed_ops;
	case WIRE_STAT_REBUILD_FAILURES:
		return te.rebuild_failures;
	case WIRE_STAT_SENDS:
		return te.sends;
	case WIRE_STAT_WRITES:
		return te.writes;
	case WIRE_STAT_READS:
		return te.reads;
	case WIRE_STAT_RAIL_FAILURES:
		return te.rail_failures;
	case WIRE_STAT_FAILED_PEER:
		return te.failed_peer;
	case WIRE_STAT_DOOR_LET_IN:
		return te.door_let_in;
	case WIRE_STAT_DOOR_STRANGERS:
		return te.door_strangers;
	case WIRE_STAT_DOOR_CLAIMS:
		return te.door_claims;
	case WIRE_STAT_DOOR_TWICE:
		return te.door_twice;
	case WIRE_STAT_DOOR_SILENT:
		return te.door_silent;
	case WIRE_STAT_DOOR_FULL:
		return te.door_full;
	case WIRE_STAT_DOOR_ALIENS:
		return te.door_aliens;
	default:
		return 0;
	}
}

uint64_t shard_stat_get(struct shard *s, enum wire_stat id)
{
	switch (id) {
	case WIRE_STAT_BLOCKS:
		return index_count(&s->store.index);
	case WIRE_STAT_BLOCKS_MAX:
		return s->store.blocks_max;
	case WIRE_STAT_BYTES_USED:
		return s->store.arena.used;
	case WIRE_STAT_BYTES_LIMIT:
		return s->store.arena.limit;
	case WIRE_STAT_SESSIONS:
		/* Clients sum over shards, and every session is on all of them. One that ends beside its client's next
		 * one is not a client more. */
		return s->opt.index == 0 ? s->session_count - ending_sessions(s) : 0;
	case WIRE_STAT_FURTHER_SESSIONS:
		return s->opt.index == 0 ? s->owner_count : 0;
	case WIRE_STAT_EVICTIONS:
		return s->store.events[STORE_EVICTED];
	case WIRE_STAT_EXPIRED:
		return s->store.events[STORE_EXPIRED];
	case WIRE_STAT_QUARANTINED_BYTES:
		return quarantined_bytes(s);
	case WIRE_STAT_STAGED_BYTES:
		return s->store.staged_bytes;
	case WIRE_STAT_ENDING_SESSIONS:
		return s->opt.index == 0 ? ending_sessions(s) : 0;
	case WIRE_STAT_PINNED_BYTES:
		return s->store.pinned_bytes;
	case WIRE_STAT_ACTIVE:
		return s->requests.used;
	case WIRE_STAT_STAGES:
		return s->stages.used;
	case WIRE_STAT_HASHING:
		return hashing(s);
	case WIRE_STAT_HELD:
		return s->held.used;
	case WIRE_STAT_LEASES_NOW:
		return s->leases.count;
	case WIRE_STAT_LEASED_BYTES:
		return s->leases.bytes;
	case WIRE_STAT_RAILS_UP:
		return rails_up(s);
	case WIRE_STAT_RAILS_OUT:
		return s->te ? s->info.rails - rails_up(s) : 0;
	case WIRE_STAT_RAIL_BYTES ... WIRE_STAT_RAIL_BYTES_LAST:
		return rails_stat(s, id - WIRE_STAT_RAIL_BYTES, id == WIRE_STAT_RAIL_BYTES_LAST, false);
	case WIRE_STAT_RAIL_ERRORS ... WIRE_STAT_RAIL_ERRORS_LAST:
		return rails_stat(s, id - WIRE_STAT_RAIL_ERRORS, id == WIRE_STAT_RAIL_ERRORS_LAST, true);
	case WIRE_STAT_EAGAIN:
	case WIRE_STAT_INFLIGHT:
	case WIRE_STAT_FENCES:
	case WIRE_STAT_QUEUED:
	case WIRE_STAT_MSG_EXHAUSTED:
	case WIRE_STAT_FAILED_OPS:
	case WIRE_STAT_REBUILD_FAILURES:
	case WIRE_STAT_SENDS:
	case WIRE_STAT_WRITES:
	case WIRE_STAT_READS:
	case WIRE_STAT_RAIL_FAILURES:
	case WIRE_STAT_FAILED_PEER:
	case WIRE_STAT_DOOR_LET_IN ... WIRE_STAT_DOOR_ALIENS:
		return engine_stat(s, id);
	case WIRE_STAT_TURNS:
		return loop_turns(s->loop);
	default:
		return s->stat[id] +
		       (s->opt.control ? atomic_load_explicit(&s->opt.control[id], memory_order_relaxed) : 0);
	}
}

/* ---- create, start, drain, close ---- */

/* Bytes of an ARENA message that are not keys. */
enum { ARENA_HEAD = 64, ARENA_KEY = 16 };

/* Clients are to read the arena by themselves: what they need for it. */
static int shard_arena(struct shard *s, struct kv_error *err)
{
	te_region_announce(s->region, &s->arena, NULL);
	if ((size_t)s->arena.rails * s->arena.parts * sizeof(struct te_key) > KV_CTRL_MAX - ARENA_HEAD)
		return kv_fail(
			err, -KV_ELIMIT,
			"allow_pull: the memory has %u parts on each of %u rails, more than clients can be told of; "
			"give each shard less memory",
			s->arena.parts, s->arena.rails);
	if (leases_init(&s->leases, s->opt.lease_ns) != 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for the leases of a shard");
	return 0;
}

int shard_arena_keys(const struct shard *s, uint8_t **out)
{
	size_t n = (size_t)s->arena.rails * s->arena.parts;
	struct te_key *keys = calloc(n, sizeof(*keys));
	uint8_t *packed = calloc(n, ARENA_KEY);
	struct te_remote arena;

	if (!s->te || !keys || !packed) {
		free(keys);
		free(packed);
		return s->te ? -KV_ENOMEM : -KV_ECLOSED;
	}
	te_region_announce(s->region, &arena, keys);
	for (unsigned rail = 0; rail < arena.rails; rail++)
		for (uint32_t part = 0; part < arena.parts; part++) {
			const struct te_key *k = &keys[(size_t)rail * arena.parts + part];
			wire_region_put(packed, arena.parts, rail, part, k->base, k->key);
		}
	free(keys);
	*out = packed;
	return 0;
}

static int pull_check(const struct shard *s, struct kv_error *err)
{
	if (!s->opt.allow_pull || !s->info.reads_refused)
		return 0;
	return kv_fail(
		err, -KV_ENOTSUP,
		"allow_pull: clients cannot read over %s of libfabric %s, which crashes a reader whose peer dies "
		"meanwhile; use libfabric 1.22 or newer or another provider, or do without (kv-server without "
		"--allow-pull, kv-bench without --mode pull)",
		s->info.provider, s->info.libfabric);
}

static int shard_engine(struct shard *s, const struct kv_clock *clock, struct kv_error *err)
{
	const struct te_handlers handlers = {
		.message = shard_message,
		.immediate = shard_immediate,
		.room = shard_room,
		.follow = shard_follow,
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

/* What the engine is to move, registered. On failure the engine is to be closed. */
static int shard_regions(struct shard *s, struct kv_error *err)
{
	int rc = te_region_register(s->te, s->area.base, s->area.len_bytes,
				    TE_LOCAL | (s->opt.allow_pull ? TE_REMOTE_READ : 0u), 0, &s->region, err);
	if (rc == 0 && s->opt.allow_pull)
		rc = shard_arena(s, err);
	if (rc == 0)
		rc = packs_init(s, err);
	return rc;
}

static int shard_store(struct shard *s, const struct kv_entropy *entropy, const struct kv_clock *clock,
		       struct kv_error *err)
{
	struct store_options options = {
		.base = s->area.base,
		.limit_bytes = s->opt.memory_bytes,
		.now_ns = kv_clock_now(clock),
		.policy = s->opt.policy,
		.blocks_max = s->opt.values_max,
	};
	int rc = kv_entropy_fill(entropy, &options.seed, sizeof(options.seed));

	/* Generations of a restarted server differ from those of its predecessor, so that a stale one is not taken for
	 * current. */
	if (rc == 0)
		rc = kv_entropy_fill(entropy, &options.generation, sizeof(options.generation));
	options.generation = (options.generation >> 24 << 24 & INT64_MAX) + 1;
	if (rc == 0)
		rc = store_init(&s->store, &options);
	return rc ? kv_fail(err, rc, "shard %u: cannot set up the index: %s", s->opt.index, kv_strerror(rc)) : 0;
}

/* Kernels before 5.14 do not know MADV_POPULATE_WRITE: a write to every page does the same. */
static int shard_prefault(struct shard *s, struct kv_error *err)
{
	volatile uint8_t *p = s->area.base;
	int rc = kv_memory_populate(s->area.base, s->area.len_bytes, s->place.node, NULL);

	if (rc == 0)
		return 0;
	if (rc != -KV_ENOTSUP)
		return kv_fail(err, -KV_ENOMEM, "--prefault: the kernel has no pages for %llu MiB",
			       (unsigned long long)(s->area.len_bytes >> 20));
	for (uint64_t i = 0; i < s->area.len_bytes; i += 4096)
		p[i] = 0;
	return 0;
}

/* The memory for values, and the index. */
static int shard_memory(struct shard *s, const struct kv_entropy *entropy, const struct kv_clock *clock,
			struct kv_error *err)
{
	int rc = kv_area_map_on(s->opt.memory_bytes, s->place.node, &s->area, err);

	if (rc)
		return rc;
	if (s->area.node_error)
		s->place.memory_error = s->area.node_error;
	rc = s->opt.prefault ? shard_prefault(s, err) : 0;
	if (rc == 0)
		rc = shard_store(s, entropy, clock, err);
	if (rc)
		kv_area_unmap(&s->area);
	return rc;
}

static void shard_init(struct shard *s)
{
	s->frames_max = s->opt.engine.messages ? s->opt.engine.messages : 256;
	slab_init(&s->requests, sizeof(struct request), SHARD_REQUESTS_MAX);
	slab_init(&s->held, REPLY_HELD_BYTES, SHARD_REQUESTS_MAX);
	slab_init(&s->stages, sizeof(struct stage), SHARD_REQUESTS_MAX);
	slab_init(&s->waits, PUT_WAIT_BYTES, STORE_ROOMS_MAX);
	slab_init(&s->hashers, sizeof(struct kv_hasher), SHARD_REQUESTS_MAX);
	kv_list_init(&s->ending);
	kv_list_init(&s->dirty);
	kv_list_init(&s->blocked);
	kv_list_init(&s->hashing);
	kv_list_init(&s->hash_gets);
	kv_list_init(&s->rooms);
	kv_list_init(&s->rooms_later);
	kv_list_init(&s->rooms_queued);
	kv_list_init(&s->benches);
	kv_list_init(&s->undelivered);
}

static void shard_free(struct shard *s)
{
	slab_fini(&s->requests);
	slab_fini(&s->held);
	slab_fini(&s->stages);
	slab_fini(&s->waits);
	slab_fini(&s->hashers);
	leases_fini(&s->leases);
	free(s->slot);
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
			    .slots = KV_MIN(options->sessions_max, 0xFFFFu)};
	shard_init(s);
	s->slot = calloc(s->slots, sizeof(s->slot[0]));
	if (!s->slot) {
		kv_fail(err, rc, "no memory for a shard's sessions");
		goto out_free;
	}
	/* The engine first: it knows which NICs are taken, and so what node the memory is to be on. */
	rc = shard_engine(s, clock, err);
	if (rc)
		goto out_free;
	(void)kv_numa_prefer(s->place.node, &saved);
	rc = shard_memory(s, entropy, clock, err);
	kv_numa_restore(&saved);
	if (rc)
		goto out_engine;
	rc = shard_regions(s, err);
	if (rc)
		goto out_memory;
	*out = s;
	return 0;
out_memory:
	te_close(&s->te); /* what is registered stays mapped until then */
	store_fini(&s->store);
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
	int rc = te_attach(s->te, loop);

	if (s->opt.own_thread && s->place.node != KV_NODE_ANY)
		s->place.thread = kv_numa_bind_thread("", s->place.node, NULL);

	if (rc)
		return rc;
	s->poller = (struct loop_poller){.poll = shard_poll, .wait_fd = -1, .active = shard_active};
	rc = loop_poller_add(loop, &s->poller);
	if (rc) {
		te_detach(s->te);
		return rc;
	}
	s->tick.fire = shard_tick;
	loop_timer_arm(loop, &s->tick, loop_now(loop) + SHARD_TICK_NS);
	s->attached = true;
	return 0;
}

void shard_settle(struct shard *s)
{
	struct call *drained = s->drained;

	if (!drained || s->requests.used || (s->te && te_busy(s->te)))
		return;
	s->drained = NULL;
	call_finish(drained, 0);
}

void shard_drain(struct shard *s, struct call *drained)
{
	s->draining = true;
	s->drained = drained;
	shard_settle(s);
}

void shard_close(struct shard *s)
{
	struct te *te = s->te;

	if (!te)
		return;
	s->draining = true;
	for (unsigned i = 0; i < s->slots; i++)
		for (unsigned k = 0; s->slot[i] && k < s->slot[i]->links; k++)
			reply_drop(&s->slot[i]->link[k]);
	if (s->attached)
		te_detach(te);
	s->te = NULL; /* callbacks of te_close start nothing and close no peers */
	te_close(&te);
	s->region = NULL;
	packs_fini(s);
}

void shard_destroy(struct shard **shard)
{
	struct shard *s = *shard;

	if (!s)
		return;
	if (s->attached) {
		loop_timer_cancel(s->loop, &s->tick);
		loop_timer_cancel(s->loop, &s->leases.timer);
		loop_poller_del(s->loop, &s->poller);
	}
	shard_close(s); /* a start that failed half way did not come to it */
	leases_clear(s);
	store_fini(&s->store);
	kv_area_unmap(&s->area);
	shard_free(s);
	*shard = NULL;
}
