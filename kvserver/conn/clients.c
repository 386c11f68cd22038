/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c -- counts and rates of all connections: see clients.h. */
#include "kvserver/conn/clients.h"

#include <inttypes.h>

#include "kvserver/server/server.h"

uint64_t bucket_take(struct bucket *b, uint64_t now_ns, unsigned per_second, unsigned burst)
{
	b->tokens += (double)(now_ns - b->filled_ns) * per_second / 1e9;
	if (b->tokens > burst)
		b->tokens = burst;
	b->filled_ns = now_ns;
	b->tokens -= 1;
	return b->tokens >= 0 ? 0 : (uint64_t)(-b->tokens / per_second * 1e9);
}

void strangers_change(struct kvs_server *s, int by)
{
	s->strangers.count += (unsigned)by;
	control_set(s, WIRE_STAT_HANDSHAKES_NOW, s->strangers.count);
}

bool log_allowed(struct kvs_server *s)
{
	uint64_t left_out;
	if (!kv_rate_take(&s->clients.lines, loop_now(s->control), LOGS_PER_SECOND, &left_out))
		return false;
	if (left_out)
		kv_event(s->opt.log, KV_LOG_WARN, KV_EVENT("clients_untold", KV_NUMBER("lines", left_out)),
			 "%" PRIu64 " more line%s about refused clients %s left out", left_out, kv_plural(left_out),
			 left_out == 1 ? "is" : "are");
	return true;
}

bool audit_allowed(struct kvs_server *s)
{
	uint64_t left_out;
	if (!kv_rate_take(&s->clients.audits, loop_now(s->control), s->clients.audits_max, &left_out))
		return false;
	if (left_out)
		kv_event(s->opt.log, KV_LOG_INFO, KV_EVENT("audit_untold", KV_NUMBER("lines", left_out)),
			 "audit: %" PRIu64 " more line%s about sessions %s left out", left_out, kv_plural(left_out),
			 left_out == 1 ? "is" : "are");
	return true;
}
