/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h -- memory that peers may still write to, and how much of it there may be. Private to kvclient/. All of
 * these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H
#define KVRAIL_KVCLIENT_REQUEST_QUARANTINE_H

#include "kvclient/core/client.h"

/* kvc_client_quarantine_full -- whether the budget for memory that peers may still write to is used up. */
bool kvc_client_quarantine_full(const struct kvc_client *c, uint64_t more_bytes);

/* kvc_client_quarantine_count -- how much there is has changed: show it in the counters. */
void kvc_client_quarantine_count(struct kvc_client *c);

/* kvc_quarantine_take -- the request's piece goes there, and is the request's no longer. */
void kvc_quarantine_take(struct kvc_client *c, struct kvc_req *r);

#endif
