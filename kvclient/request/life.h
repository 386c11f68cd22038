/* SPDX-License-Identifier: Apache-2.0 */
/* life.h -- the life of a request: submitted, cancelled, ended, released. Private to kvclient/. All functions run on
 * the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LIFE_H
#define KVRAIL_KVCLIENT_REQUEST_LIFE_H

#include "kvclient/core/client.h"

/* kvc_req_submit -- queue a held request whose `wire` is filled (but for id, time and immediate). wait->left is raised;
 * it falls when the request is done, and wait->co is woken. wait, and what `wire` points to, are the caller's and stay
 * until then, or until the request is released. */
void kvc_req_submit(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait);

/* kvc_req_submit_first -- the same for a PING: it goes before all that waits, and may use the reserved credits. */
void kvc_req_submit_first(struct kvc_link *l, struct kvc_req *r, struct kvc_wait *wait);

/* kvc_req_cancel -- the call gives up. A queued request ends at once with `status`; for one that was sent a CANCEL goes
 * out. */
void kvc_req_cancel(struct kvc_req *r, int status);

/* kvc_req_release -- the call has no more use for a request in any state. A piece that may still be written to is kept
 * until it is safe. A request over caller memory must be done. */
void kvc_req_release(struct kvc_client *c, struct kvc_req *r);

/* kvc_req_end -- it is done with this status (if it was not), and leaves the link if no message can name it any more.
 */
void kvc_req_end(struct kvc_client *c, struct kvc_req *r, int status);

/* kvc_req_settle -- something came for a request that was sent: end it if that was all. */
void kvc_req_settle(struct kvc_client *c, struct kvc_req *r);

#endif
