/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c -- a call's time, for the log of slow calls and for callers that ask.
 *
 * Stamps before sending use the loop's turn, so they may precede the call, and are clamped. Reply and end read the
 * clock if traced (kc_req_now), since the turn began earlier. The call keeps only its longest request; the rest is
 * "other". Without slow_ns and phases no clock is read. */
#include "kvclient/request/trace.h"

#include <stdio.h>

#include "kvclient/core/sized.h"

static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* The caller's phases, if its struct has the field; invalid structs are refused later. */
static struct kvc_phases *wanted(const struct kvc_call *call)
{
	struct kvc_phases *p = kc_sized(call) && call->size >= offsetof(struct kvc_call, session) ? call->phases : NULL;
	return kc_sized(p) ? p : NULL;
}

static bool in_background(const struct kvc_call *call)
{
	return kc_sized(call) && call->size >= offsetof(struct kvc_call, server) && call->flags & KVC_BACKGROUND;
}

/* Fields valid without tracing. */
static void outline(struct kc_trace *t, enum kvc_op op, struct kvc_session *session, bool background)
{
	t->begun_ns = 0;
	t->session = session;
	t->background = background;
	t->op = op;
	t->batch = false;
	t->stop = NULL;
	t->on = false;
}

/* The turn may have begun before a clear whose answer it brought. */
static uint64_t begun(struct kvc_client *c)
{
	uint64_t begun_ns = c->hints.begun_ns;
	c->hints.begun_ns = 0;
	if (begun_ns)
		return begun_ns;
	return KV_UNLIKELY(atomic_load_explicit(&c->pool->cleared.any, memory_order_relaxed)) ? loop_now(c->loop)
											      : loop_turn_now(c->loop);
}

void kc_trace_begin(struct kc_trace *t, struct kvc_client *c, enum kvc_op op, const struct kvc_call *call,
		    struct kvc_session *session)
{
	struct kvc_phases *out = wanted(call);
	outline(t, op, session, in_background(call));
	t->begun_ns = begun(c);
	t->on = c->pool->options.slow_ns > 0 || out;
	if (KV_LIKELY(!t->on))
		return;
	*t = (struct kc_trace){.op = op,
			       .on = true,
			       .session = t->session,
			       .background = t->background,
			       .begun_ns = t->begun_ns,
			       .called_ns = loop_now(c->loop),
			       .out = out};
}

void kc_trace_own(struct kc_trace *t, enum kvc_op op, struct kvc_session *session, bool background)
{
	outline(t, op, session, background);
}

void kc_trace_key(struct kc_trace *t, const void *key, size_t len)
{
	if (KV_LIKELY(!t->on) || len == 0 || len > KV_KEY_MAX)
		return;
	t->key_len = (uint8_t)len;
	memcpy(t->key, key, KV_MIN(len, (size_t)KV_KEY_SHOWN));
}

void kc_trace_note(struct kc_trace *t, const struct kc_req *r, uint64_t now_ns)
{
	struct kc_stamps s = r->at;
	uint64_t worst = since(t->worst.asked_ns, t->worst.done_ns);
	t->requests++;
	if (r->state != KC_REQ_DONE)
		s.done_ns = now_ns;
	t->last_done_ns = KV_MAX(t->last_done_ns, s.done_ns);
	if (t->requests > 1 && since(s.asked_ns, s.done_ns) < worst)
		return;
	s.type = r->wire.type;
	s.bytes = s.type == WIRE_PUT ? r->wire.put.length : 0;
	if (s.type == WIRE_GET)
		s.bytes = kc_req_asked(r);
	t->worst = s;
	if (r->wire.key.len > 0)
		kc_trace_key(t, r->wire.key.data, r->wire.key.len);
}

void kc_trace_phases(const struct kc_trace *t, uint64_t now_ns, struct kvc_phases *out)
{
	const struct kc_stamps *w = &t->worst;
	uint64_t made_ns, left, after;
	*out = (struct kvc_phases){.size = sizeof(*out), .total_ns = since(t->called_ns, now_ns)};
	if (t->requests == 0) {
		out->room_ns = out->total_ns;
		return;
	}
	made_ns = KV_MAX(w->made_ns, t->called_ns);
	out->room_ns = since(KV_MAX(w->asked_ns, t->called_ns), made_ns);
	out->queue_ns = since(made_ns, w->sent_ns ? w->sent_ns : w->done_ns);
	if (w->sent_ns)
		out->wire_ns = since(w->sent_ns, w->replied_ns ? w->replied_ns : w->done_ns);
	if (w->sent_ns && w->replied_ns) {
		out->server_ns = KV_MIN((uint64_t)w->server_replied_ns, out->wire_ns);
		out->post_ns = KV_MIN((uint64_t)w->server_posted_ns, out->server_ns);
		out->wire_ns -= out->server_ns;
		out->data_ns = since(w->replied_ns, w->done_ns);
	}
	left = since(out->room_ns + out->queue_ns + out->wire_ns + out->server_ns + out->data_ns, out->total_ns);
	after = KV_MIN(since(t->last_done_ns, now_ns), left);
	out->check_ns = t->woke_ns >= t->last_done_ns ? KV_MIN(since(t->woke_ns, now_ns), after) : 0;
	out->wake_ns = after - out->check_ns;
	out->other_ns = left - after;
}

static const char *fate(const struct kc_trace *t)
{
	if (t->requests == 0)
		return ", no request was made";
	if (!t->worst.sent_ns)
		return ", not sent";
	return t->worst.replied_ns ? "" : ", not answered";
}

static void slow_log(struct kvc_client *c, const struct kc_trace *t, const struct kvc_phases *p, int64_t rc,
		     uint64_t suppressed)
{
	char where[sizeof(((struct kv_server_entry *)NULL)->text) + 64] = "", key[KV_KEY_TEXT + 8] = "", bytes[40] = "",
								    left_out[64] = "";
	char text[KV_KEY_TEXT];
	if (t->requests > 0)
		snprintf(where, sizeof(where), " %s shard %u link %u", c->pool->server[t->worst.server].entry.text,
			 t->worst.shard, t->worst.link);
	if (t->key_len > 0)
		snprintf(key, sizeof(key), " key %s", kv_key_text(t->key, t->key_len, text));
	if (t->worst.bytes > 0)
		snprintf(bytes, sizeof(bytes), " %llu bytes", (unsigned long long)t->worst.bytes);
	if (suppressed)
		snprintf(left_out, sizeof(left_out), " (%llu more were slow, not shown)",
			 (unsigned long long)suppressed);
	kv_event(kc_client_log(c), KV_LOG_WARN,
		 KV_EVENT("slow_call", KV_FIELD("op", kvc_opname(t->op)), KV_NUMBER("client", c->index),
			  KV_FIELD("server", t->requests > 0 ? c->pool->server[t->worst.server].entry.text : ""),
			  KV_FIELD("key", t->key_len > 0 ? kv_key_text(t->key, t->key_len, text) : ""),
			  KV_NUMBER("total_us", p->total_ns / 1000), KV_NUMBER("server_us", p->server_ns / 1000),
			  KV_NUMBER("wire_us", p->wire_ns / 1000), KV_NUMBER("requests", t->requests),
			  KV_FIELD("result", kv_errname(rc < 0 ? (int)rc : 0)), KV_NUMBER("more", suppressed)),
		 "slow %s%s client %u%s%s%s: %.3f ms = room %.3f + queue %.3f + server %.3f (post %.3f) "
		 "+ wire %.3f + data %.3f + wake %.3f + check %.3f + other %.3f; %u request%s%s; %s%s",
		 kvc_opname(t->op), t->batch ? " batch" : "", c->index, where, key, bytes, (double)p->total_ns / 1e6,
		 (double)p->room_ns / 1e6, (double)p->queue_ns / 1e6, (double)p->server_ns / 1e6,
		 (double)p->post_ns / 1e6, (double)p->wire_ns / 1e6, (double)p->data_ns / 1e6, (double)p->wake_ns / 1e6,
		 (double)p->check_ns / 1e6, (double)p->other_ns / 1e6, t->requests, t->requests == 1 ? "" : "s",
		 fate(t), kv_errname(rc < 0 ? (int)rc : 0), left_out);
}

void kc_trace_end(struct kc_trace *t, struct kvc_client *c, int64_t rc)
{
	struct kvc_phases p;
	uint64_t now, suppressed;
	if (KV_LIKELY(!t->on))
		return;
	now = loop_now(c->loop);
	kc_trace_phases(t, now, &p);
	if (t->out)
		kc_sized_give(t->out, &p, sizeof(p));
	if (c->pool->options.slow_ns == 0 || p.total_ns < c->pool->options.slow_ns)
		return;
	kc_add(&c->count.slow, 1);
	if (!kv_rate_take(&c->slow_lines, now, KC_SLOW_LINES, &suppressed))
		return;
	slow_log(c, t, &p, rc, suppressed);
}
