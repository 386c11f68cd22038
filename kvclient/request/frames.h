/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h -- send frames to servers. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FRAMES_H
#define KVRAIL_KVCLIENT_REQUEST_FRAMES_H

#include "kvclient/core/client.h"

/* kc_link_flush -- send the work of dirty links, for the flusher. */
void kc_link_flush(struct kvc_client *c);

/* kc_client_room -- te_handlers.room: a message buffer is free. arg: the client. */
void kc_client_room(void *arg);
/* kc_client_follow -- te_handlers.follow. */
void kc_client_follow(void *arg);

/* kc_link_lost -- the link's messages were lost, or its PING given up: end them, and restore the credits. The link is
 * not up, so only PINGs are out. */
void kc_link_lost(struct kc_link *l, int status);

#endif
