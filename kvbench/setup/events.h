/* SPDX-License-Identifier: Apache-2.0 */
/* events.h -- --event: our own servers are killed, stopped and started while a run measures. */
#ifndef KVRAIL_KVBENCH_SETUP_EVENTS_H
#define KVRAIL_KVBENCH_SETUP_EVENTS_H

#include "base/base.h"
#include "kvbench/setup/ticker.h"

enum { BENCH_EVENTS_MAX = 32, BENCH_SERVERS_MAX = 32 };

enum bench_event_kind { BENCH_EVENT_KILL, BENCH_EVENT_STOP, BENCH_EVENT_CONT, BENCH_EVENT_START };

struct bench_event {
	enum bench_event_kind kind;
	unsigned server; /* from 1 */
	uint64_t at_ns;  /* since the reads began, or in the time of the trace */
};

struct bench_events {
	unsigned count;
	struct bench_event row[BENCH_EVENTS_MAX]; /* by time */
};

/* bench_events_parse -- "kill 2 at 30m", each item one. A server whose first event is start does not run before it.
 * Returns 0, or -KV_EINVAL with a sentence, also for an event of a server that does not run then, or a start of one
 * that does. */
int bench_events_parse(const struct kv_opt_strings *text, unsigned servers, struct bench_events *out,
		       struct kv_error *err);

/* bench_events_late -- the servers that do not run from the start: bit n - 1 for server n. bench_events_starts -- the
 * numbers of the servers to start, in order; out has room for BENCH_EVENTS_MAX. Returns how many. */
uint32_t bench_events_late(const struct bench_events *events);
unsigned bench_events_starts(const struct bench_events *events, unsigned *out);

/* bench_event_text -- "kill 2". Returns buf. */
char *bench_event_text(const struct bench_event *e, char *buf, size_t cap);

struct server_child;

/* Events of one run, done in their order. */
struct bench_happening {
	const struct bench_events *events;
	struct server_child *server;
	uint64_t start_ns;
	unsigned done;
	uint64_t done_ns[BENCH_EVENTS_MAX]; /* when they really did; a start: when the server listened */
	struct kv_error failed;             /* the first start that did not succeed; text "": all did */
	struct ticker ticker;
};

/* bench_events_due -- do all events until now_ns of their time. Returns at once, or when started servers listen.
 * Thread: one at a time. */
void bench_events_due(struct bench_happening *h, uint64_t now_ns);

/* bench_events_start, _stop -- a thread that does them in real time, from now on. Without events neither does anything.
 * _start returns 0, or -errno with a sentence. */
int bench_events_start(struct bench_happening *h, struct kv_error *err);
void bench_events_stop(struct bench_happening *h);

#endif
