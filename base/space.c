/* SPDX-License-Identifier: Apache-2.0 */
/* space.c -- names of namespaces. They are text, because metrics, JSON, logs and command lines show them. */
#include "base/space.h"

#include "base/limits.h"
#include "base/utf8.h"

bool kv_space_check(const void *name, size_t len)
{
	const uint8_t *p = name;
	if (len > KV_SPACE_MAX)
		return false;
	for (size_t at = 0; at < len;) {
		uint32_t c = 0;
		int n = kv_utf8_take(p + at, len - at, &c);
		if (n <= 0 || c < 0x20 || (c >= 0x7F && c <= 0x9F))
			return false;
		at += (size_t)n;
	}
	return true;
}
