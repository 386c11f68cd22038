/* SPDX-License-Identifier: Apache-2.0 */
/* order.h -- the order in a queue of a link, where requests in the background (KVC_BACKGROUND) are last. Private to
 * kvclient/. The client's loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ORDER_H
#define KVRAIL_KVCLIENT_REQUEST_ORDER_H

#include "kvclient/core/client.h"

/* kvc_queue_in -- put a request into a queue of the link: `queue`, `parked` or a lane's. It goes behind all others, or
 * in front of those in the background if it is not one itself (KVC_BACKGROUND). kvc_queue_kept -- whether one that
 * waits in this queue is before it. */
void kvc_queue_in(struct kvc_link *l, struct kv_list *queue, struct kvc_req *r);
bool kvc_queue_kept(const struct kv_list *queue, const struct kvc_req *r);
/* kvc_queue_front_end -- the last request of a queue that is not in the background, or the queue itself. */
struct kv_list *kvc_queue_front_end(const struct kv_list *queue);

#endif
