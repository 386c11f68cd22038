/* SPDX-License-Identifier: Apache-2.0 */
/* target.h -- where a value's bytes are in this process. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_TARGET_H
#define KVRAIL_KVCLIENT_CORE_TARGET_H

#include "base/base.h"
#include "kvclient/kvclient.h"

/* Slices of `slice` bytes, `stride` bytes apart; slice 0: one place. Or spans, the caller's. The value's first `skip`
 * bytes are before the range. */
struct kc_target {
	uint8_t *at;
	uint64_t slice, stride, skip;
	const struct kvc_span *span; /* NULL: `at` */
	uint32_t spans;
};

/* kc_layout_take -- copy an item's layout. 0, or -KV_EINVAL: unknown. */
int kc_layout_take(const struct kvc_item *it, struct kvc_layout *out);

/* kc_layout_borrowed -- where an item wants its value lent; NULL: it does not. *out_valid: no other place is given. */
struct kvc_borrowed *kc_layout_borrowed(const struct kvc_item *it, bool *out_valid);

/* kc_target_make -- an item's target. parts: receives its layout, zeroed if none; NULL: parts are not allowed. 0.
 * -KV_EINVAL: a NULL place or length 0, overlapping slices, an overflow, lengths that do not sum to it->len, or an
 * unknown layout. */
int kc_target_make(struct kc_target *t, const struct kvc_item *it, struct kvc_layout *parts);

/* kc_target_flat -- whether it is one place. kc_target_extent -- bytes from first to last, for `len` value bytes
 * without spans. */
static inline bool kc_target_flat(const struct kc_target *t)
{
	return !t->span && t->slice == 0;
}
static inline uint64_t kc_target_extent(const struct kc_target *t, uint64_t len)
{
	return t->slice ? (len - 1) / t->slice * (t->stride - t->slice) + len : len;
}

/* kc_target_write -- copy n bytes to the target, from `skip` on. kc_target_stream -- the same past the caches, for
 * large values; it prefetches the bytes `ahead` of those it copies. kc_target_streamed makes the bytes visible to other
 * threads. kc_target_read -- copy from it. */
void kc_target_write(const struct kc_target *t, const uint8_t *from, uint64_t n);
void kc_target_stream(const struct kc_target *t, const uint8_t *from, uint64_t n, uint64_t ahead);
void kc_target_streamed(void);
void kc_target_read(const struct kc_target *t, uint8_t *to, uint64_t n);

void kc_target_hash(const struct kc_target *t, uint64_t n, struct kv_hasher *h);

#endif
