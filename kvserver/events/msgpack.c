/* SPDX-License-Identifier: Apache-2.0 */
/* msgpack.c -- see msgpack.h. A library for this would be larger than all that it could replace here. */
#include "kvserver/events/msgpack.h"

#include <string.h>

static void append(struct msgpack *m, const void *data, size_t n)
{
	if (m->len + n <= m->cap && n)
		memcpy(m->buf + m->len, data, n);
	m->len += n;
}

/* A type byte, and the lower n bytes of v, the highest first. */
static void head(struct msgpack *m, uint8_t type, uint64_t v, unsigned n)
{
	uint8_t b[9] = {type};
	for (unsigned i = 0; i < n; i++)
		b[1 + i] = (uint8_t)(v >> (8 * (n - 1 - i)));
	append(m, b, 1 + n);
}

void msgpack_array(struct msgpack *m, uint32_t n)
{
	if (n < 16)
		head(m, (uint8_t)(0x90 | n), 0, 0);
	else if (n <= UINT16_MAX)
		head(m, 0xdc, n, 2);
	else
		head(m, 0xdd, n, 4);
}

void msgpack_map(struct msgpack *m, uint32_t n)
{
	KV_ASSERT(n < 16);
	head(m, (uint8_t)(0x80 | n), 0, 0);
}

void msgpack_bytes(struct msgpack *m, const void *data, uint32_t len)
{
	KV_ASSERT(len <= UINT8_MAX);
	head(m, 0xc4, len, 1);
	append(m, data, len);
}

void msgpack_text(struct msgpack *m, const char *text)
{
	size_t len = strlen(text);
	KV_ASSERT(len <= UINT8_MAX);
	if (len < 32)
		head(m, (uint8_t)(0xa0 | len), 0, 0);
	else
		head(m, 0xd9, len, 1);
	append(m, text, len);
}

void msgpack_uint(struct msgpack *m, uint64_t v)
{
	if (v < 128)
		head(m, (uint8_t)v, 0, 0);
	else if (v <= UINT8_MAX)
		head(m, 0xcc, v, 1);
	else if (v <= UINT16_MAX)
		head(m, 0xcd, v, 2);
	else if (v <= UINT32_MAX)
		head(m, 0xce, v, 4);
	else
		head(m, 0xcf, v, 8);
}

void msgpack_double(struct msgpack *m, double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof(bits));
	head(m, 0xcb, bits, 8);
}

void msgpack_nil(struct msgpack *m)
{
	head(m, 0xc0, 0, 0);
}
