/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h -- frames on their way out. Private to kvclient/. All of these on the client's loop; what does not end in
 * _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_FRAMES_H
#define KVRAIL_KVCLIENT_REQUEST_FRAMES_H

#include "kvclient/core/client.h"

/* kvc_link_flush -- send what waits on the dirty links. On the loop, from the flusher. Does not park. */
void kvc_link_flush(struct kvc_client *c);

/* kvc_client_room -- te_handlers.room: a message buffer is free again. arg: the client. */
void kvc_client_room(void *arg);

/* kvc_link_lost -- what a link that is not up has sent is lost, as the fabric says: only PINGs. */
void kvc_link_lost(struct kvc_link *l, int status);

#endif
