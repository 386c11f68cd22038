/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h -- the view of the cluster at a client. Private to kvclient/. All of these on the client's loop; none
 * parks.
 */
#ifndef KVRAIL_KVCLIENT_ROUTE_VIEW_H
#define KVRAIL_KVCLIENT_ROUTE_VIEW_H

#include "kvclient/core/client.h"

/* kvc_cluster_take -- a server told its view, and whether it drains: its vote. The view is followed, or held for later,
 * or dropped; *view is empty then. kvc_cluster_told -- it announced its view. Both may begin nodes, and retire nodes.
 *
 * kvc_cluster_asks -- whether to ask this server for its view now: it announces the one that has its majority.
 * kvc_cluster_waits -- while this server attaches, and there is no view in force: whether others are to be heard first.
 */
void kvc_cluster_take(struct kvc_node *n, struct kv_view *view, bool draining);
void kvc_cluster_told(struct kvc_node *n, const struct wire_view_news *news);
bool kvc_cluster_asks(struct kvc_node *n);
bool kvc_cluster_waits(struct kvc_node *n);

/* kvc_cluster_look -- a beat (conn/serve.c): give back the places of nodes that have ended, and count the votes again.
 */
void kvc_cluster_look(struct kvc_client *c);

/* kvc_cluster_node_up -- a node is up, with the incarnation of its server. */
void kvc_cluster_node_up(struct kvc_node *n);

/* kvc_cluster_node_ended -- a retired node has come to its end: no session waits for it any more. */
void kvc_cluster_node_ended(struct kvc_node *n);

/* kvc_cluster_fini -- free the views. The client's coroutines have ended. */
void kvc_cluster_fini(struct kvc_client *c);

#endif
