/* SPDX-License-Identifier: Apache-2.0 */
/* arenas.h -- where a server's memory is, for pulled GETs. Private to kvclient/. On the client's loop; only _await
 * functions park. */
#ifndef KVRAIL_KVCLIENT_CONN_ARENAS_H
#define KVRAIL_KVCLIENT_CONN_ARENAS_H

#include "kvclient/core/client.h"

/* kc_arenas_await -- a step of attaching: learn the server's arenas, if it allows pulls, and decide about pulling
 * (session.pull). 0, or a code with n->error. -KV_ENOTSUP: the pool demands pull, the server forbids it. */
int kc_arenas_await(struct kc_node *n, uint64_t deadline_ns);

/* kc_landings_await -- a step of attaching: ask for landing areas, if offered and our messages stay behind our writes.
 * 0, or a code with n->error. */
int kc_landings_await(struct kc_node *n, uint64_t deadline_ns);

#endif
