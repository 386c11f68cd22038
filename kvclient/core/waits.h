/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h -- waits of a call other than for its requests and room. Private to kvclient/. On the client's loop, from a
 * coroutine. */
#ifndef KVRAIL_KVCLIENT_CORE_WAITS_H
#define KVRAIL_KVCLIENT_CORE_WAITS_H

#include "kvclient/core/client.h"

/* kc_wait_stop_set -- calls of the running coroutine end when *stop is true; NULL: never. */
void kc_wait_stop_set(const bool *stop);
const bool *kc_wait_stop(void);

/* kc_wait_over -- 0: the call may wait; -KV_ECLOSED: the client closes; -KV_ECANCELED: the call was stopped. */
int kc_wait_over(const struct kvc_client *c);

/* kc_wait_queue_await -- wait until the queue is woken: 0, check again. Or -KV_ETIMEOUT, or a code of kc_wait_over.
 * kc_wait_time_await -- wait until then: 0, or a code of kc_wait_over. */
int kc_wait_queue_await(struct kvc_client *c, struct co_queue *q, uint64_t deadline_ns);
int kc_wait_time_await(struct kvc_client *c, uint64_t until_ns);

/* kc_waits_stop -- *stop is now true: end its call's waits. kc_waits_close -- end all. */
void kc_waits_init(struct kvc_client *c);
void kc_waits_stop(struct kvc_client *c, const bool *stop);
void kc_waits_close(struct kvc_client *c);

#endif
