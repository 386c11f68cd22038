/* SPDX-License-Identifier: Apache-2.0 */
/* call.h -- what every call does alike: begin, wait, give up, try again, end. Private to kvclient/. All of these on the
 * client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CALL_CALL_H
#define KVRAIL_KVCLIENT_CALL_CALL_H

#include "kvclient/core/client.h"
#include "kvclient/request/admission.h"
#include "kvclient/request/life.h"
#include "kvclient/request/trace.h"

/* kvc_call_check -- the caller's struct kvc_call, NULL or an older one, as a whole one. -KV_EINVAL: not one, or it has
 * flags that are none of a call's. */
int kvc_call_check(const struct kvc_call *given, struct kvc_call *out);

/* kvc_call_begin -- a call of this client begins: on its loop, from a coroutine, while it is open. t is the caller's,
 * and lives until the end; call: as the caller gave it, or NULL. kvc_call_end -- it ends (only after a begin that gave
 * 0); counts rc, logs it if it was slow, and returns it. kvc_result_count -- one more operation that ended so: an item
 * of a batch, whose call counts none itself. */
int kvc_call_begin(struct kvc_client *c, struct kvc_trace *t, enum kvc_op op, const struct kvc_call *call);
int64_t kvc_call_end(struct kvc_client *c, struct kvc_trace *t, int64_t rc);
void kvc_result_count(struct kvc_client *c, enum kvc_op op, int64_t rc);

/* kvc_call_open -- kvc_call_begin and kvc_call_check, for a call that is dressed in nothing else. After a code the call
 * has ended already. */
static inline int kvc_call_open(struct kvc_client *c, struct kvc_trace *t, enum kvc_op op, const struct kvc_call *call,
				struct kvc_call *out)
{
	int rc = kvc_call_begin(c, t, op, call);
	if (rc < 0)
		return rc;
	rc = kvc_call_check(call, out);
	return rc < 0 ? (int)kvc_call_end(c, t, rc) : 0;
}

/* kvc_call_deadline -- of a call that begins now and moves up to `bytes` (kvc_pool_time). kvc_batch_bytes -- of all
 * items. */
uint64_t kvc_call_deadline(const struct kvc_client *c, const struct kvc_call *call, uint64_t bytes);
uint64_t kvc_batch_bytes(const struct kvc_item *items, unsigned n);
bool kvc_key_valid(struct kvc_key key);

/* kvc_call_node -- the node that holds the key. kvc_call_down -- what a call of a server that is down returns: its
 * code, or a miss where that was asked for. */
struct kvc_node *kvc_call_node(struct kvc_client *c, struct kvc_key key);
int64_t kvc_call_down(const struct kvc_node *n, unsigned flags, int64_t rc);

/* kvc_call_ready_await -- an open session of the node, and `sub` (NULL: none) open on it. wait false: -KV_EBUSY instead
 * of parking. */
int kvc_call_ready_await(struct kvc_node *n, struct kvc_sub *sub, uint64_t deadline_ns, bool wait,
			 struct kvc_session **out);
/* kvc_call_own -- the request is to be the one of a session: NULL, the client's own. */
static inline void kvc_call_own(struct kvc_req *r, struct kvc_sub *sub, const struct kvc_node *n)
{
	r->sub = KV_UNLIKELY(sub != NULL) ? &sub->at[n->index] : NULL;
}

/* kvc_call_take_await -- room for one request that was planned for session s of the node. wait false: -KV_EBUSY instead
 * of parking. 0: *out is the caller's, and s is still the session until the caller parks; 1: it is not: plan anew; or a
 * code of kvc_room_await. */
static inline int kvc_call_take_await(struct kvc_node *n, const struct kvc_session *s, const struct kvc_need *need,
				      uint64_t deadline_ns, bool wait, struct kvc_req **out)
{
	struct kvc_client *c = n->client;
	int rc = wait ? kvc_room_await(c, need, deadline_ns, out) : kvc_room_try(c, need, out);
	if (rc < 0)
		return rc;
	if (!kvc_node_uses(n, s)) {
		kvc_req_release(c, *out);
		return 1;
	}
	kvc_call_own(*out, need->sub, n);
	return 0;
}

/* kvc_call_room_await -- an open session of the node, and room for one request. wait false: -KV_EBUSY instead of
 * parking. The session is valid until the caller parks. */
int kvc_call_room_await(struct kvc_node *n, const struct kvc_need *need, uint64_t deadline_ns, bool wait,
			struct kvc_session **out_session, struct kvc_req **out);

/* kvc_call_wait_await -- until the request is done: 0; or why it is not to be waited for any longer: -KV_ETIMEOUT,
 * -KV_ECLOSED. */
int kvc_call_wait_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

/* kvc_call_finish_await -- after a wait that gave `why`: the request's status; if why is not 0, it is cancelled, and
 * after the grace its memory is fenced if it must be. Other requests of the call are to be cancelled before, so that
 * they share the grace. Release it next. */
int kvc_call_finish_await(struct kvc_client *c, struct kvc_req *r, int why);

/* kvc_call_done_await -- both, for a call with one request out. */
int kvc_call_done_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

enum { KVC_WINDOW = 32 };

/* A call with up to KVC_WINDOW requests out, taken in order. kvc_window_next_await -- the status of the oldest one.
 * kvc_window_drop_await -- end and release what is left. */
struct kvc_window {
	struct kvc_req *req[KVC_WINDOW];
	unsigned head, count;
};
void kvc_window_add(struct kvc_window *w, struct kvc_req *r);
int kvc_window_next_await(struct kvc_client *c, struct kvc_window *w, uint64_t deadline_ns, struct kvc_req **out);
void kvc_window_drop_await(struct kvc_client *c, struct kvc_window *w);

/* kvc_call_again_await -- whether a call that failed with rc is to be tried again, after a pause where that is wise.
 * *tries counts. */
bool kvc_call_again_await(struct kvc_client *c, int64_t rc, uint64_t deadline_ns, unsigned *tries);

/* kvc_call_code -- the code the caller is to see for rc: internal ones become a timeout, or -KV_ECLOSED. */
int64_t kvc_call_code(const struct kvc_client *c, int64_t rc);

/* kvc_chunks -- the most immediates that a transfer to `count` slices of `slice` bytes can make. */
uint32_t kvc_chunks(const struct kvc_session *s, uint64_t slice, uint64_t count);

/* kvc_hash_await, kvc_copy_await -- of much memory, letting others run in between. */
uint64_t kvc_hash_await(const void *data, uint64_t len);
void kvc_copy_await(void *to, const void *from, uint64_t len);
enum { KVC_STEP_BYTES = 1 << 20 };

#endif
