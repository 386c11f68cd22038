/* SPDX-License-Identifier: Apache-2.0 */
/* json.c -- see json.h. Text of a host or peer can neither end the string nor make it invalid. UTF-8 as in RFC 3629: no
 * overlong form, no surrogate, nothing above U+10FFFF. */
#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static bool is_tail(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

/* Bytes of the UTF-8 character at p (not ASCII); 0: none. */
static size_t character(const unsigned char *p)
{
	if (p[0] >= 0xC2 && p[0] <= 0xDF)
		return is_tail(p[1]) ? 2 : 0;
	if (p[0] >= 0xE0 && p[0] <= 0xEF) {
		unsigned char low = p[0] == 0xE0 ? 0xA0 : 0x80, high = p[0] == 0xED ? 0x9F : 0xBF;
		return p[1] >= low && p[1] <= high && is_tail(p[2]) ? 3 : 0;
	}
	if (p[0] >= 0xF0 && p[0] <= 0xF4) {
		unsigned char low = p[0] == 0xF0 ? 0x90 : 0x80, high = p[0] == 0xF4 ? 0x8F : 0xBF;
		return p[1] >= low && p[1] <= high && is_tail(p[2]) && is_tail(p[3]) ? 4 : 0;
	}
	return 0;
}

/* One character of text in out. Returns its bytes of text. */
static size_t piece_make(const unsigned char *p, char out[8])
{
	size_t len = *p >= 0x80 ? character(p) : 1;
	if (*p == '"' || *p == '\\')
		snprintf(out, 8, "\\%c", *p);
	else if (*p == '\n' || *p == '\t' || *p == '\r')
		snprintf(out, 8, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r');
	else if (*p < 0x20 || *p == 0x7F)
		snprintf(out, 8, "\\u%04x", *p);
	else if (len == 0)
		snprintf(out, 8, "\\ufffd");
	else
		snprintf(out, 8, "%.*s", (int)len, (const char *)p);
	return KV_MAX(len, (size_t)1);
}

char *kv_json_text(const char *text, char *buf, size_t cap)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t at = 0;
	while (*p) {
		char piece[8];
		size_t took = piece_make(p, piece), len = strlen(piece);
		if (at + len >= cap)
			break;
		memcpy(buf + at, piece, len);
		at += len;
		p += took;
	}
	if (cap)
		buf[at] = '\0';
	return buf;
}
