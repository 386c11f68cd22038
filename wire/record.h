/* SPDX-License-Identifier: Apache-2.0 */
/* record.h -- shared by requests and replies: find and add records. Internal to wire/. */
#ifndef KVRAIL_WIRE_RECORD_H
#define KVRAIL_WIRE_RECORD_H

#include "wire/walk.h"
#include "wire/wire.h"

/* Offsets in a record's header. A request has its time left where a reply has its status. */
enum {
	RECORD_TYPE = 0,   /* u8; of replies with WIRE_REPLY */
	RECORD_FLAGS = 1,  /* u8 */
	RECORD_LENGTH = 2, /* u16: header and padding included */
	RECORD_TIME = 4,   /* u32 */
	RECORD_STATUS = 4, /* i32 */
	RECORD_ID = 8,     /* u64 */
	REPLY_POSTED = 16, /* u32 */
	REPLY_REPLIED = 20 /* u32 */
};

/* wire_record_next -- the next record, whose length is right. 1, 0 at the end, or -KV_EPROTO. */
int wire_record_next(struct wire_reader *r, const uint8_t **out_header);

/* wire_record_body -- a walk that reads the body behind the header. */
WIRE_INLINE struct wire_walk wire_record_body(const uint8_t *header)
{
	return wire_reading(header + WIRE_RECORD_HEADER, kv_get16(header + RECORD_LENGTH) - WIRE_RECORD_HEADER);
}

/* wire_reader_fail -- fail all later reads of the frame. Returns -KV_EPROTO. */
int wire_reader_fail(struct wire_reader *r);

/* wire_record_add -- make room for a record of `bytes` bytes (with header, without padding) and write type, flags,
 * length and padding. NULL: no room; nothing changed. */
uint8_t *wire_record_add(struct wire_writer *w, uint8_t type, uint8_t flags, uint32_t bytes);

static inline uint32_t wire_record_padded(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

/* wire_counted -- the number of items, 6 bytes of zeros, and the items. */
WIRE_INLINE void wire_counted(struct wire_walk *w, uint32_t *count, const uint8_t **items, size_t size)
{
	wire_count(w, count);
	wire_zero16(w);
	wire_zero32(w);
	wire_span(w, items, *count * size);
}

#endif
