/* SPDX-License-Identifier: Apache-2.0 */
/* events.h -- a follower of the servers' events. Private to kvclient/. On the client's loop. */
#ifndef KVRAIL_KVCLIENT_CALL_EVENTS_H
#define KVRAIL_KVCLIENT_CALL_EVENTS_H

#include "kvclient/core/client.h"

/* kc_events_came -- a server has answered. kc_events_fini -- end the client's follower, if any. */
void kc_events_came(struct kc_node *n, const struct wire_events *v);
void kc_events_fini(struct kvc_client *c);

#endif
