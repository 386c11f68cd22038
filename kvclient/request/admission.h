/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h -- what a request needs before it is made, all or nothing, first come first served. Private to kvclient/.
 * All of these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ADMISSION_H
#define KVRAIL_KVCLIENT_REQUEST_ADMISSION_H

#include "kvclient/core/client.h"

struct kvc_need {
	uint64_t piece_bytes; /* 0: no piece */
	uint64_t *next;       /* where the piece is to be, if possible (kvc_buffer_take_near); NULL: anywhere */
	uint32_t imms;        /* immediates at worst */
	bool urgent;          /* a PING: needs an entry alone, of those that are kept for it, and waits behind nobody */
	struct kvc_node *node; /* whose server it is for; NULL: not known yet (a view) */
	struct kvc_sub *sub;   /* for the call room: whose request it is to be; NULL: the client's own session's */
};

/* Without so many no GET can be planned: one chunk, and one before and after it that are not whole. The smallest queues
 * that endpoints are opened with have room for them. */
enum { KVC_IMMS_LEAST = 4 };

/* kvc_room_imm_limit -- immediates that all servers together may have on their way: what the completion queue of any
 * rail has room for. */
static inline uint32_t kvc_room_imm_limit(const struct te_info *info)
{
	return KV_MAX(info->imm_room, (uint32_t)KVC_IMMS_LEAST);
}

/* kvc_room_limit -- the completion queues have other sizes now. Who waits for more than there is any more has
 * -KV_ERESET. */
void kvc_room_limit(struct kvc_client *c, uint32_t imms);
/* kvc_room_piece -- the most bytes of a range that a piece of the buffer is planned for: with several servers, a small
 * part of it. kvc_room_imms -- the most immediates that one request is planned with. */
uint64_t kvc_room_piece(const struct kvc_client *c);
uint32_t kvc_room_imms(const struct kvc_client *c);
/* kvc_room_return -- what a request had is free again: its immediates; its piece; its entry. */
void kvc_room_return_imms(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return_piece(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return(struct kvc_client *c, struct kvc_req *r);
/* kvc_room_not_out -- its piece does not count as on its way any more: it is about to become an orphan, or to give its
 * piece back. kvc_room_feed follows. */
void kvc_room_not_out(struct kvc_req *r);
/* kvc_room_keep -- a piece stays when its request goes: it is a view now. kvc_room_give -- and is given back. */
void kvc_room_keep(struct kvc_client *c, const struct kvc_piece *piece);
void kvc_room_give(struct kvc_client *c, struct kvc_piece *piece);

/* kvc_room_try -- 0 with *out, -KV_EBUSY, or -KV_ETOOBIG (never possible). kvc_room_await -- the same, waiting;
 * -KV_ETIMEOUT, -KV_ECLOSED, -KV_ERESET (to be planned anew: there are fewer immediates than were asked for). */
int kvc_room_try(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out);
int kvc_room_await(struct kvc_client *c, const struct kvc_need *need, uint64_t deadline_ns, struct kvc_req **out);
/* kvc_room_feed -- room may have become free: serve those who wait. kvc_room_close -- end all waits with -KV_ECLOSED.
 */
void kvc_room_feed(struct kvc_client *c);
void kvc_room_close(struct kvc_client *c);

#endif
