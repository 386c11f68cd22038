/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- when the last turn of each session of a trace was. */
#ifndef KVRAIL_KVBENCH_LOAD_SESSIONS_H
#define KVRAIL_KVBENCH_LOAD_SESSIONS_H

#include "base/base.h"

struct trace_sessions { /* {0}: none */
	struct trace_session {
		uint64_t session; /* 0: empty */
		double last_ms;
	} *slot;
	uint64_t mask, count;
};

/* trace_sessions_last -- the place of this session's last time, session not 0; a new one has `first_ms`. NULL: no
 * memory. Valid until the next call. */
double *trace_sessions_last(struct trace_sessions *sessions, uint64_t session, double first_ms);
void trace_sessions_free(struct trace_sessions *sessions);

#endif
