/* SPDX-License-Identifier: Apache-2.0 */
/* stuck.h -- a signal ends kv-server, even if one of its loops does not turn any more. */
#ifndef KVRAIL_KVSERVER_STUCK_H
#define KVRAIL_KVSERVER_STUCK_H

#include <pthread.h>
#include <semaphore.h>

#include "kvserver/kvserver.h"

struct stuck {
	pthread_t thread;
	sem_t over;
	struct kvs_server *server;
	const struct kv_log *log;
	int signal;
	unsigned tick_ms;
	bool there;
};

/* stuck_begin -- watch the loops of the server, which this signal is to end: if one of them does not turn for 10 s, say
 * so and end the process with 128 + signal. kvs_server_pulse is the watcher's from now on. pace: the time is divided by
 * it, for tests. stuck_end -- the server has stopped. Thread: the main thread. */
void stuck_begin(struct stuck *s, struct kvs_server *server, int signal, unsigned pace, const struct kv_log *log);
void stuck_end(struct stuck *s);

#endif
