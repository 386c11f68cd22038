/* SPDX-License-Identifier: Apache-2.0 */
/* release.h -- RELEASE: giving leases back to the servers. Private to kvclient/. All functions run on the client's
 * loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_RELEASE_H
#define KVRAIL_KVCLIENT_REQUEST_RELEASE_H

#include "kvclient/core/client.h"

/* kvc_release_add -- give a lease back with the link's next frame, or soon. kvc_release_write -- write what is to be
 * given back into a frame that is being filled. kvc_release_end -- the link's attachment is over, and its leases with
 * it. kvc_release_fire -- the timer: leases have waited long enough. */
void kvc_release_add(struct kvc_link *l, uint64_t lease);
void kvc_release_write(struct kvc_link *l, struct wire_writer *w);
void kvc_release_end(struct kvc_link *l);
void kvc_release_fire(struct loop_timer *t);

#endif
