/* SPDX-License-Identifier: Apache-2.0 */
/* msgpack.h -- writes MessagePack (github.com/msgpack/msgpack/blob/master/spec.md): the few types that events need. */
#ifndef KVRAIL_KVSERVER_EVENTS_MSGPACK_H
#define KVRAIL_KVSERVER_EVENTS_MSGPACK_H

#include "base/base.h"

/* Writes into buf[cap]; without room `len` grows beyond cap, and the rest is not written. */
struct msgpack {
	uint8_t *buf;
	size_t cap, len;
};

/* Each appends one value, in its shortest form. An array of n values, or a map of n pairs, is the head alone: its
 * values, or keys and values, follow. */
void msgpack_array(struct msgpack *m, uint32_t n);
void msgpack_map(struct msgpack *m, uint32_t n);
void msgpack_bytes(struct msgpack *m, const void *data, uint32_t len);
void msgpack_text(struct msgpack *m, const char *text); /* of at most 255 bytes */
void msgpack_uint(struct msgpack *m, uint64_t v);
void msgpack_double(struct msgpack *m, double v);
void msgpack_nil(struct msgpack *m);

#endif
