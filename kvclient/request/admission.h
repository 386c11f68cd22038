/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h -- admission: all that a request needs before it is made, all or nothing, first come first served.
 * Private to kvclient/. All functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ADMISSION_H
#define KVRAIL_KVCLIENT_REQUEST_ADMISSION_H

#include "kvclient/core/client.h"

struct kvc_need {
	uint64_t piece_bytes; /* 0: no piece */
	uint64_t *next;       /* where the piece is to be, if possible (kvc_buffer_take_near); NULL: anywhere */
	uint32_t imms;        /* immediates, at worst */
	bool second;          /* the call has another one out, and does not wait */
	bool urgent; /* it is a PING: it needs an entry alone, of those that are kept for it, and never waits behind
			others */
	struct kvc_node *node;       /* of the server that it is for; NULL: not known yet (a borrowed piece) */
	bool background;             /* of a call with KVC_BACKGROUND */
	struct kvc_session *session; /* whose request it is to be, for the call room; NULL: the client's own session */
};

/* With fewer no GET can be planned: one chunk, and one before and one after it that are not whole. The smallest queues
 * that endpoints are opened with have room for so many. */
enum { KVC_IMMS_LEAST = 4 };

/* Requests in the background that wait are passed so often, and then the first of them is as any other.
 * KVC_BACKGROUND_OUT: that a server may have. */
enum { KVC_PASSED_MAX = 16, KVC_BACKGROUND_OUT = 64 };

/* kvc_room_imm_limit -- immediates that all servers together may have on their way: the completion queue of any rail
 * has room for them. */
static inline uint32_t kvc_room_imm_limit(const struct te_info *info)
{
	return KV_MAX(info->imm_room, (uint32_t)KVC_IMMS_LEAST);
}

/* kvc_room_limit -- the completion queues have other sizes now. Requests that wait for more immediates than there are
 * get -KV_ERESET. */
void kvc_room_limit(struct kvc_client *c, uint32_t imms);
/* kvc_room_piece -- the most bytes of a range that is planned for a piece: with several servers, a small part of the
 * buffer. kvc_room_imms -- the most immediates that one request is planned with. */
uint64_t kvc_room_piece(const struct kvc_client *c);
uint32_t kvc_room_imms(const struct kvc_client *c);
/* kvc_room_return_imms, kvc_room_return_piece, kvc_room_return -- a request gives back its immediates; its piece; all
 * that it had, but its entry is given back by kvc_reqs_give. */
void kvc_room_return_imms(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return_piece(struct kvc_client *c, struct kvc_req *r);
void kvc_room_return(struct kvc_client *c, struct kvc_req *r);
/* kvc_room_not_out -- the request's piece no longer counts as on its way: it is about to become an orphan, or to give
 * its piece back. Call kvc_room_feed next. */
void kvc_room_not_out(struct kvc_req *r);
/* kvc_room_keep -- a piece stays when its request goes: it is a borrowed piece now. kvc_room_give -- it is given back.
 */
void kvc_room_keep(struct kvc_client *c, const struct kvc_piece *piece);
void kvc_room_give(struct kvc_client *c, struct kvc_piece *piece);

/* kvc_room_try -- admit a request: 0 with *out, -KV_EBUSY, or -KV_ETOOBIG (never possible). kvc_room_await -- the same,
 * but it waits instead of -KV_EBUSY. Also -KV_ETIMEOUT, a code of kvc_wait_over, or -KV_ERESET: plan anew, there are
 * fewer immediates than were asked for. */
int kvc_room_try(struct kvc_client *c, const struct kvc_need *need, struct kvc_req **out);
int kvc_room_await(struct kvc_client *c, const struct kvc_need *need, uint64_t deadline_ns, struct kvc_req **out);
/* kvc_room_feed -- room may have become free: serve those that wait. kvc_room_close -- end all waits with -KV_ECLOSED.
 * kvc_room_stop -- end those of the call with this stop (kvc_wait_stop) with -KV_ECANCELED. */
void kvc_room_feed(struct kvc_client *c);
void kvc_room_stop(struct kvc_client *c, const bool *stop);
void kvc_room_close(struct kvc_client *c);

#endif
