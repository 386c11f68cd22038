/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h -- the loops of a server, and their threads. */
#ifndef KVRAIL_KVSERVER_SERVER_LOOPS_H
#define KVRAIL_KVSERVER_SERVER_LOOPS_H

#include "base/base.h"

struct kvs_server;

/* loops_make -- the control loop and one for each shard, or those of the caller; lowers clients_max and handshakes_max
 * to the number of coroutines. 0 or a code with *err. loops_free -- also after a failure; without running threads. */
int loops_make(struct kvs_server *s, struct kv_error *err);
void loops_free(struct kvs_server *s);

/* threads_start -- one for each loop. 0 or a code with *err, with some running. threads_join -- stop the loops, and
 * wait for the running threads. */
int threads_start(struct kvs_server *s, struct kv_error *err);
void threads_join(struct kvs_server *s);

#endif
