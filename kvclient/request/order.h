/* SPDX-License-Identifier: Apache-2.0 */
/* order.h -- the order in a link's queue: background requests (KVC_BACKGROUND) last. Private to kvclient/. On the
 * client's loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ORDER_H
#define KVRAIL_KVCLIENT_REQUEST_ORDER_H

#include "kvclient/core/client.h"

/* kc_queue_in -- add a request to `queue`, `parked` or a lane's queue, before the background unless it belongs to it.
 * kc_queue_kept -- whether a waiting one comes before it. */
void kc_queue_in(struct kc_link *l, struct kv_list *queue, struct kc_req *r);
bool kc_queue_kept(const struct kv_list *queue, const struct kc_req *r);
struct kv_list *kc_queue_front_end(const struct kv_list *queue);

#endif
