/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c -- see base64.h. */
#include "kvserver/member/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_write(const void *data, size_t len, char *out, size_t cap)
{
	const unsigned char *p = data;
	if ((len + 2) / 3 * 4 >= cap)
		return false;
	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i;
		uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
		*out++ = letters[v >> 18];
		*out++ = letters[v >> 12 & 63];
		*out++ = n > 1 ? letters[v >> 6 & 63] : '=';
		*out++ = n > 2 ? letters[v & 63] : '=';
	}
	*out = '\0';
	return true;
}

bool base64_read(const char *text, char *out, size_t cap, size_t *out_len)
{
	size_t len = strlen(text), bytes = 0;
	uint32_t v = 0;
	if (len % 4 || len / 4 * 3 >= cap)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char *at = text[i] == '=' ? NULL : strchr(letters, text[i]);
		bool pad = text[i] == '=' && i + 2 >= len && (i + 1 == len || text[i + 1] == '=');
		if (!at && !pad)
			return false;
		v = v << 6 | (at ? (uint32_t)(at - letters) : 0);
		if (i % 4 == 3) {
			out[bytes++] = (char)(v >> 16);
			out[bytes++] = (char)(v >> 8);
			out[bytes++] = (char)v;
			v = 0;
		}
	}
	for (size_t i = len; i > 0 && i + 2 > len && text[i - 1] == '='; i--)
		bytes--;
	out[bytes] = '\0';
	*out_len = bytes;
	return true;
}
