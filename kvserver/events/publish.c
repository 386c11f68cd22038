/* SPDX-License-Identifier: Apache-2.0 */
/* publish.c -- a follower inside of the server, which publishes what it reads.
 *
 *   WALK: AllBlocksCleared, then a BlockStored for every block --> LOG: what happens --gap--> WALK
 *
 * The messages have no place for a namespace, so it publishes the events of one. Messages have numbers from 0 on. The
 * last ones are kept, within KEPT_MESSAGES and KEPT_BYTES, for subscribers that ask for them: one subscriber at a time,
 * some messages at a time, and no longer than PATIENCE_NS without progress. */
#include "kvserver/events/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "kvserver/server/server.h"

enum {
	KEPT_MESSAGES = 10000, /* as vLLM keeps */
	KEPT_BYTES = 64 << 20,
	ANSWERS_AT_ONCE = 64
};

#define LOOK_NS     20000000ull /* between looks at questions */
#define PATIENCE_NS 5000000000ull

struct message {
	uint64_t len;
	uint8_t *payload;
};

struct publisher {
	struct kvs_server *server;
	const struct kvs_transport *transport;
	void *sockets;
	enum publish_format format;
	const char *space;
	struct wire_events ask;
	bool walks;
	uint64_t log_next; /* while it walks: where the log goes on; 0: the walk begins */
	struct events_waiter waiter;
	struct co *co;
	bool running, stopping;
	struct message kept[KEPT_MESSAGES];
	uint64_t next, oldest, kept_bytes; /* numbers of messages */
	bool answering;
	uint64_t answer_next, progress_ns;
	uint8_t events[WIRE_EVENTS_BYTES], payload[PUBLISH_PAYLOAD_MAX];
};

/* ---- messages ---- */

static void oldest_drop(struct publisher *p)
{
	struct message *m = &p->kept[p->oldest++ % KEPT_MESSAGES];
	p->kept_bytes -= m->len;
	free(m->payload);
	*m = (struct message){0};
}

/* Without memory all kept messages are dropped: their numbers must have no holes. */
static void keep(struct publisher *p, uint64_t number, const uint8_t *payload, size_t len)
{
	uint8_t *copy = malloc(len);
	while (p->oldest < number && (!copy || number - p->oldest >= KEPT_MESSAGES || p->kept_bytes + len > KEPT_BYTES))
		oldest_drop(p);
	if (!copy) {
		p->oldest = number + 1;
		return;
	}
	memcpy(copy, payload, len);
	p->kept[number % KEPT_MESSAGES] = (struct message){len, copy};
	p->kept_bytes += len;
}

static void publish(struct publisher *p, const struct wire_events *v)
{
	struct timespec now;
	size_t len;
	clock_gettime(CLOCK_REALTIME, &now);
	len = publish_encode(v, p->format, (double)now.tv_sec + (double)now.tv_nsec / 1e9, p->payload,
			     sizeof(p->payload));
	KV_ASSERT(len <= sizeof(p->payload));
	p->transport->send(p->sockets, p->next, p->payload, len);
	keep(p, p->next++, p->payload, len);
}

static void cleared_publish(struct publisher *p)
{
	struct wire_events v = {.count = 1, .events = p->events};
	const struct wire_event e = {.what = WIRE_EVENT_CLEARED};
	(void)wire_event_pack(p->events, sizeof(p->events), &v.events_len, &e);
	publish(p, &v);
}

static void events_own(struct publisher *p, struct wire_events *v)
{
	size_t len = strlen(p->space);
	uint32_t at = 0, to = 0, from = 0, count = 0;
	struct wire_event e;
	for (; at < v->events_len && wire_event_take(v->events, v->events_len, &at, &e) == 0; from = at) {
		bool all = e.key_len == 0 && e.space_len == 0; /* of the whole server */
		if (!all && (e.space_len != len || memcmp(e.space, p->space, len) != 0))
			continue;
		memmove(p->events + to, p->events + from, at - from);
		to += at - from;
		count++;
	}
	v->events_len = to;
	v->count = count;
}

/* ---- questions ---- */

static void question_take(struct publisher *p, uint64_t now_ns)
{
	if (p->answering || !p->transport->asked(p->sockets, &p->answer_next))
		return;
	p->answering = true;
	p->progress_ns = now_ns;
	p->answer_next = KV_MAX(p->answer_next, p->oldest);
}

/* Some messages of the answer. One that leaves the kept ones meanwhile is a hole in the numbers. */
static void answer_some(struct publisher *p, uint64_t now_ns)
{
	int rc = 0;
	for (unsigned n = 0; p->answering && rc == 0 && n < ANSWERS_AT_ONCE; n++) {
		const struct message *m;
		p->answer_next = KV_MAX(p->answer_next, p->oldest);
		if (p->answer_next >= p->next) {
			rc = p->transport->answer(p->sockets, UINT64_MAX, NULL, 0);
			p->answering = rc == -EAGAIN;
			continue;
		}
		m = &p->kept[p->answer_next % KEPT_MESSAGES];
		rc = p->transport->answer(p->sockets, p->answer_next, m->payload, m->len);
		if (rc == 0) {
			p->answer_next++;
			p->progress_ns = now_ns;
		}
	}
	if (rc && (rc != -EAGAIN || now_ns - p->progress_ns > PATIENCE_NS))
		p->answering = false;
}

/* ---- following ---- */

static void walk_begin(struct publisher *p)
{
	p->walks = true;
	p->log_next = 0;
	p->ask = (struct wire_events){.flags = WIRE_EVENTS_SNAPSHOT, .at = UINT32_MAX};
	cleared_publish(p);
}

static void walk_await(struct publisher *p)
{
	struct wire_events v;
	if (events_page_await(p->server, &p->ask, p->events, &v))
		return;
	if (p->log_next == 0)
		p->log_next = v.next;
	events_own(p, &v);
	if (v.count > 0)
		publish(p, &v);
	p->ask.shard = v.shard;
	p->ask.at = v.at;
	if (v.at == 0) {
		p->walks = false;
		p->ask = (struct wire_events){.epoch = v.epoch, .next = p->log_next};
	}
}

static bool lost(const struct wire_events *v)
{
	struct wire_event e;
	uint32_t at = 0;
	while (at < v->events_len && wire_event_take(v->events, v->events_len, &at, &e) == 0)
		if (e.what == WIRE_EVENT_LOST)
			return true;
	return false;
}

/* False: there is nothing new. */
static bool log_read(struct publisher *p)
{
	struct wire_events v;
	if (events_answer(&p->server->events, &p->ask, p->events, &v) == -EAGAIN)
		return false;
	if ((v.flags & WIRE_EVENTS_GAP) || lost(&v)) {
		walk_begin(p);
		return true;
	}
	events_own(p, &v);
	if (v.count > 0)
		publish(p, &v);
	p->ask.next = v.next;
	return true;
}

static void due(struct events_waiter *w)
{
	co_wake(KV_CONTAINER(w, struct publisher, waiter)->co);
}

static void publish_run(void *arg)
{
	struct publisher *p = arg;
	struct kvs_server *s = p->server;
	p->co = co_self();
	walk_begin(p);
	for (;;) {
		uint64_t now_ns = loop_now(s->control);
		question_take(p, now_ns);
		answer_some(p, now_ns);
		if (p->walks) {
			walk_await(p);
			continue;
		}
		if (log_read(p)) {
			co_yield_await();
			continue;
		}
		if (p->stopping)
			break;
		events_wait(&s->events, &p->waiter);
		co_park_await(now_ns + LOOK_NS);
		events_unwait(&p->waiter);
	}
	p->running = false;
	server_changed(s);
}

/* ---- start and end ---- */

int publish_start(struct kvs_server *s, struct kv_error *err)
{
	const struct kvs_transport *t = s->opt.events_transport;
	struct publisher *p;
	int rc;
	if (!s->opt.events_at)
		return 0;
	p = calloc(1, sizeof(*p)); /* too large for a coroutine's stack */
	if (!p)
		return kv_fail(err, -KV_ENOMEM, "no memory to publish events");
	p->server = s;
	p->transport = t;
	p->format = s->opt.events_at->format;
	p->space = s->opt.events_at->space;
	p->waiter.due = due;
	rc = t->open(s->opt.events_at, &p->sockets, err);
	if (rc == 0) {
		s->events.publisher = p;
		rc = co_spawn(s->control, publish_run, p, "events");
		p->running = rc == 0;
		return rc ? kv_fail(err, rc, "cannot start to publish events: %s", kv_strerror(rc)) : 0;
	}
	free(p);
	return rc;
}

void publish_stop_await(struct kvs_server *s)
{
	struct publisher *p = s->events.publisher;
	if (!p)
		return;
	p->stopping = true;
	while (p->running) {
		if (p->co)
			co_wake(p->co);
		co_park_await(loop_now(s->control) + LOOK_NS);
	}
}

void publish_free(struct kvs_server *s)
{
	struct publisher *p = s->events.publisher;
	if (!p)
		return;
	p->transport->close(p->sockets);
	while (p->oldest < p->next)
		oldest_drop(p);
	free(p);
	s->events.publisher = NULL;
}
