/* SPDX-License-Identifier: Apache-2.0 */
/* arenas.h -- where the memory of a server is, for GETs that we read ourselves. Private to kvclient/. All of these on
 * the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_ARENAS_H
#define KVRAIL_KVCLIENT_CONN_ARENAS_H

#include "kvclient/core/client.h"

/* kvc_arenas_await -- of the connection being set up: ask for the arenas, if GETs may be pulled from this server, and
 * decide whether they will be (session.pull). Returns 0, or a code with n->error: a pool that demands it gets no
 * session with a server that does not allow it (-KV_ENOTSUP). */
int kvc_arenas_await(struct kvc_node *n, uint64_t deadline_ns);

#endif
