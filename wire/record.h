/* SPDX-License-Identifier: Apache-2.0 */
/* record.h -- what requests and replies share: finding the next record in a frame and making room for one. Internal to
 * wire/. */
#ifndef KVRAIL_WIRE_RECORD_H
#define KVRAIL_WIRE_RECORD_H

#include "wire/cursor.h"
#include "wire/wire.h"

/* Offsets in a record's header. A request has its time left where a reply has its status. */
enum { RECORD_TYPE = 0, RECORD_FLAGS = 1, RECORD_LENGTH = 2, RECORD_TIME = 4, RECORD_STATUS = 4, RECORD_ID = 8 };

/* What a reply's header has after that. */
enum { REPLY_POSTED = 16, REPLY_REPLIED = 20 };

/* wire_record_next -- the header of the next record, and a cursor over its body. Returns 1, 0 at a proper end,
 * -KV_EPROTO. */
int wire_record_next(struct wire_reader *r, const uint8_t **out_header, struct wire_cur *out_body);

/* wire_reader_fail -- make this and every later read of the frame fail. Returns -KV_EPROTO. */
int wire_reader_fail(struct wire_reader *r);

/* wire_record_add -- room for a record of `bytes` bytes, header included and unpadded, with type, flags, length and
 * padding already written. NULL when the frame has no room for it; the frame is then as before. */
uint8_t *wire_record_add(struct wire_writer *w, uint8_t type, uint8_t flags, uint32_t bytes);

static inline uint32_t wire_record_padded(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

#endif
