/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h -- a call's time: stamps of its requests, and a log line if slow. Private to kvclient/. On the client's loop;
 * none parks. */
#ifndef KVRAIL_KVCLIENT_REQUEST_TRACE_H
#define KVRAIL_KVCLIENT_REQUEST_TRACE_H

#include "kvclient/core/client.h"

enum {
	KC_SLOW_LINES = 10 /* lines per second and client */
};

/* One call, on its coroutine's stack. Its requests point to it until their release, before its end. */
struct kc_trace {
	enum kvc_op op;
	bool on; /* slow calls are logged, or the caller asks; else the stamps below are unused */
	bool batch;
	struct kvc_session *session; /* the call's; NULL: the client's own */
	bool background;             /* KVC_BACKGROUND */
	uint64_t begun_ns;           /* when the call began, or before: for PUT (core/cleared.h) */
	/* A waiting call ends with -KV_ECANCELED if this is true; NULL: unstoppable. Always valid. The setter wakes the
	 * call (kc_batch_stop). */
	const bool *stop;
	uint64_t called_ns, last_done_ns;
	uint64_t woke_ns;       /* end of the last wait for a request; 0: unknown */
	struct kvc_phases *out; /* the caller's, or NULL */
	unsigned requests;      /* requests made */
	struct kc_stamps worst; /* of the longest request */
	uint8_t key[KV_KEY_SHOWN];
	uint8_t key_len;
};

/* kc_trace_stopped -- whether the call must end. */
static inline bool kc_trace_stopped(const struct kc_trace *t)
{
	return t->stop && *t->stop;
}

/* kc_trace_own -- for the client's own requests, never logged as slow. background: after requests of calls. Needs no
 * kc_trace_end. */
void kc_trace_own(struct kc_trace *t, enum kvc_op op, struct kvc_session *session, bool background);

/* kc_trace_begin -- begin a call. call: the caller's options as given, or NULL. */
void kc_trace_begin(struct kc_trace *t, struct kvc_client *c, enum kvc_op op, const struct kvc_call *call,
		    struct kvc_session *session);
/* kc_trace_key -- note the shown part of the call's key. */
void kc_trace_key(struct kc_trace *t, const void *key, size_t len);
/* kc_trace_note -- on a request's release: keep the stamps of the longest. */
void kc_trace_note(struct kc_trace *t, const struct kc_req *r, uint64_t now_ns);
/* kc_trace_phases -- the phases of a call ending at now_ns. */
void kc_trace_phases(const struct kc_trace *t, uint64_t now_ns, struct kvc_phases *out);
/* kc_trace_end -- the call ends with rc: report its phases, and log it if slow. */
void kc_trace_end(struct kc_trace *t, struct kvc_client *c, int64_t rc);

#endif
