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

/* kc_call_check -- copy the caller's struct kvc_call, NULL or an older one, to a whole one. -KV_EINVAL: it is
 * malformed, or has other flags than a call's. */
int kc_call_check(const struct kvc_call *given, struct kvc_call *out);

/* kc_call_allowed -- whether a call may begin: on the client's loop, from a coroutine, while the client is open. 0, or
 * the call's code. */
int kc_call_allowed(struct kvc_client *c);

/* kc_call_begin -- begin a call, if kc_call_allowed. t is the caller's, and lives until the end. call: as the caller
 * gave it, or NULL. kc_call_end -- end it, after a begin that gave 0: counts rc, logs a slow call, and returns rc.
 * kc_result_count -- count an item of a batch, whose call counts nothing itself. */
int kc_call_begin(struct kvc_client *c, struct kc_trace *t, enum kvc_op op, const struct kvc_call *call);
int64_t kc_call_end(struct kvc_client *c, struct kc_trace *t, int64_t rc);
void kc_result_count(struct kvc_client *c, enum kvc_op op, int64_t rc);

/* kc_call_open -- kc_call_begin and kc_call_check. A code means that the call has ended. */
static inline int kc_call_open(struct kvc_client *c, struct kc_trace *t, enum kvc_op op, const struct kvc_call *call,
			       struct kvc_call *out)
{
	int rc = kc_call_begin(c, t, op, call);
	if (rc < 0)
		return rc;
	rc = kc_call_check(call, out);
	return rc < 0 ? (int)kc_call_end(c, t, rc) : 0;
}

/* kc_call_deadline -- the deadline of a call that begins now and moves up to `bytes` (kc_pool_time). kc_batch_bytes
 * -- the bytes of all items. */
uint64_t kc_call_deadline(const struct kvc_client *c, const struct kvc_call *call, uint64_t bytes);
uint64_t kc_batch_bytes(const struct kvc_item *items, unsigned n);

/* kc_call_ready_await -- wait until the node is up with `session` open (NULL: the client's own). *out: its attachment.
 * wait false: -KV_EBUSY instead of parking. */
int kc_call_ready_await(struct kc_node *n, struct kvc_session *session, uint64_t deadline_ns, bool wait,
			struct kc_attachment **out);
/* kc_call_own -- set the request's session; NULL: the client's own. */
static inline void kc_call_own(struct kc_req *r, struct kvc_session *session, const struct kc_node *n)
{
	r->session = KV_UNLIKELY(session != NULL) ? kc_session_part(session, n->index) : NULL;
}

/* kc_call_take_await -- room for one request planned for this attachment of the node (kc_node_uses). wait false:
 * -KV_EBUSY instead of parking. 0: *out is the caller's, and the attachment stays in use until the caller parks. 1: it
 * changed: plan anew. Or a code of kc_room_await. */
static inline int kc_call_take_await(struct kc_node *n, uint64_t attaches, const struct kc_need *need,
				     uint64_t deadline_ns, bool wait, struct kc_req **out)
{
	struct kvc_client *c = n->client;
	int rc = wait ? kc_room_await(c, need, deadline_ns, out) : kc_room_try(c, need, out);
	if (rc < 0)
		return rc;
	if (!kc_node_uses(n, attaches)) {
		kc_req_release(c, *out);
		return 1;
	}
	kc_call_own(*out, need->session, n);
	return 0;
}

/* kc_call_room_await -- an attachment of the node, valid until the caller parks, and room for one request. wait false:
 * -KV_EBUSY instead of parking. */
int kc_call_room_await(struct kc_node *n, const struct kc_need *need, uint64_t deadline_ns, bool wait,
		       struct kc_attachment **out_attachment, struct kc_req **out);

/* kc_call_piece_await -- a piece of the buffer without a request (kc_room_give returns it). wait false: in the
 * background, and -KV_EBUSY instead of parking. 0, or a code of kc_room_await. */
int kc_call_piece_await(struct kvc_client *c, uint64_t len, uint64_t deadline_ns, bool wait, struct kc_piece *out);

/* kc_call_wait_await -- wait for the request: 0; or give up: -KV_ETIMEOUT, -KV_ECLOSED, -KV_ECANCELED
 * (kc_trace.stop). */
int kc_call_wait_await(struct kvc_client *c, struct kc_req *r, uint64_t deadline_ns);

/* kc_call_finish_await -- the request's status, after a wait that gave `why`; release it next. If why is not 0, it is
 * cancelled, and its memory fenced after the grace if necessary. Cancel the call's other requests first, so that they
 * share the grace. */
int kc_call_finish_await(struct kvc_client *c, struct kc_req *r, int why);

int kc_call_done_await(struct kvc_client *c, struct kc_req *r, uint64_t deadline_ns);

/* The requests of a call that are out, the oldest first: a ring in the caller's array. */
struct kc_window {
	struct kc_req **req;
	unsigned size; /* a power of two */
	unsigned head, count;
	bool one_value; /* if one request is given up, all are; else only when the call is over */
};

/* kc_window_place -- the array's index for the next request, if the window is not full. kc_window_add -- add it.
 * kc_window_next_await -- finish the oldest one: *out, which the caller releases, and its status. The freed place may
 * be the next one. kc_window_drop_await -- end and release all. */
static inline unsigned kc_window_place(const struct kc_window *w)
{
	return (w->head + w->count) & (w->size - 1);
}

static inline bool kc_window_full(const struct kc_window *w)
{
	return w->count == w->size;
}

static inline void kc_window_add(struct kc_window *w, struct kc_req *r)
{
	w->req[kc_window_place(w)] = r;
	w->count++;
}

int kc_window_next_await(struct kvc_client *c, struct kc_window *w, uint64_t deadline_ns, struct kc_req **out);
void kc_window_drop_await(struct kvc_client *c, struct kc_window *w);

/* kc_call_again_await -- whether to try a call again after rc, and pause if useful. *tries begins as 0; it counts
 * pauses and has KC_TRIED_CORRUPT. */
bool kc_call_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries);

/* kc_call_next_await -- whether to ask r->n after rc: another server now, or the same one after a pause. */
bool kc_call_next_await(struct route *r, int64_t rc);

/* kc_call_over -- whether a batch must begin nothing more: -KV_ECANCELED, -KV_ETIMEOUT; else 0. kc_item_code -- the
 * code of an item that ended with rc: a request cancelled by its batch counts as late. */
int kc_call_over(const struct kvc_client *c, const struct kc_trace *t, uint64_t deadline_ns);
int64_t kc_item_code(const struct kvc_client *c, const struct kc_trace *t, int64_t rc);

/* kc_call_code -- the caller's code for rc: internal codes become a timeout or -KV_ECLOSED, and -KV_EDELETED a
 * miss. */
int64_t kc_call_code(const struct kvc_client *c, int64_t rc);

/* kc_chunks -- the most immediates of a transfer to `count` slices of `slice` bytes. */
uint32_t kc_chunks(const struct kc_attachment *s, uint64_t slice, uint64_t count);

/* kc_hash_await, kc_gather_await -- hash or copy len bytes of a target, and yield in between. */
uint64_t kc_hash_await(const struct kc_target *from, uint64_t len);
void kc_gather_await(uint8_t *to, const struct kc_target *from, uint64_t len);
enum { KC_STEP_BYTES = 1 << 20 };

#endif
