/* SPDX-License-Identifier: Apache-2.0 */
/* events.c -- the text of an event, and doing it: a signal to a server of our own, or its start. In a replay the
 * sequencer does events when the trace's time comes to them; else a thread does, which waits for the time. */
#include "kvbench/setup/events.h"

#include <signal.h>

#include "kvbench/setup/server_child.h"

static const struct {
	const char *name;
	int number;
} kinds[] = {[BENCH_EVENT_KILL] = {"kill", SIGKILL},
	     [BENCH_EVENT_STOP] = {"stop", SIGSTOP},
	     [BENCH_EVENT_CONT] = {"cont", SIGCONT},
	     [BENCH_EVENT_START] = {"start", 0}};

static int parse_one(const char *text, unsigned servers, struct bench_event *e, struct kv_error *err)
{
	char what[16], server[16], when[32], rest;
	unsigned kind = 0;
	uint64_t number;
	if (sscanf(text, " %15s %15s at %31s %c", what, server, when, &rest) != 3 ||
	    kv_u64_parse(server, &number) < 0 || kv_duration_parse(when, &e->at_ns) < 0)
		return kv_fail(err, -KV_EINVAL, "--event: '%.100s' is not as in 'kill 2 at 30m'", text);
	while (kind < KV_COUNT(kinds) && strcmp(what, kinds[kind].name))
		kind++;
	if (kind == KV_COUNT(kinds))
		return kv_fail(err, -KV_EINVAL,
			       "--event: '%s' is none of start, kill (SIGKILL), stop (SIGSTOP) and cont (SIGCONT)",
			       what);
	if (number == 0 || number > servers)
		return kv_fail(err, -KV_EINVAL, "--event: there is no server %llu: kv-bench starts %u (--servers)",
			       (unsigned long long)number, servers);
	e->server = (unsigned)number;
	e->kind = (enum bench_event_kind)kind;
	return 0;
}

uint32_t bench_events_late(const struct bench_events *events)
{
	uint32_t late = 0, seen = 0;
	for (unsigned i = 0; i < events->count; i++) {
		const struct bench_event *e = &events->row[i];
		uint32_t bit = 1u << (e->server - 1);
		if (e->kind == BENCH_EVENT_START && !(seen & bit))
			late |= bit;
		seen |= bit;
	}
	return late;
}

unsigned bench_events_starts(const struct bench_events *events, unsigned *out)
{
	unsigned n = 0;
	for (unsigned i = 0; i < events->count; i++)
		if (events->row[i].kind == BENCH_EVENT_START)
			out[n++] = events->row[i].server;
	return n;
}

static int order_check(const struct bench_events *events, unsigned servers, struct kv_error *err)
{
	uint32_t away = bench_events_late(events);
	if (events->count && away == UINT32_MAX >> (BENCH_SERVERS_MAX - servers))
		return kv_fail(err, -KV_EINVAL, "--event: no server is there from the start: add one (--servers)");
	for (unsigned i = 0; i < events->count; i++) {
		const struct bench_event *e = &events->row[i];
		uint32_t bit = 1u << (e->server - 1);
		char text[32];
		if (e->kind == BENCH_EVENT_START && !(away & bit))
			return kv_fail(err, -KV_EINVAL,
				       "--event: '%s': it runs then; kill it before, or let start be its first event",
				       bench_event_text(e, text, sizeof(text)));
		if (e->kind != BENCH_EVENT_START && (away & bit))
			return kv_fail(err, -KV_EINVAL, "--event: '%s': it does not run then",
				       bench_event_text(e, text, sizeof(text)));
		if (e->kind == BENCH_EVENT_KILL || e->kind == BENCH_EVENT_START)
			away ^= bit;
	}
	return 0;
}

int bench_events_parse(const struct kv_opt_strings *text, unsigned servers, struct bench_events *out,
		       struct kv_error *err)
{
	*out = (struct bench_events){0};
	if (text->count > BENCH_EVENTS_MAX)
		return kv_fail(err, -KV_EINVAL, "--event: at most %u of them", (unsigned)BENCH_EVENTS_MAX);
	for (unsigned i = 0; i < text->count; i++) {
		struct bench_event e;
		unsigned at = out->count;
		if (parse_one(text->item[i], servers, &e, err) < 0)
			return -KV_EINVAL;
		for (; at > 0 && out->row[at - 1].at_ns > e.at_ns; at--)
			out->row[at] = out->row[at - 1];
		out->row[at] = e;
		out->count++;
	}
	return order_check(out, servers, err);
}

char *bench_event_text(const struct bench_event *e, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s %u", kinds[e->kind].name, e->server);
	return buf;
}

void bench_events_due(struct bench_happening *h, uint64_t now_ns)
{
	while (h->done < h->events->count && h->events->row[h->done].at_ns <= now_ns) {
		const struct bench_event *e = &h->events->row[h->done];
		struct kv_error err = {0};
		if (e->kind != BENCH_EVENT_START)
			server_child_signal(h->server, e->server, kinds[e->kind].number);
		else if (server_child_run(h->server, e->server, &err) < 0 && !h->failed.text[0])
			h->failed = err;
		h->done_ns[h->done] = kv_clock_now(&kv_clock_monotonic) - h->start_ns;
		h->done++;
	}
}

static void *events_main(void *arg)
{
	struct bench_happening *h = arg;
	while (h->done < h->events->count &&
	       ticker_wait(&h->ticker, kv_deadline(h->start_ns, h->events->row[h->done].at_ns)))
		bench_events_due(h, kv_clock_now(&kv_clock_monotonic) - h->start_ns);
	return NULL;
}

int bench_events_start(struct bench_happening *h, struct kv_error *err)
{
	int rc = 0;
	h->start_ns = kv_clock_now(&kv_clock_monotonic);
	if (h->events->count > 0)
		rc = ticker_start(&h->ticker, events_main, h);
	return rc < 0 ? kv_fail(err, rc, "no thread for the events: %s", kv_strerror(rc)) : 0;
}

void bench_events_stop(struct bench_happening *h)
{
	ticker_stop(&h->ticker);
}
