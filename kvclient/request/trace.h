/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- where the time of a call went: stamps of its requests, and a line in the log when it was slow. Private to
 * kvclient/. All functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_REQUEST_TRACE_H
#define KVRAIL_KVCLIENT_REQUEST_TRACE_H

#include "kvclient/core/client.h"

enum {
	KVC_SLOW_LINES = 10 /* lines per second and client */
};

/* One call. It lies on the stack of the call's coroutine. Requests point to it until they are released, which is before
 * the call ends. */
struct kvc_trace {
	enum kvc_op op;
	bool on; /* slow calls are logged, or the caller wants to know; else nothing below is kept */
	bool batch;
	struct kvc_session *session; /* the session whose call it is; NULL: the client's own */
	bool background;             /* KVC_BACKGROUND */
	/* While the call waits for requests it looks here, and ends with -KV_ECANCELED if this is true; NULL: nobody
	 * stops it. Kept always. Whoever sets it wakes the call (kvc_batch_stop). */
	const bool *stop;
	uint64_t called_ns, last_done_ns;
	uint64_t woke_ns;        /* when the coroutine went on after its last wait for a request; 0: it has not told */
	struct kvc_phases *out;  /* the caller's, or NULL */
	unsigned requests;       /* requests that it made */
	struct kvc_stamps worst; /* of the request that took longest */
	uint8_t key[KV_KEY_SHOWN]; /* of that request, or of the call */
	uint8_t key_len;
};

/* kvc_trace_stopped -- whether the call was told to end. */
static inline bool kvc_trace_stopped(const struct kvc_trace *t)
{
	return t->stop && *t->stop;
}

/* kvc_trace_own -- for what the client does by itself: it is no call, so it is never a slow one. background: requests
 * of calls go before its requests. kvc_trace_end is not needed. */
void kvc_trace_own(struct kvc_trace *t, enum kvc_op op, struct kvc_session *session, bool background);

/* kvc_trace_begin -- begin, for a call that begins. call: the caller's options as they were given, or NULL. */
void kvc_trace_begin(struct kvc_trace *t, struct kvc_client *c, enum kvc_op op, const struct kvc_call *call,
		     struct kvc_session *session);
/* kvc_trace_key -- the call is about this key: keep as much of it as is shown. */
void kvc_trace_key(struct kvc_trace *t, const void *key, size_t len);
/* kvc_trace_note -- a request of the call is released: keep its stamps if it took longest so far. */
void kvc_trace_note(struct kvc_trace *t, const struct kvc_req *r, uint64_t now_ns);
/* kvc_trace_phases -- the phases of a call that ends at now_ns. */
void kvc_trace_phases(const struct kvc_trace *t, uint64_t now_ns, struct kvc_phases *out);
/* kvc_trace_end -- the call ends with rc: tell the caller, and log the call if it was slow. */
void kvc_trace_end(struct kvc_trace *t, struct kvc_client *c, int64_t rc);

#endif
