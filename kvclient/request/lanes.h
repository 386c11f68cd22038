/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h -- lanes: requests of further sessions on a link, in turns. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANES_H
#define KVRAIL_KVCLIENT_REQUEST_LANES_H

#include "kvclient/core/client.h"

/* kvc_lanes_make -- make the lanes of a session opened at the server of s. 0 or -KV_ENOMEM. kvc_lanes_free -- at the
 * connection's end. Harmless without lanes. */
int kvc_lanes_make(struct kvc_session_at *at, const struct kvc_attachment *s);
void kvc_lanes_free(struct kvc_session_at *at);

/* kvc_session_part_make -- its part at a server, made if missing. NULL: no memory. kvc_session_part_init -- initialise
 * a zeroed one. */
struct kvc_session_at *kvc_session_part_make(struct kvc_session *session, unsigned server);
void kvc_session_part_init(struct kvc_session *session, struct kvc_session_at *at, unsigned server);

/* kvc_session_unref -- drop a reference; the last one frees it. kvc_session_free -- free it with the client, despite
 * references. */
void kvc_session_unref(struct kvc_session *session);
void kvc_session_free(struct kvc_session *session);

/* kvc_lane_link -- the session's link to this link's shard. kvc_lane_add -- queue a request in its lane. kvc_lane_left
 * -- it left unsent, and its session. kvc_lane_credit -- a sent one returns its credit and leaves its session.
 * kvc_lane_replied -- the same, and count the reply. */
struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r);
void kvc_lane_add(struct kvc_link *l, struct kvc_req *r);
void kvc_lane_left(struct kvc_req *r);
void kvc_lane_credit(struct kvc_req *r);
void kvc_lane_replied(struct kvc_req *r);

/* kvc_turn_head -- the next request of a link with lanes. kvc_turn_taken -- it was sent. */
struct kvc_req *kvc_turn_head(const struct kvc_link *l);
void kvc_turn_taken(struct kvc_link *l, struct kvc_req *r);

/* kvc_frame_switch -- write a SESSION record before r, of another session. *whose: the last record's session, becomes
 * r's; NULL: the connection's own. False: no room for both records. */
bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_session_at **whose);

#endif
