/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- packs: small values of PUTs, written to a landing area together. Private to kvclient/. On the client's
 * loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PACK_H
#define KVRAIL_KVCLIENT_REQUEST_PACK_H

#include "kvclient/core/client.h"

struct wire_writer;

enum {
	KVC_PACKS = 64,            /* of a client, being written or unanswered */
	KVC_PACK_BYTES = 64 << 10, /* of one */
	KVC_PACK_VALUE = 16 << 10, /* of a value: copying more costs as much as its own write */
	KVC_PACK_SMALL = 512       /* a batch sends values up to here in their requests */
};

/* Values of adjacent requests on a link. Memory and place stay the pack's until all requests are answered and the write
 * is done. */
struct kvc_pack {
	struct te_xfer xfer;
	struct kv_list node;   /* in the free list */
	struct kvc_link *link; /* its attachment is referenced during the write */
	struct kvc_piece place;
	uint32_t index, bytes;
	uint32_t left; /* requests that may be answered */
	bool writing;
	bool lost; /* an answer will not come: this attachment never reuses the place */
};

/* kvc_packs_open -- make a client's packs, if its fabric has ordered writes. 0 or a code with *err, nothing left
 * behind. kvc_packs_fini -- free them, if made, after the engine closed with the region. */
int kvc_packs_open(struct kvc_client *c, struct kv_error *err);
void kvc_packs_fini(struct kvc_client *c);

/* kvc_packs_close -- close the region before the engine, after a failed opening. */
void kvc_packs_close(struct kvc_client *c);

/* kvc_pack_max -- the largest value in bytes for packs of this shard; 0: none. */
uint64_t kvc_pack_max(const struct kvc_attachment *s, unsigned shard);

/* kvc_pack_make -- pack r, next on its link with mem.small, and those behind it while they fit the pack and the frame
 * w. Each gets mem.pack and wire.dest. switches: a SESSION record precedes r. 0. 1: no pack or place now. -KV_EBUSY:
 * the frame is full. kvc_pack_unmake -- undo, before the write. */
int kvc_pack_make(struct kvc_link *l, const struct wire_writer *w, struct kvc_req *r, bool switches, uint64_t now_ns);
void kvc_pack_unmake(struct kvc_link *l, struct kvc_req *r);

/* kvc_pack_write -- write r's pack. Between te_order_begin and te_order_end. 0: its message must follow. -KV_EBUSY: not
 * now; the link is stuck. */
int kvc_pack_write(struct kvc_link *l, const struct kvc_req *r);

/* kvc_pack_answered -- the server answered r. kvc_pack_lost -- r ends without an answer. Harmless without a pack. */
void kvc_pack_answered(struct kvc_req *r, struct kvc_link *l);
void kvc_pack_lost(struct kvc_req *r);

#endif
