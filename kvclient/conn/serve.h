/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h -- the coroutine of a node. Private to kvclient/. On the client's loop; only _await functions park. */
#ifndef KVRAIL_KVCLIENT_CONN_SERVE_H
#define KVRAIL_KVCLIENT_CONN_SERVE_H

#include "kvclient/core/client.h"

/* kc_node_start -- spawn its coroutine, which runs until the client closes. 0, or why not. */
int kc_node_start(struct kc_node *n);

/* kc_node_open -- for a node from a view; without a coroutine it is DOWN and unstarted: call again. kc_node_retire --
 * the view no longer has the node: no new calls. */
void kc_node_open(struct kc_node *n);
void kc_node_retire(struct kc_node *n);

/* kc_node_part_await -- the client closes: say goodbye by the deadline, or break off. The coroutine ends with the
 * answer or the next kc_node_redo. */
void kc_node_part_await(struct kc_node *n, uint64_t deadline_ns);

bool kc_serve_idle(const struct kc_attachment *s);

#endif
