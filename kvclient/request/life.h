/* SPDX-License-Identifier: Apache-2.0 */
/* life.h -- the life of a request: submitted, cancelled, ended, released. Private to kvclient/. On the client's loop;
 * none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LIFE_H
#define KVRAIL_KVCLIENT_REQUEST_LIFE_H

#include "kvclient/core/client.h"

/* kc_req_submit -- queue a held request with `wire` filled (except id, time and immediate). Raises wait->left; when
 * done, lowers it and wakes wait->co. wait and the memory of `wire` stay the caller's until then, or until the
 * release. */
void kc_req_submit(struct kc_link *l, struct kc_req *r, struct kc_wait *wait);

/* kc_req_submit_first -- the same for a PING, before all others, with the reserved credits. */
void kc_req_submit_first(struct kc_link *l, struct kc_req *r, struct kc_wait *wait);

/* kc_req_cancel -- give up. A queued request ends at once with `status`; a sent one causes a CANCEL. */
void kc_req_cancel(struct kc_req *r, int status);

/* kc_req_release -- release a request in any state; an unsafe piece is kept. A request into the caller's memory must
 * be done. */
void kc_req_release(struct kvc_client *c, struct kc_req *r);

/* kc_req_end -- end it with this status, unless done; leave the link if no message can name it. */
void kc_req_end(struct kvc_client *c, struct kc_req *r, int status);

/* kc_req_settle -- after any arrival for a sent request: end it if complete. */
void kc_req_settle(struct kvc_client *c, struct kc_req *r);

#endif
