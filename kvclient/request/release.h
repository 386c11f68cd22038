/* SPDX-License-Identifier: Apache-2.0 */
/* release.h -- RELEASE: return leases to servers. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_RELEASE_H
#define KVRAIL_KVCLIENT_REQUEST_RELEASE_H

#include "kvclient/core/client.h"

/* kc_release_add -- return a lease with the link's next frame, or soon. kc_release_write -- write a frame's RELEASE.
 * kc_release_end -- forget leases of an ended attachment. kc_release_fire -- the timer. */
void kc_release_add(struct kc_link *l, uint64_t lease);
void kc_release_write(struct kc_link *l, struct wire_writer *w);
void kc_release_end(struct kc_link *l);
void kc_release_fire(struct loop_timer *t);

#endif
