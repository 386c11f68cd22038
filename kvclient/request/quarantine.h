/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h -- pieces of the buffer that peers may still write to, and how many bytes of them there may be. Private
 * to kvclient/. All functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H
#define KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H

#include "kvclient/core/client.h"

/* kvc_client_quarantine_full -- whether more_bytes would exceed what peers may still write to. */
bool kvc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes);

/* kvc_client_quarantine_count -- the bytes have changed: show them in the counters. */
void kvc_client_quarantine_count(struct kvc_client *c);

/* kvc_quarantine_take -- the request's piece goes to quarantine and is the request's no longer. */
void kvc_quarantine_take(struct kvc_client *c, struct kvc_req *r);

#endif
