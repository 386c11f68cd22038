/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c -- a client that follows the server's events.
 *
 * A client has one question at a time, which names the first event that it wants. It is answered at once, or when there
 * are events, in the coroutine that sends heartbeats (conn.c). So a slow client costs no memory: it asks late, and gets
 * a gap if the log has moved on. A question ends with its attachment. */
#include "kvserver/conn/follow.h"

#include <errno.h>
#include <stdlib.h>

#include "kvserver/conn/conn.h"
#include "kvserver/conn/rights.h"

static void due(struct events_waiter *w)
{
	struct conn *c = KV_CONTAINER(w, struct conn, follow.waiter);
	c->follow.due = true;
	conn_say(c);
}

/* Whether the client may see the event. *last: the result for the event before, often of the same namespace. */
static bool shown(const struct conn *c, const struct wire_event *e, struct wire_event *last, bool *last_shown)
{
	if (e->what == WIRE_EVENT_LOST || (e->what == WIRE_EVENT_CLEARED && e->space_len == 0))
		return true;
	if (last->space && last->space_len == e->space_len && memcmp(last->space, e->space, e->space_len) == 0)
		return *last_shown;
	*last_shown = grant_reads(c, e->space, e->space_len);
	*last = *e;
	return *last_shown;
}

/* Hide events of namespaces that the client may not read, in place. A page of a snapshot just leaves them out. */
static void answer_filter(const struct conn *c, uint8_t *buf, struct wire_events *v)
{
	const struct wire_event hidden = {.what = WIRE_EVENT_HIDDEN};
	struct wire_event e, last = {0};
	char space[KV_SPACE_MAX];
	uint32_t at = 0, to = 0, kept = 0;
	bool last_shown = false;
	for (uint32_t begin = 0; wire_event_take(buf, v->events_len, &at, &e) == 0; begin = at) {
		bool shows = shown(c, &e, &last, &last_shown);
		if (last.space)
			last.space = memmove(space, last.space, last.space_len);
		if (shows) {
			memmove(buf + to, buf + begin, at - begin);
			to += at - begin;
		} else if (!(v->flags & WIRE_EVENTS_SNAPSHOT)) {
			(void)wire_event_pack(buf, WIRE_EVENTS_BYTES, &to, &hidden); /* it is shorter */
		} else {
			continue;
		}
		kept++;
	}
	v->events_len = to;
	v->count = kept;
}

static int answer_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_EVENTS};
	const struct wire_events ask = c->follow.ask;
	bool all = c->now->own.reads_all;
	uint8_t *buf = malloc(WIRE_EVENTS_BYTES);
	int rc;
	if (!buf)
		return -KV_ENOMEM;
	c->follow.due = false;
	if (ask.flags & WIRE_EVENTS_SNAPSHOT)
		rc = events_page_await(c->server, &ask, buf, &m.events);
	else
		rc = events_answer(&c->server->events, &ask, buf, &m.events);
	if (rc == 0 && !all)
		answer_filter(c, buf, &m.events);
	if (rc == 0)
		rc = conn_send_await(c, &m);
	else if (rc == -EAGAIN)
		events_wait(&c->server->events, &c->follow.waiter);
	free(buf);
	return rc == -EAGAIN ? 0 : rc;
}

int follow_await(struct conn *c, const struct wire_events *ask)
{
	if (!events_on(&c->server->events))
		return -KV_EPROTO;
	follow_end(c);
	c->follow = (struct follow){.ask = *ask, .waiter.due = due, .answer_await = answer_await};
	return answer_await(c);
}

void follow_end(struct conn *c)
{
	c->follow.due = false;
	events_unwait(&c->follow.waiter);
}
