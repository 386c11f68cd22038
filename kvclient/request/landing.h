/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h -- PUTs whose bytes we write to the server's landing area ourselves. Private to kvclient/. All of these on
 * the client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANDING_H
#define KVRAIL_KVCLIENT_REQUEST_LANDING_H

#include "kvclient/core/client.h"

/* Our landing area on one shard. */
struct kvc_landing {
	struct te_remote remote;  /* len_bytes 0: none */
	struct kvc_buffer pieces; /* of it, as they are in use */
	uint32_t placed;          /* places whose requests may be answered */
};

/* A write of ours. From its start until `done` ran it is the engine's, whatever becomes of the request. */
struct kvc_push {
	struct te_xfer xfer;
	struct kv_list node;   /* of the free ones */
	struct kvc_req *req;   /* NULL: its request waits for it no more */
	struct kvc_link *link; /* its attachment is held by a reference: the area's keys are there */
};

/* kvc_pushes_init -- room for the writes of a client; any number of times. 0 or -KV_ENOMEM. kvc_pushes_fini -- free it;
 * one that was never made is fine. */
int kvc_pushes_init(struct kvc_client *c);
void kvc_pushes_fini(struct kvc_client *c);

/* kvc_landing_max -- bytes of the largest range that may land on this shard; 0: it has no landing area. */
uint64_t kvc_landing_max(const struct kvc_attachment *s, unsigned shard);

/* kvc_landings_all -- whether there is one on every shard. */
bool kvc_landings_all(const struct kvc_attachment *s);

/* kvc_push_place -- r, a PUT that lands, is next on its link: take its place in the landing area, and name it in
 * r->wire.dest. 0. -KV_EBUSY: there is none now. If lost frames have all places, a new attachment is begun. */
int kvc_push_place(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_park -- r, which is next, has no place, or comes behind one that has none: let the others on its link pass.
 * It is queued again, in its turn, when there may be a place. False: it is a lane's; the link is stuck until then. */
bool kvc_push_park(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_displace -- it is not sent now: its place is free again. */
void kvc_push_displace(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_start -- write its bytes to its place. Between te_order_begin and te_order_end. 0: the message that says so
 * must follow. -KV_EBUSY: not now; the link is stuck. */
int kvc_push_start(struct kvc_client *c, struct kvc_link *l, struct kvc_req *r);

/* kvc_push_landed -- the server has answered: it needs the place no more. */
void kvc_push_landed(struct kvc_req *r, struct kvc_link *l);

/* kvc_landing_lost -- a place is lost to this attachment. If there is none whose answer may come, PUTs that wait for
 * one look again, so that a new attachment is begun. */
void kvc_landing_lost(struct kvc_link *l);

/* kvc_push_lost -- the request ends, and its answer will not come: its place is not used again in this attachment. */
void kvc_push_lost(struct kvc_req *r, struct kvc_link *l);

/* kvc_push_leave -- the request does not wait for its write's end: somebody else has seen to its memory. Harmless on a
 * request without one. */
void kvc_push_leave(struct kvc_client *c, struct kvc_req *r);

/* kvc_push_stick -- the request at the head of this link cannot be posted now. kvc_push_unpark -- there is room in the
 * landing area again, for the links of this shard. kvc_push_later -- there is not, for a reason that no link hears of
 * the end of: the timer has all of them tried again. */
void kvc_push_stick(struct kvc_client *c, struct kvc_link *l);
void kvc_push_unpark(struct kvc_link *l);
void kvc_push_later(struct kvc_client *c);

/* kvc_push_again -- the loop's timer (kvc_out.again): links that are stuck for no reason of their own are tried again.
 */
void kvc_push_again(struct loop_timer *t);

#endif
