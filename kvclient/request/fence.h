/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- fences, which make memory safe, and what follows them. Private to kvclient/. All functions run on the
 * client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FENCE_H
#define KVRAIL_KVCLIENT_REQUEST_FENCE_H

#include "kvclient/core/client.h"

/* kvc_client_fence_await -- when it has returned, the attachment's shard touches no memory of ours any more. Where
 * endpoints take long to close, that is so when kvc_client_fenced_await has returned, too. Where the engine can fence
 * one peer alone, the attachment has ended (its requests with -KV_ERESET, as safe), and its node alone makes a new one.
 * Else all nodes do. */
void kvc_client_fence_await(struct kvc_client *c, struct kvc_attachment *s, unsigned shard);
void kvc_client_fenced_await(struct kvc_client *c);

/* kvc_fence_reset, kvc_fence_over -- te_handlers.reset and .fenced: all endpoints are new; the endpoints that were
 * given up are closed. arg: the client. */
void kvc_fence_reset(void *arg, int status);
void kvc_fence_over(void *arg);

/* Peers of an attachment that has ended stay open while the server may write to our memory, until a fence.
 * kvc_zombies_room -- whether n more can be kept. kvc_zombie_keep -- keep one.
 * kvc_zombies_close -- close them: memory is safe, or the engine ends. Outside of coroutines. */
bool kvc_zombies_room(const struct kvc_client *c, unsigned n);
void kvc_zombie_keep(struct kvc_client *c, struct te_peer *peer);
void kvc_zombies_close(struct kvc_client *c);

/* kvc_client_reclaim_await -- get back what old orphans and the quarantine still hold. Called at every beat of an
 * attachment that is open; it may end that attachment. */
void kvc_client_reclaim_await(struct kvc_client *c, struct kvc_attachment *s);

#endif
