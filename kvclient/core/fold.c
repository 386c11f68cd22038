/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c -- keys longer than KVC_KEY_MAX are folded:
 *
 *   the first 63 bytes   '#'   SHA-256 of the whole key, 64 digits
 *
 * The beginning stays readable in logs. Nobody can make two keys that fold to one; with XXH3-128, which is faster, they
 * could. */
#include <string.h>

#include "base/base.h"
#include "kvclient/kvclient.h"

_Static_assert((int)KVC_KEY_MAX == (int)KV_KEY_MAX, "one limit");

enum { SHOWN = KVC_KEY_MAX - 2 * KV_DIGEST - 1 };

int kvc_key_fold(const void *data, size_t len, unsigned char room[KVC_KEY_MAX], struct kvc_key *out)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[KV_DIGEST];
	unsigned char *at;
	if (!data || len == 0 || !out || (!room && len > KVC_KEY_MAX))
		return -KV_EINVAL;
	if (len <= KVC_KEY_MAX) {
		*out = (struct kvc_key){data, len};
		return 0;
	}
	at = room + SHOWN;
	if (kv_digest(data, len, digest) < 0)
		return -KV_ENOMEM;
	memcpy(room, data, SHOWN);
	*at++ = '#';
	for (unsigned i = 0; i < KV_DIGEST; i++) {
		*at++ = (unsigned char)digits[digest[i] >> 4];
		*at++ = (unsigned char)digits[digest[i] & 15];
	}
	*out = (struct kvc_key){room, KVC_KEY_MAX};
	return 0;
}
