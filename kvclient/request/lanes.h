/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h -- lanes: requests of further sessions on a link, and whose turn it is. Private to kvclient/. All functions
 * run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANES_H
#define KVRAIL_KVCLIENT_REQUEST_LANES_H

#include "kvclient/core/client.h"

/* kvc_lanes_make -- make the lanes of a further session that is open now at the server of s. 0 or -KV_ENOMEM.
 * kvc_lanes_free -- its connection has ended. Harmless without lanes. */
int kvc_lanes_make(struct kvc_session_at *at, const struct kvc_attachment *s);
void kvc_lanes_free(struct kvc_session_at *at);

/* kvc_session_part_make -- its part at a server, made if there is none. NULL: no memory. kvc_session_part_init -- what
 * a new one, zeroed, begins with. */
struct kvc_session_at *kvc_session_part_make(struct kvc_session *session, unsigned server);
void kvc_session_part_init(struct kvc_session *session, struct kvc_session_at *at, unsigned server);

/* kvc_session_unref -- one reference less; the last one frees the session. kvc_session_free -- free it whatever refers
 * to it: the client ends. */
void kvc_session_unref(struct kvc_session *session);
void kvc_session_free(struct kvc_session *session);

/* kvc_lane_link -- the link that requests of the session to this link's shard go over.
 * kvc_lane_add -- queue a request in its lane.
 * kvc_lane_left -- it has left the queue unsent, and its session.
 * kvc_lane_credit -- one that was sent gives its credit back: its reply came, or never will. It leaves its session.
 * kvc_lane_replied -- the same, and the reply is counted. */
struct kvc_link *kvc_lane_link(struct kvc_link *l, const struct kvc_req *r);
void kvc_lane_add(struct kvc_link *l, struct kvc_req *r);
void kvc_lane_left(struct kvc_req *r);
void kvc_lane_credit(struct kvc_req *r);
void kvc_lane_replied(struct kvc_req *r);

/* kvc_turn_head -- the request whose turn it is, on a link where further sessions have something to send.
 * kvc_turn_taken -- that request has been sent. */
struct kvc_req *kvc_turn_head(const struct kvc_link *l);
void kvc_turn_taken(struct kvc_link *l, struct kvc_req *r);

/* kvc_frame_switch -- the next record of a frame is request r, of another session than the records so far: write a
 * SESSION record first. *whose: the session of the records so far, which becomes that of r; NULL: the connection's own.
 * False: there is no room for both records. */
bool kvc_frame_switch(struct wire_writer *w, const struct kvc_req *r, const struct kvc_session_at **whose);

#endif
