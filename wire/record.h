/* SPDX-License-Identifier: Apache-2.0 */
/* record.h -- shared by requests and replies: find and add records. Internal to wire/. */
#ifndef KVRAIL_WIRE_RECORD_H
#define KVRAIL_WIRE_RECORD_H

#include "wire/cursor.h"
#include "wire/wire.h"

/* Offsets in a record's header. A request has its time left where a reply has its status. */
enum { RECORD_TYPE = 0, RECORD_FLAGS = 1, RECORD_LENGTH = 2, RECORD_TIME = 4, RECORD_STATUS = 4, RECORD_ID = 8 };

/* Of a reply's further fields. */
enum { REPLY_POSTED = 16, REPLY_REPLIED = 20 };

/* wire_record_next -- the next record's header, and a cursor over its body. 1, 0 at the end, or -KV_EPROTO. */
int wire_record_next(struct wire_reader *r, const uint8_t **out_header, struct wire_cur *out_body);

/* wire_reader_fail -- fail all later reads of the frame. Returns -KV_EPROTO. */
int wire_reader_fail(struct wire_reader *r);

/* wire_record_add -- make room for a record of `bytes` bytes (with header, without padding) and write type, flags,
 * length and padding. NULL: no room; nothing changed. */
uint8_t *wire_record_add(struct wire_writer *w, uint8_t type, uint8_t flags, uint32_t bytes);

static inline uint32_t wire_record_padded(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

#endif
