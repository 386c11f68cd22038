/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c -- UTF-8 independent of the locale. Widths: East Asian wide characters, emoji and combining marks, in whole
 * Unicode blocks; other characters may be off by a column, never wider than counted. */
#include "base/utf8.h"

#include <string.h>

#include "base/bytes.h"

enum { PIECE = 16 }; /* for one escaped character */

/* Bytes of the character with this first byte; 0: none begins so. */
static int length_of(uint8_t first)
{
	if (first < 0xC2)
		return first < 0x80;
	if (first < 0xE0)
		return 2;
	if (first < 0xF0)
		return 3;
	return first < 0xF5 ? 4 : 0;
}

int kv_utf8_take(const uint8_t *p, size_t have, uint32_t *out)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int len = length_of(p[0]);
	uint32_t c = len == 1 ? p[0] : p[0] & (0x7Fu >> len);
	for (int i = 1; i < len; i++) {
		if ((size_t)i == have)
			return -1;
		if ((p[i] & 0xC0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3F);
	}
	if (len == 0 || c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
		return 0;
	*out = c;
	return len;
}

static unsigned width_of(uint32_t c)
{
	static const struct {
		uint32_t from, to;
		unsigned width;
	} blocks[] = {{0x300, 0x36F, 0},    {0x200B, 0x200F, 0}, {0x20D0, 0x20FF, 0}, {0xFE00, 0xFE0F, 0},
		      {0x1100, 0x115F, 2},  {0x2E80, 0xA4CF, 2}, {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},
		      {0xFE30, 0xFE6F, 2},  {0xFF00, 0xFF60, 2}, {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1FAFF, 2},
		      {0x20000, 0x3FFFD, 2}};

	for (unsigned i = 0; i < KV_COUNT(blocks); i++)
		if (c >= blocks[i].from && c <= blocks[i].to)
			return blocks[i].width;
	return 1;
}

/* The first character of text, or its first byte. Returns its bytes. */
static size_t next_of(const char *text, unsigned *out_width)
{
	uint32_t c;
	int len = kv_utf8_take((const uint8_t *)text, strlen(text), &c);
	*out_width = len > 0 ? width_of(c) : 1;
	return len > 0 ? (size_t)len : 1;
}

unsigned kv_utf8_columns(const char *text)
{
	unsigned columns = 0, width;
	for (; *text; columns += width)
		text += next_of(text, &width);
	return columns;
}

void kv_utf8_clip(char *text, unsigned columns)
{
	static const char dots[] = "...";
	unsigned limit = columns > sizeof(dots) ? columns - (unsigned)(sizeof(dots) - 1) : columns, at = 0, width = 0;
	if (kv_utf8_columns(text) <= columns)
		return;
	for (; *text; at += width) {
		size_t len = next_of(text, &width);
		if (at + width > limit)
			break;
		text += len;
	}
	memcpy(text, limit < columns ? dots : "", limit < columns ? sizeof(dots) : 1);
}

static size_t piece_of(const uint8_t *p, size_t len, bool lines, char out[PIECE], size_t *out_used)
{
	uint32_t c = 0;
	int n = kv_utf8_take(p, len, &c);
	bool safe = n > 0 && ((c >= 0x20 && c < 0x7F) || c > 0x9F || (lines && (c == '\n' || c == '\t')));
	*out_used = safe ? (size_t)n : 1;
	if (!safe)
		return (size_t)snprintf(out, PIECE, "\\x%02x", p[0]);
	memcpy(out, p, (size_t)n);
	return (size_t)n;
}

void kv_utf8_print(FILE *out, const void *data, size_t len, bool lines)
{
	const uint8_t *p = data;
	char piece[PIECE];
	size_t used;
	for (size_t at = 0; at < len; at += used)
		fwrite(piece, 1, piece_of(p + at, len - at, lines, piece, &used), out);
}

char *kv_utf8_text(const void *data, size_t len, char *buf, size_t cap)
{
	const uint8_t *p = data;
	size_t used, to = 0;
	for (size_t at = 0; at < len; at += used) {
		char piece[PIECE];
		size_t n = piece_of(p + at, len - at, false, piece, &used);
		if (to + n >= cap)
			break;
		memcpy(buf + to, piece, n);
		to += n;
	}
	buf[to] = 0;
	return buf;
}
