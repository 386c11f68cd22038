/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c -- see kept.h.
 *
 *   mapped --restore--> filled --begin--> serving --save, mark--> clean
 *             (or not: empty)
 *
 * Invariant: memory is marked clean only while no server uses it, and its values are as the file with that stamp says.
 * So a crash at any point, a file of another time, and memory of another server leave an empty store. */
#include "kvserver/shard/kept.h"

#include <unistd.h>

#include "kvserver/shard/private.h"
#include "kvserver/shard/shard.h"

#define MARK_MAGIC 0x314b52414d4c564bull /* "KVLMARK1" */

enum { MARK_ALIGN = 4096 };

uint64_t kept_bytes(uint64_t limit_bytes, uint64_t places)
{
	return kv_align_up(limit_bytes, MARK_ALIGN) + MARK_ALIGN + (places ? records_bytes(places) : 0);
}

struct kept_mark *kept_mark_of(void *base, uint64_t limit_bytes)
{
	return (struct kept_mark *)(void *)((uint8_t *)base + kv_align_up(limit_bytes, MARK_ALIGN));
}

static struct kept_mark *mark_of(const struct shard *s)
{
	return kept_mark_of(s->area.base, s->opt.memory_bytes);
}

int shard_kept_map(struct shard *s, struct kv_error *err)
{
	uint64_t bytes = kept_bytes(s->opt.memory_bytes, s->opt.kept->places);
	int fd = s->opt.kept->fd, rc;
	if (fd < 0)
		return kv_area_map_kept(bytes, s->place.node, &s->area, err);
	fd = dup(fd);
	if (fd < 0)
		return kv_fail(err, -KV_ELIMIT, "no descriptor for kept memory: raise the limit of open files");
	rc = kv_area_adopt(fd, bytes, s->place.node, &s->area, err);
	if (rc)
		close(fd);
	return rc;
}

bool kept_mark_fits(const struct kept_mark *m, uint64_t limit_bytes, unsigned shard, unsigned shards)
{
	return m->magic == MARK_MAGIC && m->limit_bytes == limit_bytes && m->shard == shard && m->shards == shards;
}

static void *table_of(const struct shard *s)
{
	return (uint8_t *)mark_of(s) + MARK_ALIGN;
}

void shard_kept_records(struct shard *s)
{
	uint64_t places = s->opt.kept->places, seed = 0;
	if (places == 0)
		return;
	if (mark_of(s)->magic || s->opt.kept->former)
		memset(table_of(s), 0, records_bytes(places));
	(void)kv_entropy_fill(s->entropy, &seed, sizeof(seed));
	records_open(&s->store.records, table_of(s), places, seed);
	spaces_note(&s->store.spaces, s->store.records.notes);
}

static struct keep_clock mark_clock(const struct shard *s)
{
	const struct kept_mark *m = mark_of(s);
	const struct keep_head then = {.now_ns = m->now_ns, .wall_ns = m->wall_ns};
	return keep_clock_of(&then, loop_now(s->loop), kv_wall_now());
}

uint64_t shard_kept_silent_ns(const struct shard *s)
{
	return mark_clock(s).passed_max;
}

int shard_kept_recover(struct shard *s)
{
	const struct kept_mark *m = mark_of(s);
	struct keep_clock clock = mark_clock(s);
	int rc;
	records_open(&s->store.records, table_of(s), s->opt.kept->places, m->record_seed);
	rc = recover_begin(&s->kept.recover, &s->store, &clock);
	s->kept.recovering = rc == 0;
	return rc;
}

int shard_kept_turn(struct shard *s)
{
	struct recover *x = &s->kept.recover;
	if (recover_step(x, &s->store, SHARD_HASH_BYTES, loop_turn_now(s->loop)))
		return 1;
	s->kept.recovering = false;
	recover_end(x, &s->store);
	kv_event(s->opt.log, KV_LOG_INFO,
		 KV_EVENT("keep_verified", KV_NUMBER("shard", s->opt.index), KV_NUMBER("values", x->accepted),
			  KV_NUMBER("refused", x->refused)),
		 "--recover: shard %u: %llu values are verified and back; %llu are not as recorded, or have expired or "
		 "been stored again",
		 s->opt.index, (unsigned long long)x->accepted, (unsigned long long)x->refused);
	return 1;
}

static int mark_check(const struct shard *s, const struct keep_head *head, struct kv_error *err)
{
	const struct kept_mark *m = kept_mark_of(s->area.base, head->limit_bytes);
	KV_ASSERT(head->limit_bytes <= s->opt.memory_bytes);
	if (m->clean == 1 && memcmp(m->stamp, head->stamp, KEEP_STAMP) == 0 &&
	    kept_mark_fits(m, head->limit_bytes, s->opt.index, s->opt.shards))
		return 0;
	return kv_fail(err, -KV_EINVAL,
		       m->magic ? "the memory is not as the index describes it: the server did not "
				  "end in order, or the index is from another time"
				: "the memory is new");
}

/* Pages that this thread touches first come from the shard's node. */
static int restore_near(struct shard *s, struct keep_in *file, const struct keep_clock *clock, struct kv_error *err)
{
	struct kv_numa_saved saved;
	struct keep_reader *r = NULL;
	int rc = keep_reader_open(file, s->opt.index, &r, err);
	if (rc)
		return rc;
	(void)kv_numa_prefer(s->place.node, &saved);
	rc = keep_restore(r, clock, &s->store, &s->kept.rest, err);
	kv_numa_restore(&saved);
	keep_reader_close(&r);
	return rc;
}

int shard_kept_restore(struct shard *s, struct keep_in *file, const struct keep_head *head, uint64_t wall_ns,
		       struct kv_error *err)
{
	struct keep_clock clock = keep_clock_of(head, loop_now(s->loop), wall_ns);
	struct kv_error again;
	int rc = mark_check(s, head, err);
	if (rc)
		return rc;
	rc = restore_near(s, file, &clock, err);
	if (rc == 0)
		return 0;
	shard_kept_end(s);
	pins_drop_all(&s->store);
	store_fini(&s->store);
	if (shard_store(s, &again))
		*err = again; /* without an index there is no shard: its caller ends it */
	else
		shard_kept_records(s);
	return rc;
}

/* A server that dies while a doubt waits was silent since the doubt began: the next one asks for all deletions since.
 */
static void mark_time(const struct shard *s)
{
	struct kept_mark *m = mark_of(s);
	__atomic_store_n(&m->now_ns, loop_now(s->loop), __ATOMIC_RELAXED); /* a test reads it meanwhile */
	m->wall_ns = kv_wall_now();
}

void shard_kept_begin(struct shard *s, bool doubted)
{
	struct kept_mark *m = mark_of(s);
	struct kept_mark *former = s->opt.kept->former ? kept_mark_of(s->area.base, s->opt.kept->former) : m;
	const struct kept_mark was = *former;
	former->clean = 0;
	m->clean = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*m = (struct kept_mark){.magic = MARK_MAGIC,
				.limit_bytes = s->opt.memory_bytes,
				.generation = s->opt.kept->generation,
				.shard = s->opt.index,
				.shards = s->opt.shards,
				.digest_seed = s->opt.shard_seed,
				.places = s->opt.kept->places,
				.record_seed = s->store.records.seed,
				.now_ns = was.now_ns,
				.wall_ns = was.wall_ns};
	if (!doubted || was.magic != MARK_MAGIC)
		mark_time(s);
	atomic_store_explicit(&s->kept.begun, true, memory_order_release);
}

void shard_kept_save(struct shard *s, struct keep_writer *w)
{
	KV_ASSERT(!s->te);
	s->opt.ops->clear(s);
	recover_end(&s->kept.recover, &s->store);
	keep_store(w, &s->store, loop_now(s->loop));
}

void shard_kept_mark(struct shard *s, const uint8_t stamp[KEEP_STAMP])
{
	struct kept_mark *m = mark_of(s);
	memcpy(m->stamp, stamp, KEEP_STAMP);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	m->clean = 1;
}

void shard_kept_tick(struct shard *s, uint64_t now_ns)
{
	struct keep_rest *rest = &s->kept.rest;
	if (s->store.doubt.how != DOUBT_WAIT && atomic_load_explicit(&s->kept.begun, memory_order_acquire))
		mark_time(s);
	keep_rest_tick(&s->store, rest, now_ns);
	if (rest->held_count && !kv_kept_read(s->area.fd, s->opt.kept->generation))
		keep_rest_held_end(&s->store, rest);
}

void shard_kept_stats(const struct shard *s, uint64_t *out)
{
	const struct keep_rest *rest = &s->kept.rest;
	const struct recover *x = &s->kept.recover;
	out[WIRE_STAT_KEEP_RESTORED] = rest->blocks;
	out[WIRE_STAT_KEEP_DROPPED] = rest->dropped;
	out[WIRE_STAT_KEEP_HELD] = rest->held_count;
	out[WIRE_STAT_KEEP_PENDING] = x->count - x->at;
	out[WIRE_STAT_KEEP_VERIFIED] = x->accepted;
	out[WIRE_STAT_KEEP_REFUSED] = x->refused;
}

void shard_kept_end(struct shard *s)
{
	recover_end(&s->kept.recover, &s->store);
	s->kept.recovering = false;
	keep_rest_end(&s->store, &s->kept.rest);
	s->kept.rest = (struct keep_rest){0};
}
