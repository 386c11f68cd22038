/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h -- the data of kvclient/request/ for one client, and the coroutine that sends. Private to kvclient/. On
 * the client's loop. */
#ifndef KVRAIL_KVCLIENT_REQUEST_REQUESTS_H
#define KVRAIL_KVCLIENT_REQUEST_REQUESTS_H

#include "kvclient/core/client.h"

/* kvc_requests_open -- the client opens: make client->requests. 0 or -KV_ENOMEM.
 * kvc_requests_engine -- its engine is open: learn the engine's limits.
 * kvc_requests_start -- start the coroutine that sends. 0 or a code of co_spawn.
 * kvc_requests_stop -- let it end, after what is ready to be sent. kvc_requests_quiet -- all coroutines have ended:
 * cancel the timers.
 * kvc_requests_close -- free it, before the end of the client. One that was never made is fine. */
int kvc_requests_open(struct kvc_client *c);
void kvc_requests_engine(struct kvc_client *c);
int kvc_requests_start(struct kvc_client *c);
void kvc_requests_stop(struct kvc_client *c);
void kvc_requests_quiet(struct kvc_client *c);
void kvc_requests_close(struct kvc_client *c);

#endif
