/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h -- one side's end of a link: tags what it sends, and takes what the other side sent, once each. What is tagged is the
 * caller's affair (wire/seal.c). */
#ifndef KVRAIL_BASE_SEAL_H
#define KVRAIL_BASE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mac.h"
#include "base/window.h"

struct kv_seal_keys {
	uint8_t out[KV_MAC_KEY], in[KV_MAC_KEY]; /* of what this side sends; of what it receives */
};

struct kv_seal {
	struct kv_mac *out, *in;
	uint64_t next; /* counter of the next message: ascending, never used again */
	struct kv_window seen;
};

/* kv_seal_open -- *seal is all zero; the keys are not kept in this form. 0, or -KV_ENOMEM (*seal is as before).
 * kv_seal_close -- wipes; also one that is all zero. Thread: one at a time per seal. */
int kv_seal_open(struct kv_seal *seal, const struct kv_seal_keys *keys);
void kv_seal_close(struct kv_seal *seal);

/* kv_seal_next -- the counter of the message to be tagged now: kv_seal_tag takes it, once. */
static inline uint64_t kv_seal_next(struct kv_seal *seal)
{
	return seal->next++;
}

/* kv_seal_tag -- 0 or -KV_EINTERNAL: do not send it. */
int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG]);

/* kv_seal_take -- whether a message is the other side's and new. 0; -KV_EDENIED: not its tag; -KV_EEXIST: taken before, or so old
 * that nobody knows (KV_WINDOW_WIDTH). Time does not depend on the tag. A message that is not taken changes nothing. */
int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG]);

#endif
