/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h -- the view of the cluster at a client. Private to kvclient/. All of these on the client's loop; none
 * parks.
 */
#ifndef KVRAIL_KVCLIENT_POOL_CLUSTER_H
#define KVRAIL_KVCLIENT_POOL_CLUSTER_H

#include "kvclient/core/client.h"

/* kvc_cluster_take -- a server told its view. It is taken, or kept for later, or not believed; *view is empty then.
 * kvc_cluster_news -- a server has news of its view, or a beat is over since then (NULL): whether to ask it for that
 * view now. */
void kvc_cluster_take(struct kvc_node *n, struct kv_view *view);
bool kvc_cluster_news(struct kvc_node *n, const struct wire_view_news *news);

/* kvc_cluster_look -- a beat (conn/serve.c): give back the places of nodes that have ended, and look again at a view
 * that was doubted. */
void kvc_cluster_look(struct kvc_client *c);

/* kvc_cluster_node_up -- a node is up, with the incarnation of its server. */
void kvc_cluster_node_up(struct kvc_node *n);

/* kvc_cluster_node_ended -- a retired node has come to its end: no session waits for it any more. */
void kvc_cluster_node_ended(struct kvc_node *n);

/* kvc_cluster_fini -- free the views. The client's coroutines have ended. */
void kvc_cluster_fini(struct kvc_client *c);

#endif
