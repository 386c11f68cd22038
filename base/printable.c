/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c -- escape text so that it can neither forge a line nor drive a terminal. */
#include "base/printable.h"

#include <string.h>

static size_t escape_byte(unsigned char c, char out[4])
{
	static const char hex[] = "0123456789abcdef", named[] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
	if (c >= 0x20 && c < 0x7f) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '\\';
	if (c < sizeof(named) && named[c]) {
		out[1] = named[c];
		return 2;
	}
	out[1] = 'x';
	out[2] = hex[c >> 4];
	out[3] = hex[c & 15];
	return 4;
}

char *kv_printable(const char *text, bool cut, char *buf, size_t cap)
{
	static const char dots[] = "...";
	const size_t room = cap - sizeof(dots);
	size_t n = 0;
	for (; *text; text++) {
		char piece[4];
		size_t len = escape_byte((unsigned char)*text, piece);
		if (n + len > room) {
			cut = true;
			break;
		}
		memcpy(buf + n, piece, len);
		n += len;
	}
	if (cut) {
		memcpy(buf + n, dots, sizeof(dots) - 1);
		n += sizeof(dots) - 1;
	}
	buf[n] = '\0';
	return buf;
}
