/* SPDX-License-Identifier: Apache-2.0 */
/* request.c -- request records: size, limits, encode, decode.
 *
 * request_valid holds the limits; encoder and decoder both call it, so that each side accepts all that the other can
 * send. Errors of bytes (short bodies, reserved fields, padding) are found while reading. A record has one encoding:
 * flags outside of the mask, reserved fields, padding and the source of a PUT without one are zero. Key, inline bytes
 * and digests stay in the input. On -KV_EPROTO *out is partly written. */
#include "wire/record.h"

/* Bytes of a body before its variable part. */
enum { GET_FIXED = 64, PUT_FIXED = 88, COUNTED_FIXED = 8, LEASE_SIZE = 8 };

_Static_assert(WIRE_RECORD_HEADER + 8 == WIRE_SESSION_BYTES && WIRE_RECORD_HEADER + 8 == WIRE_PROVE_BYTES,
	       "SESSION, PROVE");
_Static_assert(WIRE_FRAME_HEADER + WIRE_RECORD_HEADER + COUNTED_FIXED + WIRE_RELEASE_MAX * LEASE_SIZE <= KV_MSG_MAX,
	       "the largest RELEASE fits a frame");
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
				WIRE_GET_MORE | WIRE_GET_YOUNG | WIRE_GET_MEMORY_ONLY, true},
	[WIRE_PUT] = {PUT_FIXED, WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED | WIRE_PUT_COPY | WIRE_PUT_SPARE |
				WIRE_PUT_SUM_LAST, true},
	[WIRE_EXISTS] = {COUNTED_FIXED, 0, false},
	[WIRE_DELETE] = {16, WIRE_DELETE_THIS | WIRE_DELETE_AT, true},
	[WIRE_TOUCH] = {16, WIRE_TOUCH_LOOK | WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT, true},
	[WIRE_PIN] = {8, WIRE_PIN_RELEASE, true},
	[WIRE_STAT] = {0, 0, false},
	[WIRE_CANCEL] = {8, 0, false},
	[WIRE_PING] = {8, 0, false},
	[WIRE_TOMBS] = {8, 0, false},
	[WIRE_SESSION] = {8, 0, false},
	[WIRE_RELEASE] = {COUNTED_FIXED, 0, false},
	[WIRE_PROVE] = {8, 0, false},
	[WIRE_CLEAR] = {8, WIRE_CLEAR_RAISE, false},
	[WIRE_SPACES] = {8, 0, false},
	[WIRE_TENANTS] = {8, 0, false},
	[WIRE_LEASES] = {8, 0, false},
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

/* Without a dest the client asks for the size, or for a lease: nothing is moved. A lease has in dest.slice the most
 * bytes that the client takes (0: any). */
static bool get_valid(const struct wire_request *r)
{
	uint64_t length = r->get.length, most = KV_RANGE_MAX;
	if (KV_UNLIKELY(r->dest.count == 0 && r->flags & WIRE_GET_PULL))
		return (r->dest.region | r->dest.offset | r->dest.stride) == 0 && length <= KV_VALUE_MAX &&
		       r->get.offset <= KV_VALUE_MAX;
	if (KV_UNLIKELY(r->dest.count == 0))
		most = 0;
	if ((length > most) | (r->get.offset > KV_VALUE_MAX))
		return false;
	return dest_valid(&r->dest, length) || dest_empty(&r->dest);
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
	bad |= (r->flags & (WIRE_PUT_FIRST | WIRE_PUT_COPY)) != WIRE_PUT_FIRST && r->put.space != 0;
	if (r->flags & WIRE_PUT_SUM_LAST)
		bad |= (r->flags & (WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_COPY)) != WIRE_PUT_FIRST ||
		       r->put.checksum != 0;
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

/* ---- fields ---- */

WIRE_INLINE void dest_walk(struct wire_walk *w, struct wire_dest *d)
{
	wire_u32(w, &d->region);
	wire_u32(w, &d->count);
	wire_u64(w, &d->offset);
	wire_u64(w, &d->stride);
	wire_u64(w, &d->slice);
}

WIRE_INLINE void get_walk(struct wire_walk *w, struct wire_request *r)
{
	wire_u64(w, &r->get.offset);
	wire_u64(w, &r->get.length);
	wire_u64(w, &r->get.generation);
	wire_u32(w, &r->get.imm);
	wire_count(w, &r->key.len);
	wire_zero16(w);
	dest_walk(w, &r->dest);
	wire_span(w, &r->key.data, r->key.len);
}

/* Without a source the dest is reserved. A copy has its time in place of a stage. */
WIRE_INLINE void put_walk(struct wire_walk *w, struct wire_request *r)
{
	struct wire_dest none = {0};
	if (!w->writing)
		r->put.stage = r->put.born_ns = 0;
	wire_u64(w, &r->put.total);
	wire_u64(w, &r->put.offset);
	wire_u64(w, &r->put.length);
	wire_u64(w, &r->put.checksum);
	wire_u64(w, r->flags & WIRE_PUT_COPY ? &r->put.born_ns : &r->put.stage);
	wire_u64(w, &r->put.space);
	wire_u32(w, &r->put.ttl_s);
	wire_count(w, &r->key.len);
	wire_count(w, &r->put.inline_data.len);
	dest_walk(w, w->writing && !put_has_source(r) ? &none : &r->dest);
	wire_require(w, w->writing || put_has_source(r) || dest_empty(&r->dest));
	wire_span(w, &r->key.data, r->key.len);
	wire_span(w, &r->put.inline_data.data, r->put.inline_data.len);
}

WIRE_INLINE void delete_walk(struct wire_walk *w, struct wire_request *r)
{
	wire_count(w, &r->key.len);
	wire_zero16(w);
	wire_zero32(w);
	wire_u64(w, &r->drop.which);
	wire_span(w, &r->key.data, r->key.len);
}

WIRE_INLINE void touch_walk(struct wire_walk *w, struct wire_request *r)
{
	wire_count(w, &r->key.len);
	wire_zero16(w);
	wire_u32(w, &r->touch.ttl_s);
	wire_u64(w, &r->touch.young_ns);
	wire_span(w, &r->key.data, r->key.len);
}

WIRE_INLINE void session_walk(struct wire_walk *w, struct wire_request *r)
{
	wire_u32(w, &r->session.number);
	wire_zero32(w);
}

WIRE_INLINE void body_walk(struct wire_walk *w, struct wire_request *r)
{
	switch (r->type) {
	case WIRE_GET:
		get_walk(w, r);
		break;
	case WIRE_PUT:
		put_walk(w, r);
		break;
	case WIRE_EXISTS:
		wire_counted(w, &r->exists.count, &r->exists.digests, WIRE_DIGEST_BYTES);
		break;
	case WIRE_DELETE:
		delete_walk(w, r);
		break;
	case WIRE_TOUCH:
		touch_walk(w, r);
		break;
	case WIRE_PIN:
		wire_counted(w, &r->key.len, &r->key.data, 1);
		break;
	case WIRE_CANCEL:
		wire_u64(w, &r->cancel.id);
		break;
	case WIRE_PING:
		wire_u64(w, &r->ping.cookie);
		break;
	case WIRE_TOMBS:
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		wire_u64(w, &r->tombs.from);
		break;
	case WIRE_SESSION:
		session_walk(w, r);
		break;
	case WIRE_RELEASE:
		wire_counted(w, &r->release.count, &r->release.leases, LEASE_SIZE);
		break;
	case WIRE_PROVE:
		wire_u64(w, &r->prove.nonce);
		break;
	case WIRE_CLEAR:
		wire_u64(w, &r->clear.generation);
		break;
	default: /* STAT has no body */
		break;
	}
}

/* ---- encode and decode ---- */

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

int wire_request_add(struct wire_writer *w, const struct wire_request *r)
{
	uint32_t bytes;
	struct wire_walk body;
	uint8_t *p;
	if (!request_valid(r))
		return -KV_EINVAL;
	bytes = request_bytes(r);
	p = wire_record_add(w, r->type, r->flags, bytes);
	if (!p)
		return -KV_EBUSY;
	kv_put32(p + RECORD_TIME, r->time_left_us);
	kv_put64(p + RECORD_ID, r->id);
	body = wire_writing(p + WIRE_RECORD_HEADER, bytes - WIRE_RECORD_HEADER);
	body.fits = true;
	body_walk(&body, (struct wire_request *)r);
	return 0;
}

int wire_request_next(struct wire_reader *r, struct wire_request *out)
{
	const uint8_t *header;
	struct wire_walk body;
	int rc = wire_record_next(r, &header);
	if (rc <= 0)
		return rc;
	body = wire_record_body(header);
	out->type = header[RECORD_TYPE];
	out->flags = header[RECORD_FLAGS];
	out->time_left_us = kv_get32(header + RECORD_TIME);
	out->id = kv_get64(header + RECORD_ID);
	out->key = (struct wire_bytes){0};
	out->dest = (struct wire_dest){0};
	if (!type_known(out->type) || !wire_room(&body, shapes[out->type].fixed))
		return wire_reader_fail(r);
	body.fits = true;
	body_walk(&body, out);
	if (!wire_padded(&body) || !request_valid(out))
		return wire_reader_fail(r);
	return 1;
}

/* ---- packed leases ---- */

void wire_release_put(uint8_t *leases, uint32_t i, uint64_t lease)
{
	kv_put64(leases + (size_t)i * LEASE_SIZE, lease);
}

uint64_t wire_release_lease(const uint8_t *leases, uint32_t i)
{
	return kv_get64(leases + (size_t)i * LEASE_SIZE);
}
