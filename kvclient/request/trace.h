/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- a call's time: stamps of its requests, and a log line if slow. Private to kvclient/. On the client's loop;
 * none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_TRACE_H
#define KVRAIL_KVCLIENT_REQUEST_TRACE_H

#include "kvclient/core/client.h"

enum {
	KVC_SLOW_LINES = 10 /* lines per second and client */
};

/* One call, on its coroutine's stack. Its requests point to it until their release, before its end. */
struct kvc_trace {
	enum kvc_op op;
	bool on; /* slow calls are logged, or the caller asks; else the rest is unused */
	bool batch;
	struct kvc_session *session; /* the call's; NULL: the client's own */
	bool background;             /* KVC_BACKGROUND */
	/* A waiting call ends with -KV_ECANCELED if this is true; NULL: unstoppable. Always valid. The setter wakes the
	 * call (kvc_batch_stop). */
	const bool *stop;
	uint64_t called_ns, last_done_ns;
	uint64_t woke_ns;          /* end of the last wait for a request; 0: unknown */
	struct kvc_phases *out;    /* the caller's, or NULL */
	unsigned requests;         /* requests made */
	struct kvc_stamps worst;   /* of the longest request */
	uint8_t key[KV_KEY_SHOWN]; /* of that request, or the call */
	uint8_t key_len;
};

/* kvc_trace_stopped -- whether the call must end. */
static inline bool kvc_trace_stopped(const struct kvc_trace *t)
{
	return t->stop && *t->stop;
}

/* kvc_trace_own -- for the client's own requests, never logged as slow. background: after requests of calls. Needs no
 * kvc_trace_end. */
void kvc_trace_own(struct kvc_trace *t, enum kvc_op op, struct kvc_session *session, bool background);

/* kvc_trace_begin -- begin a call. call: the caller's options as given, or NULL. */
void kvc_trace_begin(struct kvc_trace *t, struct kvc_client *c, enum kvc_op op, const struct kvc_call *call,
		     struct kvc_session *session);
/* kvc_trace_key -- note the shown part of the call's key. */
void kvc_trace_key(struct kvc_trace *t, const void *key, size_t len);
/* kvc_trace_note -- on a request's release: keep the stamps of the longest. */
void kvc_trace_note(struct kvc_trace *t, const struct kvc_req *r, uint64_t now_ns);
/* kvc_trace_phases -- the phases of a call ending at now_ns. */
void kvc_trace_phases(const struct kvc_trace *t, uint64_t now_ns, struct kvc_phases *out);
/* kvc_trace_end -- the call ends with rc: report its phases, and log it if slow. */
void kvc_trace_end(struct kvc_trace *t, struct kvc_client *c, int64_t rc);

#endif
