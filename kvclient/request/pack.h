/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- packs: small values of PUTs, written to a landing area together. Private to kvclient/. On the client's
 * loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PACK_H
#define KVRAIL_KVCLIENT_REQUEST_PACK_H

#include "kvclient/core/client.h"

struct wire_writer;

enum {
	KC_PACKS = 64,            /* of a client, being written or unanswered */
	KC_PACK_BYTES = 64 << 10, /* of one */
	KC_PACK_VALUE = 16 << 10, /* of a value: copying more costs as much as its own write */
	KC_PACK_SMALL = 512       /* a batch sends values up to here in their requests */
};

/* Values of adjacent requests on a link. Memory and place stay the pack's until all requests are answered and the write
 * is done. */
struct kc_pack {
	struct te_xfer xfer;
	struct kv_list node;  /* in the free list */
	struct kc_link *link; /* its attachment is referenced during the write */
	struct kc_piece place;
	uint32_t index, bytes;
	uint32_t left; /* requests that may be answered */
	bool writing;
	bool lost; /* an answer will not come: this attachment never reuses the place */
};

/* kc_packs_open -- make a client's packs, if its fabric has ordered writes. 0 or a code with *err, nothing left
 * behind. kc_packs_fini -- free them, if made, after the engine closed with the region. */
int kc_packs_open(struct kvc_client *c, struct kv_error *err);
void kc_packs_fini(struct kvc_client *c);

/* kc_packs_close -- close the region before the engine, after a failed opening. */
void kc_packs_close(struct kvc_client *c);

/* kc_pack_max -- the largest value in bytes for packs of this shard; 0: none. */
uint64_t kc_pack_max(const struct kc_attachment *s, unsigned shard);

/* kc_pack_make -- pack r, next on its link with mem.small, and those behind it while they fit the pack and the frame
 * w. Each gets mem.pack and wire.dest. switches: a SESSION record precedes r. 0. 1: no pack or place now. -KV_EBUSY:
 * the frame is full. kc_pack_unmake -- undo, before the write. */
int kc_pack_make(struct kc_link *l, const struct wire_writer *w, struct kc_req *r, bool switches, uint64_t now_ns);
void kc_pack_unmake(struct kc_link *l, struct kc_req *r);

/* kc_pack_write -- write r's pack. Between te_order_begin and te_order_end. 0: its message must follow. -KV_EBUSY: not
 * now; the link is stuck. */
int kc_pack_write(struct kc_link *l, const struct kc_req *r);

/* kc_pack_answered -- the server answered r. kc_pack_lost -- r ends without an answer. Harmless without a pack. */
void kc_pack_answered(struct kc_req *r, struct kc_link *l);
void kc_pack_lost(struct kc_req *r);

#endif
