/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- reply records: size, limits, encode, decode.
 *
 * As request.c: limits of both directions in one place, one encoding, only numbers are copied. A reply has its whole
 * body with any status, so that a failed GET still reports `posted`. An unknown status concerns one request
 * (wire_status_error: -KV_EPROTO), so it passes here; an unknown CANCEL state is refused, since the safety of a buffer
 * depends on it. */
#include "wire/record.h"

/* Offsets in a body. X_FIXED: the begin of the variable part. */
enum {
	GET_VALUE_LEN = 0,
	GET_GENERATION = 8,
	GET_CHECKSUM = 16,
	GET_POSTED = 24,
	GET_INLINE_LEN = 28,
	GET_FIXED = 32,
	LEASE_ID = 32, /* behind the fixed part, with WIRE_GET_LEASED */
	LEASE_AT = 40,
	LEASE_TIME = 48,
	LEASE_ZERO = 52,
	LEASE_END = 56,

	PUT_STAGE = 0,
	PUT_GENERATION = 8,
	PUT_FIXED = 16,

	DELETE_CLOCK = 0,
	DELETE_FIXED = 8,

	TOUCH_LEFT = 0,
	TOUCH_AGE = 8,
	TOUCH_CHECKSUM = 16,
	TOUCH_CLOCK = 24,
	TOUCH_FIXED = 32,

	EXISTS_COUNT = 0,
	EXISTS_PREFIX = 2,
	EXISTS_ZERO = 4,
	EXISTS_FIXED = 8,

	STAT_COUNT = 0,
	STAT_ZERO_16 = 2,
	STAT_ZERO_32 = 4,
	STAT_FIXED = 8,

	CANCEL_ID = 0,
	CANCEL_POSTED = 8,
	CANCEL_STATE = 12,
	CANCEL_FIXED = 16,

	PING_COOKIE = 0,
	PING_TURNS = 8,
	PING_NONCE = 16,
	PING_FIXED = 24,

	TOMBS_NEXT = 0,
	TOMBS_COUNT = 8,
	TOMBS_ZERO_16 = 10,
	TOMBS_KNOWN = 12,
	TOMBS_FIXED = 16,
	TOMB_SIZE = 16,

	PAIR_ID = 0, /* in a pair of STAT */
	PAIR_ZERO = 4,
	PAIR_VALUE = 8,
	PAIR_SIZE = 16
};

_Static_assert(LEASE_ID == GET_FIXED && LEASE_ZERO + 4 == LEASE_END, "a lease");
_Static_assert(GET_INLINE_LEN + 4 == GET_FIXED && CANCEL_STATE + 4 == CANCEL_FIXED, "GET, CANCEL");
_Static_assert(DELETE_CLOCK + 8 == DELETE_FIXED && TOUCH_CLOCK + 8 == TOUCH_FIXED, "DELETE, TOUCH");
_Static_assert(PUT_GENERATION + 8 == PUT_FIXED && PING_NONCE + 8 == PING_FIXED, "PUT, PING");
_Static_assert(EXISTS_ZERO + 4 == EXISTS_FIXED && STAT_ZERO_32 + 4 == STAT_FIXED, "EXISTS, STAT");
_Static_assert(PAIR_VALUE + 8 == PAIR_SIZE, "a pair of STAT");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + GET_FIXED + KV_INLINE_MAX <= KV_MSG_MAX,
	       "an inline value fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + STAT_FIXED + WIRE_STAT_MAX * PAIR_SIZE <= KV_MSG_MAX,
	       "STAT fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + TOMBS_FIXED + WIRE_TOMBS_MAX * TOMB_SIZE <= KV_MSG_MAX &&
		       TOMBS_KNOWN + 4 == TOMBS_FIXED,
	       "TOMBS fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + EXISTS_FIXED + 2 * WIRE_EXISTS_BITMAP <= KV_MSG_MAX,
	       "EXISTS fits a frame");
_Static_assert((int)WIRE_STAT_END <= WIRE_STAT_MAX, "one reply can carry every counter");

/* Constants per type. */
/* clang-format off */
static const struct {
	uint8_t fixed; /* bytes of the body before the variable part */
	uint8_t flags; /* allowed bits */
} shapes[] = {
	[WIRE_GET] = {GET_FIXED, WIRE_GET_SUM_RANGE | WIRE_GET_INLINE | WIRE_GET_CHECK | WIRE_GET_FOLLOWS |
				 WIRE_GET_PACK | WIRE_GET_PULL | WIRE_GET_LEASED | WIRE_GET_HOT},
	[WIRE_PUT] = {PUT_FIXED, WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED | WIRE_PUT_COPY | WIRE_PUT_SPARE},
	[WIRE_EXISTS] = {EXISTS_FIXED, WIRE_EXISTS_DELETED},
	[WIRE_DELETE] = {DELETE_FIXED, WIRE_DELETE_THIS | WIRE_DELETE_AT},
	[WIRE_TOUCH] = {TOUCH_FIXED, WIRE_TOUCH_LOOK | WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT},
	[WIRE_PIN] = {0, WIRE_PIN_RELEASE},
	[WIRE_STAT] = {STAT_FIXED, 0},
	[WIRE_CANCEL] = {CANCEL_FIXED, 0},
	[WIRE_PING] = {PING_FIXED, 0},
	[WIRE_TOMBS] = {TOMBS_FIXED, 0},
};
/* clang-format on */

static inline bool type_known(uint8_t type)
{
	return type >= WIRE_GET && type < KV_COUNT(shapes);
}

static inline uint32_t bitmap_bytes(uint32_t count)
{
	return (count + 7) / 8;
}

/* ---- limits ---- */

/* Bits beyond the last key are zero. The bitmap lies in the input. */
static bool bitmap_valid(const uint8_t *bitmap, uint32_t count)
{
	return count % 8 == 0 || bitmap[count / 8] >> (count % 8) == 0;
}

static bool pairs_valid(const uint8_t *pairs, uint32_t count)
{
	uint32_t reserved = 0;
	for (uint32_t i = 0; i < count; i++)
		reserved |= kv_get32(pairs + i * PAIR_SIZE + PAIR_ZERO);
	return reserved == 0;
}

/* FOLLOWS: the bytes were moved; PACK: where to; LEASED: they were not. HOT: the value was found. */
static bool get_valid(const struct wire_reply *r)
{
	bool follows = r->flags & WIRE_GET_FOLLOWS, leased = r->flags & WIRE_GET_LEASED;
	uint32_t inline_len = r->get.inline_data.len;
	if (r->flags & (WIRE_GET_HOT | WIRE_GET_PACK) && r->status != WIRE_OK)
		return false;
	if (r->flags & WIRE_GET_PACK ? !follows || r->get.before == 0 || r->get.before > WIRE_BEFORE_MAX
				     : r->get.before != 0)
		return false;
	if (inline_len > KV_INLINE_MAX || (follows && leased) || ((follows || leased) && r->get.posted != 0))
		return false;
	return !leased || (inline_len == 0 && r->get.lease != 0 && r->get.lease_us != 0);
}

/* Counts and lengths only: the bytes may not be in the input. */
static bool lengths_valid(const struct wire_reply *r)
{
	if (!type_known(r->type) || (r->flags & ~shapes[r->type].flags) != 0)
		return false;
	switch (r->type) {
	case WIRE_GET:
		return get_valid(r);
	case WIRE_EXISTS:
		return r->exists.count <= WIRE_EXISTS_MAX && r->exists.prefix <= r->exists.count;
	case WIRE_STAT:
		return r->stat.count <= WIRE_STAT_MAX;
	case WIRE_CANCEL:
		return r->cancel.state <= WIRE_CANCEL_DONE;
	case WIRE_TOMBS:
		return r->tombs.count <= WIRE_TOMBS_MAX;
	default:
		return true;
	}
}

static bool contents_valid(const struct wire_reply *r)
{
	if (r->type == WIRE_EXISTS)
		return bitmap_valid(r->exists.bitmap, r->exists.count) &&
		       (!(r->flags & WIRE_EXISTS_DELETED) || bitmap_valid(r->exists.deleted, r->exists.count));
	if (r->type == WIRE_STAT)
		return pairs_valid(r->stat.pairs, r->stat.count);
	return true;
}

/* ---- encode ---- */

/* Without padding. */
static uint32_t reply_bytes(const struct wire_reply *r)
{
	uint32_t n;
	if (!type_known(r->type))
		return 0;
	n = WIRE_REPLY_HEADER + shapes[r->type].fixed;
	if (r->type == WIRE_GET)
		n += r->flags & WIRE_GET_LEASED ? LEASE_END - GET_FIXED : r->get.inline_data.len;
	if (r->type == WIRE_EXISTS)
		n += bitmap_bytes(r->exists.count) * (r->flags & WIRE_EXISTS_DELETED ? 2 : 1);
	if (r->type == WIRE_STAT)
		n += r->stat.count * PAIR_SIZE;
	if (r->type == WIRE_TOMBS)
		n += r->tombs.count * TOMB_SIZE;
	return n;
}

uint32_t wire_reply_size(const struct wire_reply *r)
{
	return wire_record_padded(reply_bytes(r));
}

static void get_write(uint8_t *p, const struct wire_reply *r)
{
	kv_put64(p + GET_VALUE_LEN, r->get.value_len);
	kv_put64(p + GET_GENERATION, r->get.generation);
	kv_put64(p + GET_CHECKSUM, r->get.checksum);
	kv_put32(p + GET_POSTED, r->flags & WIRE_GET_PACK ? r->get.before : r->get.posted);
	kv_put32(p + GET_INLINE_LEN, r->get.inline_data.len);
	if (r->get.inline_data.len)
		memcpy(p + GET_FIXED, r->get.inline_data.data, r->get.inline_data.len);
	if (!(r->flags & WIRE_GET_LEASED))
		return;
	kv_put64(p + LEASE_ID, r->get.lease);
	kv_put64(p + LEASE_AT, r->get.at);
	kv_put32(p + LEASE_TIME, r->get.lease_us);
	kv_put32(p + LEASE_ZERO, 0);
}

static void exists_write(uint8_t *p, const struct wire_reply *r)
{
	kv_put16(p + EXISTS_COUNT, (uint16_t)r->exists.count);
	kv_put16(p + EXISTS_PREFIX, (uint16_t)r->exists.prefix);
	kv_put32(p + EXISTS_ZERO, 0);
	if (r->exists.count)
		memcpy(p + EXISTS_FIXED, r->exists.bitmap, bitmap_bytes(r->exists.count));
	if (r->exists.count && r->flags & WIRE_EXISTS_DELETED)
		memcpy(p + EXISTS_FIXED + bitmap_bytes(r->exists.count), r->exists.deleted,
		       bitmap_bytes(r->exists.count));
}

static void stat_write(uint8_t *p, const struct wire_reply *r)
{
	kv_put16(p + STAT_COUNT, (uint16_t)r->stat.count);
	kv_put16(p + STAT_ZERO_16, 0);
	kv_put32(p + STAT_ZERO_32, 0);
	if (r->stat.count)
		memcpy(p + STAT_FIXED, r->stat.pairs, (size_t)r->stat.count * PAIR_SIZE);
}

static void tombs_write(uint8_t *p, const struct wire_reply *r)
{
	kv_put64(p + TOMBS_NEXT, r->tombs.next);
	kv_put16(p + TOMBS_COUNT, (uint16_t)r->tombs.count);
	kv_put16(p + TOMBS_ZERO_16, 0);
	kv_put32(p + TOMBS_KNOWN, r->tombs.known_ms);
	if (r->tombs.count)
		memcpy(p + TOMBS_FIXED, r->tombs.tombs, (size_t)r->tombs.count * TOMB_SIZE);
}

static void body_write(uint8_t *p, const struct wire_reply *r)
{
	switch (r->type) {
	case WIRE_GET:
		get_write(p, r);
		break;
	case WIRE_PUT:
		kv_put64(p + PUT_STAGE, r->put.stage);
		kv_put64(p + PUT_GENERATION, r->put.generation);
		break;
	case WIRE_EXISTS:
		exists_write(p, r);
		break;
	case WIRE_STAT:
		stat_write(p, r);
		break;
	case WIRE_CANCEL:
		kv_put64(p + CANCEL_ID, r->cancel.id);
		kv_put32(p + CANCEL_POSTED, r->cancel.posted);
		kv_put32(p + CANCEL_STATE, r->cancel.state);
		break;
	case WIRE_TOUCH:
		kv_put64(p + TOUCH_LEFT, r->touch.left_ms);
		kv_put64(p + TOUCH_AGE, r->touch.age_ns);
		kv_put64(p + TOUCH_CHECKSUM, r->touch.checksum);
		kv_put64(p + TOUCH_CLOCK, r->touch.clock_ns);
		break;
	case WIRE_DELETE:
		kv_put64(p + DELETE_CLOCK, r->drop.clock_ns);
		break;
	case WIRE_PING:
		kv_put64(p + PING_COOKIE, r->ping.cookie);
		kv_put64(p + PING_TURNS, r->ping.turns);
		kv_put64(p + PING_NONCE, r->ping.nonce);
		break;
	case WIRE_TOMBS:
		tombs_write(p, r);
		break;
	default: /* PIN has no body */
		break;
	}
}

int wire_reply_add(struct wire_writer *w, const struct wire_reply *r)
{
	uint8_t *p;
	if (!lengths_valid(r) || !contents_valid(r))
		return -KV_EINVAL;
	p = wire_record_add(w, r->type | WIRE_REPLY, r->flags, reply_bytes(r));
	if (!p)
		return -KV_EBUSY;
	kv_put32(p + RECORD_STATUS, (uint32_t)r->status);
	kv_put64(p + RECORD_ID, r->id);
	kv_put32(p + REPLY_POSTED, r->posted_ns);
	kv_put32(p + REPLY_REPLIED, r->replied_ns);
	body_write(p + WIRE_REPLY_HEADER, r);
	return 0;
}

int wire_stat_add(uint8_t *buf, uint32_t cap, uint32_t *count, uint32_t id, uint64_t value)
{
	uint8_t *p;
	if (*count >= WIRE_STAT_MAX || cap / PAIR_SIZE <= *count)
		return -KV_EBUSY;
	p = buf + (size_t)*count * PAIR_SIZE;
	kv_put32(p + PAIR_ID, id);
	kv_put32(p + PAIR_ZERO, 0);
	kv_put64(p + PAIR_VALUE, value);
	++*count;
	return 0;
}

/* ---- decode ---- */

static bool lease_read(struct wire_cur *c, struct wire_reply *out)
{
	const uint8_t *p = wire_cur_take(c, LEASE_END - GET_FIXED);
	if (!p)
		return false;
	out->get.lease = kv_get64(p + LEASE_ID - GET_FIXED);
	out->get.at = kv_get64(p + LEASE_AT - GET_FIXED);
	out->get.lease_us = kv_get32(p + LEASE_TIME - GET_FIXED);
	return kv_get32(p + LEASE_ZERO - GET_FIXED) == 0;
}

static bool get_read(struct wire_cur *c, const uint8_t *p, struct wire_reply *out)
{
	uint32_t len = kv_get32(p + GET_INLINE_LEN);
	out->get.value_len = kv_get64(p + GET_VALUE_LEN);
	out->get.generation = kv_get64(p + GET_GENERATION);
	out->get.checksum = kv_get64(p + GET_CHECKSUM);
	out->get.posted = kv_get32(p + GET_POSTED);
	out->get.before = 0;
	if (out->flags & WIRE_GET_PACK) {
		out->get.before = out->get.posted;
		out->get.posted = 0;
	}
	out->get.inline_data = (struct wire_bytes){wire_cur_take(c, len), len};
	out->get.lease = out->get.at = out->get.lease_us = 0;
	return !(out->flags & WIRE_GET_LEASED) || lease_read(c, out);
}

static bool exists_read(struct wire_cur *c, const uint8_t *p, struct wire_reply *out)
{
	out->exists.count = kv_get16(p + EXISTS_COUNT);
	out->exists.prefix = kv_get16(p + EXISTS_PREFIX);
	out->exists.bitmap = wire_cur_take(c, bitmap_bytes(out->exists.count));
	out->exists.deleted =
		out->flags & WIRE_EXISTS_DELETED ? wire_cur_take(c, bitmap_bytes(out->exists.count)) : NULL;
	return kv_get32(p + EXISTS_ZERO) == 0;
}

static bool stat_read(struct wire_cur *c, const uint8_t *p, struct wire_reply *out)
{
	out->stat.count = kv_get16(p + STAT_COUNT);
	out->stat.pairs = wire_cur_take(c, (size_t)out->stat.count * PAIR_SIZE);
	return (kv_get16(p + STAT_ZERO_16) | kv_get32(p + STAT_ZERO_32)) == 0;
}

static bool tombs_read(struct wire_cur *c, const uint8_t *p, struct wire_reply *out)
{
	out->tombs.next = kv_get64(p + TOMBS_NEXT);
	out->tombs.count = kv_get16(p + TOMBS_COUNT);
	out->tombs.tombs = wire_cur_take(c, (size_t)out->tombs.count * TOMB_SIZE);
	out->tombs.known_ms = kv_get32(p + TOMBS_KNOWN);
	return kv_get16(p + TOMBS_ZERO_16) == 0;
}

/* Whether the reserved fields are zero. The cursor knows whether the body was long enough. */
static bool body_read(struct wire_cur *c, const uint8_t *p, struct wire_reply *out)
{
	switch (out->type) {
	case WIRE_GET:
		return get_read(c, p, out);
	case WIRE_PUT:
		out->put.stage = kv_get64(p + PUT_STAGE);
		out->put.generation = kv_get64(p + PUT_GENERATION);
		return true;
	case WIRE_EXISTS:
		return exists_read(c, p, out);
	case WIRE_STAT:
		return stat_read(c, p, out);
	case WIRE_CANCEL:
		out->cancel.id = kv_get64(p + CANCEL_ID);
		out->cancel.posted = kv_get32(p + CANCEL_POSTED);
		out->cancel.state = kv_get32(p + CANCEL_STATE);
		return true;
	case WIRE_TOUCH:
		out->touch.left_ms = kv_get64(p + TOUCH_LEFT);
		out->touch.age_ns = kv_get64(p + TOUCH_AGE);
		out->touch.checksum = kv_get64(p + TOUCH_CHECKSUM);
		out->touch.clock_ns = kv_get64(p + TOUCH_CLOCK);
		return true;
	case WIRE_DELETE:
		out->drop.clock_ns = kv_get64(p + DELETE_CLOCK);
		return true;
	case WIRE_PING:
		out->ping.cookie = kv_get64(p + PING_COOKIE);
		out->ping.turns = kv_get64(p + PING_TURNS);
		out->ping.nonce = kv_get64(p + PING_NONCE);
		return true;
	case WIRE_TOMBS:
		return tombs_read(c, p, out);
	default: /* PIN has no body */
		return true;
	}
}

int wire_reply_next(struct wire_reader *r, struct wire_reply *out)
{
	const uint8_t *header, *fixed;
	struct wire_cur body;
	int rc = wire_record_next(r, &header, &body);
	if (rc <= 0)
		return rc;
	if (!wire_cur_take(&body, WIRE_REPLY_HEADER - WIRE_RECORD_HEADER))
		return wire_reader_fail(r);
	out->type = header[RECORD_TYPE] & (uint8_t)~WIRE_REPLY;
	out->flags = header[RECORD_FLAGS];
	out->status = (int32_t)kv_get32(header + RECORD_STATUS);
	out->id = kv_get64(header + RECORD_ID);
	out->posted_ns = kv_get32(header + REPLY_POSTED);
	out->replied_ns = kv_get32(header + REPLY_REPLIED);
	if ((header[RECORD_TYPE] & WIRE_REPLY) == 0 || !type_known(out->type))
		return wire_reader_fail(r);
	fixed = wire_cur_take(&body, shapes[out->type].fixed);
	/* contents_valid last: only now bitmap and pairs lie in the input. */
	if (!fixed || !body_read(&body, fixed, out) || !wire_cur_padded(&body) || !lengths_valid(out) ||
	    !contents_valid(out))
		return wire_reader_fail(r);
	return 1;
}

#define TOMB_TOUCHED (1ull << 63) /* in the age */

void wire_tomb_put(uint8_t *tombs, uint32_t i, uint64_t id, uint64_t age_ns, bool touched)
{
	kv_put64(tombs + (size_t)i * TOMB_SIZE, id);
	kv_put64(tombs + (size_t)i * TOMB_SIZE + 8, KV_MIN(age_ns, TOMB_TOUCHED - 1) | (touched ? TOMB_TOUCHED : 0));
}

void wire_tomb(const uint8_t *tombs, uint32_t i, uint64_t *out_id, uint64_t *out_age_ns, bool *out_touched)
{
	uint64_t age = kv_get64(tombs + (size_t)i * TOMB_SIZE + 8);
	*out_id = kv_get64(tombs + (size_t)i * TOMB_SIZE);
	*out_age_ns = age & ~TOMB_TOUCHED;
	*out_touched = age & TOMB_TOUCHED;
}

void wire_stat_pair(const uint8_t *pairs, uint32_t i, uint32_t *out_id, uint64_t *out_value)
{
	const uint8_t *p = pairs + (size_t)i * PAIR_SIZE;
	*out_id = kv_get32(p + PAIR_ID);
	*out_value = kv_get64(p + PAIR_VALUE);
}
