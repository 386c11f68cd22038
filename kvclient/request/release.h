/* SPDX-License-Identifier: Apache-2.0 */
/* release.h -- RELEASE: return leases to servers. Private to kvclient/. On the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_RELEASE_H
#define KVRAIL_KVCLIENT_REQUEST_RELEASE_H

#include "kvclient/core/client.h"

/* kvc_release_add -- return a lease with the link's next frame, or soon. kvc_release_write -- write a frame's RELEASE.
 * kvc_release_end -- forget leases of an ended attachment. kvc_release_fire -- the timer. */
void kvc_release_add(struct kvc_link *l, uint64_t lease);
void kvc_release_write(struct kvc_link *l, struct wire_writer *w);
void kvc_release_end(struct kvc_link *l);
void kvc_release_fire(struct loop_timer *t);

#endif
