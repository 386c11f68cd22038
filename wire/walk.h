/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h -- one walk over the fields of a message, which writes or reads them. Internal to wire/.
 *
 * A message has one walk function, with its fields in wire order. Encoders run it with `writing`, decoders without. A
 * field that is not in the input reads as nothing and sets `bad`; one that does not fit the output sets `full`. Both
 * stay set, and all later fields fail as well: so a walk is judged once, at its end. A walk changes its message only
 * while reading. */
#ifndef KVRAIL_WIRE_WALK_H
#define KVRAIL_WIRE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

/* Inlined with a constant direction, a walk costs no more than a writer and a reader made by hand. */
#define WIRE_INLINE static inline __attribute__((always_inline))

struct wire_walk {
	uint8_t *at, *end;
	bool writing;
	bool fits; /* the fixed fields were measured together: wire_u16 ... do not measure each */
	bool bad;  /* too short, or a rule is broken */
	bool full; /* no room */
};

/* wire_reading -- a walk that reads data, and writes nothing there. */
WIRE_INLINE struct wire_walk wire_reading(const void *data, size_t len)
{
	uint8_t *p = (uint8_t *)data;
	return (struct wire_walk){.at = p, .end = p + len};
}

WIRE_INLINE struct wire_walk wire_writing(void *buf, size_t cap)
{
	uint8_t *p = buf;
	return (struct wire_walk){.at = p, .end = p + cap, .writing = true};
}

WIRE_INLINE size_t wire_left(const struct wire_walk *w)
{
	return (size_t)(w->end - w->at);
}

/* wire_room -- whether n bytes are left. If not, the walk fails. */
WIRE_INLINE bool wire_room(struct wire_walk *w, size_t n)
{
	if (KV_LIKELY(wire_left(w) >= n))
		return true;
	w->at = w->end;
	if (w->writing)
		w->full = true;
	else
		w->bad = true;
	return false;
}

/* wire_take -- the next n bytes, or NULL. */
WIRE_INLINE uint8_t *wire_take(struct wire_walk *w, size_t n)
{
	uint8_t *p = w->at;
	if (!wire_room(w, n))
		return NULL;
	w->at += n;
	return p;
}

/* wire_field -- the place of a field of n bytes, or NULL. */
WIRE_INLINE uint8_t *wire_field(struct wire_walk *w, size_t n)
{
	uint8_t *p = w->at;
	if (!w->fits)
		return wire_take(w, n);
	KV_ASSERT_HOT(wire_left(w) >= n);
	w->at += n;
	return p;
}

/* wire_require -- a rule of the message. */
WIRE_INLINE void wire_require(struct wire_walk *w, bool good)
{
	w->bad |= !good;
}

WIRE_INLINE void wire_u16(struct wire_walk *w, uint16_t *v)
{
	uint8_t *p = wire_field(w, 2);
	if (p && w->writing)
		kv_put16(p, *v);
	else if (p)
		*v = kv_get16(p);
}

WIRE_INLINE void wire_u32(struct wire_walk *w, uint32_t *v)
{
	uint8_t *p = wire_field(w, 4);
	if (p && w->writing)
		kv_put32(p, *v);
	else if (p)
		*v = kv_get32(p);
}

WIRE_INLINE void wire_i32(struct wire_walk *w, int32_t *v)
{
	wire_u32(w, (uint32_t *)v);
}

WIRE_INLINE void wire_u64(struct wire_walk *w, uint64_t *v)
{
	uint8_t *p = wire_field(w, 8);
	if (p && w->writing)
		kv_put64(p, *v);
	else if (p)
		*v = kv_get64(p);
}

/* wire_count -- a u16, held in 32 bits. */
WIRE_INLINE void wire_count(struct wire_walk *w, uint32_t *n)
{
	uint8_t *p = wire_field(w, 2);
	if (p && w->writing)
		kv_put16(p, (uint16_t)*n);
	else if (p)
		*n = kv_get16(p);
}

/* wire_zero16, wire_zero32 -- a reserved field. */
WIRE_INLINE void wire_zero16(struct wire_walk *w)
{
	uint16_t v = 0;
	wire_u16(w, &v);
	wire_require(w, v == 0);
}

WIRE_INLINE void wire_zero32(struct wire_walk *w)
{
	uint32_t v = 0;
	wire_u32(w, &v);
	wire_require(w, v == 0);
}

/* wire_array -- n bytes, which the message has itself. */
WIRE_INLINE void wire_array(struct wire_walk *w, void *data, size_t n)
{
	uint8_t *p = wire_take(w, n);
	if (p && n)
		memcpy(w->writing ? p : data, w->writing ? data : p, n);
}

/* wire_span -- n bytes of the variable part, to which the message points: when they are read they stay in the input. */
WIRE_INLINE void wire_span(struct wire_walk *w, const uint8_t **data, size_t n)
{
	uint8_t *p = wire_take(w, n);
	if (!w->writing)
		*data = p;
	else if (p && n)
		memcpy(p, *data, n);
}

/* wire_padded -- whether nothing failed and fewer than 8 bytes are left, all zero. May read the 8 bytes before `end`,
 * which each record has. */
WIRE_INLINE bool wire_padded(const struct wire_walk *w)
{
	size_t pad = wire_left(w);
	if (KV_UNLIKELY(w->bad || pad >= 8))
		return false;
	return pad == 0 || kv_get64(w->end - 8) >> (64 - 8 * pad) == 0;
}

#endif
