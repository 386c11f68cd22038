/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- the tag of a frame: it covers all bytes behind it, and its nonce is link and counter.
 *
 * The tag stands before the bytes that it covers, so that these are contiguous. They need neither a copy nor zeros in
 * the place of the tag. The bytes before the tag are protected, too. Magic and version have only one valid value each.
 * The session, together with the shard (which is behind the tag), selects the key. The link is in the nonce. */
#include "wire/record.h"

enum { FRAME_TAG = 8, FRAME_TAGGED = 24, FRAME_COUNTER = 32 };

_Static_assert((int)FRAME_TAG + (int)KV_MAC_TAG == (int)FRAME_TAGGED &&
		       (int)FRAME_COUNTER + 8 == (int)WIRE_FRAME_HEADER,
	       "the layout of frame.c");

int wire_seal(struct kv_seal *seal, uint8_t *frame, uint32_t len)
{
	uint64_t counter = kv_seal_next(seal);

	kv_put64(frame + FRAME_COUNTER, counter);
	return kv_seal_tag(seal, counter, frame + FRAME_TAGGED, len - FRAME_TAGGED, frame + FRAME_TAG);
}

int wire_unseal(struct kv_seal *seal, const uint8_t *frame, size_t len)
{
	return kv_seal_take(seal, kv_get64(frame + FRAME_COUNTER), frame + FRAME_TAGGED, len - FRAME_TAGGED,
			    frame + FRAME_TAG);
}
