/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h -- frames of replies and immediates from servers. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_REPLY_H
#define KVRAIL_KVCLIENT_REQUEST_REPLY_H

#include "kvclient/core/client.h"

/* kc_client_message, kc_client_immediate -- te_handlers: a frame or an immediate arrived. arg: the client. */
void kc_client_message(void *arg, unsigned rail, const uint8_t *data, size_t len);
void kc_client_immediate(void *arg, unsigned rail, uint32_t imm);

#endif
