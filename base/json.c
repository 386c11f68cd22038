/* SPDX-License-Identifier: Apache-2.0 */
/* json.c -- see json.h. Text of a host or peer can neither end the string nor make it invalid. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

enum { UTF8_MAX = 4 /* bytes of a character */ };

/* One character of text in out. */
static size_t piece_make(const unsigned char *p, char out[8])
{
	static const char named[] = {['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r'};
	uint32_t c;
	int len = kv_utf8_take(p, strnlen((const char *)p, UTF8_MAX), &c);
	if (*p == '"' || *p == '\\')
		snprintf(out, 8, "\\%c", *p);
	else if (*p < sizeof(named) && named[*p])
		snprintf(out, 8, "\\%c", named[*p]);
	else if (*p < 0x20 || *p == 0x7F)
		snprintf(out, 8, "\\u%04x", *p);
	else if (len <= 0)
		snprintf(out, 8, "\\ufffd");
	else
		snprintf(out, 8, "%.*s", len, (const char *)p);
	return (size_t)KV_MAX(len, 1);
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
