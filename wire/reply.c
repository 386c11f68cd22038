/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c -- reply records: size, limits, encode, decode.
 *
 * As request.c: limits of both directions in one place, one encoding, only numbers are copied. A reply has its whole
 * body with any status, so that a failed GET still reports `posted`. An unknown status concerns one request
 * (wire_status_error: -KV_EPROTO), so it passes here; an unknown CANCEL state is refused, since the safety of a buffer
 * depends on it. */
#include "wire/record.h"

/* Bytes of a body before its variable part, and of parts of that. */
enum {
	GET_FIXED = 32,
	COUNTED_FIXED = 8,
	TOMBS_FIXED = 16,
	SPACES_FIXED = 24,
	TENANTS_FIXED = 16,
	LEASES_FIXED = 16,
	LEASE_SIZE = 24,
	TOMB_SIZE = 16
};

/* A packed namespace, tenant or holder: the length of its name and flags, four bytes each; the name; numbers. */
enum { ROW_FLAGS = 4, ROW_NAME = 8, ROW_NUMBERS = ROW_NAME + KV_SPACE_MAX };

_Static_assert(ROW_NUMBERS + WIRE_SPACE_NUMBERS * 8 == WIRE_SPACE_BYTES, "a packed namespace");
_Static_assert(ROW_NUMBERS + WIRE_TENANT_NUMBERS * 8 == WIRE_TENANT_BYTES, "a packed tenant");
_Static_assert(ROW_NUMBERS + WIRE_HOLDER_NUMBERS * 8 == WIRE_HOLDER_BYTES, "a packed holder");

/* A pair of STAT. */
enum { PAIR_ID = 0, PAIR_ZERO = 4, PAIR_VALUE = 8, PAIR_SIZE = 16 };

_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + GET_FIXED + KV_INLINE_MAX <= KV_MSG_MAX,
	       "an inline value fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + COUNTED_FIXED + WIRE_STAT_MAX * PAIR_SIZE <= KV_MSG_MAX,
	       "STAT fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + TOMBS_FIXED + WIRE_TOMBS_MAX * TOMB_SIZE <= KV_MSG_MAX,
	       "TOMBS fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + SPACES_FIXED + WIRE_SPACES_MAX * WIRE_SPACE_BYTES <= KV_MSG_MAX,
	       "SPACES fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + TENANTS_FIXED + WIRE_TENANTS_MAX * WIRE_TENANT_BYTES <=
		       KV_MSG_MAX,
	       "TENANTS fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + LEASES_FIXED + WIRE_LEASES_MAX * WIRE_HOLDER_BYTES <= KV_MSG_MAX,
	       "LEASES fits a frame");
_Static_assert(WIRE_FRAME_HEADER + WIRE_REPLY_HEADER + COUNTED_FIXED + 3 * WIRE_EXISTS_BITMAP <= KV_MSG_MAX,
	       "EXISTS fits a frame");
_Static_assert((int)WIRE_STAT_END <= WIRE_STAT_MAX, "one reply can carry every counter");

/* Constants per type. */
/* clang-format off */
static const struct {
	uint8_t fixed; /* bytes of the body before the variable part */
	uint8_t flags; /* allowed bits */
} shapes[] = {
	[WIRE_GET] = {GET_FIXED, WIRE_GET_SUM_RANGE | WIRE_GET_INLINE | WIRE_GET_CHECK | WIRE_GET_FOLLOWS |
				 WIRE_GET_PACK | WIRE_GET_PULL | WIRE_GET_LEASED | WIRE_GET_HOT | WIRE_GET_ON_TIER},
	[WIRE_PUT] = {16, WIRE_PUT_FIRST | WIRE_PUT_LAST | WIRE_PUT_LANDED | WIRE_PUT_COPY | WIRE_PUT_SPARE |
				  WIRE_PUT_SUM_LAST},
	[WIRE_EXISTS] = {COUNTED_FIXED, WIRE_EXISTS_DELETED | WIRE_EXISTS_TIER},
	[WIRE_DELETE] = {8, WIRE_DELETE_THIS | WIRE_DELETE_AT},
	[WIRE_TOUCH] = {32, WIRE_TOUCH_LOOK | WIRE_TOUCH_MARK | WIRE_TOUCH_YOUNG | WIRE_TOUCH_AT},
	[WIRE_PIN] = {0, WIRE_PIN_RELEASE},
	[WIRE_STAT] = {COUNTED_FIXED, 0},
	[WIRE_CANCEL] = {16, 0},
	[WIRE_PING] = {24, 0},
	[WIRE_TOMBS] = {TOMBS_FIXED, WIRE_TOMBS_LATER},
	[WIRE_CLEAR] = {8, WIRE_CLEAR_RAISE},
	[WIRE_SPACES] = {SPACES_FIXED, 0},
	[WIRE_TENANTS] = {TENANTS_FIXED, 0},
	[WIRE_LEASES] = {LEASES_FIXED, 0},
};
/* clang-format on */

/* A bit for each type that has a reply. */
#define TYPES (((2u << WIRE_TENANTS) - (1u << WIRE_GET)) | 1u << WIRE_LEASES)

static inline bool type_known(uint8_t type)
{
	return type < WIRE_TYPES && TYPES >> type & 1;
}

static inline uint32_t bitmap_bytes(uint32_t count)
{
	return (count + 7) / 8;
}

static inline uint32_t row_numbers(uint8_t type)
{
	if (type == WIRE_TENANTS)
		return WIRE_TENANT_NUMBERS;
	return type == WIRE_SPACES ? WIRE_SPACE_NUMBERS : WIRE_HOLDER_NUMBERS;
}

size_t wire_row_bytes(uint8_t type)
{
	return ROW_NUMBERS + 8 * (size_t)row_numbers(type);
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

/* Names are what kv_space_check allows, and padded with zeros. */
static bool rows_valid(const struct wire_reply *r)
{
	uint32_t flags = r->type == WIRE_TENANTS ? WIRE_ROW_LISTED : 0;
	for (uint32_t i = 0; i < r->rows.count; i++) {
		const uint8_t *p = r->rows.at + i * wire_row_bytes(r->type);
		uint32_t len = kv_get32(p);
		if (len > KV_SPACE_MAX || !kv_space_check(p + ROW_NAME, len) || kv_get32(p + ROW_FLAGS) & ~flags)
			return false;
		for (uint32_t k = len; k < KV_SPACE_MAX; k++)
			if (p[ROW_NAME + k])
				return false;
	}
	return true;
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
	case WIRE_SPACES:
		return r->rows.count <= WIRE_SPACES_MAX;
	case WIRE_TENANTS:
		return r->rows.count <= WIRE_TENANTS_MAX;
	case WIRE_LEASES:
		return r->rows.count <= WIRE_LEASES_MAX;
	default:
		return true;
	}
}

static bool contents_valid(const struct wire_reply *r)
{
	if (r->type == WIRE_EXISTS)
		return bitmap_valid(r->exists.bitmap, r->exists.count) &&
		       (!(r->flags & WIRE_EXISTS_DELETED) || bitmap_valid(r->exists.deleted, r->exists.count)) &&
		       (!(r->flags & WIRE_EXISTS_TIER) || bitmap_valid(r->exists.tier, r->exists.count));
	if (r->type == WIRE_STAT)
		return pairs_valid(r->stat.pairs, r->stat.count);
	return !wire_lists(r->type) || rows_valid(r);
}

/* ---- fields ---- */

/* PACK has its distance in place of the writes that were posted. */
WIRE_INLINE void get_walk(struct wire_walk *w, struct wire_reply *r)
{
	if (!w->writing) {
		r->get.posted = r->get.before = r->get.lease_us = 0;
		r->get.lease = r->get.at = 0;
	}
	wire_u64(w, &r->get.value_len);
	wire_u64(w, &r->get.generation);
	wire_u64(w, &r->get.checksum);
	wire_u32(w, r->flags & WIRE_GET_PACK ? &r->get.before : &r->get.posted);
	wire_u32(w, &r->get.inline_data.len);
	wire_span(w, &r->get.inline_data.data, r->get.inline_data.len);
	if (!(r->flags & WIRE_GET_LEASED) || !wire_room(w, LEASE_SIZE))
		return;
	wire_u64(w, &r->get.lease);
	wire_u64(w, &r->get.at);
	wire_u32(w, &r->get.lease_us);
	wire_zero32(w);
}

WIRE_INLINE void exists_walk(struct wire_walk *w, struct wire_reply *r)
{
	wire_count(w, &r->exists.count);
	wire_count(w, &r->exists.prefix);
	wire_zero32(w);
	wire_span(w, &r->exists.bitmap, bitmap_bytes(r->exists.count));
	if (r->flags & WIRE_EXISTS_DELETED)
		wire_span(w, &r->exists.deleted, bitmap_bytes(r->exists.count));
	else if (!w->writing)
		r->exists.deleted = NULL;
	if (r->flags & WIRE_EXISTS_TIER)
		wire_span(w, &r->exists.tier, bitmap_bytes(r->exists.count));
	else if (!w->writing)
		r->exists.tier = NULL;
}

WIRE_INLINE void tombs_walk(struct wire_walk *w, struct wire_reply *r)
{
	wire_u64(w, &r->tombs.next);
	wire_count(w, &r->tombs.count);
	wire_zero16(w);
	wire_u32(w, &r->tombs.known_ms);
	wire_span(w, &r->tombs.tombs, (size_t)r->tombs.count * TOMB_SIZE);
}

WIRE_INLINE void rows_walk(struct wire_walk *w, struct wire_reply *r)
{
	wire_u64(w, &r->rows.next);
	if (r->type == WIRE_SPACES)
		wire_u64(w, &r->rows.floor);
	else if (!w->writing)
		r->rows.floor = 0;
	wire_counted(w, &r->rows.count, &r->rows.at, wire_row_bytes(r->type));
}

WIRE_INLINE void body_walk(struct wire_walk *w, struct wire_reply *r)
{
	switch (r->type) {
	case WIRE_GET:
		get_walk(w, r);
		break;
	case WIRE_PUT:
		wire_u64(w, &r->put.stage);
		wire_u64(w, &r->put.generation);
		break;
	case WIRE_EXISTS:
		exists_walk(w, r);
		break;
	case WIRE_DELETE:
		wire_u64(w, &r->drop.clock_ns);
		break;
	case WIRE_TOUCH:
		wire_u64(w, &r->touch.left_ms);
		wire_u64(w, &r->touch.age_ns);
		wire_u64(w, &r->touch.checksum);
		wire_u64(w, &r->touch.clock_ns);
		break;
	case WIRE_STAT:
		wire_counted(w, &r->stat.count, &r->stat.pairs, PAIR_SIZE);
		break;
	case WIRE_CANCEL:
		wire_u64(w, &r->cancel.id);
		wire_u32(w, &r->cancel.posted);
		wire_u32(w, &r->cancel.state);
		break;
	case WIRE_PING:
		wire_u64(w, &r->ping.cookie);
		wire_u64(w, &r->ping.turns);
		wire_u64(w, &r->ping.nonce);
		break;
	case WIRE_TOMBS:
		tombs_walk(w, r);
		break;
	case WIRE_CLEAR:
		wire_u64(w, &r->clear.generation);
		break;
	case WIRE_SPACES:
	case WIRE_TENANTS:
	case WIRE_LEASES:
		rows_walk(w, r);
		break;
	default: /* PIN has no body */
		break;
	}
}

/* ---- encode and decode ---- */

/* Without padding. */
static uint32_t reply_bytes(const struct wire_reply *r)
{
	uint32_t n;
	if (!type_known(r->type))
		return 0;
	n = WIRE_REPLY_HEADER + shapes[r->type].fixed;
	if (r->type == WIRE_GET)
		n += r->flags & WIRE_GET_LEASED ? LEASE_SIZE : r->get.inline_data.len;
	if (r->type == WIRE_EXISTS)
		n += bitmap_bytes(r->exists.count) *
		     (1 + (r->flags & WIRE_EXISTS_DELETED ? 1u : 0u) + (r->flags & WIRE_EXISTS_TIER ? 1u : 0u));
	if (r->type == WIRE_STAT)
		n += r->stat.count * PAIR_SIZE;
	if (r->type == WIRE_TOMBS)
		n += r->tombs.count * TOMB_SIZE;
	if (wire_lists(r->type))
		n += (uint32_t)(r->rows.count * wire_row_bytes(r->type));
	return n;
}

int wire_reply_add(struct wire_writer *w, const struct wire_reply *r)
{
	uint32_t bytes;
	struct wire_walk body;
	uint8_t *p;
	if (!lengths_valid(r) || !contents_valid(r))
		return -KV_EINVAL;
	bytes = reply_bytes(r);
	p = wire_record_add(w, r->type | WIRE_REPLY, r->flags, bytes);
	if (!p)
		return -KV_EBUSY;
	kv_put32(p + RECORD_STATUS, (uint32_t)r->status);
	kv_put64(p + RECORD_ID, r->id);
	kv_put32(p + REPLY_POSTED, r->posted_ns);
	kv_put32(p + REPLY_REPLIED, r->replied_ns);
	body = wire_writing(p + WIRE_REPLY_HEADER, bytes - WIRE_REPLY_HEADER);
	body.fits = true;
	body_walk(&body, (struct wire_reply *)r);
	return 0;
}

int wire_reply_next(struct wire_reader *r, struct wire_reply *out)
{
	const uint8_t *header;
	struct wire_walk body;
	int rc = wire_record_next(r, &header);
	if (rc <= 0)
		return rc;
	body = wire_record_body(header);
	if (!wire_take(&body, WIRE_REPLY_HEADER - WIRE_RECORD_HEADER))
		return wire_reader_fail(r);
	out->type = header[RECORD_TYPE] & (uint8_t)~WIRE_REPLY;
	out->flags = header[RECORD_FLAGS];
	out->status = (int32_t)kv_get32(header + RECORD_STATUS);
	out->id = kv_get64(header + RECORD_ID);
	out->posted_ns = kv_get32(header + REPLY_POSTED);
	out->replied_ns = kv_get32(header + REPLY_REPLIED);
	if ((header[RECORD_TYPE] & WIRE_REPLY) == 0 || !type_known(out->type) ||
	    !wire_room(&body, shapes[out->type].fixed))
		return wire_reader_fail(r);
	body.fits = true;
	body_walk(&body, out);
	/* contents_valid last: only now bitmap and pairs lie in the input. */
	if (!wire_padded(&body) || !lengths_valid(out) || !contents_valid(out))
		return wire_reader_fail(r);
	return 1;
}

/* ---- packed pairs, tombstones, rows ---- */

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

void wire_row_put(uint8_t *rows, uint32_t i, uint8_t type, const struct wire_row *row)
{
	uint8_t *p = rows + i * wire_row_bytes(type);
	uint32_t len = (uint32_t)strlen(row->name);
	memset(p, 0, ROW_NUMBERS);
	kv_put32(p, len);
	kv_put32(p + ROW_FLAGS, row->flags);
	memcpy(p + ROW_NAME, row->name, len);
	for (uint32_t k = 0; k < row_numbers(type); k++)
		kv_put64(p + ROW_NUMBERS + 8 * (size_t)k, row->number[k]);
}

void wire_row(const uint8_t *rows, uint32_t i, uint8_t type, struct wire_row *out)
{
	const uint8_t *p = rows + i * wire_row_bytes(type);
	memcpy(out->name, p + ROW_NAME, KV_SPACE_MAX);
	out->name[KV_SPACE_MAX] = 0;
	out->flags = kv_get32(p + ROW_FLAGS);
	for (uint32_t k = 0; k < row_numbers(type); k++)
		out->number[k] = kv_get64(p + ROW_NUMBERS + 8 * (size_t)k);
}

void wire_stat_pair(const uint8_t *pairs, uint32_t i, uint32_t *out_id, uint64_t *out_value)
{
	const uint8_t *p = pairs + (size_t)i * PAIR_SIZE;
	*out_id = kv_get32(p + PAIR_ID);
	*out_value = kv_get64(p + PAIR_VALUE);
}
