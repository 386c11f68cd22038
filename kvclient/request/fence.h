/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- making memory safe: fences, and what follows them. Private to kvclient/. All of these on the client's
 * loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FENCE_H
#define KVRAIL_KVCLIENT_REQUEST_FENCE_H

#include "kvclient/core/client.h"

/* kvc_client_fence_await -- nothing of the session's shard touches our memory any more when it returns, or, where
 * endpoints take long to close, from when kvc_client_fenced_await has returned, too. Where the engine can fence one
 * peer alone, the session has ended (its requests with -KV_ERESET, as safe), and its node alone gets a new one; else
 * all nodes do. */
void kvc_client_fence_await(struct kvc_client *c, struct kvc_session *s, unsigned shard);
void kvc_client_fenced_await(struct kvc_client *c);

/* kvc_fence_reset, kvc_fence_over -- te_handlers.reset and .fenced: all endpoints are new; those that were given up are
 * closed. arg: the client. */
void kvc_fence_reset(void *arg, int status);
void kvc_fence_over(void *arg);

/* kvc_zombies_close -- close the peers that were kept open for a fence: memory is safe, or the engine ends. Outside of
 * coroutines. */
void kvc_zombies_close(struct kvc_client *c);

/* kvc_client_reclaim_await -- get back what requests that were given up long ago still hold. At every beat of a session
 * that is open, which may be reset by it. */
void kvc_client_reclaim_await(struct kvc_client *c, struct kvc_session *s);

#endif
