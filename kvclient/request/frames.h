/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h -- sending frames to servers. Private to kvclient/. All functions run on the client's loop; one parks only
 * if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FRAMES_H
#define KVRAIL_KVCLIENT_REQUEST_FRAMES_H

#include "kvclient/core/client.h"

/* kvc_link_flush -- send what waits on the dirty links. Called by the flusher. */
void kvc_link_flush(struct kvc_client *c);

/* kvc_client_room -- te_handlers.room: a message buffer is free again. arg: the client. */
void kvc_client_room(void *arg);
/* kvc_client_follow -- te_handlers.follow. */
void kvc_client_follow(void *arg);

/* kvc_link_lost -- what a link sent is lost (the fabric says so), or its PING is given up: end it, and take the credits
 * back. The link is not up, so only PINGs are out. */
void kvc_link_lost(struct kvc_link *l, int status);

#endif
