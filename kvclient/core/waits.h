/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h -- how a call waits for anything but its own requests and room for them. Private to kvclient/. On the
 * client's loop, from a coroutine. */
#ifndef KVRAIL_KVCLIENT_CORE_WAITS_H
#define KVRAIL_KVCLIENT_CORE_WAITS_H

#include "kvclient/core/client.h"

/* kvc_wait_stop_set -- the running coroutine makes a call from now on that ends when *stop is true; NULL: nobody stops
 * it. kvc_wait_stop -- that pointer. */
void kvc_wait_stop_set(const bool *stop);
const bool *kvc_wait_stop(void);

/* kvc_wait_over -- why a call of the running coroutine waits for nothing any more: -KV_ECLOSED, the client closes;
 * -KV_ECANCELED, the call was stopped. 0: it may wait. */
int kvc_wait_over(const struct kvc_client *c);

/* kvc_wait_queue_await -- wait until the queue is woken: 0, look again. Or a code of kvc_wait_over, also when that
 * begins during the wait, or -KV_ETIMEOUT. kvc_wait_time_await -- let the time pass: 0, or a code of kvc_wait_over. */
int kvc_wait_queue_await(struct kvc_client *c, struct co_queue *q, uint64_t deadline_ns);
int kvc_wait_time_await(struct kvc_client *c, uint64_t until_ns);

/* kvc_waits_init -- before the first wait. kvc_waits_stop -- *stop has become true: end the waits of its call.
 * kvc_waits_close -- the client closes: end all. */
void kvc_waits_init(struct kvc_client *c);
void kvc_waits_stop(struct kvc_client *c, const bool *stop);
void kvc_waits_close(struct kvc_client *c);

#endif
