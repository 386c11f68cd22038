/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h -- lanes: requests of further sessions on a link, in turns. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANES_H
#define KVRAIL_KVCLIENT_REQUEST_LANES_H

#include "kvclient/core/client.h"

/* kc_lanes_make -- make the lanes of a session opened at the server of s. 0 or -KV_ENOMEM. kc_lanes_free -- at the
 * connection's end. Harmless without lanes. */
int kc_lanes_make(struct kc_session_at *at, const struct kc_attachment *s);
void kc_lanes_free(struct kc_session_at *at);

/* kc_session_part_make -- its part at a server, made if missing. NULL: no memory. kc_session_part_init -- initialise
 * a zeroed one. */
struct kc_session_at *kc_session_part_make(struct kvc_session *session, unsigned server);
void kc_session_part_init(struct kvc_session *session, struct kc_session_at *at, unsigned server);

/* kc_session_unref -- drop a reference; the last one frees it. kc_session_free -- free it with the client, despite
 * references. */
void kc_session_unref(struct kvc_session *session);
void kc_session_free(struct kvc_session *session);

/* kc_lane_link -- the session's link to this link's shard. kc_lane_add -- queue a request in its lane. kc_lane_left
 * -- it left unsent, and its session. kc_lane_credit -- a sent one returns its credit and leaves its session.
 * kc_lane_replied -- the same, and count the reply. */
struct kc_link *kc_lane_link(struct kc_link *l, const struct kc_req *r);
void kc_lane_add(struct kc_link *l, struct kc_req *r);
void kc_lane_left(struct kc_req *r);
void kc_lane_credit(struct kc_req *r);
void kc_lane_replied(struct kc_req *r);

/* kc_turn_head -- the next request of a link with lanes. kc_turn_taken -- it was sent, with a
 * credit of its session. */
struct kc_req *kc_turn_head(const struct kc_link *l);
void kc_turn_taken(struct kc_link *l, struct kc_req *r);

/* kc_frame_switch -- write a SESSION record before r, of another session. *whose: the last record's session, becomes
 * r's; NULL: the connection's own. False: no room for both records. */
bool kc_frame_switch(struct wire_writer *w, const struct kc_req *r, const struct kc_session_at **whose);

#endif
