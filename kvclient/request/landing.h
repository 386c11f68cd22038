/* SPDX-License-Identifier: Apache-2.0 */
/* landing.h -- PUTs whose bytes we write to a server's landing area. Private to kvclient/. On the client's loop; none
 * parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_LANDING_H
#define KVRAIL_KVCLIENT_REQUEST_LANDING_H

#include "kvclient/core/client.h"

struct kc_landing {
	struct te_remote remote; /* over the fabric */
	struct kc_buffer pieces; /* places of the area; len_bytes 0: there is none; base: it is mapped here */
	uint32_t placed;
	uint64_t lent_bytes; /* of a mapped area: places that callers fill */
};

/* Our write, the engine's until `done`, even without its request. */
struct kc_push {
	struct te_xfer xfer;
	struct kv_list node;  /* in the free list */
	struct kc_req *req;   /* NULL: no request waits */
	struct kc_link *link; /* its attachment is referenced for the area's keys */
};

/* kc_pushes_init -- make a client's writes; repeatable. 0 or -KV_ENOMEM. kc_pushes_fini -- free them, if made. */
int kc_pushes_init(struct kvc_client *c);
void kc_pushes_fini(struct kvc_client *c);

/* kc_landings_free -- of all shards. *landing becomes NULL, and may be NULL. */
void kc_landings_free(struct kc_landing **landing, unsigned shards);

/* kc_landing_max -- the largest range in bytes for this shard; 0: no landing area. */
uint64_t kc_landing_max(const struct kc_attachment *s, unsigned shard);

bool kc_landings_all(const struct kc_attachment *s);

/* kc_landing_lend -- a place for a caller to fill, of a mapped area; at most half of it is lent. 0, -KV_EBUSY (not
 * now), -KV_ETOOBIG (never). kc_landing_return -- take it back. kc_landing_has -- whether [at, at + len) lies in a
 * mapped area, and where. */
int kc_landing_lend(struct kc_attachment *s, unsigned shard, uint64_t len, struct kc_piece *out);
void kc_landing_return(struct kc_attachment *s, unsigned shard, struct kc_piece *piece);
bool kc_landing_has(const struct kc_attachment *s, unsigned shard, const void *at, uint64_t len, uint64_t *out_offset);

/* kc_push_place -- give r, next on its link, a place, in r->wire.dest. 0. -KV_EBUSY: none now; a new attachment begins
 * if lost frames hold all. */
int kc_push_place(struct kc_link *l, struct kc_req *r);

/* kc_push_park -- set r, without a place, aside until one may be free. False: a lane's request, its link is stuck
 * until then. */
bool kc_push_park(struct kc_link *l, struct kc_req *r);

/* kc_push_displace -- return the place: r is not sent now. */
void kc_push_displace(struct kc_link *l, struct kc_req *r);

/* kc_push_start -- write its bytes. Between te_order_begin and te_order_end. 0: its message must follow. -KV_EBUSY:
 * not now; the link is stuck. */
int kc_push_start(struct kvc_client *c, struct kc_link *l, struct kc_req *r);

/* kc_push_landed -- the server's answer freed the place. */
void kc_push_landed(struct kc_req *r, struct kc_link *l);

/* kc_landing_lost -- a place is lost. Without answers to come, waiting PUTs look again, and begin a new attachment. */
void kc_landing_lost(struct kc_link *l);

/* kc_push_lost -- the request ends without an answer: this attachment never reuses its place. */
void kc_push_lost(struct kc_req *r, struct kc_link *l);

/* kc_push_leave -- detach the request from its write: its memory is handled elsewhere. Harmless without one. */
void kc_push_leave(struct kvc_client *c, struct kc_req *r);

/* kc_push_stick -- the link's head cannot be posted now. kc_push_unpark -- retry this shard's links. kc_push_later
 * -- retry all by the timer. */
void kc_push_stick(struct kvc_client *c, struct kc_link *l);
void kc_push_unpark(struct kc_link *l);
void kc_push_later(struct kvc_client *c);

/* kc_push_again -- the timer kc_out.again: retry stuck links. */
void kc_push_again(struct loop_timer *t);

#endif
