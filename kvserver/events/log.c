/* SPDX-License-Identifier: Apache-2.0 */
/* log.c -- merges the events of all shards into one log with consecutive numbers.
 *
 * A timer takes the shards' events; those of one key are of one shard, so their order stays. The log keeps the last
 * EVENTS_LOG events. A follower asks for those from a number on. If the log no longer has that number, or if it is of
 * another epoch, the answer is a gap: the follower needs a snapshot (page.c), or goes on behind the gap. A shard that
 * lost events has an entry LOST behind them, which is a gap for all followers.
 *
 * A snapshot is exact with the events since before its begin. */
#include "kvserver/events/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/server/server.h"

#define TAKE_NS 10000000ull /* a shard's ring holds the events of 0.1 s at 300,000 a second */

_Static_assert((int)JOURNAL_STORED == (int)WIRE_EVENT_STORED && (int)JOURNAL_REMOVED == (int)WIRE_EVENT_REMOVED &&
		       (int)JOURNAL_CLEARED == (int)WIRE_EVENT_CLEARED && (int)JOURNAL_LOST == (int)WIRE_EVENT_LOST &&
		       (int)JOURNAL_MEMORY == (int)WIRE_TIER_MEMORY && (int)JOURNAL_DISK == (int)WIRE_TIER_DISK,
	       "the log is sent as it is");

static void append(struct events *e, const struct journal_entry *from)
{
	struct journal_entry *to = &e->log[e->next++ % EVENTS_LOG];
	memcpy(to, from, offsetof(struct journal_entry, key) + from->key_len + from->space_len);
}

/* A process begins with CLEARED: no position is 0. */
int events_make(struct events *e, uint64_t epoch, unsigned shards)
{
	static const struct journal_entry begin = {.what = JOURNAL_CLEARED};
	e->log = calloc(EVENTS_LOG, sizeof(e->log[0]));
	if (!e->log)
		return -KV_ENOMEM;
	e->epoch = epoch;
	e->next = 1;
	append(e, &begin);
	e->shards = shards;
	kv_list_init(&e->waiters);
	for (unsigned i = 0; i < shards; i++)
		if (journal_make(JOURNAL_ENTRIES, &e->journal[i]))
			return -KV_ENOMEM;
	return 0;
}

void events_free(struct events *e)
{
	for (unsigned i = 0; i < e->shards; i++)
		journal_destroy(&e->journal[i]);
	free(e->log);
	e->log = NULL;
}

/* Whether the log has this clear from another shard. Blocks that a shard still has of an earlier generation are
 * reported as removed, so the first report is enough; a second one would hide values stored since. (A name that loses
 * its place to another one is reported again: followers forget too much.) */
static bool cleared_before(struct events *e, const struct journal_entry *from)
{
	uint64_t name = kv_hash_key(journal_space(from), from->space_len, e->epoch);
	struct events_clear *c = &e->cleared[name % EVENTS_CLEARS];
	if (c->name == name && c->generation >= from->bytes)
		return true;
	*c = (struct events_clear){name, from->bytes};
	return false;
}

/* Losses of a shard are reported behind its entries: the follower's snapshot begins later, and covers them. */
static void shard_take(struct events *e, unsigned shard)
{
	static const struct journal_entry lost = {.what = JOURNAL_LOST};
	struct journal *j = e->journal[shard];
	const struct journal_entry *entry;
	for (unsigned n = 0; n < JOURNAL_ENTRIES && (entry = journal_next(j)) != NULL; n++) {
		if (entry->what != JOURNAL_CLEARED || !cleared_before(e, entry))
			append(e, entry);
		journal_took(j);
	}
	if (journal_lost(j)) {
		append(e, &lost);
		e->lost++;
	}
}

static void waiters_wake(struct events *e)
{
	struct kv_list *n;
	while ((n = kv_list_pop(&e->waiters)) != NULL) {
		struct events_waiter *w = KV_LIST_ENTRY(n, struct events_waiter, node);
		kv_list_init(&w->node);
		w->due(w);
	}
}

void events_take(struct events *e)
{
	uint64_t before = e->next;
	for (unsigned i = 0; i < e->shards; i++)
		shard_take(e, i);
	if (e->next != before)
		waiters_wake(e);
}

static void take_due(struct loop_timer *t)
{
	struct events *e = KV_CONTAINER(t, struct events, timer);
	struct kvs_server *s = KV_CONTAINER(e, struct kvs_server, events);
	events_take(e);
	control_set(s, WIRE_STAT_EVENTS, e->next - 1);
	control_set(s, WIRE_STAT_EVENTS_LOST, e->lost);
	loop_timer_arm(e->loop, t, loop_now(e->loop) + TAKE_NS);
}

void events_start(struct events *e, struct loop *loop)
{
	e->loop = loop;
	e->timer.fire = take_due;
	loop_timer_arm(loop, &e->timer, loop_now(loop) + TAKE_NS);
}

void events_stop(struct events *e)
{
	if (e->loop)
		loop_timer_cancel(e->loop, &e->timer);
}

void events_wait(struct events *e, struct events_waiter *w)
{
	events_unwait(w);
	kv_list_add_tail(&e->waiters, &w->node);
}

void events_unwait(struct events_waiter *w)
{
	if (w->node.next)
		kv_list_del(&w->node);
	kv_list_init(&w->node);
}

/* ---- answers ---- */

static uint64_t oldest(const struct events *e)
{
	return e->next > EVENTS_LOG ? e->next - EVENTS_LOG : 1;
}

int events_answer(const struct events *e, const struct wire_events *ask, uint8_t *buf, struct wire_events *out)
{
	*out = (struct wire_events){
		.epoch = e->epoch, .first = e->next, .next = e->next, .events = buf, .packed = true};
	if (ask->epoch == 0)
		return 0;
	if (ask->epoch != e->epoch || ask->next < oldest(e) || ask->next > e->next) {
		out->flags = WIRE_EVENTS_GAP;
		return 0;
	}
	if (ask->next == e->next)
		return -EAGAIN;
	out->first = out->next = ask->next;
	for (; out->next < e->next; out->next++, out->count++) {
		const struct journal_entry *from = &e->log[out->next % EVENTS_LOG];
		const struct wire_event event = {.what = from->what,
						 .tier = from->tier,
						 .key_len = from->key_len,
						 .space_len = from->space_len,
						 .bytes = from->what == JOURNAL_CLEARED ? 0 : from->bytes,
						 .key = from->key,
						 .space = journal_space(from)};
		if (wire_event_pack(buf, WIRE_EVENTS_BYTES, &out->events_len, &event))
			break;
	}
	return 0;
}
