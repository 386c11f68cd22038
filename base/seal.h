/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h -- one side's end of a link: tags what it sends, and takes what the other side sent, once each. The links of
 * one session and shard share their keys. What is tagged is the caller's affair (wire/seal.c). */
#ifndef KVRAIL_BASE_SEAL_H
#define KVRAIL_BASE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mac.h"
#include "base/window.h"

struct kv_seal_keys {
	uint8_t out[KV_MAC_KEY], in[KV_MAC_KEY]; /* of what this side sends; of what it receives */
};

/* The keys, ready for use by any number of seals. */
struct kv_macs {
	struct kv_mac *out, *in;
};

struct kv_seal {
	struct kv_mac *out, *in; /* of the kv_macs that it was made with */
	uint64_t next;           /* counter of the next message: ascending, never used again */
	uint32_t link;           /* with the counter it is the nonce */
	struct kv_window seen;
};

/* kv_macs_init -- *macs is all zero; the keys are not kept in this form. 0, or -KV_ENOMEM (*macs is as before).
 * kv_macs_fini -- wipes; also what is all zero. No seal that was made with them is used afterwards. Thread: all seals
 * of one kv_macs are used by one thread at a time. */
int kv_macs_init(struct kv_macs *macs, const struct kv_seal_keys *keys);
void kv_macs_fini(struct kv_macs *macs);

/* kv_seal_init -- the end of this link. The keys must be fresh for it: of all seals that are ever made with them only
 * one has this link, since each begins with counter 0. seen, width: of its window (kv_window_init). kv_seal_fini --
 * forgets the keys, which are the kv_macs'. */
void kv_seal_init(struct kv_seal *seal, const struct kv_macs *macs, uint32_t link, uint64_t *seen, uint32_t width);
void kv_seal_fini(struct kv_seal *seal);

/* kv_seal_next -- the counter of the message to be tagged now: kv_seal_tag takes it, once. */
static inline uint64_t kv_seal_next(struct kv_seal *seal)
{
	return seal->next++;
}

/* kv_seal_tag -- 0 or -KV_EINTERNAL: do not send it. */
int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG]);

/* kv_seal_take -- whether a message is the other side's and new. 0; -KV_EDENIED: not its tag; -KV_EEXIST: taken before,
 * or so old that nobody knows (the width of the window). Time does not depend on the tag. A message that is not taken
 * changes nothing. */
int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG]);

#endif
