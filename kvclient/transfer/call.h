/* SPDX-License-Identifier: Apache-2.0 */
/* call.h -- steps common to all calls: begin, wait, give up, try again, end. Private to kvclient/. On the client's
 * loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_CALL_H
#define KVRAIL_KVCLIENT_TRANSFER_CALL_H

#include "kvclient/core/client.h"
#include "kvclient/request/admission.h"
#include "kvclient/request/life.h"
#include "kvclient/request/trace.h"
#include "kvclient/route/route.h"

/* kvc_call_check -- copy the caller's struct kvc_call, NULL or an older one, to a whole one. -KV_EINVAL: it is
 * malformed, or has other flags than a call's. */
int kvc_call_check(const struct kvc_call *given, struct kvc_call *out);

/* kvc_call_allowed -- whether a call may begin: on the client's loop, from a coroutine, while the client is open. 0, or
 * the call's code. */
int kvc_call_allowed(struct kvc_client *c);

/* kvc_call_begin -- begin a call, if kvc_call_allowed. t is the caller's, and lives until the end. call: as the caller
 * gave it, or NULL. kvc_call_end -- end it, after a begin that gave 0: counts rc, logs a slow call, and returns rc.
 * kvc_result_count -- count an item of a batch, whose call counts nothing itself. */
int kvc_call_begin(struct kvc_client *c, struct kvc_trace *t, enum kvc_op op, const struct kvc_call *call);
int64_t kvc_call_end(struct kvc_client *c, struct kvc_trace *t, int64_t rc);
void kvc_result_count(struct kvc_client *c, enum kvc_op op, int64_t rc);

/* kvc_call_open -- kvc_call_begin and kvc_call_check. A code means that the call has ended. */
static inline int kvc_call_open(struct kvc_client *c, struct kvc_trace *t, enum kvc_op op, const struct kvc_call *call,
				struct kvc_call *out)
{
	int rc = kvc_call_begin(c, t, op, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, out);
	return rc < 0 ? (int)kvc_call_end(c, t, rc) : 0;
}

/* kvc_call_deadline -- the deadline of a call that begins now and moves up to `bytes` (kvc_pool_time). kvc_batch_bytes
 * -- the bytes of all items. */
uint64_t kvc_call_deadline(const struct kvc_client *c, const struct kvc_call *call, uint64_t bytes);
uint64_t kvc_batch_bytes(const struct kvc_item *items, unsigned n);

/* kvc_call_ready_await -- wait until the node is up with `session` open (NULL: the client's own). *out: its attachment.
 * wait false: -KV_EBUSY instead of parking. */
int kvc_call_ready_await(struct kvc_node *n, struct kvc_session *session, uint64_t deadline_ns, bool wait,
			 struct kvc_attachment **out);
/* kvc_call_own -- set the request's session; NULL: the client's own. */
static inline void kvc_call_own(struct kvc_req *r, struct kvc_session *session, const struct kvc_node *n)
{
	r->session = KV_UNLIKELY(session != NULL) ? kvc_session_part(session, n->index) : NULL;
}

/* kvc_call_take_await -- room for one request planned for this attachment of the node (kvc_node_uses). wait false:
 * -KV_EBUSY instead of parking. 0: *out is the caller's, and the attachment stays in use until the caller parks. 1: it
 * changed: plan anew. Or a code of kvc_room_await. */
static inline int kvc_call_take_await(struct kvc_node *n, uint64_t attaches, const struct kvc_need *need,
				      uint64_t deadline_ns, bool wait, struct kvc_req **out)
{
	struct kvc_client *c = n->client;
	int rc = wait ? kvc_room_await(c, need, deadline_ns, out) : kvc_room_try(c, need, out);
	if (rc < 0)
		return rc;
	if (!kvc_node_uses(n, attaches)) {
		kvc_req_release(c, *out);
		return 1;
	}
	kvc_call_own(*out, need->session, n);
	return 0;
}

/* kvc_call_room_await -- an attachment of the node, valid until the caller parks, and room for one request. wait false:
 * -KV_EBUSY instead of parking. */
int kvc_call_room_await(struct kvc_node *n, const struct kvc_need *need, uint64_t deadline_ns, bool wait,
			struct kvc_attachment **out_attachment, struct kvc_req **out);

/* kvc_call_piece_await -- a piece of the buffer without a request (kvc_room_give returns it). wait false: in the
 * background, and -KV_EBUSY instead of parking. 0, or a code of kvc_room_await. */
int kvc_call_piece_await(struct kvc_client *c, uint64_t len, uint64_t deadline_ns, bool wait, struct kvc_piece *out);

/* kvc_call_wait_await -- wait for the request: 0; or give up: -KV_ETIMEOUT, -KV_ECLOSED, -KV_ECANCELED
 * (kvc_trace.stop). */
int kvc_call_wait_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

/* kvc_call_finish_await -- the request's status, after a wait that gave `why`; release it next. If why is not 0, it is
 * cancelled, and its memory fenced after the grace if necessary. Cancel the call's other requests first, so that they
 * share the grace. */
int kvc_call_finish_await(struct kvc_client *c, struct kvc_req *r, int why);

int kvc_call_done_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

enum { KVC_WINDOW = 32 };

/* The requests of a call with up to KVC_WINDOW out, taken in order. kvc_window_next_await -- finish the oldest one: its
 * status. kvc_window_drop_await -- end and release the rest. */
struct kvc_window {
	struct kvc_req *req[KVC_WINDOW];
	unsigned head, count;
};
void kvc_window_add(struct kvc_window *w, struct kvc_req *r);
int kvc_window_next_await(struct kvc_client *c, struct kvc_window *w, uint64_t deadline_ns, struct kvc_req **out);
void kvc_window_drop_await(struct kvc_client *c, struct kvc_window *w);

/* kvc_call_again_await -- whether to try a call again after rc, and pause if useful. *tries begins as 0; it counts
 * pauses and has KVC_TRIED_CORRUPT. */
bool kvc_call_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries);

/* kvc_call_next_await -- whether to ask r->n after rc: another server now, or the same one after a pause. */
bool kvc_call_next_await(struct route *r, int64_t rc);

/* kvc_call_over -- whether a batch must begin nothing more: -KV_ECANCELED, -KV_ETIMEOUT; else 0. kvc_item_code -- the
 * code of an item that ended with rc: a request cancelled by its batch counts as late. */
int kvc_call_over(const struct kvc_client *c, const struct kvc_trace *t, uint64_t deadline_ns);
int64_t kvc_item_code(const struct kvc_client *c, const struct kvc_trace *t, int64_t rc);

/* kvc_call_code -- the caller's code for rc: internal codes become a timeout or -KV_ECLOSED, and -KV_EDELETED a
 * miss. */
int64_t kvc_call_code(const struct kvc_client *c, int64_t rc);

/* kvc_chunks -- the most immediates of a transfer to `count` slices of `slice` bytes. */
uint32_t kvc_chunks(const struct kvc_attachment *s, uint64_t slice, uint64_t count);

/* kvc_hash_await, kvc_gather_await -- hash or copy len bytes of a target, and yield in between. */
uint64_t kvc_hash_await(const struct kvc_target *from, uint64_t len);
void kvc_gather_await(uint8_t *to, const struct kvc_target *from, uint64_t len);
enum { KVC_STEP_BYTES = 1 << 20 };

#endif
