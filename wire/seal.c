/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- the tag of a frame: over everything behind it, with link and counter as the nonce.
 *
 * The tag lies before the bytes that it is made of, so that these are one piece, and need neither a copy nor zeros in
 * their midst. What is before it is not left to chance: magic and version can only have one value each; the session
 * (with the shard, which is behind the tag) says under which key the tag is right, and the link is in the nonce. */
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
