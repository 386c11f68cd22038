/* SPDX-License-Identifier: Apache-2.0 */
/* events.h -- the log of a server's events: which blocks its shards stored and removed. Control loop only, unless a
 * comment says otherwise. */
#ifndef KVRAIL_KVSERVER_EVENTS_EVENTS_H
#define KVRAIL_KVSERVER_EVENTS_EVENTS_H

#include "base/base.h"
#include "loop/loop.h"
#include "store/store.h"
#include "wire/wire.h"

struct kvs_server;
struct publisher;

enum {
	EVENTS_LOG = 1 << 18,   /* events kept for followers: 52 MiB, as they are used */
	EVENTS_CLEARS = 1 << 10 /* namespaces whose last clear is remembered */
};

struct events_clear {
	uint64_t name, generation; /* hash of the name */
};

/* A follower that waits for events after those it has. */
struct events_waiter {
	struct kv_list node;
	void (*due)(struct events_waiter *w); /* there are some; the waiter is out of the list. Must not park */
};

struct events {
	uint64_t epoch;
	struct journal *journal[KV_SHARDS_MAX]; /* the shards' own events; NULL: events are off */
	unsigned shards;
	struct journal_entry *log; /* the last EVENTS_LOG ones; number n is at n % EVENTS_LOG */
	uint64_t lost;
	uint64_t next;                              /* the number of the next event. The first one is 1: CLEARED */
	struct events_clear cleared[EVENTS_CLEARS]; /* by name */
	struct kv_list waiters;                     /* struct events_waiter */
	struct loop *loop;
	struct loop_timer timer; /* takes the shards' events */
	struct publisher *publisher;
};

/* events_make -- the log, and a journal for each of the shards, before these are made. Thread: any. 0 or -KV_ENOMEM.
 * events_free -- when no loop runs any more and the shards are destroyed. */
int events_make(struct events *e, uint64_t epoch, unsigned shards);
void events_free(struct events *e);

/* events_start -- begin to take the shards' events. events_stop -- the last followers have gone. */
void events_start(struct events *e, struct loop *loop);
void events_stop(struct events *e);

static inline bool events_on(const struct events *e)
{
	return e->log != NULL;
}

/* events_take -- take the shards' events now. */
void events_take(struct events *e);

/* events_answer -- the answer to an ask about the log; its events are packed in buf, of WIRE_EVENTS_BYTES. 0, or
 * -EAGAIN: there are no events after the asked ones yet. */
int events_answer(const struct events *e, const struct wire_events *ask, uint8_t *buf, struct wire_events *out);

/* events_page_await -- the answer to an ask for a part of a snapshot. 0; -KV_EPROTO: there is no such shard. Parks. */
int events_page_await(struct kvs_server *s, const struct wire_events *ask, uint8_t *buf, struct wire_events *out);

/* events_wait -- call w->due once, when the next events come. events_unwait -- or do not; harmless. */
void events_wait(struct events *e, struct events_waiter *w);
void events_unwait(struct events_waiter *w);

#endif
