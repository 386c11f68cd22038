/* SPDX-License-Identifier: Apache-2.0 */
/* get.c -- GET: find the block, keep it, and write the range into the client's memory.
 *
 *   get_begin --> answered at once: missing, small enough for the reply, or with a lease; or packed (pack.c)
 *    BEGUN (get_alone)
 *     +--> CHECKING: WIRE_GET_CHECK of a large value -- damaged, or too late --> answered
 *     +--> SUMMING: WIRE_GET_PULL of a part -- summed, and leased --> answered
 *     +--> WRITING -- posting is final, and the checksum made --> answered
 *
 * Where messages stay behind writes, a value of one chunk is written without an immediate, and the reply follows
 * (get_push). Else the answer is sent when posting is final, with the number of immediates. The block stays referenced
 * until the last write completed. A range too large for its destination moves nothing: TOOBIG with length and
 * generation.
 *
 * A local client that names no destination (get_in_place) gets a lease without a time, of any length, or BUSY. */
#include "kvserver/ops/private.h"

#include "kvserver/ops/work.h"
#include "kvserver/shard/reply.h"
#include "kvserver/shard/request.h"
#include "kvserver/shard/tenants.h"

enum { HASH_AT_ONCE = 64 * 1024 };

/* The end status of the writes. */
static int32_t get_status(const struct request *r)
{
	if (request_posted(r) == request_chunks(r))
		return !request_running(r) && request_status(r) ? WIRE_FABRIC : WIRE_OK;
	if (request_status(r) == -KV_EINVAL)
		return WIRE_INVALID;
	return loop_turn_now(r->attachment->shard->loop) >= r->deadline_ns ? WIRE_TIMEOUT : WIRE_FABRIC;
}

/* False: they must be written. */
static bool get_lease(struct shard_attachment *s, struct block *b, uint64_t offset, uint64_t length,
		      struct wire_reply *reply)
{
	const struct leases *l = &s->shard->work->leases;
	if (!lease_give(s, b, &reply->get.lease))
		return false;
	reply->flags |= WIRE_GET_LEASED;
	reply->get.at = b->offset + offset;
	reply->get.lease_us = (uint32_t)(l->time_ns / 1000);
	s->shard->counts.of[WIRE_STAT_BYTES_READ] += length;
	return true;
}

/* Count the GET, once for each value that a client takes, and report a hot value in the reply. Refused ranges and
 * further ranges or parts of the value (WIRE_GET_MORE) do not count. A block gone while its checksum was made is
 * neither used nor hot. */
static void get_hit(struct shard *s, bool more, struct block *b, struct wire_reply *reply, uint64_t now_ns)
{
	struct space *sp = s->store.spaces.at[b->space];
	if (more)
		return;
	sp->gets++;
	sp->hits++;
	shard_count(s, WIRE_STAT_GETS);
	shard_count(s, WIRE_STAT_HITS);
	if (KV_UNLIKELY(b->state != BLOCK_LIVE))
		return;
	store_use(&s->store, b);
	if (heat_asked(&s->work->heat, b->item.hash, now_ns))
		reply->flags |= WIRE_GET_HOT;
}

/* The same without a time, for a client that maps the arena. False: beyond its budget; it repeats the GET with a
 * destination, so this one is not counted. */
static bool get_lease_local(struct session *o, struct block *b, uint64_t offset, uint64_t length, bool more,
			    struct wire_reply *reply)
{
	struct shard_attachment *s = o->attachment;
	uint64_t now_ns = loop_turn_now(s->shard->loop);
	if (!lease_give_local(s->local, b, &reply->get.lease))
		return false;
	if (KV_UNLIKELY(o->limited))
		tenant_reads(o, length, now_ns);
	get_hit(s->shard, more, b, reply, now_ns);
	reply->flags |= WIRE_GET_LEASED;
	reply->get.at = b->offset + offset;
	reply->get.lease_us = UINT32_MAX;
	s->shard->counts.of[WIRE_STAT_BYTES_READ] += length;
	return true;
}

static void get_enter(struct request *r, enum get_state to)
{
	KV_ASSERT_HOT(to > r->get.state);
	r->get.state = (uint8_t)to;
}

static void get_settle(struct request *r)
{
	struct shard *s = r->attachment->shard;
	int32_t status;
	if (request_posting(r) || r->get.hasher)
		return;
	status = get_status(r);
	r->reply.get.posted = r->follows ? 0 : request_posted(r);
	if (status == WIRE_OK)
		s->counts.of[WIRE_STAT_BYTES_READ] += r->get.length;
	request_end(r, status);
}

static void hash_end(struct request *r)
{
	if (!r->get.hasher)
		return;
	kv_list_del(&r->get.hashing);
	slab_put(&r->attachment->shard->work->hashers, r->get.hasher);
	r->get.hasher = NULL;
}

static void get_serve(struct request *r);
static void get_write(struct request *r);

/* At most one line a second: with bad memory all values may be damaged, and clients choose when they ask. */
static void damaged_log(struct shard *s, const struct block *b)
{
	char text[KV_KEY_TEXT];
	const char *key;
	uint64_t more;
	if (!kv_rate_take(&s->work->damaged_lines, loop_turn_now(s->loop), SHARD_DAMAGED_LINES, &more))
		return;
	key = shard_key_text(s, b->item.key, b->item.key_len, text);
	kv_event(s->opt.log, KV_LOG_ERROR,
		 KV_EVENT("value_damaged", KV_NUMBER("shard", s->opt.index), KV_FIELD("key", key),
			  KV_NUMBER("bytes", b->len), KV_NUMBER("more", more)),
		 "shard %u: the value of key %s (%llu bytes) is damaged in memory; it is dropped (%llu more since the "
		 "last line)",
		 s->opt.index, key, (unsigned long long)b->len, (unsigned long long)more);
}

/* The value's bytes differ from the committed ones: no client may get them. */
static void block_damaged(struct shard *s, struct block *b)
{
	shard_count(s, WIRE_STAT_CORRUPT_DROPPED);
	damaged_log(s, b);
	store_drop(&s->store, b);
}

/* A value was summed because a client found it corrupt. */
static void get_checked(struct request *r, uint64_t digest)
{
	int32_t status = WIRE_OK;
	if (digest != r->block->checksum) {
		block_damaged(r->attachment->shard, r->block);
		status = WIRE_CORRUPT;
	} else if (!r->attachment->shard->te) {
		status = WIRE_CLOSING;
	} else if (loop_turn_now(r->attachment->shard->loop) >= r->deadline_ns) {
		status = WIRE_TIMEOUT;
	}
	if (status == WIRE_OK)
		get_serve(r);
	else
		request_end(r, status);
}

static bool get_hand_local(struct shard_attachment *s, struct request *r)
{
	return s->local && get_lease_local(r->session, r->block, r->get.offset, r->get.length, r->get.more, &r->reply);
}

/* Once, when nothing can refuse it for want of a place any more: what is BUSY costs its tenant nothing. A lease without
 * a time is paid for by itself. */
static void get_pay(struct request *r)
{
	if (KV_LIKELY(!r->session->limited) || r->get.paid || !r->use)
		return;
	r->get.paid = true;
	tenant_reads(r->session, r->get.length, loop_turn_now(r->attachment->shard->loop));
}

/* The requested checksums are ready: let the client read the bytes. Its channel may have ended in the meantime. */
static void get_hand_out(struct request *r)
{
	struct shard_attachment *s = r->attachment;
	int32_t status = WIRE_OK;
	r->get.pull = false;
	if (!s->shard->te)
		status = WIRE_CLOSING;
	else if (loop_turn_now(s->shard->loop) >= r->deadline_ns)
		status = WIRE_TIMEOUT;
	else if (!r->use)
		status = get_hand_local(s, r) ? WIRE_OK : WIRE_BUSY;
	else if (!get_lease(s, r->block, r->get.offset, r->get.length, &r->reply)) {
		get_write(r);
		return;
	}
	if (status == WIRE_OK)
		get_pay(r);
	request_end(r, status);
}

void get_hash(struct request *r, uint64_t *budget)
{
	uint64_t n = KV_MIN(r->get.left, *budget), digest;
	kv_hasher_update(r->get.hasher, r->get.from, n);
	r->get.from += n;
	r->get.left -= n;
	*budget -= n;
	if (r->get.left)
		return;
	digest = kv_hasher_digest(r->get.hasher);
	hash_end(r);
	if (r->get.state == GET_CHECKING) {
		get_checked(r, digest);
		return;
	}
	r->reply.get.checksum = digest;
	if (r->get.state == GET_SUMMING)
		get_hand_out(r);
	else
		get_settle(r);
}

static void get_cancel(struct request *r)
{
	request_stop(r);
	r->reply.get.posted = request_posted(r);
	request_end(r, WIRE_CANCELED);
}

static const struct request_ops get_ops = {
	.posted = get_settle,
	.done = get_settle,
	.stop = hash_end,
	.cancel = get_cancel,
};

/* False: no hasher is free. */
static bool hash_begin(struct request *r, const uint8_t *from, uint64_t length)
{
	struct shard *s = r->attachment->shard;
	r->get.hasher = slab_get(&s->work->hashers);
	if (!r->get.hasher)
		return false;
	kv_hasher_init(r->get.hasher);
	r->get.from = from;
	r->get.left = length;
	kv_list_add_tail(&s->work->hash_gets, &r->get.hashing);
	return true;
}

/* Provide the reply's checksum: of the whole value it is stored; of a part it is made now, or begun. False: no hasher
 * is free. */
static bool sum_begin(struct request *r)
{
	const uint8_t *from = store_data(&r->attachment->shard->store, r->block) + r->get.offset;
	if (!r->get.of_range || r->get.length == r->block->len)
		return true;
	if (r->get.length > HASH_AT_ONCE)
		return hash_begin(r, from, r->get.length);
	r->reply.get.checksum = kv_hash_block(from, r->get.length);
	return true;
}

static void get_refuse(struct link *l, const struct wire_reply *reply, int32_t status)
{
	struct wire_reply r = *reply;
	r.status = status;
	reply_put(l, &r, NULL);
}

/* Write it without an immediate, if the reply can follow right away. */
static bool get_push(struct request *r)
{
	if (!shard_attachment_ordered(r->attachment) || r->get.hasher ||
	    !reply_follow_begin(r->link, REPLY_GET_BYTES) ||
	    request_write(r, &r->get.dest, r->get.offset, r->get.length, r->get.imm) != 0)
		return false;
	reply_follow(r->link);
	r->reply.flags |= WIRE_GET_FOLLOWS;
	return true;
}

static void get_failed(struct request *r, int rc)
{
	hash_end(r);
	if (rc == -KV_EBUSY)
		request_end(r, WIRE_BUSY);
	else
		request_end(r, rc == -KV_EINVAL ? WIRE_INVALID : WIRE_FABRIC);
}

static void get_write(struct request *r)
{
	int rc = 0;
	get_enter(r, GET_WRITING);
	if (!get_push(r))
		rc = request_move(r, TE_WRITE, &r->get.dest, r->get.offset, r->get.length, &r->get.imm);
	if (rc == 0 && r->get.hasher && !request_posting(r))
		request_posted_now(r);
	if (rc) {
		get_failed(r, rc);
		return;
	}
	get_pay(r);
	get_settle(r);
}

static void get_serve(struct request *r)
{
	if (!sum_begin(r)) {
		get_failed(r, -KV_EBUSY);
	} else if (!r->get.pull) {
		get_write(r);
	} else if (!r->get.hasher) {
		get_hand_out(r);
	} else {
		get_enter(r, GET_SUMMING);
		get_pay(r);
	}
}

/* Whether a checksum is due before the client may read the bytes. */
static bool pull_waits(const struct wire_request *q, const struct block *b, uint64_t length)
{
	return q->flags & WIRE_GET_CHECK || (q->flags & WIRE_GET_SUM_RANGE && length != b->len);
}

/* Whether the check takes several turns. Then even a small part of the value waits, and is sent as a data write. */
static bool check_takes_long(const struct wire_request *q, const struct block *b)
{
	return (q->flags & WIRE_GET_CHECK) && b->len > HASH_AT_ONCE;
}

/* u: where the bytes are to be written; NULL: the client reads them in place. */
static void get_request(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
			const struct wire_reply *reply, struct region_use *u, uint64_t now_ns)
{
	struct request *r = request_new(l, q, &get_ops, now_ns);
	if (!r) {
		get_refuse(l, reply, WIRE_BUSY);
		return;
	}
	r->reply = *reply;
	r->block = b;
	block_ref(b);
	r->use = u ? region_use_keep(u) : NULL;
	r->get.length = length;
	r->get.offset = q->get.offset;
	r->get.dest = q->dest;
	r->get.imm = q->get.imm;
	r->get.of_range = q->flags & WIRE_GET_SUM_RANGE;
	r->get.more = q->flags & WIRE_GET_MORE;
	r->get.pull = !u || (q->flags & WIRE_GET_PULL && pull_waits(q, b, length));
	r->get.paid = false;
	r->get.hasher = NULL;
	kv_list_init(&r->get.hashing);
	r->get.state = GET_BEGUN;
	if (!check_takes_long(q, b)) {
		get_serve(r);
	} else if (hash_begin(r, store_data(&l->attachment->shard->store, b), b->len)) {
		get_enter(r, GET_CHECKING);
		get_pay(r);
	} else {
		request_end(r, WIRE_BUSY);
	}
}

void get_alone(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
	       const struct wire_reply *reply, uint64_t now_ns)
{
	struct region_use *u = regions_usable(&l->attachment->regions, &q->dest);
	if (l->attachment->shard->work->packs.link)
		pack_close(l->attachment->shard);
	if (u && q->dest.count <= REQUEST_SLICES_MAX)
		get_request(l, q, b, length, reply, u, now_ns);
	else
		get_refuse(l, reply, WIRE_INVALID);
}

static void get_inline(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
		       struct wire_reply *reply)
{
	struct shard *s = l->attachment->shard;
	const uint8_t *from = store_data(&s->store, b) + q->get.offset;
	if ((q->flags & WIRE_GET_SUM_RANGE) && length != b->len)
		reply->get.checksum = kv_hash_block(from, length);
	reply->get.inline_data = (struct wire_bytes){from, (uint32_t)length};
	s->counts.of[WIRE_STAT_BYTES_READ] += length;
	if (KV_UNLIKELY(l->session->limited))
		tenant_reads(l->session, length, loop_turn_now(s->loop));
	reply_put(l, reply, b);
}

/* Pack it with others into one write, if the client's destinations are adjacent. */
static bool get_pack(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
		     struct wire_reply *reply, uint64_t now_ns)
{
	return (q->flags & WIRE_GET_PACK) && !(q->flags & (WIRE_GET_CHECK | WIRE_GET_PULL)) &&
	       shard_attachment_ordered(l->attachment) && pack_add(l, q, b, length, reply, now_ns);
}

static bool get_pull(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
		     struct wire_reply *reply)
{
	if (!(q->flags & WIRE_GET_PULL) || pull_waits(q, b, length) ||
	    !get_lease(l->attachment, b, q->get.offset, length, reply))
		return false;
	if (KV_UNLIKELY(l->session->limited))
		tenant_reads(l->session, length, loop_turn_now(l->attachment->shard->loop));
	reply_put(l, reply, NULL);
	return true;
}

static bool get_in_place(const struct link *l, const struct wire_request *q)
{
	return q->flags & WIRE_GET_PULL && q->dest.count == 0 && l->attachment->local;
}

/* A lease, at once unless a checksum is due; or BUSY: the client repeats the GET with a destination. */
static void get_place(struct link *l, const struct wire_request *q, struct block *b, uint64_t length,
		      struct wire_reply *reply, uint64_t now_ns)
{
	if (pull_waits(q, b, length)) {
		get_request(l, q, b, length, reply, NULL, now_ns);
		return;
	}
	if (!get_lease_local(l->session, b, q->get.offset, length, q->flags & WIRE_GET_MORE, reply))
		reply->status = WIRE_BUSY;
	reply_put(l, reply, NULL);
}

static void get_missed(struct link *l, const struct wire_request *q, struct wire_reply *reply, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	uint64_t deleted_ns;
	if (!(q->flags & WIRE_GET_MORE)) {
		l->session->space->gets++;
		shard_count(s, WIRE_STAT_GETS);
		shard_count(s, WIRE_STAT_MISSES);
	}
	if (!store_key_deleted(&s->store, store_hash(&s->store, q->key.data, q->key.len), now_ns, &deleted_ns)) {
		get_refuse(l, reply, WIRE_NOTFOUND);
		return;
	}
	reply->get.generation = now_ns - KV_MIN(now_ns, deleted_ns);
	get_refuse(l, reply, WIRE_DELETED);
}

/* Whether the value fits inside the reply. Without a destination the reply's room decides. */
static bool get_inlined(const struct wire_request *q, const struct block *b, uint64_t length)
{
	uint64_t most = q->dest.count ? q->dest.slice * q->dest.count : q->dest.slice;
	bool fits = (q->dest.count == 0 && most == 0) || length <= most;
	return length == 0 ||
	       ((q->flags & WIRE_GET_INLINE) && length <= KV_INLINE_MAX && fits && !check_takes_long(q, b));
}

static void get_block(struct link *l, const struct wire_request *q, struct block *b, struct wire_reply *reply,
		      uint64_t now_ns)
{
	uint64_t room = q->dest.slice * q->dest.count, length;
	bool inlined, in_place = get_in_place(l, q);
	if (q->get.generation && q->get.generation != b->generation && !(q->flags & WIRE_GET_YOUNG)) {
		get_refuse(l, reply, WIRE_STALE);
		return;
	}
	if (q->get.offset > b->len) {
		get_refuse(l, reply, WIRE_INVALID);
		return;
	}
	if ((q->flags & WIRE_GET_CHECK) && b->len <= HASH_AT_ONCE &&
	    kv_hash_block(store_data(&l->attachment->shard->store, b), b->len) != b->checksum) {
		block_damaged(l->attachment->shard, b);
		get_refuse(l, reply, WIRE_CORRUPT);
		return;
	}
	length = b->len - q->get.offset;
	if (q->get.length)
		length = KV_MIN(length, q->get.length);
	inlined = get_inlined(q, b, length);
	if (in_place)
		room = q->dest.slice ? q->dest.slice : KV_VALUE_MAX;
	if (!inlined && (length > room || (length > KV_RANGE_MAX && !in_place))) {
		get_refuse(l, reply, WIRE_TOOBIG);
		return;
	}
	if (in_place && !inlined) {
		get_place(l, q, b, length, reply, now_ns);
		return;
	}
	get_hit(l->attachment->shard, q->flags & WIRE_GET_MORE, b, reply, now_ns);
	if (inlined)
		get_inline(l, q, b, length, reply);
	else if (!get_pull(l, q, b, length, reply) && !get_pack(l, q, b, length, reply, now_ns))
		get_alone(l, q, b, length, reply, now_ns);
}

void get_begin(struct link *l, const struct wire_request *q, uint64_t now_ns)
{
	struct shard *s = l->attachment->shard;
	struct wire_reply reply = {.type = WIRE_GET, .id = q->id};
	struct block *b = store_find(&s->store, q->key.data, q->key.len, now_ns);
	if (q->flags & WIRE_GET_PULL && !(s->opt.allow_pull && l->attachment->own.sees_all) && !get_in_place(l, q)) {
		get_refuse(l, &reply, WIRE_NOTSUP); /* WELCOME said so */
		return;
	}
	if (!b && KV_UNLIKELY(s->work->tier != NULL) && get_tier(l, q, &reply, now_ns))
		return;
	if (!b || (KV_UNLIKELY(q->flags & WIRE_GET_YOUNG) && now_ns - block_born_ns(b) >= q->get.generation)) {
		get_missed(l, q, &reply, now_ns);
		return;
	}
	reply.get.value_len = b->len;
	reply.get.generation = b->generation;
	reply.get.checksum = b->checksum;
	get_block(l, q, b, &reply, now_ns);
}
