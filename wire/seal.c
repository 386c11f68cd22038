/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- a frame's tag: it covers all bytes behind it; its nonce is link and counter. The bytes before it are
 * protected as well: magic and version have one value, session (with the shard behind the tag) selects the key, and the
 * link is in the nonce. */
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
