/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h -- a client's data of kvclient/request/, and the sending coroutine. Private to kvclient/. On the client's
 * loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_REQUESTS_H
#define KVRAIL_KVCLIENT_REQUEST_REQUESTS_H

#include "kvclient/core/client.h"

/* kc_requests_open -- make client->requests. 0 or -KV_ENOMEM. kc_requests_engine -- read the open engine's limits.
 * kc_requests_start -- start the sending coroutine. 0 or a code of co_spawn. kc_requests_stop -- end it after
 * sending. kc_requests_quiet -- after all coroutines: cancel the timers. kc_requests_close -- free it, if made. */
int kc_requests_open(struct kvc_client *c);
void kc_requests_engine(struct kvc_client *c);
int kc_requests_start(struct kvc_client *c);
void kc_requests_stop(struct kvc_client *c);
void kc_requests_quiet(struct kvc_client *c);
void kc_requests_close(struct kvc_client *c);

#endif
