/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h -- packs: small values of PUTs, written to a landing area as one. Private to kvclient/. All of these on the
 * client's loop; none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_PACK_H
#define KVRAIL_KVCLIENT_REQUEST_PACK_H

#include "kvclient/core/client.h"

struct wire_writer;

enum {
	KVC_PACKS = 64,            /* of a client, being written or not answered yet */
	KVC_PACK_BYTES = 64 << 10, /* of one */
	KVC_PACK_VALUE = 16 << 10, /* of a value: a copy of more costs as much as a write of its own */
	KVC_PACK_SMALL = 512       /* values of a batch up to here go inside their requests */
};

/* Values of requests that are next to each other on their link. Its memory, and its place in the landing area, are the
 * pack's until every request is answered and the write is done. */
struct kvc_pack {
	struct te_xfer xfer;
	struct kv_list node;   /* of the free ones */
	struct kvc_link *link; /* while the write is under way, its attachment is held by a reference */
	struct kvc_piece place;
	uint32_t index, bytes;
	uint32_t left; /* requests whose answer may come */
	bool writing;
	bool lost; /* an answer will not come: the place is not used again in this attachment */
};

/* kvc_packs_open -- memory and packs of a client, if its fabric has ordered writes. 0 or a code with *err, and nothing
 * left behind. kvc_packs_fini -- free them; the engine is closed, and the region went with it. Packs that were never
 * made are fine. */
int kvc_packs_open(struct kvc_client *c, struct kv_error *err);
void kvc_packs_fini(struct kvc_client *c);

/* kvc_packs_close -- close the region before the engine: the client could not be opened. */
void kvc_packs_close(struct kvc_client *c);

/* kvc_pack_max -- bytes of the largest value that may go with others to this shard; 0: none may. */
uint64_t kvc_pack_max(const struct kvc_attachment *s, unsigned shard);

/* kvc_pack_make -- r, a PUT with mem.small, is next on its link: put its value into a new pack, and those of the
 * requests behind it as far as they are small and fit in the pack and in the frame w. Each gets mem.pack, and its place
 * in wire.dest. switches: a SESSION record goes before r. 0. 1: there is no pack or no place now. -KV_EBUSY: the frame
 * is full. kvc_pack_unmake -- the opposite, of a pack that was not written. */
int kvc_pack_make(struct kvc_link *l, const struct wire_writer *w, struct kvc_req *r, bool switches, uint64_t now_ns);
void kvc_pack_unmake(struct kvc_link *l, struct kvc_req *r);

/* kvc_pack_write -- write the pack of r. Between te_order_begin and te_order_end. 0: the message with its requests must
 * follow. -KV_EBUSY: not now; the link is stuck. */
int kvc_pack_write(struct kvc_link *l, const struct kvc_req *r);

/* kvc_pack_answered -- the server has answered r. kvc_pack_lost -- r ends, and its answer will not come. Harmless on a
 * request without a pack. */
void kvc_pack_answered(struct kvc_req *r, struct kvc_link *l);
void kvc_pack_lost(struct kvc_req *r);

#endif
