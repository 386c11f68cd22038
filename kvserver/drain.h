/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h -- how kv-server's drain is bounded, and how a client that asks for it is heard. */
#ifndef KVRAIL_KVSERVER_DRAIN_H
#define KVRAIL_KVSERVER_DRAIN_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "kvserver/kvserver.h"

/* Sent to the main thread, which has it blocked and waits for it: a client asks for the drain. */
#define DRAIN_SIGNAL SIGRTMIN

struct drain_bounds {
	uint64_t begun_ns, time_ns;
	uint64_t bytes_s; /* of values that are put to others; 0: none are */
};

struct drain {
	pthread_mutex_t lock; /* all of this */
	pthread_t main;
	const struct kv_log *log;
	struct drain_bounds bounds; /* until it begins: as the options say, and without begun_ns */
	bool begun;
};

/* drain_init -- of this thread, which waits for signals. The bounds are those of the options.
 * drain_defaults -- other bounds, unless it has begun. Main thread. Neither blocks. */
void drain_init(struct drain *d, uint64_t time_ns, uint64_t bytes_s, const struct kv_log *log);
void drain_defaults(struct drain *d, uint64_t time_ns, uint64_t bytes_s);

/* drain_ask -- kvs_options.on_drain, with the drain as its argument. The first one who asks sets the bounds. */
uint64_t drain_ask(void *drain, const struct kvs_drain *bounds, const char *client);

/* drain_begin -- it begins now, if nobody asked for it before. *out: its bounds, which are final. Main thread.
 * drain_left_ns -- of its time, once it has begun; at least 1. Any thread. */
void drain_begin(struct drain *d, struct drain_bounds *out);
uint64_t drain_left_ns(struct drain *d);

#endif
