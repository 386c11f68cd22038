/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h -- a client that follows the server's events. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_FOLLOW_H
#define KVRAIL_KVSERVER_CONN_FOLLOW_H

#include "kvserver/events/events.h"

struct conn;

struct follow {
	struct wire_events ask; /* the last question */
	struct events_waiter waiter;
	bool due;                            /* its answer is due ... */
	int (*answer_await)(struct conn *c); /* ... and sent by this function. 0, or why the connection ends */
};

/* follow_await -- the client asks for events. 0, or why the connection ends. follow_end -- its question is void. */
int follow_await(struct conn *c, const struct wire_events *ask);
void follow_end(struct conn *c);

#endif
