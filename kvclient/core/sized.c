/* SPDX-License-Identifier: Apache-2.0 */
/* sized.c -- see sized.h. An unknown nonzero tail is refused: a program that asks for something new must not silently
 * get the old behaviour. */
#include "kvclient/core/sized.h"

enum { SIZE_MOST = 65536 }; /* more is invalid */

static size_t size_of(const void *given)
{
	size_t size;
	memcpy(&size, given, sizeof(size));
	return size;
}

bool kc_sized(const void *given)
{
	return given && size_of(given) >= sizeof(size_t) && size_of(given) <= SIZE_MOST;
}

static bool all_zero(const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at[i])
			return false;
	return true;
}

int kc_sized_take(void *to, size_t known, const void *given, size_t least, const char *name, struct kv_error *err)
{
	size_t size = given ? size_of(given) : 0;
	if (KV_LIKELY(size == known)) {
		memcpy(to, given, known);
		return 0;
	}
	memset(to, 0, known);
	if (given && (size < least || size > SIZE_MOST))
		return kv_fail(err, -KV_EINVAL,
			       "the size field of %s is not set; set it to sizeof(%s) and zero the rest", name, name);
	if (size > known && !all_zero((const uint8_t *)given + known, size - known))
		return kv_fail(err, -KV_EINVAL,
			       "%s is newer than this library (version %s), which does not know the field "
			       "set after byte %zu; leave that 0, or use a newer library",
			       name, KVRAIL_VERSION, known);
	if (given)
		memcpy(to, given, KV_MIN(size, known));
	memcpy(to, &known, sizeof(known));
	return 0;
}

void kc_sized_give(void *to, const void *from, size_t known)
{
	size_t size = size_of(to), both = KV_MIN(size, known);
	memcpy(to, from, both);
	memset((uint8_t *)to + both, 0, size - both);
	memcpy(to, &both, sizeof(both));
}
