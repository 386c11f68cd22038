/* SPDX-License-Identifier: Apache-2.0 */
/* view_ask.h -- when a client asks a server for its view of the cluster. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_ROUTE_VIEW_ASK_H
#define KVRAIL_KVCLIENT_ROUTE_VIEW_ASK_H

#include "base/base.h"

#define KC_ASK_PATIENCE_NS 250000000ull /* then ask another server */

struct kc_asking {
	uint64_t asked_ns; /* last question; 0: none */
};

/* kc_asking_now -- one of `servers` announces the wanted view, or a beat has passed: whether to ask it now. random:
 * new each time. kc_asking_over -- another view is wanted, or none. */
bool kc_asking_now(struct kc_asking *a, unsigned servers, uint64_t now_ns, uint64_t random);
static inline void kc_asking_over(struct kc_asking *a)
{
	*a = (struct kc_asking){0};
}

#endif
