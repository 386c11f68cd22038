/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c -- from a frame to its attachment, and from its records to the operations.
 *
 * A frame is checked step by step: layout; attachment, link and shard; the tag, in constant time; the counter; then the
 * records. A frame that fails is counted and dropped without an answer, which would reach the client that the sender
 * claims to be. A frame of a channel has no tag: it counts only for the attachment of its peer. The window of its link
 * judges a request id first: one already seen, or too old, is counted and dropped. A link uses one credit per
 * unanswered request (active) and per reply waiting for a send buffer (held); its session one per unanswered request.
 * Requests beyond either are answered BUSY, except CANCEL, which frees credits. */
#include "kvserver/shard/private.h"

#include "kvserver/shard/local_client.h"
#include "kvserver/shard/reply.h"

/* ---- records ---- */

static void request_refuse(struct link *l, const struct wire_request *q, int32_t status)
{
	struct wire_reply r = {.type = q->type, .status = status, .id = q->id};
	reply_put(l, &r, NULL);
}

/* A draining server still answers these types, which begin nothing. */
static bool begins_nothing(uint8_t type)
{
	return type == WIRE_CANCEL || type == WIRE_PING || type == WIRE_STAT || type == WIRE_CLEAR ||
	       type == WIRE_SPACES || type == WIRE_TENANTS || type == WIRE_LEASES;
}

static void request_take(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *shard = l->attachment->shard;
	struct session *o = l->session;
	int32_t status;
	if (KV_UNLIKELY(!l->proven) && !link_admits(l, q->type, now_ns))
		return;
	if (q->type == WIRE_RELEASE) { /* not a request: no id, no answer */
		shard->opt.ops->begin[WIRE_RELEASE](l, q, now_ns);
		return;
	}
	o->received++;
	if (kv_window_mark(&l->window, q->id) != KV_WINDOW_NEW) {
		shard_count(shard, WIRE_STAT_DUPLICATE_REQUESTS);
		return;
	}
	link_answered(l, q->id, 0);
	if (q->type == WIRE_CANCEL) {
		shard->opt.ops->begin[WIRE_CANCEL](l, q, now_ns);
	} else if (l->active + l->held >= shard->opt.credits || o->active >= o->credits) {
		shard_count(shard, WIRE_STAT_OVER_CREDIT);
		request_refuse(l, q, WIRE_BUSY);
	} else if (KV_UNLIKELY(o->limited) && (status = session_check(o, q, now_ns)) != WIRE_OK) {
		request_refuse(l, q, status);
	} else if (q->time_left_us == 0) {
		shard_count(shard, WIRE_STAT_EXPIRED_REQUESTS);
		request_refuse(l, q, WIRE_TIMEOUT);
	} else if (shard->draining && !begins_nothing(q->type)) {
		request_refuse(l, q, WIRE_CLOSING);
	} else {
		shard->opt.ops->begin[q->type](l, q, now_ns);
	}
}

static void record_take(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	if (KV_UNLIKELY(q->type == WIRE_SESSION)) {
		if (l->attachment->shard->records_end) /* only requests of one session are gathered */
			l->attachment->shard->records_end(l->attachment->shard);
		l->session = session_switch(l->attachment, q);
		if (l->session)
			store_enter(&l->attachment->shard->store, l->session->space);
		return;
	}
	if (KV_UNLIKELY(q->type == WIRE_PROVE)) {
		link_prove(l, q->prove.nonce);
		return;
	}
	if (KV_LIKELY(l->session != NULL))
		request_take(l, q, now_ns);
}

enum { GROUP = 8 };

/* With many keys a GET's look-up is a chain of cache misses; those of a group wait at the same time. */
static void group_ahead(const struct store *store, const struct wire_request *q, unsigned n)
{
	const struct block *b[GROUP];
	uint64_t hash[GROUP];
	for (unsigned i = 0; i < n; i++)
		hash[i] = q[i].type == WIRE_GET ? store_ahead(store, q[i].key.data, q[i].key.len) : 0;
	for (unsigned i = 0; i < n; i++)
		b[i] = q[i].type == WIRE_GET ? store_ahead_block(store, hash[i]) : NULL;
	for (unsigned i = 0; i < n; i++)
		store_ahead_data(store, b[i]);
}

static void records_take(struct shard_attachment *s, unsigned link, struct wire_reader *records, uint64_t now_ns)
{
	struct wire_request q[GROUP];
	struct store *store = &s->shard->store;
	unsigned n;
	int rc;
	store_enter(store, s->own.space);
	do {
		for (n = 0, rc = 1; n < GROUP && (rc = wire_request_next(records, &q[n])) == 1;)
			n++;
		if (n > 1)
			group_ahead(store, q, n);
		for (unsigned i = 0; i < n; i++)
			record_take(&s->link[link], &q[i], now_ns);
	} while (rc == 1);
	if (s->shard->records_end)
		s->shard->records_end(s->shard);
	s->link[link].session = &s->own;
	store_enter(store, store_space_default(store));
	if (rc < 0)
		shard_count(s->shard, WIRE_STAT_BAD_FRAMES);
}

/* ---- the frame ---- */

/* The attachment that a frame names, with *reader at its records. NULL: it is malformed, or of none; counted. */
static struct shard_attachment *frame_open(struct shard *s, const uint8_t *data, size_t len, struct wire_reader *reader,
					   struct wire_frame *out)
{
	struct shard_attachment *attachment;
	if (wire_frame_open(reader, data, len, out) != 0) {
		shard_count(s, WIRE_STAT_BAD_FRAMES);
		return NULL;
	}
	attachment = shard_attachment_find(s, out->session);
	if (!attachment || attachment->state != ATTACHMENT_OPEN) {
		shard_count(s, WIRE_STAT_UNKNOWN_SESSION);
		return NULL;
	}
	if (out->link >= attachment->links || out->shard != s->opt.index || out->mark != attachment->mark) {
		shard_count(s, WIRE_STAT_BAD_FRAMES);
		return NULL;
	}
	return attachment;
}

void frame_message(void *arg, unsigned rail, const uint8_t *data, size_t len)
{
	struct shard *s = arg;
	struct wire_reader reader;
	struct wire_frame frame;
	struct shard_attachment *attachment = frame_open(s, data, len, &reader, &frame);
	int rc;
	(void)rail;
	if (!attachment)
		return;
	rc = wire_unseal(&attachment->link[frame.link].seal, data, len);
	if (KV_LIKELY(rc == 0))
		records_take(attachment, frame.link, &reader, loop_turn_now(s->loop));
	else
		shard_count(s, rc == -KV_EEXIST ? WIRE_STAT_REPLAYED_FRAMES : WIRE_STAT_BAD_TAG);
}

/* A client may not speak for another one (rule 60). */
void frame_local(void *arg, struct te_peer *peer, const uint8_t *data, size_t len)
{
	struct shard *s = arg;
	struct wire_reader reader;
	struct wire_frame frame;
	struct shard_attachment *attachment = frame_open(s, data, len, &reader, &frame);
	shard_count(s, WIRE_STAT_LOCAL_FRAMES);
	if (!attachment || attachment->peer != peer || !attachment->local) {
		if (attachment)
			shard_count(s, WIRE_STAT_UNKNOWN_SESSION);
		return;
	}
	shard_local_releases(attachment->local);
	if (!attachment->local->garbled)
		records_take(attachment, frame.link, &reader, loop_turn_now(s->loop));
}
