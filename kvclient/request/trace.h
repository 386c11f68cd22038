/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- where the time of a call went: stamps of its requests, and a line in the log when it was slow. Private to
 * kvclient/. All of these on the client's loop; what does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_REQUEST_TRACE_H
#define KVRAIL_KVCLIENT_REQUEST_TRACE_H

#include "kvclient/core/client.h"

enum {
	KVC_SLOW_LINES = 10 /* lines per second and client */
};

/* One call. On the stack of its coroutine; requests point to it until they are released, which is before the call ends.
 */
struct kvc_trace {
	enum kvc_op op;
	bool on; /* slow calls are logged, or the caller wants to know: without that nothing else here is kept */
	bool batch;
	struct kvc_sub *sub; /* the session whose call it is; NULL: the client's own */
	uint64_t called_ns, last_done_ns;
	uint64_t woke_ns;          /* the coroutine went on after its last wait for a request; 0: it did not say */
	struct kvc_phases *out;    /* the caller's, or NULL */
	unsigned requests;         /* that it made */
	struct kvc_stamps worst;   /* of the request that took longest */
	uint8_t key[KV_KEY_SHOWN]; /* of that request, or of the call */
	uint8_t key_len;
};

/* kvc_trace_begin -- call: the caller's options as they were given, or NULL. */
void kvc_trace_begin(struct kvc_trace *t, struct kvc_client *c, enum kvc_op op, const struct kvc_call *call);
/* kvc_trace_key -- the key it is about, as far as it is shown. */
void kvc_trace_key(struct kvc_trace *t, const void *key, size_t len);
/* kvc_trace_note -- a request of the call is released: keep its stamps if it is the longest so far. */
void kvc_trace_note(struct kvc_trace *t, const struct kvc_req *r, uint64_t now_ns);
/* kvc_trace_phases -- of a call that ends at now_ns. */
void kvc_trace_phases(const struct kvc_trace *t, uint64_t now_ns, struct kvc_phases *out);
/* kvc_trace_end -- the call ends with rc: tell the caller, log it if it was slow. */
void kvc_trace_end(struct kvc_trace *t, struct kvc_client *c, int64_t rc);

#endif
