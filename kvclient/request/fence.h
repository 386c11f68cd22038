/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h -- fences, which make memory safe, and their consequences. Private to kvclient/. On the client's loop; only
 * *_await parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FENCE_H
#define KVRAIL_KVCLIENT_REQUEST_FENCE_H

#include "kvclient/core/client.h"

/* kc_client_fence_await -- afterwards the attachment's shard touches no memory of ours; if endpoints close slowly,
 * after kc_client_fenced_await as well. If the engine can fence one peer, only this attachment ends (-KV_ERESET, safe)
 * and its node attaches again. Else all do. */
void kc_client_fence_await(struct kvc_client *c, struct kc_attachment *s, unsigned shard);
void kc_client_fenced_await(struct kvc_client *c);

/* kc_fence_reset, kc_fence_over -- te_handlers.reset and .fenced: all endpoints are new; the old endpoints are
 * closed. arg: the client. */
void kc_fence_reset(void *arg, int status);
void kc_fence_over(void *arg);

/* Peers of an ended attachment stay open until a fence, while the server may write to our memory. kc_zombies_room --
 * whether n more can be kept. kc_zombie_keep -- keep one. kc_zombies_close -- close them: memory is safe, or the
 * engine ends. Outside of coroutines. */
bool kc_zombies_room(const struct kvc_client *c, unsigned n);
void kc_zombie_keep(struct kvc_client *c, struct te_peer *peer);
void kc_zombies_close(struct kvc_client *c);

/* kc_client_reclaim_await -- reclaim memory of old orphans and the quarantine. At every beat of an open attachment;
 * may end it. */
void kc_client_reclaim_await(struct kvc_client *c, struct kc_attachment *s);

/* ---- quarantine.c ---- */

/* kc_client_quarantine_full -- whether more_bytes would exceed it. */
bool kc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes);

void kc_client_quarantine_count(struct kvc_client *c);

/* kc_quarantine_take -- move the request's piece to quarantine. */
void kc_quarantine_take(struct kvc_client *c, struct kc_req *r);

#endif
