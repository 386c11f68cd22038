/* SPDX-License-Identifier: Apache-2.0 */
/* view.h -- the client's view of the cluster. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_ROUTE_VIEW_H
#define KVRAIL_KVCLIENT_ROUTE_VIEW_H

#include "kvclient/core/client.h"

/* kc_cluster_take -- a server's vote with its view, and whether it drains. The view is followed, held or dropped;
 * *view is empty then. kc_cluster_announced -- a server announced the
 * number and the digest of its view: a vote. Both may begin and retire nodes. kc_cluster_asks --
 * whether to ask this server now for the view with the majority. kc_cluster_waits -- whether this server, attaching
 * without a view in force, must wait for others' votes. */
void kc_cluster_take(struct kc_node *n, struct kv_view *view, bool draining);
void kc_cluster_announced(struct kc_node *n, const struct wire_view_news *news);
bool kc_cluster_asks(struct kc_node *n);
bool kc_cluster_waits(struct kc_node *n);

/* kc_cluster_look -- a beat (conn/serve.c): free the places of ended nodes, and count the votes again. */
void kc_cluster_look(struct kvc_client *c);

/* kc_cluster_node_up -- a node is up, with its server's incarnation. */
void kc_cluster_node_up(struct kc_node *n);

/* kc_cluster_node_ended -- a retired node has ended: no session waits for it. */
void kc_cluster_node_ended(struct kc_node *n);

/* kc_cluster_init -- 0 or -KV_ENOMEM. kc_cluster_fini -- free the views, after the client's coroutines. */
int kc_cluster_init(struct kvc_client *c);
void kc_cluster_fini(struct kvc_client *c);

#endif
