/* SPDX-License-Identifier: Apache-2.0 */
/* drain_bounds.h -- the bounds of kv-server's drain, and a client's request for it. */
#ifndef KVRAIL_KVSERVER_DRAIN_BOUNDS_H
#define KVRAIL_KVSERVER_DRAIN_BOUNDS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "kvserver/kvserver.h"

/* Sent to the main thread, which waits for it: a client asks for the drain. */
#define DRAIN_SIGNAL SIGRTMIN

struct drain_bounds {
	uint64_t begun_ns, time_ns;
	uint64_t bytes_s;
};

struct drain {
	pthread_mutex_t lock; /* of everything here */
	pthread_t main;
	const struct kv_log *log;
	struct drain_bounds bounds; /* until it begins: the options' bounds, without begun_ns */
	bool begun;
};

/* drain_init -- for this thread, which waits for signals, with the options' bounds. drain_defaults -- other bounds,
 * unless it has begun. Main thread. Neither blocks. */
void drain_init(struct drain *d, uint64_t time_ns, uint64_t bytes_s, const struct kv_log *log);
void drain_defaults(struct drain *d, uint64_t time_ns, uint64_t bytes_s);

/* drain_ask -- kvs_options.on_drain, with the drain as its argument. The first question sets the bounds. */
uint64_t drain_ask(void *drain, const struct kvs_drain *bounds, const char *client);

/* drain_begin -- begin now, unless a client's question began it. *out: its final bounds. Main thread. drain_left_ns --
 * the remaining time of a begun drain; at least 1. Any thread. */
void drain_begin(struct drain *d, struct drain_bounds *out);
uint64_t drain_left_ns(struct drain *d);

#endif
