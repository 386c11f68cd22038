/* SPDX-License-Identifier: Apache-2.0 */
/* call.h -- what every call does alike: begin, wait, give up, try again, end. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_CALL_H
#define KVRAIL_KVCLIENT_CALL_CALL_H

#include "kvclient/pool/client.h"

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

/* kvc_call_time -- how long a call that moves up to `bytes` may take: its own timeout, else the pool's, else the
 * default, which grows with its size. kvc_call_deadline -- from now on. kvc_batch_bytes -- of all items. */
uint64_t kvc_call_time(const struct kvc_pool *pool, const struct kvc_call *call, uint64_t bytes);
uint64_t kvc_call_deadline(const struct kvc_client *c, const struct kvc_call *call, uint64_t bytes);
uint64_t kvc_batch_bytes(const struct kvc_item *items, unsigned n);
enum { KVC_BYTE_NS = 10 }; /* 1 s for every 100 MB */
bool kvc_key_valid(struct kvc_key key);

/* kvc_call_node -- the node that holds the key. kvc_call_down -- what a call of a server that is down returns: its
 * code, or a miss where that was asked for. */
struct kvc_node *kvc_call_node(struct kvc_client *c, struct kvc_key key);
int64_t kvc_call_down(const struct kvc_node *n, unsigned flags, int64_t rc);

/* kvc_call_ready_await -- an open session of the node, and `sub` (NULL: none) open on it. kvc_call_ready -- whether
 * that is so now. */
int kvc_call_ready_await(struct kvc_node *n, struct kvc_sub *sub, uint64_t deadline_ns, struct kvc_session **out);
bool kvc_call_ready(const struct kvc_node *n, const struct kvc_sub *sub);
/* kvc_call_own -- the request is to be the one of a session: NULL, the client's own. */
static inline void kvc_call_own(struct kvc_req *r, struct kvc_sub *sub, const struct kvc_node *n)
{
	r->sub = KV_UNLIKELY(sub != NULL) ? &sub->at[n->index] : NULL;
}

/* kvc_call_room_await -- an open session of the node, and room for one request. wait false: -KV_EBUSY instead of
 * parking. The session is valid until the caller parks. */
int kvc_call_room_await(struct kvc_node *n, const struct kvc_need *need, uint64_t deadline_ns, bool wait,
			struct kvc_session **out_session, struct kvc_req **out);
/* kvc_call_session -- whether s is still the session to use, after parking. */
bool kvc_call_session(const struct kvc_node *n, const struct kvc_session *s);

/* kvc_req_wait_await -- until the request is done: 0; or why it is not to be waited for any longer: -KV_ETIMEOUT,
 * -KV_ECLOSED. */
int kvc_req_wait_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

/* kvc_req_finish_await -- after a wait that gave `why`: the request's status; if why is not 0, it is cancelled, and
 * after the grace its memory is fenced if it must be. Other requests of the call are to be cancelled before, so that
 * they share the grace. Release it next. */
int kvc_req_finish_await(struct kvc_client *c, struct kvc_req *r, int why);

/* kvc_req_done_await -- both, for a call with one request out. */
int kvc_req_done_await(struct kvc_client *c, struct kvc_req *r, uint64_t deadline_ns);

/* kvc_key_request_await -- one request about a key and its reply, without trying again: what the reply says, or why
 * there is none. (small.c) */
int kvc_key_request_await(struct kvc_node *n, const struct wire_request *wire, uint64_t deadline_ns,
			  struct kvc_trace *t);

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

/* ---- get.c ---- */

struct kvc_get {
	struct kvc_client *c;
	struct kvc_node *n;
	struct kvc_key key;
	struct kvc_target dst;     /* slice 0: contiguous */
	uint64_t cap;              /* bytes of value that it takes */
	bool direct, verify, part; /* direct: the server writes to dst, which lies in `region` */
	bool check;                /* what came was corrupt: the server shall look at what it has */
	uint8_t stale;             /* tries that ended so; see PULLS_STALE */
	struct kvc_sub *sub;       /* whose call it is; NULL: the client's own session's */
	bool sized; /* cap is what the value is expected to be, not what the destination happens to have */
	uint32_t region;
	uint64_t region_offset;     /* of dst.at */
	struct kvc_client_mem *mem; /* of a direct destination that is the caller's registration */
	uint64_t offset, length;    /* of the part; length 0: to the end */
	uint64_t deadline_ns;
	/* what the first reply told */
	bool known;
	uint64_t value_len, generation, checksum, total;
	uint64_t issued, taken;
	uint64_t *row; /* per shard of the server, where the next small item of a batch goes; NULL: no batch */
	uint32_t turn; /* of the batch: its small items take the same link of a shard, else no two are in one frame */
	struct kvc_wait own_wait, *wait;
};

/* kvc_get_init -- fill *g. 0 or -KV_EINVAL. slice 0: contiguous. kvc_get_fini -- let go of the registration that it
 * uses. */
int kvc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, void *dst, uint64_t len, uint64_t slice,
		 uint64_t stride, const struct kvc_call *call, uint64_t deadline_ns);
void kvc_get_fini(struct kvc_get *g);
/* kvc_get_issue_await -- ask for the next range. wait false: does not park. */
int kvc_get_issue_await(struct kvc_get *g, bool wait, struct kvc_req **out);
/* kvc_get_take_await -- take the bytes of a range that is done with `status`. Returns 0 or a code; g->taken == g->total
 * && g->known: complete. hasher: for values of several ranges, NULL when this must be the only one. */
int kvc_get_take_await(struct kvc_get *g, struct kvc_req *r, int status, struct kv_hasher *hasher);
/* kvc_get_all_await -- the whole GET with ranges and retries. Returns the length or a code. */
int64_t kvc_get_all_await(struct kvc_get *g);

/* kvc_get_count, kvc_put_count -- one more call that ended so. */
void kvc_get_count(struct kvc_client *c, int64_t rc);
void kvc_put_count(struct kvc_client *c, int rc, uint64_t len);

/* ---- put.c ---- */

struct kvc_put {
	struct kvc_client *c;
	struct kvc_node *n;
	struct kvc_key key;
	const uint8_t *data;
	uint64_t len, checksum;
	bool summed, direct; /* the checksum is there; the server reads from `region` */
	bool inlined;        /* the server reads nothing: all bytes go in requests */
	struct kvc_sub *sub; /* whose call it is; NULL: the client's own session's */
	uint32_t region, ttl_s;
	uint64_t region_offset;
	struct kvc_client_mem *mem;
	uint64_t deadline_ns;
	struct kvc_wait own_wait, *wait;
};

int kvc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const void *data, uint64_t len,
		 const struct kvc_call *call, uint64_t deadline_ns);
void kvc_put_fini(struct kvc_put *p);
/* kvc_put_single -- whether it is one request. kvc_put_issue_await -- send a range of it. */
bool kvc_put_single(struct kvc_put *p);
int kvc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
			struct kvc_req **out);
int kvc_put_all_await(struct kvc_put *p);

#endif
