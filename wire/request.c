/* SPDX-License-Identifier: Apache-2.0 */
/* request.c -- request records: size, limits, encode, decode.
 *
 * request_valid holds the limits; encoder and decoder both call it, so that each side accepts all that the other can
 * send. Errors of bytes (short bodies, reserved fields, padding) are found while reading. A record has one encoding:
 * flags outside of the mask, reserved fields, padding and the source of a PUT without one are zero. Key, inline bytes
 * and digests stay in the input. On -KV_EPROTO *out is partly written. */
#include "wire/record.h"

/* Offsets in a body. X_FIXED: the begin of the variable part. */
enum {
	DEST_REGION = 0,
	DEST_COUNT = 4,
	DEST_OFFSET = 8,
	DEST_STRIDE = 16,
	DEST_SLICE = 24,
	DEST_SIZE = 32,

	GET_OFFSET = 0,
	GET_LENGTH = 8,
	GET_GENERATION = 16,
	GET_IMM = 24,
	GET_KEY_LEN = 28,
	GET_ZERO = 30,
	GET_DEST = 32,
	GET_FIXED = 64,

	PUT_TOTAL = 0,
	PUT_OFFSET = 8,
	PUT_LENGTH = 16,
	PUT_CHECKSUM = 24,
	PUT_STAGE = 32,
	PUT_TTL = 40,
	PUT_KEY_LEN = 44,
	PUT_INLINE_LEN = 46,
	PUT_DEST = 48,
	PUT_FIXED = 80,

	EXISTS_COUNT = 0,
	EXISTS_ZERO_16 = 2,
	EXISTS_ZERO_32 = 4,
	EXISTS_FIXED = 8,

	KEYED_KEY_LEN = 0, /* of DELETE, TOUCH, PIN; DELETE has more */
	KEYED_ZERO = 2,
	KEYED_TTL = 4, /* of TOUCH; zero in the others */
	KEYED_FIXED = 8,
	DELETE_WHICH = 8,
	TOUCH_YOUNG = 8,
	TIMED_FIXED = 16, /* of DELETE and TOUCH */

	CANCEL_ID = 0,
	CANCEL_FIXED = 8,

	PING_COOKIE = 0,
	PING_FIXED = 8,

	TOMBS_FROM = 0,
	TOMBS_FIXED = 8,

	SESSION_NUMBER = 0,
	SESSION_ZERO = 4,
	SESSION_FIXED = 8,

	RELEASE_COUNT = 0,
	RELEASE_ZERO_16 = 2,
	RELEASE_ZERO_32 = 4,
	RELEASE_FIXED = 8,
	LEASE_SIZE = 8,

	PROVE_NONCE = 0,
	PROVE_FIXED = 8
};

_Static_assert(DEST_SLICE + 8 == DEST_SIZE, "dest");
_Static_assert(GET_ZERO + 2 == GET_DEST && GET_DEST + DEST_SIZE == GET_FIXED, "GET");
_Static_assert(PUT_INLINE_LEN + 2 == PUT_DEST && PUT_DEST + DEST_SIZE == PUT_FIXED, "PUT");
_Static_assert(WIRE_RECORD_HEADER + SESSION_FIXED == WIRE_SESSION_BYTES &&
		       WIRE_RECORD_HEADER + PROVE_FIXED == WIRE_PROVE_BYTES,
	       "SESSION, PROVE");
_Static_assert(KEYED_TTL + 4 == KEYED_FIXED && KEYED_FIXED == DELETE_WHICH && DELETE_WHICH + 8 == TIMED_FIXED &&
		       EXISTS_ZERO_32 + 4 == EXISTS_FIXED,
	       "DELETE, TOUCH, PIN, EXISTS");
_Static_assert(RELEASE_ZERO_32 + 4 == RELEASE_FIXED, "RELEASE");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + RELEASE_FIXED + WIRE_RELEASE_MAX * LEASE_SIZE <= KV_MSG_MAX,
	       "the largest RELEASE fits a frame");
_Static_assert(KV_KEY_MAX <= UINT8_MAX, "a key's length fits the u8 of EXISTS");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + PUT_FIXED + KV_KEY_MAX + KV_INLINE_MAX <= KV_MSG_MAX,
	       "the largest inline PUT fits a frame");
_Static_assert(KV_VALUE_MAX <= INT64_MAX && KV_RANGE_MAX <= KV_VALUE_MAX,
	       "sums of offsets and lengths cannot overflow");

/* Constants per type. */
/* clang-format off */
static const struct {
	uint8_t fixed; /* bytes of the body before the variable part */
	uint8_t flags; /* allowed bits */
	bool keyed;
} shapes[] = {
	[WIRE_GET] = {GET_FIXED, WIRE_GET_SUM_RANGE | WIRE_GET_INLINE | WIRE_GET_CHECK | WIRE_GET_PACK | WIRE_GET_PULL |
				WIRE_GET_MORE | WIRE_GET_YOUNG, true},
	[WIRE_PUT] = {PUT_FIXED, WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED | WIRE_PUT_COPY | WIRE_PUT_SPARE,
		      true},
	[WIRE_EXISTS] = {EXISTS_FIXED, 0, false},
	[WIRE_DELETE] = {TIMED_FIXED, WIRE_DELETE_THIS | WIRE_DELETE_AT, true},
	[WIRE_TOUCH] = {TIMED_FIXED, WIRE_TOUCH_LOOK | WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT, true},
	[WIRE_PIN] = {KEYED_FIXED, WIRE_PIN_RELEASE, true},
	[WIRE_STAT] = {0, 0, false},
	[WIRE_CANCEL] = {CANCEL_FIXED, 0, false},
	[WIRE_PING] = {PING_FIXED, 0, false},
	[WIRE_TOMBS] = {TOMBS_FIXED, 0, false},
	[WIRE_SESSION] = {SESSION_FIXED, 0, false},
	[WIRE_RELEASE] = {RELEASE_FIXED, 0, false},
	[WIRE_PROVE] = {PROVE_FIXED, 0, false},
};
/* clang-format on */

static inline bool type_known(uint8_t type)
{
	return type >= WIRE_GET && type < KV_COUNT(shapes);
}

static inline bool put_has_source(const struct wire_request *r)
{
	return r->put.inline_data.len == 0 && r->put.length != 0;
}

/* ---- limits ---- */

/* Joined without branches: on the hot path all hold. */
static bool dest_valid(const struct wire_dest *d, uint64_t length)
{
	uint64_t all, last, end;
	bool over = d->count == 0;
	over |= __builtin_mul_overflow(d->slice, (uint64_t)d->count, &all);
	over |= __builtin_mul_overflow(d->stride, (uint64_t)d->count - 1, &last);
	over |= __builtin_add_overflow(last, d->offset, &end);
	over |= __builtin_add_overflow(end, d->slice, &end);
	return !over & (all >= length);
}

static bool dest_empty(const struct wire_dest *d)
{
	return (d->region | d->count | d->offset | d->stride | d->slice) == 0;
}

static bool get_valid(const struct wire_request *r)
{
	uint64_t length = r->get.length;
	if ((length > KV_RANGE_MAX) | (r->get.offset > KV_VALUE_MAX))
		return false;
	return dest_valid(&r->dest, length) || (length == 0 && dest_empty(&r->dest));
}

/* In the landing area: one piece of exactly the range. */
static bool landed_valid(const struct wire_dest *d, uint64_t length)
{
	uint64_t end;
	return (d->region | d->stride) == 0 && d->count == 1 && d->slice == length &&
	       !__builtin_add_overflow(d->offset, length, &end);
}

static bool put_valid(const struct wire_request *r)
{
	uint64_t total = r->put.total, offset = r->put.offset, length = r->put.length;
	uint32_t inline_len = r->put.inline_data.len;
	bool bad = total > KV_VALUE_MAX;
	bad |= (length > KV_RANGE_MAX) | (offset > total) | (length > total - offset);
	bad |= (inline_len > KV_INLINE_MAX) | (inline_len != 0 && inline_len != length);
	bad |= (r->flags & WIRE_PUT_FIRST) != 0 && r->put.stage != 0;
	if (r->flags & WIRE_PUT_COPY)
		bad |= !(r->flags & WIRE_PUT_FIRST) || r->put.born_ns == 0;
	else
		bad |= (r->flags & WIRE_PUT_SPARE) != 0;
	if (r->flags & WIRE_PUT_LANDED)
		return !bad && put_has_source(r) && landed_valid(&r->dest, length);
	return !bad && (!put_has_source(r) || dest_valid(&r->dest, length));
}

/* The value is named in one way at most. */
static bool delete_valid(const struct wire_request *r)
{
	switch (r->flags) {
	case 0:
		return r->drop.which == 0;
	case WIRE_DELETE_THIS:
		return r->drop.which != 0;
	default:
		return r->flags == WIRE_DELETE_AT;
	}
}

/* LOOK changes nothing: no MARK, no AT. */
static bool touch_valid(const struct wire_request *r)
{
	uint8_t look = r->flags & WIRE_TOUCH_LOOK, at = r->flags & WIRE_TOUCH_AT, young = r->flags & WIRE_TOUCH_YOUNG;
	return !(look && (at || r->flags & WIRE_TOUCH_MARK)) && !(at && young) &&
	       (at || young || r->touch.young_ns == 0);
}

static bool request_valid(const struct wire_request *r)
{
	if (!type_known(r->type) || (r->flags & ~shapes[r->type].flags) != 0)
		return false;
	if (shapes[r->type].keyed && r->key.len - 1u >= KV_KEY_MAX)
		return false;
	switch (r->type) {
	case WIRE_GET:
		return get_valid(r);
	case WIRE_PUT:
		return put_valid(r);
	case WIRE_DELETE:
		return delete_valid(r);
	case WIRE_TOUCH:
		return touch_valid(r);
	case WIRE_EXISTS:
		return r->exists.count - 1u < WIRE_EXISTS_MAX;
	case WIRE_RELEASE:
		return r->release.count - 1u < WIRE_RELEASE_MAX && r->id == 0 && r->time_left_us == UINT32_MAX;
	case WIRE_PROVE:
		return r->prove.nonce != 0 && r->id == 0 && r->time_left_us == UINT32_MAX;
	case WIRE_SESSION:
		return r->time_left_us == 0 && r->id == 0;
	default:
		return true;
	}
}

/* ---- encode ---- */

/* Without padding. */
static uint32_t request_bytes(const struct wire_request *r)
{
	uint32_t n;
	if (!type_known(r->type))
		return 0;
	n = WIRE_RECORD_HEADER + shapes[r->type].fixed;
	if (shapes[r->type].keyed)
		n += r->key.len;
	if (r->type == WIRE_PUT)
		n += r->put.inline_data.len;
	if (r->type == WIRE_EXISTS)
		n += r->exists.count * WIRE_DIGEST_BYTES;
	if (r->type == WIRE_RELEASE)
		n += r->release.count * LEASE_SIZE;
	return n;
}

uint32_t wire_request_size(const struct wire_request *r)
{
	return wire_record_padded(request_bytes(r));
}

static void dest_write(uint8_t *p, const struct wire_dest *d)
{
	kv_put32(p + DEST_REGION, d->region);
	kv_put32(p + DEST_COUNT, d->count);
	kv_put64(p + DEST_OFFSET, d->offset);
	kv_put64(p + DEST_STRIDE, d->stride);
	kv_put64(p + DEST_SLICE, d->slice);
}

static void get_write(uint8_t *p, const struct wire_request *r)
{
	kv_put64(p + GET_OFFSET, r->get.offset);
	kv_put64(p + GET_LENGTH, r->get.length);
	kv_put64(p + GET_GENERATION, r->get.generation);
	kv_put32(p + GET_IMM, r->get.imm);
	kv_put16(p + GET_KEY_LEN, (uint16_t)r->key.len);
	kv_put16(p + GET_ZERO, 0);
	dest_write(p + GET_DEST, &r->dest);
	memcpy(p + GET_FIXED, r->key.data, r->key.len);
}

static void put_write(uint8_t *p, const struct wire_request *r)
{
	kv_put64(p + PUT_TOTAL, r->put.total);
	kv_put64(p + PUT_OFFSET, r->put.offset);
	kv_put64(p + PUT_LENGTH, r->put.length);
	kv_put64(p + PUT_CHECKSUM, r->put.checksum);
	kv_put64(p + PUT_STAGE, r->flags & WIRE_PUT_COPY ? r->put.born_ns : r->put.stage);
	kv_put32(p + PUT_TTL, r->put.ttl_s);
	kv_put16(p + PUT_KEY_LEN, (uint16_t)r->key.len);
	kv_put16(p + PUT_INLINE_LEN, (uint16_t)r->put.inline_data.len);
	/* Without a source the field is reserved. */
	dest_write(p + PUT_DEST, put_has_source(r) ? &r->dest : &(struct wire_dest){0});
	memcpy(p + PUT_FIXED, r->key.data, r->key.len);
	if (r->put.inline_data.len)
		memcpy(p + PUT_FIXED + r->key.len, r->put.inline_data.data, r->put.inline_data.len);
}

static void exists_write(uint8_t *p, const struct wire_request *r)
{
	kv_put16(p + EXISTS_COUNT, (uint16_t)r->exists.count);
	kv_put16(p + EXISTS_ZERO_16, 0);
	kv_put32(p + EXISTS_ZERO_32, 0);
	memcpy(p + EXISTS_FIXED, r->exists.digests, (size_t)r->exists.count * WIRE_DIGEST_BYTES);
}

static void keyed_write(uint8_t *p, const struct wire_request *r)
{
	kv_put16(p + KEYED_KEY_LEN, (uint16_t)r->key.len);
	kv_put16(p + KEYED_ZERO, 0);
	kv_put32(p + KEYED_TTL, r->type == WIRE_TOUCH ? r->touch.ttl_s : 0);
	if (r->type == WIRE_DELETE)
		kv_put64(p + DELETE_WHICH, r->drop.which);
	if (r->type == WIRE_TOUCH)
		kv_put64(p + TOUCH_YOUNG, r->touch.young_ns);
	memcpy(p + shapes[r->type].fixed, r->key.data, r->key.len);
}

static void session_write(uint8_t *p, const struct wire_request *r)
{
	kv_put32(p + SESSION_NUMBER, r->session.number);
	kv_put32(p + SESSION_ZERO, 0);
}

static void release_write(uint8_t *p, const struct wire_request *r)
{
	kv_put16(p + RELEASE_COUNT, (uint16_t)r->release.count);
	kv_put16(p + RELEASE_ZERO_16, 0);
	kv_put32(p + RELEASE_ZERO_32, 0);
	memcpy(p + RELEASE_FIXED, r->release.leases, (size_t)r->release.count * LEASE_SIZE);
}

static void body_write(uint8_t *p, const struct wire_request *r)
{
	switch (r->type) {
	case WIRE_GET:
		get_write(p, r);
		break;
	case WIRE_PUT:
		put_write(p, r);
		break;
	case WIRE_EXISTS:
		exists_write(p, r);
		break;
	case WIRE_DELETE:
	case WIRE_TOUCH:
	case WIRE_PIN:
		keyed_write(p, r);
		break;
	case WIRE_CANCEL:
		kv_put64(p + CANCEL_ID, r->cancel.id);
		break;
	case WIRE_PING:
		kv_put64(p + PING_COOKIE, r->ping.cookie);
		break;
	case WIRE_TOMBS:
		kv_put64(p + TOMBS_FROM, r->tombs.from);
		break;
	case WIRE_SESSION:
		session_write(p, r);
		break;
	case WIRE_RELEASE:
		release_write(p, r);
		break;
	case WIRE_PROVE:
		kv_put64(p + PROVE_NONCE, r->prove.nonce);
		break;
	default: /* STAT has no body */
		break;
	}
}

int wire_request_add(struct wire_writer *w, const struct wire_request *r)
{
	uint8_t *p;
	if (!request_valid(r))
		return -KV_EINVAL;
	p = wire_record_add(w, r->type, r->flags, request_bytes(r));
	if (!p)
		return -KV_EBUSY;
	kv_put32(p + RECORD_TIME, r->time_left_us);
	kv_put64(p + RECORD_ID, r->id);
	body_write(p + WIRE_RECORD_HEADER, r);
	return 0;
}

/* ---- decode ---- */

static void dest_read(const uint8_t *p, struct wire_dest *out)
{
	out->region = kv_get32(p + DEST_REGION);
	out->count = kv_get32(p + DEST_COUNT);
	out->offset = kv_get64(p + DEST_OFFSET);
	out->stride = kv_get64(p + DEST_STRIDE);
	out->slice = kv_get64(p + DEST_SLICE);
}

static struct wire_bytes bytes_read(struct wire_cur *c, uint32_t len)
{
	return (struct wire_bytes){wire_cur_take(c, len), len};
}

static bool get_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	out->get.offset = kv_get64(p + GET_OFFSET);
	out->get.length = kv_get64(p + GET_LENGTH);
	out->get.generation = kv_get64(p + GET_GENERATION);
	out->get.imm = kv_get32(p + GET_IMM);
	out->key = bytes_read(c, kv_get16(p + GET_KEY_LEN));
	dest_read(p + GET_DEST, &out->dest);
	return kv_get16(p + GET_ZERO) == 0;
}

static bool put_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	out->put.total = kv_get64(p + PUT_TOTAL);
	out->put.offset = kv_get64(p + PUT_OFFSET);
	out->put.length = kv_get64(p + PUT_LENGTH);
	out->put.checksum = kv_get64(p + PUT_CHECKSUM);
	out->put.stage = out->flags & WIRE_PUT_COPY ? 0 : kv_get64(p + PUT_STAGE);
	out->put.born_ns = out->flags & WIRE_PUT_COPY ? kv_get64(p + PUT_STAGE) : 0;
	out->put.ttl_s = kv_get32(p + PUT_TTL);
	out->key = bytes_read(c, kv_get16(p + PUT_KEY_LEN));
	out->put.inline_data = bytes_read(c, kv_get16(p + PUT_INLINE_LEN));
	dest_read(p + PUT_DEST, &out->dest);
	return put_has_source(out) || dest_empty(&out->dest);
}

static bool exists_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	out->exists.count = kv_get16(p + EXISTS_COUNT);
	out->exists.digests = wire_cur_take(c, (size_t)out->exists.count * WIRE_DIGEST_BYTES);
	return (kv_get16(p + EXISTS_ZERO_16) | kv_get32(p + EXISTS_ZERO_32)) == 0;
}

static bool keyed_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	uint32_t ttl_s = kv_get32(p + KEYED_TTL);
	if (out->type == WIRE_DELETE)
		out->drop.which = kv_get64(p + DELETE_WHICH);
	out->key = bytes_read(c, kv_get16(p + KEYED_KEY_LEN));
	if (out->type == WIRE_TOUCH) {
		out->touch.ttl_s = ttl_s;
		out->touch.young_ns = kv_get64(p + TOUCH_YOUNG);
	}
	return kv_get16(p + KEYED_ZERO) == 0 && (ttl_s == 0 || out->type == WIRE_TOUCH);
}

static bool session_read(const uint8_t *p, struct wire_request *out)
{
	out->session.number = kv_get32(p + SESSION_NUMBER);
	return kv_get32(p + SESSION_ZERO) == 0;
}

static bool release_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	out->release.count = kv_get16(p + RELEASE_COUNT);
	out->release.leases = wire_cur_take(c, (size_t)out->release.count * LEASE_SIZE);
	return (kv_get16(p + RELEASE_ZERO_16) | kv_get32(p + RELEASE_ZERO_32)) == 0;
}

/* Whether the reserved fields are zero. The cursor knows whether the body was long enough. */
static bool body_read(struct wire_cur *c, const uint8_t *p, struct wire_request *out)
{
	switch (out->type) {
	case WIRE_GET:
		return get_read(c, p, out);
	case WIRE_PUT:
		return put_read(c, p, out);
	case WIRE_EXISTS:
		return exists_read(c, p, out);
	case WIRE_DELETE:
	case WIRE_TOUCH:
	case WIRE_PIN:
		return keyed_read(c, p, out);
	case WIRE_CANCEL:
		out->cancel.id = kv_get64(p + CANCEL_ID);
		return true;
	case WIRE_PING:
		out->ping.cookie = kv_get64(p + PING_COOKIE);
		return true;
	case WIRE_TOMBS:
		out->tombs.from = kv_get64(p + TOMBS_FROM);
		return true;
	case WIRE_SESSION:
		return session_read(p, out);
	case WIRE_RELEASE:
		return release_read(c, p, out);
	case WIRE_PROVE:
		out->prove.nonce = kv_get64(p + PROVE_NONCE);
		return true;
	default: /* STAT has no body */
		return true;
	}
}

int wire_request_next(struct wire_reader *r, struct wire_request *out)
{
	const uint8_t *header, *fixed;
	struct wire_cur body;
	int rc = wire_record_next(r, &header, &body);
	if (rc <= 0)
		return rc;
	out->type = header[RECORD_TYPE];
	out->flags = header[RECORD_FLAGS];
	out->time_left_us = kv_get32(header + RECORD_TIME);
	out->id = kv_get64(header + RECORD_ID);
	out->key = (struct wire_bytes){0};
	out->dest = (struct wire_dest){0};
	if (!type_known(out->type))
		return wire_reader_fail(r);
	fixed = wire_cur_take(&body, shapes[out->type].fixed);
	if (!fixed || !body_read(&body, fixed, out) || !wire_cur_padded(&body) || !request_valid(out))
		return wire_reader_fail(r);
	return 1;
}

/* ---- packed leases and digests ---- */

void wire_release_put(uint8_t *leases, uint32_t i, uint64_t lease)
{
	kv_put64(leases + (size_t)i * LEASE_SIZE, lease);
}

uint64_t wire_release_lease(const uint8_t *leases, uint32_t i)
{
	return kv_get64(leases + (size_t)i * LEASE_SIZE);
}
