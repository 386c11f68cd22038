/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h -- PUTs whose bytes we write to a server's landing area. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANDING_H
#define KVRAIL_KVCLIENT_REQUEST_LANDING_H

#include "kvclient/core/client.h"

/* Our landing area on one shard. */
struct kvc_landing {
	struct te_remote remote;  /* len_bytes 0: none */
	struct kvc_buffer pieces; /* places of the area */
	uint32_t placed;          /* places of requests that may be answered */
};

/* Our write, the engine's until `done`, even without its request. */
struct kvc_push {
	struct te_xfer xfer;
	struct kv_list node;   /* in the free list */
	struct kvc_req *req;   /* NULL: no request waits */
	struct kvc_link *link; /* its attachment is referenced for the area's keys */
};

/* kvc_pushes_init -- make a client's writes; repeatable. 0 or -KV_ENOMEM. kvc_pushes_fini -- free them, if made. */
int kvc_pushes_init(struct kvc_client *c);
void kvc_pushes_fini(struct kvc_client *c);

/* kvc_landing_max -- the largest range in bytes for this shard; 0: no landing area. */
uint64_t kvc_landing_max(const struct kvc_attachment *s, unsigned shard);

bool kvc_landings_all(const struct kvc_attachment *s);

/* kvc_push_place -- give r, next on its link, a place, in r->wire.dest. 0. -KV_EBUSY: none now; a new attachment begins
 * if lost frames hold all. */
int kvc_push_place(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_park -- set r, without a place, aside until one may be free. False: a lane's request, its link is stuck
 * until then. */
bool kvc_push_park(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_displace -- return the place: r is not sent now. */
void kvc_push_displace(struct kvc_link *l, struct kvc_req *r);

/* kvc_push_start -- write its bytes. Between te_order_begin and te_order_end. 0: its message must follow. -KV_EBUSY:
 * not now; the link is stuck. */
int kvc_push_start(struct kvc_client *c, struct kvc_link *l, struct kvc_req *r);

/* kvc_push_landed -- the server's answer freed the place. */
void kvc_push_landed(struct kvc_req *r, struct kvc_link *l);

/* kvc_landing_lost -- a place is lost. Without answers to come, waiting PUTs look again, and begin a new attachment. */
void kvc_landing_lost(struct kvc_link *l);

/* kvc_push_lost -- the request ends without an answer: this attachment never reuses its place. */
void kvc_push_lost(struct kvc_req *r, struct kvc_link *l);

/* kvc_push_leave -- detach the request from its write: its memory is handled elsewhere. Harmless without one. */
void kvc_push_leave(struct kvc_client *c, struct kvc_req *r);

/* kvc_push_stick -- the link's head cannot be posted now. kvc_push_unpark -- retry this shard's links. kvc_push_later
 * -- retry all by the timer. */
void kvc_push_stick(struct kvc_client *c, struct kvc_link *l);
void kvc_push_unpark(struct kvc_link *l);
void kvc_push_later(struct kvc_client *c);

/* kvc_push_again -- the timer kvc_out.again: retry stuck links. */
void kvc_push_again(struct loop_timer *t);

#endif
