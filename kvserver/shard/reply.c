/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- replies on their way out: each is encoded at once into its link's frame, sent at the end of the turn or
 * when full.
 *
 * All clients share the send buffers. So a link may have several frames in flight only while more than half of the
 * buffers are free, and at most a quarter of the free ones; otherwise one. Without a send buffer a reply is held: a
 * copy that references its block instead of its bytes. Nothing is encoded past a held reply. A frame with replies for
 * ordered writes (follows) is sent behind those writes at the end of the request frame, or the attachment is renewed
 * (frame_lost).
 *
 * Invariants. link->msg is not NULL exactly while the link is in shard->dirty; link->holding is not empty exactly while
 * it is in shard->blocked. */
#include "kvserver/shard/reply.h"

#include "kvserver/shard/stat.h"

struct held {
	struct kv_list node;
	struct wire_reply reply;
	struct block *block;
	uint8_t bitmap[3][WIRE_EXISTS_BITMAP]; /* of EXISTS: found, deleted, on the tier */
};

_Static_assert(sizeof(struct held) <= REPLY_HELD_BYTES, "the slab's objects are large enough");

enum { FRAME_SHARE = 4 }; /* a link's frames in flight: at most a quarter of the free buffers */

/* These replies are lost. The client would wait for them until its deadlines, and miss their credits. A client that
 * does not read (-KV_ETIMEOUT) is not informed: it watches its silent link. Nor is one without an answer by this link
 * yet: it asks again. */
static void frame_failed(const struct link *l, const struct te_msg *msg, int status)
{
	struct shard_attachment *s = l->attachment;
	s->shard->counts.of[WIRE_STAT_DROPPED_REPLIES] += wire_frame_records(msg->data);
	if (status != -KV_ETIMEOUT && (l->proven || s->links == 1))
		shard_attachment_lost(s, 0);
}

/* The engine returns a frame. The attachment may have ended, but its memory waits for this. */
static void frame_sent(struct te_msg *msg, int status)
{
	struct link *l = msg->arg;
	struct shard_attachment *s = l->attachment;
	l->frames--;
	s->shard->replies.frames--;
	if (KV_UNLIKELY(status != 0) && status != -KV_ECLOSED && status != -KV_ERESET)
		frame_failed(l, msg, status);
	shard_attachment_frame_sent(s);
}

static bool frame_allowed(const struct link *l)
{
	const struct shard *s = l->attachment->shard;
	uint32_t free = s->replies.frames_max - KV_MIN(s->replies.frames, s->replies.frames_max);
	return l->frames == 0 || (free > s->replies.frames_max / 2 && l->frames < free / FRAME_SHARE);
}

/* Drop the frame being filled. */
static void frame_forget(struct link *l)
{
	struct shard_attachment *s = l->attachment;
	kv_list_del(&l->dirty);
	te_msg_release(s->shard->te, l->msg);
	l->msg = NULL;
	l->follows = false;
	l->frames--;
	s->frames--;
	s->shard->replies.frames--;
}

/* The connection of the bytes may be gone with them, which makes the frame untrue. Or it could not be sealed. */
static void frame_lost(struct link *l)
{
	struct shard_attachment *s = l->attachment;
	s->shard->counts.of[WIRE_STAT_DROPPED_REPLIES] += wire_frame_records(l->msg->data);
	kv_debug(s->shard->opt.log,
		 "shard %u: replies of session %u could not be sealed, or could not follow their bytes at once",
		 s->shard->opt.index, s->number);
	frame_forget(l);
	shard_attachment_lost(s, 0);
}

static void frame_send(struct link *l)
{
	struct shard_attachment *s = l->attachment;
	struct te_msg *msg = l->msg;
	msg->len = wire_frame_end(&l->writer);
	if (msg->len == 0) {
		frame_forget(l); /* nothing was encoded in it */
		return;
	}
	/* A channel has no other reader or writer than its client. */
	if (KV_UNLIKELY(!te_peer_is_local(s->peer) && wire_seal(&l->seal, msg->data, msg->len) != 0)) {
		frame_lost(l);
		return;
	}
	msg->sent = frame_sent;
	msg->arg = l;
	if (l->follows && te_msg_follow(s->shard->te, s->peer, l->index, msg) != 0) {
		frame_lost(l);
		return;
	}
	kv_list_del(&l->dirty);
	l->msg = NULL;
	if (!l->follows)
		te_msg_send(s->shard->te, s->peer, l->index, msg, loop_turn_now(s->shard->loop) + SHARD_REPLY_NS);
	l->follows = false;
}

static bool frame_begin(struct link *l)
{
	struct shard_attachment *s = l->attachment;
	struct wire_frame frame = {
		.session = s->number, .mark = s->mark, .link = l->index, .shard = (uint8_t)s->shard->opt.index};
	l->msg = frame_allowed(l) ? te_msg_acquire(s->shard->te) : NULL;
	if (!l->msg)
		return false;
	l->frames++;
	s->shard->replies.frames++;
	s->frames++;
	wire_frame_begin(&l->writer, l->msg->data, KV_MSG_MAX, &frame);
	kv_list_add_tail(&s->shard->replies.dirty, &l->dirty);
	return true;
}

/* False: no send buffer. A reply that cannot be encoded is our own bug: logged, and true. */
static bool encode(struct link *l, const struct wire_reply *r)
{
	int rc = -KV_EBUSY;
	if (l->msg)
		rc = wire_reply_add(&l->writer, r);
	if (rc == -KV_EBUSY) {
		if (l->msg)
			frame_send(l);
		if (!frame_begin(l))
			return false;
		rc = wire_reply_add(&l->writer, r);
	}
	if (rc != 0)
		kv_event(l->attachment->shard->opt.log, KV_LOG_ERROR,
			 KV_EVENT("reply_failed", KV_NUMBER("shard", l->attachment->shard->opt.index),
				  KV_NUMBER("type", r->type), KV_FIELD("reason", kv_strerror(rc))),
			 "shard %u: reply of type %u does not encode: %s", l->attachment->shard->opt.index, r->type,
			 kv_strerror(rc));
	return true;
}

/* The bytes that the reply points to are copied: the caller's end with its call. A page is too long for that, and its
 * client asks again. */
static void held_fill(struct held *h, const struct wire_reply *r)
{
	const uint8_t *const from[] = {r->exists.bitmap, r->exists.deleted, r->exists.tier};
	const uint32_t pages =
		1u << WIRE_STAT | 1u << WIRE_TOMBS | 1u << WIRE_SPACES | 1u << WIRE_TENANTS | 1u << WIRE_LEASES;
	h->reply = *r;
	if (r->type == WIRE_EXISTS && r->exists.count) {
		for (unsigned i = 0; i < KV_COUNT(from); i++)
			memcpy(h->bitmap[i], from[i], (r->exists.count + 7) / 8);
		h->reply.exists.bitmap = h->bitmap[0];
		h->reply.exists.deleted = h->bitmap[1];
		h->reply.exists.tier = h->bitmap[2];
	} else if (pages >> r->type & 1) {
		h->reply = (struct wire_reply){.type = r->type,
					       .status = WIRE_BUSY,
					       .id = r->id,
					       .posted_ns = r->posted_ns,
					       .replied_ns = r->replied_ns};
	}
}

static void hold_back(struct link *l, const struct wire_reply *r, struct block *block)
{
	struct shard *s = l->attachment->shard;
	struct held *h = l->held < s->opt.credits + ATTACHMENT_HELD_SLACK ? slab_get(&s->replies.held) : NULL;
	if (!h) {
		shard_count(s, WIRE_STAT_DROPPED_REPLIES);
		return;
	}
	held_fill(h, r);
	h->block = block;
	if (block)
		block_ref(block);
	if (kv_list_empty(&l->holding))
		kv_list_add_tail(&s->replies.blocked, &l->blocked);
	kv_list_add_tail(&l->holding, &h->node);
	l->held++; /* the reply uses a credit until it leaves */
}

/* ---- durations of requests ---- */

static void max_to(uint64_t *max, uint64_t v)
{
	if (v > *max)
		*max = v;
}

static void slow_log(struct link *l, const struct wire_reply *r, uint64_t posted_ns, uint64_t replied_ns,
		     const struct wire_bytes *key)
{
	static const char *const types[] = {"",       "GET",     "PUT",     "EXISTS",  "DELETE", "TOUCH",
					    "PIN",    "STAT",    "CANCEL",  "PING",    "TOMBS",  "CLEAR",
					    "SPACES", "TENANTS", "SESSION", "RELEASE", "PROVE",  "LEASES"};
	_Static_assert(KV_COUNT(types) == WIRE_TYPES, "each type has its name");
	struct shard *s = l->attachment->shard;
	char text[KV_KEY_TEXT], left_out[64] = "";
	uint64_t suppressed;
	shard_count(s, WIRE_STAT_SLOW);
	if (!kv_rate_take(&s->counts.slow_lines, loop_turn_now(s->loop), SHARD_SLOW_LINES, &suppressed))
		return;
	if (suppressed)
		snprintf(left_out, sizeof(left_out), " (%llu more %s slow, not shown)", (unsigned long long)suppressed,
			 suppressed == 1 ? "was" : "were");
	kv_event(s->opt.log, KV_LOG_WARN,
		 KV_EVENT("slow_request", KV_FIELD("op", types[r->type]),
			  KV_NUMBER("client_id", l->attachment->client_id), KV_NUMBER("session", l->attachment->number),
			  KV_NUMBER("shard", s->opt.index), KV_NUMBER("link", l->index),
			  KV_FIELD("key", key ? shard_key_text(s, key->data, key->len, text) : "-"),
			  KV_NUMBER("total_us", replied_ns / 1000), KV_NUMBER("post_us", posted_ns / 1000),
			  KV_FIELD("result", kv_errname(wire_status_error(r->status))), KV_NUMBER("more", suppressed)),
		 "slow %s client %llu session %u shard %u link %u key %s: %.3f ms = post %.3f + reply %.3f; %s%s",
		 types[r->type], (unsigned long long)l->attachment->client_id, l->attachment->number, s->opt.index,
		 l->index, key ? shard_key_text(s, key->data, key->len, text) : "-", (double)replied_ns / 1e6,
		 (double)posted_ns / 1e6, (double)(replied_ns - posted_ns) / 1e6,
		 kv_errname(wire_status_error(r->status)), left_out);
}

static uint32_t saturated(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* A GET that failed after its key was found hot does not report it. */
static void hot_account(struct shard *s, struct wire_reply *r)
{
	if (r->status == WIRE_OK)
		shard_count(s, WIRE_STAT_HOT_GETS);
	else
		r->flags &= (uint8_t)~WIRE_GET_HOT;
}

static void account(struct link *l, struct wire_reply *r, uint64_t arrived_ns, uint64_t posted_ns,
		    const struct wire_bytes *key)
{
	struct shard *s = l->attachment->shard;
	uint64_t replied = loop_now(s->loop) - arrived_ns, posted = posted_ns ? posted_ns - arrived_ns : replied;
	uint64_t slow_ns;
	r->posted_ns = saturated(posted);
	r->replied_ns = saturated(replied);
	s->counts.of[WIRE_STAT_REPLIES]++;
	s->counts.of[WIRE_STAT_POST_NS] += posted;
	s->counts.of[WIRE_STAT_SERVE_NS] += replied;
	max_to(&s->counts.of[WIRE_STAT_POST_MAX_NS], posted);
	max_to(&s->counts.of[WIRE_STAT_SERVE_MAX_NS], replied);
	s->counts.of[WIRE_STAT_STATUS + KV_MIN((uint32_t)r->status, (uint32_t)(WIRE_STATUS_MAX - 1))]++;
	s->counts.tally.answered[r->type][KV_MIN((uint32_t)r->status, (uint32_t)(WIRE_STATUS_MAX - 1))]++;
	s->counts.tally.post[kv_metrics_bucket(posted)]++;
	s->counts.tally.serve[kv_metrics_bucket(replied)]++;
	if (r->flags & WIRE_GET_HOT) /* of GETs alone */
		hot_account(s, r);
	if (KV_UNLIKELY(r->status == WIRE_INVALID))
		shard_count(s, WIRE_STAT_INVALID_REQUESTS);
	slow_ns = __atomic_load_n(&s->opt.slow_ns, __ATOMIC_RELAXED);
	if (KV_UNLIKELY(slow_ns && replied >= slow_ns))
		slow_log(l, r, posted, replied, key);
}

static void encode_or_hold(struct link *l, const struct wire_reply *r, struct block *block)
{
	if (!kv_list_empty(&l->holding) || !encode(l, r))
		hold_back(l, r, block);
}

static bool takes_replies(const struct link *l)
{
	return l->attachment->state == ATTACHMENT_OPEN && l->attachment->shard->te;
}

void reply_put(struct link *l, struct wire_reply *r, struct block *block)
{
	if (!takes_replies(l))
		return;
	account(l, r, loop_turn_now(l->attachment->shard->loop), 0, NULL);
	encode_or_hold(l, r, block);
}

void reply_late(struct link *l, struct wire_reply *r, uint64_t arrived_ns, uint64_t posted_ns,
		const struct wire_bytes *key)
{
	if (!takes_replies(l))
		return;
	account(l, r, arrived_ns, posted_ns, key);
	encode_or_hold(l, r, NULL);
}

bool reply_follow_begin(struct link *l, uint32_t bytes)
{
	if (!kv_list_empty(&l->holding))
		return false;
	if (l->msg && wire_frame_room(&l->writer) < bytes)
		frame_send(l);
	return l->msg || frame_begin(l);
}

void reply_follow_flush(void *shard)
{
	struct shard *s = shard;
	KV_LIST_EACH_SAFE (n, &s->replies.dirty) {
		struct link *l = KV_LIST_ENTRY(n, struct link, dirty);
		if (l->follows)
			frame_send(l);
	}
}

void reply_flush(struct shard *s)
{
	while (!kv_list_empty(&s->replies.dirty))
		frame_send(KV_LIST_ENTRY(s->replies.dirty.next, struct link, dirty));
}

static void held_free(struct link *l, struct held *h)
{
	struct shard *s = l->attachment->shard;
	kv_list_del(&h->node);
	if (h->block)
		block_unref(&s->store, h->block);
	slab_put(&s->replies.held, h);
	l->held--; /* its credit is free */
	if (kv_list_empty(&l->holding))
		kv_list_del(&l->blocked);
}

/* Counters get their present values. */
static bool held_encode(struct link *l, struct held *h)
{
	uint8_t pairs[STAT_BYTES];
	if (h->reply.type == WIRE_STAT && h->reply.stat.count) {
		h->reply.stat.count = shard_stat_pairs(l->attachment->shard, pairs, sizeof(pairs));
		h->reply.stat.pairs = pairs;
	}
	return encode(l, &h->reply);
}

/* Encode the held replies of a link while buffers last. A link that got one moves behind the others; otherwise the
 * first links would take every returned buffer, and the others would starve. */
static void link_room(struct link *l)
{
	bool some = false;
	while (!kv_list_empty(&l->holding)) {
		struct held *h = KV_LIST_ENTRY(l->holding.next, struct held, node);
		if (!held_encode(l, h))
			break;
		held_free(l, h);
		some = true;
	}
	if (!some || kv_list_empty(&l->holding))
		return;
	kv_list_del(&l->blocked);
	kv_list_add_tail(&l->attachment->shard->replies.blocked, &l->blocked);
}

/* A link with its full share in flight does not delay the others. */
void reply_retry(struct shard *s)
{
	KV_LIST_EACH_SAFE (n, &s->replies.blocked)
		link_room(KV_LIST_ENTRY(n, struct link, blocked));
}

void reply_drop(struct link *l)
{
	while (!kv_list_empty(&l->holding))
		held_free(l, KV_LIST_ENTRY(l->holding.next, struct held, node));
	if (!l->msg)
		return;
	frame_forget(l);
}
