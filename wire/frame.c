/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c -- the header of a fabric frame, and the walk over its records.
 *
 * The completion and the header both have the frame's length. They must agree, and records must fill the frame exactly,
 * so that no two readers see different records. seal.c decides whether a frame is authentic and new.
 *
 * Writer: `len` never exceeds `cap`. A record that does not fit changes nothing; length and count are written at the
 * end. Reader: a failed one expects a record in no bytes, so it goes on failing. */
#include "wire/record.h"

enum {
	FRAME_MAGIC = 0,    /* u16 "KR" */
	FRAME_VERSION = 2,  /* u8 */
	FRAME_LINK = 3,     /* u8 */
	FRAME_SESSION = 4,  /* u32 */
	FRAME_TAG = 8,      /* u8[16] */
	FRAME_LENGTH = 24,  /* u16: of the whole frame */
	FRAME_RECORDS = 26, /* u8: their count */
	FRAME_SHARD = 27,   /* u8 */
	FRAME_MARK = 28,    /* u32 */
	FRAME_COUNTER = 32  /* u64 */
};

_Static_assert((int)FRAME_TAG + (int)KV_MAC_TAG == (int)FRAME_LENGTH, "the tag fills its place");
_Static_assert((int)FRAME_COUNTER + 8 == (int)WIRE_FRAME_HEADER, "the header ends with its last field");
_Static_assert((int)WIRE_RECORDS_AT == (int)FRAME_RECORDS, "wire_frame_records");
_Static_assert(KV_SHARDS_MAX <= UINT8_MAX, "a shard fits its u8");
_Static_assert(WIRE_FRAME_HEADER % 8 == 0 && WIRE_RECORD_HEADER % 8 == 0 && KV_MSG_MAX % 8 == 0,
	       "records stay aligned to 8");
_Static_assert(KV_MSG_MAX <= UINT16_MAX, "a frame's length fits its u16");
_Static_assert(WIRE_RECORDS_MAX <= UINT8_MAX, "the record count fits its u8");
_Static_assert(RECORD_ID + 8 == WIRE_RECORD_HEADER, "the record header ends with the id");
_Static_assert((int)REPLY_POSTED == (int)WIRE_RECORD_HEADER && (int)REPLY_REPLIED + 4 == (int)WIRE_REPLY_HEADER &&
		       WIRE_REPLY_HEADER % 8 == 0,
	       "a reply's header goes on with its two times");

void wire_frame_begin(struct wire_writer *w, void *buf, uint32_t cap, const struct wire_frame *frame)
{
	uint8_t *p = buf;
	w->buf = p;
	w->cap = KV_MIN(cap, (uint32_t)KV_MSG_MAX);
	w->len = WIRE_FRAME_HEADER;
	w->records = 0;
	kv_put16(p + FRAME_MAGIC, WIRE_MAGIC);
	p[FRAME_VERSION] = WIRE_VERSION;
	p[FRAME_LINK] = frame->link;
	kv_put32(p + FRAME_SESSION, frame->session);
	memcpy(p + FRAME_TAG, frame->tag, KV_MAC_TAG);
	kv_put16(p + FRAME_LENGTH, WIRE_FRAME_HEADER);
	p[FRAME_RECORDS] = 0;
	p[FRAME_SHARD] = frame->shard;
	kv_put32(p + FRAME_MARK, frame->mark);
	kv_put64(p + FRAME_COUNTER, frame->counter);
}

uint32_t wire_frame_end(struct wire_writer *w)
{
	if (w->records == 0)
		return 0;
	w->buf[FRAME_RECORDS] = w->records;
	kv_put16(w->buf + FRAME_LENGTH, (uint16_t)w->len);
	return w->len;
}

uint8_t *wire_record_add(struct wire_writer *w, uint8_t type, uint8_t flags, uint32_t bytes)
{
	uint32_t padded = wire_record_padded(bytes);
	uint8_t *p = w->buf + w->len;
	if (padded > w->cap - w->len || w->records == WIRE_RECORDS_MAX)
		return NULL;
	kv_put64(p + padded - 8, 0); /* zero the padding; the caller overwrites the rest */
	p[RECORD_TYPE] = type;
	p[RECORD_FLAGS] = flags;
	kv_put16(p + RECORD_LENGTH, (uint16_t)padded);
	w->len += padded;
	w->records++;
	return p;
}

int wire_frame_open(struct wire_reader *r, const void *data, size_t len, struct wire_frame *out)
{
	const uint8_t *p = data;
	if (len < WIRE_FRAME_HEADER || kv_get16(p + FRAME_MAGIC) != WIRE_MAGIC)
		return -KV_EPROTO;
	/* Other versions may have other fields. */
	if (p[FRAME_VERSION] != WIRE_VERSION)
		return -KV_EVERSION;
	if (len > KV_MSG_MAX || len % 8 != 0 || kv_get16(p + FRAME_LENGTH) != len || p[FRAME_RECORDS] == 0)
		return -KV_EPROTO;
	out->session = kv_get32(p + FRAME_SESSION);
	out->mark = kv_get32(p + FRAME_MARK);
	out->counter = kv_get64(p + FRAME_COUNTER);
	memcpy(out->tag, p + FRAME_TAG, KV_MAC_TAG);
	out->link = p[FRAME_LINK];
	out->shard = p[FRAME_SHARD];
	out->records = p[FRAME_RECORDS];
	*r = (struct wire_reader){p + WIRE_FRAME_HEADER, p + len, out->records};
	return 0;
}

int wire_reader_fail(struct wire_reader *r)
{
	r->at = r->end;
	r->left = 1;
	return -KV_EPROTO;
}

int wire_record_next(struct wire_reader *r, const uint8_t **out_header)
{
	const uint8_t *p = r->at;
	size_t room = (size_t)(r->end - p), len;
	if (r->left == 0)
		return room == 0 ? 0 : wire_reader_fail(r);
	if (room < WIRE_RECORD_HEADER)
		return wire_reader_fail(r);
	len = kv_get16(p + RECORD_LENGTH);
	if (KV_UNLIKELY(len < WIRE_RECORD_HEADER || len > room || len % 8 != 0))
		return wire_reader_fail(r);
	*out_header = p;
	r->at = p + len;
	r->left--;
	return 1;
}
