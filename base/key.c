/* SPDX-License-Identifier: Apache-2.0 */
/* key.c -- show a key as text if it is printable, else in hex, cut to fit in a line. */
#include "base/key.h"

#include <stdbool.h>
#include <stdio.h>

static bool printable(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] <= 0x20 || p[i] >= 0x7f || p[i] == '\'')
			return false;
	return true;
}

char *kv_key_text(const void *data, size_t len, char buf[KV_KEY_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;
	size_t n = len < KV_KEY_SHOWN ? len : KV_KEY_SHOWN, at = 0;
	bool text = printable(p, n);
	buf[at++] = text ? '\'' : '0';
	if (!text)
		buf[at++] = 'x';
	for (size_t i = 0; i < n; i++) {
		if (text) {
			buf[at++] = (char)p[i];
			continue;
		}
		buf[at++] = digits[p[i] >> 4];
		buf[at++] = digits[p[i] & 15];
	}
	if (text)
		buf[at++] = '\'';
	buf[at] = 0;
	if (len > n)
		snprintf(buf + at, KV_KEY_TEXT - at, ".. (%zu bytes)", len);
	return buf;
}
