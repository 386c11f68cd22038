/* SPDX-License-Identifier: Apache-2.0 */
/* record.h -- helpers that requests and replies share: find the next record of a frame, and make room for one. Internal
 * to wire/. */
#ifndef KVRAIL_WIRE_RECORD_H
#define KVRAIL_WIRE_RECORD_H

#include "wire/cursor.h"
#include "wire/wire.h"

/* Offsets in a record's header. A request has its time left in the place where a reply has its status. */
enum { RECORD_TYPE = 0, RECORD_FLAGS = 1, RECORD_LENGTH = 2, RECORD_TIME = 4, RECORD_STATUS = 4, RECORD_ID = 8 };

/* Offsets of a reply's further header fields. */
enum { REPLY_POSTED = 16, REPLY_REPLIED = 20 };

/* wire_record_next -- get the header of the next record, and a cursor over its body. Returns 1, 0 at a proper end, or
 * -KV_EPROTO. */
int wire_record_next(struct wire_reader *r, const uint8_t **out_header, struct wire_cur *out_body);

/* wire_reader_fail -- make all later reads of the frame fail. Returns -KV_EPROTO. */
int wire_reader_fail(struct wire_reader *r);

/* wire_record_add -- make room for a record of `bytes` bytes (header included, padding not), and write type, flags,
 * length and padding. NULL when the frame has no room for it; the frame is then as before. */
uint8_t *wire_record_add(struct wire_writer *w, uint8_t type, uint8_t flags, uint32_t bytes);

static inline uint32_t wire_record_padded(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

#endif
