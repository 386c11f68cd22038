/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h -- what comes back from servers: frames of replies, and immediates. Private to kvclient/. All functions run
 * on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_REPLY_H
#define KVRAIL_KVCLIENT_REQUEST_REPLY_H

#include "kvclient/core/client.h"

/* kvc_client_message, kvc_client_immediate -- te_handlers: a frame, and an immediate, have arrived. arg: the client. */
void kvc_client_message(void *arg, unsigned rail, const uint8_t *data, size_t len);
void kvc_client_immediate(void *arg, unsigned rail, uint32_t imm);

#endif
