/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h -- pieces of the buffer that peers may still write to, and their limit. Private to kvclient/. On the
 * client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H
#define KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H

#include "kvclient/core/client.h"

/* kc_client_quarantine_full -- whether more_bytes would exceed it. */
bool kc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes);

void kc_client_quarantine_count(struct kvc_client *c);

/* kc_quarantine_take -- move the request's piece to quarantine. */
void kc_quarantine_take(struct kvc_client *c, struct kc_req *r);

#endif
