/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h -- all resources of a request at once, first come first served. Private to kvclient/. On the client's
 * loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_ADMISSION_H
#define KVRAIL_KVCLIENT_REQUEST_ADMISSION_H

#include "kvclient/core/client.h"

struct kc_need {
	uint64_t piece_bytes; /* 0: no piece */
	uint64_t *next;       /* preferred place of the piece (kc_buffer_take_near); NULL: anywhere */
	uint32_t imms;        /* immediates, at most */
	bool second;          /* the call has another request out, and does not wait */
	bool urgent;          /* a PING: takes a reserved entry alone, and never waits behind others */
	struct kc_node *node; /* its server; NULL: unknown (a borrowed piece) */
	bool background;
	struct kvc_session *session; /* for the call; NULL: the client's own session */
};

/* The least for a GET: a whole chunk between two partial ones. The smallest queues have room for it. */
enum { KC_IMMS_LEAST = 4 };

/* Passes of a background request before it counts as any other. KC_BACKGROUND_OUT: the most of one server. */
enum { KC_PASSED_MAX = 16, KC_BACKGROUND_OUT = 64 };

/* kc_room_imm_limit -- immediates of all servers that fit any rail's completion queue. */
static inline uint32_t kc_room_imm_limit(const struct te_info *info)
{
	return KV_MAX(info->imm_room, (uint32_t)KC_IMMS_LEAST);
}

/* kc_room_limit -- the completion queues have other sizes now. Waits for too many immediates end with -KV_ERESET. */
void kc_room_limit(struct kvc_client *c, uint32_t imms);
/* kc_room_piece -- the most bytes planned for a piece. kc_room_imms -- the most immediates planned for a request. */
uint64_t kc_room_piece(const struct kvc_client *c);
uint32_t kc_room_imms(const struct kvc_client *c);
/* kc_room_return_imms, kc_room_return_piece, kc_room_return -- return a request's immediates; its piece; all but its
 * entry (kc_reqs_give). */
void kc_room_return_imms(struct kvc_client *c, struct kc_req *r);
void kc_room_return_piece(struct kvc_client *c, struct kc_req *r);
void kc_room_return(struct kvc_client *c, struct kc_req *r);
/* kc_room_not_out -- stop counting the request's piece as under way: it becomes an orphan, or returns its piece.
 * kc_room_feed follows. */
void kc_room_not_out(struct kc_req *r);
/* kc_room_keep -- a piece outlives its request, as a borrowed piece. kc_room_give -- return it. */
void kc_room_keep(struct kvc_client *c, const struct kc_piece *piece);
void kc_room_give(struct kvc_client *c, struct kc_piece *piece);

/* kc_room_try -- admit a request: 0 with *out, -KV_EBUSY, or -KV_ETOOBIG (never possible). kc_room_await -- the same,
 * but waits instead of -KV_EBUSY. Also -KV_ETIMEOUT, a code of kc_wait_over, or -KV_ERESET: plan again, with fewer
 * immediates. */
int kc_room_try(struct kvc_client *c, const struct kc_need *need, struct kc_req **out);
int kc_room_await(struct kvc_client *c, const struct kc_need *need, uint64_t deadline_ns, struct kc_req **out);
/* kc_room_feed -- serve waiting requests after room became free. kc_room_close -- end all waits with -KV_ECLOSED.
 * kc_room_stop -- end those of the call with this stop (kc_wait_stop) with -KV_ECANCELED. */
void kc_room_feed(struct kvc_client *c);
void kc_room_stop(struct kvc_client *c, const bool *stop);
void kc_room_close(struct kvc_client *c);

#endif
