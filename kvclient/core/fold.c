/* SPDX-License-Identifier: Apache-2.0 */
/* fold.c -- keys that are longer than ours may be.
 *
 * Engines make keys of a model's name, ranks, a salt and hashes, and some pass 128 bytes. Cut off, two of them would be
 * one. So the whole key goes into a digest, and its beginning stays, since that is what people look for in a log:
 *
 *   the first 63 bytes '#' SHA-256 of the whole key, 64 digits
 *
 * Two keys that fold to one would be two inputs of one digest; nobody can make those, also who chooses the salt.
 * (Rejected: XXH3-128, which is faster and for which they can be made. A call of ours costs more than either.) */
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
