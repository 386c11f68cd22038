/* SPDX-License-Identifier: Apache-2.0 */
/* tier.c -- the tier of a shard as a whole: create, turn, deletions, statistics. */
#include "store/tier/private.h"

#include <errno.h>
#include <stdlib.h>

enum {
	RECORD_MEAN = 16 << 10, /* bytes of the devices for each place in the index */
	RECORDS_MAX = 1 << 30,
	GONE_MAX = 1 << 18, /* keys deleted while footers are read */
	SWEEP_LOOKS = 2048  /* records in a turn: 0.02 ms */
};

#define DAY_S     86400
#define STABLE_NS 60000000000ull

/* ---- create ---- */

static size_t drive_bytes(uint32_t segment_pages)
{
	enum { PAGES = TIER_TABLE_PAGES + TIER_SERVICE_PAGES + 1 /* of the log */ };
	return (size_t)TIER_READS * TIER_READ + (size_t)TIER_WRITES * TIER_BUFFER + TIER_READ +
	       (size_t)(tier_head_pages(segment_pages) + PAGES) * TIER_PAGE;
}

/* Divide the drive's memory. */
static void drive_memory(struct tier_drive *d)
{
	uint8_t *at = d->mem;
	for (unsigned i = 0; i < TIER_READS; i++, at += TIER_READ) {
		d->slot[i].mem = at;
		kv_list_add_tail(&d->slots_free, &d->slot[i].node);
	}
	for (unsigned i = 0; i < TIER_WRITES; i++, at += TIER_BUFFER)
		d->w.buffer[i].mem = at;
	d->k.mem = at;
	d->names.mem = at + TIER_READ;
	d->service.mem = d->names.mem + (size_t)TIER_TABLE_PAGES * TIER_PAGE;
	d->log.mem = d->service.mem + (size_t)TIER_SERVICE_PAGES * TIER_PAGE;
	d->h.mem = d->log.mem + TIER_PAGE;
}

static void drive_free(struct tier_drive *d)
{
	if (!d)
		return;
	tier_fifo_fini(&d->fifo);
	free(d->w.foot);
	free(d->w.seal.foot);
	free(d->log.all);
	free(d->mem);
	free(d);
}

static struct tier_budget budget(uint64_t per_s, uint64_t most)
{
	return (struct tier_budget){.per_s = per_s, .most = most, .left = (int64_t)most};
}

static int drive_make(struct tier *t, struct tier_device *dev, uint32_t base, struct kv_error *err)
{
	uint64_t front = tier_first_page(dev->bytes) * TIER_PAGE, least;
	uint64_t segments = (dev->bytes - KV_MIN(dev->bytes, front)) / t->opt.segment_bytes;
	struct tier_fifo_options o = {.base = base,
				      .segments = (uint32_t)KV_MIN(segments, (uint64_t)TIER_SEGMENTS_MAX - base),
				      .segment_pages = (uint32_t)(t->opt.segment_bytes / TIER_PAGE)};
	struct tier_drive *d;
	char need[32];
	least = TIER_SEGMENTS_MIN * t->opt.segment_bytes + TIER_FRONT_BYTES;
	least += least / (TIER_LOG_SHARE / 2); /* with a log, rounded up */
	if (segments < TIER_SEGMENTS_MIN)
		return kv_fail(
			err, -KV_EINVAL,
			"--tier %s: %u worker threads with %u segments each need %s at least; give it more room, "
			"or lower --tier-segment",
			dev->name, t->opt.shards, (unsigned)TIER_SEGMENTS_MIN,
			kv_size_format(t->opt.shards * least, need, sizeof(need)));
	o.head_pages = tier_head_pages(o.segment_pages);
	d = calloc(1, sizeof(*d));
	t->drive[t->drives] = d;
	if (!d)
		return kv_fail(err, -KV_ENOMEM, "no memory for a tier");
	t->drives++;
	d->t = t;
	d->dev = dev;
	d->index = t->drives - 1;
	d->log.pages = tier_log_pages(dev->bytes);
	kv_list_init(&d->flying);
	kv_list_init(&d->slots_free);
	kv_list_init(&d->gets);
	d->rate = budget(t->opt.rate_bytes, t->opt.rate_bytes);
	d->day = budget(t->opt.day_bytes / DAY_S + (t->opt.day_bytes > 0), t->opt.day_bytes / 24 + TIER_BUFFER);
	d->mem = aligned_alloc(TIER_PAGE, drive_bytes(o.segment_pages));
	if (!d->mem || tier_fifo_init(&d->fifo, &o, &t->records) != 0)
		return kv_fail(err, -KV_ENOMEM, "no memory for a tier of %llu segments", (unsigned long long)segments);
	drive_memory(d);
	return 0;
}

static void down(struct tier_drive *d)
{
	gets_down(d);
	source_down(d);
	keep_down(d);
	writer_down(d);
	heads_down(d);
	table_down(d);
	log_down(d);
	service_settle(d->t);
	scan_down(d->t);
	heads_settle(d->t);
}

static const struct tier_hooks hooks = {.down = down, .settled = gets_settle, .logged = service_settle};

static void tier_init(struct tier *t, const struct tier_options *o, struct store *store)
{
	*t = (struct tier){.opt = *o, .hooks = &hooks, .store = store, .now_ns = o->now_ns, .now_tick_ns = o->now_ns};
	slab_init(&t->gets_slab, sizeof(struct tier_get), TIER_GETS_MAX);
	for (unsigned i = 0; i < GET_CHAINS; i++)
		kv_list_init(&t->gets[i]);
	kv_list_init(&t->rooms);
	kv_list_init(&t->rooms_waiting);
	kv_list_init(&t->pending);
	kv_list_init(&t->safes);
}

static uint64_t bytes_of(const struct tier *t)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < t->drives; i++)
		bytes += t->drive[i]->dev->bytes;
	return bytes;
}

static uint32_t records_for(const struct tier *t)
{
	uint64_t bytes = bytes_of(t);
	if (t->opt.records_max)
		return t->opt.records_max;
	return (uint32_t)KV_MIN(bytes / RECORD_MEAN + TIER_GETS_MAX, (uint64_t)RECORDS_MAX);
}

static void record_dropped(void *arg, const struct tier_item *i)
{
	const struct tier *t = arg;
	struct space *sp = t->store->spaces.at[i->space];
	if (sp && i->age == (sp->generation & 15))
		tenant_tier_sub(sp, i->len, tier_charge(t, i->len));
}

int tier_create(const struct tier_options *o, struct store *store, struct tier_device *const *devices, unsigned count,
		struct tier **out, struct kv_error *err)
{
	struct tier *t = aligned_alloc(KV_LINES, kv_align_up(sizeof(*t), KV_LINES));
	uint32_t base = 0;
	int rc = 0;
	if (!t)
		return kv_fail(err, -KV_ENOMEM, "no memory for a tier");
	KV_ASSERT(o->wall_us > 0);
	tier_init(t, o, store);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		rc = drive_make(t, devices[i], base, err);
		if (rc == 0)
			base += t->drive[i]->fifo.opt.segments;
	}
	t->value_part = bytes_of(t) / records_for(t);
	if (rc == 0 &&
	    (tier_records_init(&t->records, records_for(t)) != 0 || tier_records_init(&t->gone, GONE_MAX) != 0 ||
	     tier_admission_init(&t->admission, o->admit, records_for(t)) != 0))
		rc = kv_fail(err, -KV_ENOMEM, "no memory for the index of a tier with %u places", records_for(t));
	t->records.dropped = record_dropped;
	t->records.arg = t;
	if (rc) {
		tier_destroy(&t);
		return rc;
	}
	*out = t;
	return 0;
}

void tier_destroy(struct tier **tier)
{
	struct tier *t = *tier;
	if (!t)
		return;
	t->store->evicted = NULL;
	*tier = NULL;
	if (tier_flying(t)) /* a device that does not answer may still write to this memory */
		return;
	for (unsigned i = 0; i < t->drives; i++)
		drive_free(t->drive[i]);
	free(t->judge.more);
	free(t->member);
	tier_records_fini(&t->records);
	tier_records_fini(&t->gone);
	tier_admission_fini(&t->admission);
	slab_fini(&t->gets_slab);
	free(t);
}

/* ---- records ---- */

bool tier_has(const struct tier *t, uint64_t hash, uint64_t now_ns)
{
	uint32_t item = tier_hidden(t) ? 0 : tier_records_find_hash(&t->records, hash);
	uint64_t wall_s = (t->opt.wall_us + (now_ns - t->opt.now_ns) / 1000) / 1000000;
	return item && !tier_item_over(&t->records.item[item], wall_s) && tier_drive_of(t, item)->state != TIER_DOWN;
}

bool tier_look(struct tier *t, const void *key, size_t key_len, uint64_t now_ns, uint64_t *out_expires_ns)
{
	struct tier_id id = tier_id_of(t, key, key_len);
	uint64_t wall_s;
	uint32_t item;
	tier_time(t, now_ns);
	item = tier_key_find(t, &id);
	wall_s = tier_wall_s(t);
	if (!item || tier_hidden(t) || tier_drive_of(t, item)->state == TIER_DOWN)
		return false;
	*out_expires_ns = t->records.item[item].expires_s
				  ? t->now_ns + (t->records.item[item].expires_s - wall_s) * 1000000000
				  : KV_NEVER;
	return true;
}

/* ---- deletions ---- */

/* Whether all that was deleted so far is safe. As tier_delete. */
static int safe_now(struct tier *t)
{
	log_note(t);
	if (heads_unsaved(t) <= t->marks && !t->stopped)
		return -EAGAIN;
	return heads_unsafe(t) ? -EIO : 0;
}

void tier_safe_wait(struct tier *t, struct tier_safe *s)
{
	s->mark = t->marks;
	kv_list_add_tail(&t->safes, &s->node);
}

int tier_delete(struct tier *t, const void *key, size_t key_len, uint64_t now_ns, bool *out_was)
{
	struct tier_id id = tier_id_of(t, key, key_len);
	uint32_t item;
	tier_time(t, now_ns);
	gets_void(t, &id);
	item = tier_key_find(t, &id);
	*out_was = item != 0;
	if (item) {
		tier_key_drop(t, item, true);
		t->totals.deletes++;
	} else {
		tier_key_remember(t, t->store->space, key, key_len);
	}
	return safe_now(t);
}

static int touch(struct tier *t, const void *key, size_t key_len, uint64_t expires_ns, bool shortens, uint64_t now_ns,
		 bool *out_was)
{
	struct tier_id id = tier_id_of(t, key, key_len);
	uint64_t at_s;
	uint32_t item, before_s;
	tier_time(t, now_ns);
	item = tier_key_find(t, &id);
	*out_was = item != 0;
	if (!item) {
		tier_key_remember(t, t->store->space, key, key_len);
		return safe_now(t);
	}
	at_s = expires_ns == KV_NEVER ? 0 : tier_wall_s(t) + (expires_ns - KV_MIN(expires_ns, now_ns)) / 1000000000;
	before_s = t->records.item[item].expires_s;
	if (shortens && (at_s == 0 || (before_s && at_s >= before_s)))
		return 0;
	t->records.item[item].expires_s = (uint32_t)KV_MIN(at_s, (uint64_t)UINT32_MAX);
	gets_touch(t, &id, t->records.item[item].expires_s);
	if (at_s == 0 || (before_s && at_s >= before_s))
		return 0;
	tier_key_mark(t, item); /* in memory it stays until then, on the device it does not count */
	return safe_now(t);
}

int tier_touch(struct tier *t, const void *key, size_t key_len, uint64_t expires_ns, uint64_t now_ns, bool *out_was)
{
	return touch(t, key, key_len, expires_ns, false, now_ns, out_was);
}

int tier_shorten(struct tier *t, const void *key, size_t key_len, uint64_t expires_ns, uint64_t now_ns, bool *out_was)
{
	return touch(t, key, key_len, expires_ns, true, now_ns, out_was);
}

int tier_cleared(struct tier *t, const struct space *sp, uint64_t now_ns)
{
	tier_time(t, now_ns);
	if (tier_reading(t))
		t->cleared[sp->index / 8] |= (uint8_t)(1u << sp->index % 8);
	t->marks++;
	for (unsigned i = 0; i < t->drives; i++)
		table_mark(t->drive[i], t->marks);
	return safe_now(t);
}

void tier_safe_cancel(struct tier *t, struct tier_safe *s)
{
	(void)t;
	if (!s->mark)
		return;
	kv_list_del(&s->node);
	s->mark = 0;
}

/* ---- work ---- */

static void start(struct tier *t)
{
	t->started = true;
	t->store->evicted = tier_evicted; /* a restore of the store has forgotten earlier ones */
	t->store->evicted_arg = t;
	t->noted = t->store->tombs.put; /* kept ones: an earlier process has logged them */
	for (unsigned i = 0; i < t->drives; i++)
		scan_begin(t->drive[i]);
}

int tier_turn(struct tier *t, uint64_t now_ns)
{
	uint32_t taken, copied = 0;
	tier_time(t, now_ns);
	if (t->stopped)
		return 0;
	table_doubt(t);
	if (KV_UNLIKELY(!t->started))
		start(t);
	(void)judge_step(t);
	table_sweep(t, SWEEP_LOOKS);
	taken = gets_step(t, TIER_BUFFER);
	for (unsigned i = 0; i < t->drives && copied < TIER_BUFFER; i++)
		copied += keep_step(t->drive[i], TIER_BUFFER - copied);
	if (copied < TIER_BUFFER)
		copied += source_step(t, TIER_BUFFER - copied);
	for (unsigned i = 0; i < t->drives; i++) {
		table_pump(t->drive[i]);
		service_pump(t->drive[i]);
		log_pump(t->drive[i]);
		writer_pump(t->drive[i]);
		heads_pump(t->drive[i]);
		if (t->source.flushed && t->drive[i]->state == TIER_UP)
			writer_seal(t->drive[i]);
	}
	t->more = t->judge.busy || taken >= TIER_BUFFER || copied >= TIER_BUFFER;
	return taken > 0 || copied > 0;
}

bool tier_active(const struct tier *t)
{
	return t->more || t->sweep > 0 || !kv_list_empty(&t->rooms);
}

static void drive_tick(struct tier_drive *d, uint64_t past_ns)
{
	struct tier *t = d->t;
	struct kv_error err = {0};
	const struct tier_io *oldest =
		kv_list_empty(&d->flying) ? NULL : KV_LIST_ENTRY(d->flying.next, struct tier_io, node);
	budget_refill(&d->rate, past_ns);
	budget_refill(&d->day, past_ns);
	if (d->state != TIER_DOWN && oldest && t->now_ns - oldest->begun_ns > TIER_STALL_NS)
		drive_down(d, "no answer for 5 s");
	if (d->state == TIER_UP && t->now_ns > d->again_ns + STABLE_NS)
		d->wait_ns = 0;
	if (d->state != TIER_DOWN || t->now_ns < d->again_ns || d->flying_count)
		return;
	if (!d->dev->ops->reopen || d->dev->ops->reopen(d->dev, &err) == 0) {
		scan_begin(d);
		return;
	}
	d->wait_ns = KV_MIN(2 * d->wait_ns, TIER_AGAIN_MAX_NS);
	d->again_ns = t->now_ns + d->wait_ns;
}

void tier_tick(struct tier *t, uint64_t now_ns)
{
	uint64_t past_ns = now_ns - t->now_tick_ns;
	tier_time(t, now_ns);
	t->now_tick_ns = now_ns;
	if (t->stopped || !t->started)
		return;
	kv_list_splice_tail(&t->rooms, &t->rooms_waiting);
	for (unsigned i = 0; i < t->drives; i++)
		drive_tick(t->drive[i], past_ns);
}

void tier_flush(struct tier *t, uint64_t now_ns)
{
	tier_time(t, now_ns);
	t->source.flushing = true;
}

bool tier_flushed(const struct tier *t)
{
	bool over = t->source.flushed && !t->source.block, down = true;
	for (unsigned i = 0; i < t->drives; i++) {
		down = down && t->drive[i]->state == TIER_DOWN;
		over = over && (t->drive[i]->state == TIER_DOWN || writer_idle(t->drive[i]));
	}
	return over || down;
}

void tier_stop(struct tier *t)
{
	if (t->stopped)
		return;
	t->stopped = true;
	gets_stop(t);
	source_stop(t);
	heads_settle(t);
}

/* ---- statistics ---- */

unsigned tier_flying(const struct tier *t)
{
	unsigned n = 0;
	for (unsigned i = 0; i < t->drives; i++)
		n += t->drive[i]->flying_count;
	return n;
}

unsigned tier_devices(const struct tier *t)
{
	return t->drives;
}

bool tier_reading(const struct tier *t)
{
	return tier_key_reading(t);
}

static uint64_t budget_left(const struct tier_budget *b)
{
	return b->per_s == 0 ? UINT64_MAX : (uint64_t)KV_MAX(b->left, (int64_t)0);
}

void tier_stats(const struct tier *t, unsigned device, struct tier_stats *out)
{
	const struct tier_drive *d = t->drive[device];
	*out = d->stats;
	out->state = d->state;
	out->queue = d->pieces;
	out->segments = d->fifo.opt.segments;
	out->segments_used = d->fifo.used;
	out->rate_left = budget_left(&d->rate);
	out->day_left = budget_left(&d->day);
	out->bytes = d->dev->bytes;
}

void tier_totals(const struct tier *t, struct tier_totals *out)
{
	*out = t->totals;
	out->records = t->records.live;
	out->index_bytes = tier_records_bytes(&t->records);
}
