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

/* There are events for a waiting client. */
static void due(struct events_waiter *w)
{
	struct conn *c = KV_CONTAINER(w, struct conn, follow.waiter);
	c->follow.due = true;
	conn_say(c);
}

static int answer_await(struct conn *c)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_EVENTS};
	const struct wire_events ask = c->follow.ask;
	uint8_t *buf = malloc(WIRE_EVENTS_BYTES);
	int rc;
	if (!buf)
		return -KV_ENOMEM;
	c->follow.due = false;
	if (ask.flags & WIRE_EVENTS_SNAPSHOT)
		rc = events_page_await(c->server, &ask, buf, &m.events);
	else
		rc = events_answer(&c->server->events, &ask, buf, &m.events);
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
