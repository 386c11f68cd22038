/* SPDX-License-Identifier: Apache-2.0 */
/* requests.h -- a client's data of kvclient/request/, its sending coroutine, and the engine's handlers. Private to
 * kvclient/. On the client's loop. */
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

/* ---- frames.c ---- */

/* kc_link_flush -- send the work of dirty links, for the flusher. */
void kc_link_flush(struct kvc_client *c);

/* kc_client_room -- te_handlers.room: a message buffer is free. arg: the client. */
void kc_client_room(void *arg);
/* kc_client_follow -- te_handlers.follow. */
void kc_client_follow(void *arg);

/* kc_link_lost -- the link's messages were lost, or its PING given up: end them, and restore the credits. The link is
 * not up, so only PINGs are out. */
void kc_link_lost(struct kc_link *l, int status);

/* ---- reply.c ---- */

/* kc_client_message, kc_client_immediate -- te_handlers: a frame or an immediate arrived. arg: the client. */
void kc_client_message(void *arg, unsigned rail, const uint8_t *data, size_t len);
void kc_client_immediate(void *arg, unsigned rail, uint32_t imm);
/* kc_client_local -- te_handlers.local: a frame came through a peer's channel. arg: the client. */
void kc_client_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len);

#endif
