/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h -- one end of a link: tags its messages, and accepts each message of the other side once. Links of a session
 * and shard share keys. The caller chooses the tagged bytes (wire/seal.c). */
#ifndef KVRAIL_BASE_SEAL_H
#define KVRAIL_BASE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/mac.h"
#include "base/window.h"

struct kv_seal_keys {
	uint8_t out[KV_MAC_KEY], in[KV_MAC_KEY];
};

/* Ready keys, for many seals. */
struct kv_macs {
	struct kv_mac *out, *in;
};

struct kv_seal {
	struct kv_mac *out, *in; /* of the kv_macs */
	uint64_t next;           /* next counter; ascending, never reused */
	uint32_t link;           /* with the counter, the nonce */
	struct kv_window seen;
};

/* kv_macs_init -- prepare the keys; *macs is zeroed before, *keys may be wiped after. 0, or -KV_ENOMEM with *macs
 * unchanged. kv_macs_fini -- wipe them; accepts a zeroed struct. Its seals end. Thread: one at a time for all seals of
 * a kv_macs. */
int kv_macs_init(struct kv_macs *macs, const struct kv_seal_keys *keys);
void kv_macs_fini(struct kv_macs *macs);

/* kv_seal_init -- begin this end of a link with counter 0: with these keys, once per link ever. seen, width: of its
 * window (kv_window_init). kv_seal_fini -- forget the keys. */
void kv_seal_init(struct kv_seal *seal, const struct kv_macs *macs, uint32_t link, uint64_t *seen, uint32_t width);
void kv_seal_fini(struct kv_seal *seal);

/* kv_seal_next -- the next counter, for one kv_seal_tag. */
static inline uint64_t kv_seal_next(struct kv_seal *seal)
{
	KV_ASSERT_HOT(seal->out && seal->next != UINT64_MAX); /* ownership.md 8: no counter is used twice */
	return seal->next++;
}

/* kv_seal_tag -- tag a message. 0, or -KV_EINTERNAL: do not send it. */
int kv_seal_tag(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, uint8_t out[KV_MAC_TAG]);

/* kv_seal_take -- 0: the other side's, and new; -KV_EDENIED: wrong tag; -KV_EEXIST: accepted before, or older than the
 * window. Constant time. A refused message changes nothing. */
int kv_seal_take(struct kv_seal *seal, uint64_t counter, const void *data, size_t len, const uint8_t tag[KV_MAC_TAG]);

#endif
