/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h -- requests of further sessions on a link: whose turn it is. Private to kvclient/. All of these on the
 * client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANES_H
#define KVRAIL_KVCLIENT_REQUEST_LANES_H

#include "kvclient/core/client.h"

/* kvc_lanes_make -- the lanes of a further session that is open now at the server of s. 0 or -KV_ENOMEM. kvc_lanes_free
 * -- its connection has ended; harmless without lanes. */
int kvc_lanes_make(struct kvc_sub_at *at, const struct kvc_session *s);
void kvc_lanes_free(struct kvc_sub_at *at);

/* kvc_sub_unref -- one reference less: the last one frees it. kvc_sub_free -- whatever refers to it: the client ends.
 */
void kvc_sub_unref(struct kvc_sub *sub);
void kvc_sub_free(struct kvc_sub *sub);

/* kvc_lane_link -- the link that requests of a session to this link's shard go over. kvc_lane_add -- queue a request
 * there. kvc_lane_left -- it left the queue unsent. kvc_lane_credit -- its one reply came, or never will. */
struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r);
void kvc_lane_add(struct kvc_link *l, struct kvc_req *r);
void kvc_lane_left(struct kvc_req *r);
void kvc_lane_credit(struct kvc_req *r);
void kvc_lane_replied(struct kvc_req *r); /* it came, and is counted */

/* kvc_turn_head -- whose turn it is, on a link where further sessions have something to send. kvc_turn_taken -- that
 * request has been sent. */
struct kvc_req *kvc_turn_head(const struct kvc_link *l);
void kvc_turn_taken(struct kvc_link *l, struct kvc_req *r);

/* kvc_frame_switch -- see that the next record of a frame, of request r, is its session's. *whose: of the records so
 * far, NULL: the connection's own. False: there is no room for both. */
bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_sub_at **whose);

#endif
