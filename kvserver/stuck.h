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

/* stuck_begin -- watch the loops of the server that this signal ends: if one does not turn for 10 s, log it and end the
 * process with 128 + signal. From now on kvs_server_alive belongs to the watcher. pace: divides the time, for tests.
 * stuck_end -- the server has stopped. Thread: the main thread. */
void stuck_begin(struct stuck *s, struct kvs_server *server, int signal, unsigned pace, const struct kv_log *log);
void stuck_end(struct stuck *s);

#endif
