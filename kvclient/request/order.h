/* SPDX-License-Identifier: Apache-2.0 */
/* order.h -- the order in a link's queue: background requests (KVC_BACKGROUND) last. Private to kvclient/. On the
 * client's loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ORDER_H
#define KVRAIL_KVCLIENT_REQUEST_ORDER_H

#include "kvclient/core/client.h"

/* kvc_queue_in -- add a request to `queue`, `parked` or a lane's queue, before the background unless it belongs to it.
 * kvc_queue_kept -- whether a waiting one comes before it. */
void kvc_queue_in(struct kvc_link *l, struct kv_list *queue, struct kvc_req *r);
bool kvc_queue_kept(const struct kv_list *queue, const struct kvc_req *r);
struct kv_list *kvc_queue_front_end(const struct kv_list *queue);

#endif
