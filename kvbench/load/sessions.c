/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c -- open addressing, never more than half full. Sessions are hashes: they need no further one. */
#include "kvbench/load/sessions.h"

#include <stdlib.h>

static struct trace_session *find(const struct trace_sessions *s, uint64_t session)
{
	for (uint64_t at = session;; at++) {
		struct trace_session *slot = &s->slot[at & s->mask];
		if (slot->session == 0 || slot->session == session)
			return slot;
	}
}

static int grow(struct trace_sessions *s)
{
	uint64_t old = s->slot ? s->mask + 1 : 0, size = old ? old * 2 : 256;
	struct trace_sessions bigger = {
		.slot = calloc(size, sizeof(*bigger.slot)), .mask = size - 1, .count = s->count};
	if (!bigger.slot)
		return -KV_ENOMEM;
	for (uint64_t i = 0; i < old; i++)
		if (s->slot[i].session)
			*find(&bigger, s->slot[i].session) = s->slot[i];
	free(s->slot);
	*s = bigger;
	return 0;
}

double *trace_sessions_last(struct trace_sessions *s, uint64_t session, double first_ms)
{
	struct trace_session *slot;
	if (2 * (s->count + 1) > (s->slot ? s->mask + 1 : 0) && grow(s) < 0)
		return NULL;
	slot = find(s, session);
	if (slot->session == 0) {
		*slot = (struct trace_session){session, first_ms};
		s->count++;
	}
	return &slot->last_ms;
}

void trace_sessions_free(struct trace_sessions *s)
{
	free(s->slot);
	*s = (struct trace_sessions){0};
}
