/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c -- a copy of a shard's counters for other threads.
 *
 * Ten times a second, at its tick, the shard copies its numbers to separate memory. So readers take no cache line from
 * the data path and ask the loop for nothing: a stuck loop shows its last numbers and blocks nobody. */
#include "kvserver/shard/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/shard/shard.h"
#include "kvserver/shard/stat.h"

int published_make(struct published **out)
{
	size_t bytes = kv_align_up(sizeof(**out), KV_LINES);
	struct published *p = aligned_alloc(KV_LINES, bytes);
	if (!p)
		return -KV_ENOMEM;
	memset(p, 0, bytes);
	*out = p;
	return 0;
}

static void put(_Atomic uint64_t *to, uint64_t value)
{
	atomic_store_explicit(to, value, memory_order_relaxed);
}

static void put_all(_Atomic uint64_t *to, const uint64_t *from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put(&to[i], from[i]);
}

static void rails_publish(struct shard *s)
{
	struct published *p = s->counts.published;
	for (unsigned i = 0; s->te && i < p->rails; i++) {
		struct te_stats te;

		te_rail_stats(s->te, i, &te);
		put(&p->rail[i].up, te_rail_up(s->te, i));
		put(&p->rail[i].bytes, te.bytes_written + te.bytes_read);
		put(&p->rail[i].errors, te.failed_ops + te.failed_peer + te.failed_endpoint);
	}
}

static void devices_publish(struct shard *s)
{
	struct tier_stats t;
	const char *path;
	for (unsigned i = 0; i < TIER_DEVICES_MAX && (path = s->opt.ops->device(s, i, &t)) != NULL; i++) {
		struct published_device *d = &s->counts.published->device[i];
#define PUT(member, metric, type, value, help) put(&d->member, value);
		PUBLISHED_DEVICE(PUT)
#undef PUT
		atomic_store_explicit(&d->path, path, memory_order_release);
	}
}

static void names_publish(struct shard *s)
{
	struct published *p = s->counts.published;
	if (p->rails || !s->te)
		return;
	p->rails = KV_MIN(s->info.rails, (unsigned)KV_RAILS_MAX);
	for (unsigned i = 0; i < p->rails; i++)
		snprintf(p->rail[i].nic, sizeof(p->rail[i].nic), "%s", te_rail_device(s->te, i));
}

/* A number may belong to another row than before. So readers compare `turn` before and after: a word that they read
 * from this turn shows them its odd value. */
static void rows_publish(struct published_table *t, const struct published_row *from, unsigned n)
{
	uint64_t turn = atomic_load_explicit(&t->turn, memory_order_relaxed);
	put(&t->turn, turn + 1);
	for (unsigned i = 0; i < n; i++) {
		uint64_t words[PUBLISHED_WORDS];
		memcpy(words, &from[i], sizeof(words));
		for (unsigned w = 0; w < PUBLISHED_WORDS; w++)
			atomic_store_explicit(&t->row[i][w], words[w], memory_order_release);
	}
	put(&t->rows, n);
	atomic_store_explicit(&t->turn, turn + 2, memory_order_release);
}

static void tables_publish(struct shard *s)
{
	const struct spaces *spaces = &s->store.spaces;
	const struct tenancy *tenants = &s->store.tenancy;
	struct published_row row[PUBLISHED_ROWS];
	unsigned n = 0;
	for (; n < KV_MIN(spaces->count, (unsigned)PUBLISHED_ROWS); n++) {
		const struct space *sp = spaces->at[n];
		row[n] = (struct published_row){.number = {sp->blocks, sp->bytes, sp->gets, sp->hits}};
		memcpy(row[n].name, sp->name, sizeof(sp->name));
	}
	rows_publish(&s->counts.published->table[PUBLISHED_SPACES], row, n);
	for (n = 0; n + 1 < KV_MIN(tenants->count, PUBLISHED_ROWS + 1u); n++) {
		const struct tenant *t = tenants->at[n + 1];
		row[n] = (struct published_row){.number = {t->bytes, t->evicted, t->denied, t->active, t->read_bytes,
							   t->kept[KEPT_PINS], t->tier_bytes}};
		memcpy(row[n].name, t->name, sizeof(t->name));
	}
	rows_publish(&s->counts.published->table[PUBLISHED_TENANTS], row, n);
}

unsigned published_rows(const struct published_table *t, struct published_row out[PUBLISHED_ROWS])
{
	for (unsigned tries = 0; tries < 8; tries++) {
		uint64_t turn = atomic_load_explicit(&t->turn, memory_order_acquire);
		unsigned n = (unsigned)atomic_load_explicit(&t->rows, memory_order_relaxed);
		for (unsigned i = 0; i < n; i++) {
			uint64_t words[PUBLISHED_WORDS];
			for (unsigned w = 0; w < PUBLISHED_WORDS; w++)
				words[w] = atomic_load_explicit(&t->row[i][w], memory_order_acquire);
			memcpy(&out[i], words, sizeof(words));
		}
		if (turn % 2 == 0 && turn == atomic_load_explicit(&t->turn, memory_order_relaxed))
			return n;
	}
	return 0;
}

void shard_publish(struct shard *s)
{
	struct published *p = s->counts.published;
	const struct tally *t = &s->counts.tally;
	uint64_t all[WIRE_STAT_END];
	if (!p || !s->te)
		return;
	names_publish(s);
	shard_stats(s, all);
	put_all(p->stat, all, WIRE_STAT_END);
	put_all(&p->answered[0][0], &t->answered[0][0], TALLY_TYPES * WIRE_STATUS_MAX);
	put_all(p->post, t->post, KV_METRIC_BUCKETS);
	put_all(p->serve, t->serve, KV_METRIC_BUCKETS);
	put(&p->asked, t->asked);
	put(&p->present, t->present);
	rails_publish(s);
	devices_publish(s);
	tables_publish(s);
}
