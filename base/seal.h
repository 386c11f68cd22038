/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h -- one side's end of a link: it tags the messages that it sends, and accepts each message of the other side
 * once. The links of one session and shard share their keys. The caller decides which bytes are tagged (wire/seal.c).
 */
#ifndef KVRAIL_BASE_SEAL_H
#define KVRAIL_BASE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mac.h"
#include "base/window.h"

struct kv_seal_keys {
	uint8_t out[KV_MAC_KEY], in[KV_MAC_KEY]; /* for messages that this side sends, and receives */
};

/* The keys, ready for use by any number of seals. */
struct kv_macs {
	struct kv_mac *out, *in;
};

struct kv_seal {
	struct kv_mac *out, *in; /* belong to the kv_macs of kv_seal_init */
	uint64_t next;           /* counter of the next message: it ascends, and no value is used twice */
	uint32_t link;           /* link and counter together are the nonce */
	struct kv_window seen;
};

/* kv_macs_init -- prepare the keys. *macs is all zero before; *keys may be wiped afterwards. Returns 0, or -KV_ENOMEM
 * with *macs as before. kv_macs_fini -- wipes the keys; accepts a zeroed struct. No seal that was made with them may be
 * used afterwards. Thread: only one thread at a time may use the seals of one kv_macs. */
int kv_macs_init(struct kv_macs *macs, const struct kv_seal_keys *keys);
void kv_macs_fini(struct kv_macs *macs);

/* kv_seal_init -- begin this end of a link. Each seal begins with counter 0, so of all seals that are ever made with
 * these keys only one may have this link. seen and width are those of its window (kv_window_init). kv_seal_fini --
 * forgets the keys, which belong to the kv_macs. */
void kv_seal_init(struct kv_seal *seal, const struct kv_macs *macs, uint32_t link, uint64_t *seen, uint32_t width);
void kv_seal_fini(struct kv_seal *seal);

/* kv_seal_next -- the counter of the message to tag now. Pass it to kv_seal_tag once. */
static inline uint64_t kv_seal_next(struct kv_seal *seal)
{
	return seal->next++;
}

/* kv_seal_tag -- tag a message. Returns 0, or -KV_EINTERNAL: then do not send it. */
int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG]);

/* kv_seal_take -- decide whether a message is the other side's and new. Returns 0; -KV_EDENIED when the tag is wrong;
 * -KV_EEXIST when it was accepted before, or is older than the window's width and thus unknown. The time does not
 * depend on the tag. A refused message changes nothing. */
int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG]);

#endif
