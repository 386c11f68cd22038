/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h -- a client's data of kvclient/request/, and the sending coroutine. Private to kvclient/. On the client's
 * loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_REQUESTS_H
#define KVRAIL_KVCLIENT_REQUEST_REQUESTS_H

#include "kvclient/core/client.h"

/* kvc_requests_open -- make client->requests. 0 or -KV_ENOMEM. kvc_requests_engine -- read the open engine's limits.
 * kvc_requests_start -- start the sending coroutine. 0 or a code of co_spawn. kvc_requests_stop -- end it after
 * sending. kvc_requests_quiet -- after all coroutines: cancel the timers. kvc_requests_close -- free it, if made. */
int kvc_requests_open(struct kvc_client *c);
void kvc_requests_engine(struct kvc_client *c);
int kvc_requests_start(struct kvc_client *c);
void kvc_requests_stop(struct kvc_client *c);
void kvc_requests_quiet(struct kvc_client *c);
void kvc_requests_close(struct kvc_client *c);

#endif
