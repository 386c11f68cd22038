/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h -- the coroutine of a node. Private to kvclient/. All of these on the client's loop; what does not end in
 * _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_SERVE_H
#define KVRAIL_KVCLIENT_CONN_SERVE_H

#include "kvclient/core/client.h"

/* kvc_node_start -- spawn its coroutine: it connects, and begins again after every break, until the client closes. 0,
 * or why it cannot be spawned. */
int kvc_node_start(struct kvc_node *n);

/* kvc_node_part_await -- say goodbye by the deadline, or break off: its coroutine ends with the server's answer, or
 * after the next kvc_node_redo, since the client is closing. */
void kvc_node_part_await(struct kvc_node *n, uint64_t deadline_ns);

#endif
