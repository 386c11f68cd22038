/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.h -- bounds-checked reads and writes. Internal to wire/. A read beyond the end sets `bad`; all later reads
 * give zero or NULL. So a decoder reads a whole layout and checks `bad` once. `out` does the same for writing. */
#ifndef KVRAIL_WIRE_CURSOR_H
#define KVRAIL_WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

struct wire_cur {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct wire_cur wire_cur_over(const void *data, size_t len)
{
	const uint8_t *p = data;
	return (struct wire_cur){p, p + len, false};
}

static inline size_t wire_cur_left(const struct wire_cur *c)
{
	return (size_t)(c->end - c->at);
}

/* wire_cur_take -- the next n bytes, or NULL. */
static inline const uint8_t *wire_cur_take(struct wire_cur *c, size_t n)
{
	const uint8_t *p = c->at;
	if (KV_UNLIKELY(c->bad || wire_cur_left(c) < n)) {
		c->bad = true;
		c->at = c->end;
		return NULL;
	}
	c->at += n;
	return p;
}

static inline uint8_t wire_cur_8(struct wire_cur *c)
{
	const uint8_t *p = wire_cur_take(c, 1);
	return p ? *p : 0;
}

static inline uint16_t wire_cur_16(struct wire_cur *c)
{
	const uint8_t *p = wire_cur_take(c, 2);
	return p ? kv_get16(p) : 0;
}

static inline uint32_t wire_cur_32(struct wire_cur *c)
{
	const uint8_t *p = wire_cur_take(c, 4);
	return p ? kv_get32(p) : 0;
}

static inline uint64_t wire_cur_64(struct wire_cur *c)
{
	const uint8_t *p = wire_cur_take(c, 8);
	return p ? kv_get64(p) : 0;
}

static inline void wire_cur_copy(struct wire_cur *c, void *out, size_t n)
{
	const uint8_t *p = wire_cur_take(c, n);
	if (p)
		memcpy(out, p, n);
}

/* wire_cur_check -- require a condition; sticky. */
static inline void wire_cur_check(struct wire_cur *c, bool good)
{
	if (KV_UNLIKELY(!good)) {
		c->bad = true;
		c->at = c->end;
	}
}

/* wire_cur_padded -- whether nothing failed and fewer than 8 bytes are left, all zero. May read the 8 bytes before
 * `end`, which each record has. */
static inline bool wire_cur_padded(const struct wire_cur *c)
{
	size_t pad = wire_cur_left(c);
	if (KV_UNLIKELY(c->bad || pad >= 8))
		return false;
	return pad == 0 || kv_get64(c->end - 8) >> (64 - 8 * pad) == 0;
}

struct wire_out {
	uint8_t *at, *end;
	bool full; /* it did not fit */
	bool bad;  /* a value beyond a limit */
};

static inline uint8_t *wire_out_take(struct wire_out *o, size_t n)
{
	uint8_t *p = o->at;
	if (o->full || (size_t)(o->end - o->at) < n) {
		o->full = true;
		return NULL;
	}
	o->at += n;
	return p;
}

static inline void wire_out_16(struct wire_out *o, uint16_t v)
{
	uint8_t *p = wire_out_take(o, 2);
	if (p)
		kv_put16(p, v);
}

static inline void wire_out_32(struct wire_out *o, uint32_t v)
{
	uint8_t *p = wire_out_take(o, 4);
	if (p)
		kv_put32(p, v);
}

static inline void wire_out_64(struct wire_out *o, uint64_t v)
{
	uint8_t *p = wire_out_take(o, 8);
	if (p)
		kv_put64(p, v);
}

static inline void wire_out_copy(struct wire_out *o, const void *data, size_t n)
{
	uint8_t *p = wire_out_take(o, n);
	if (p && n)
		memcpy(p, data, n);
}

#endif
