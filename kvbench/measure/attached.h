/* SPDX-License-Identifier: Apache-2.0 */
/* attached.h -- waiting until the clients of a pool use a server. Thread: none that runs a loop. */
#ifndef KVRAIL_KVBENCH_MEASURE_ATTACHED_H
#define KVRAIL_KVBENCH_MEASURE_ATTACHED_H

#include <stdbool.h>
#include <stdint.h>

struct kvc_pool;

/* bench_attached_wait -- wait until every client has this server up, or for at most limit_ns. node_id: its name in the
 * list of servers. member: only if it is also a member of the view of the cluster. False: the time is over, or a signal
 * came.
 */
bool bench_attached_wait(struct kvc_pool *pool, unsigned clients, const char *node_id, bool member, uint64_t limit_ns);

#endif
