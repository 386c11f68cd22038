/* SPDX-License-Identifier: Apache-2.0 */
/* target.h -- where the bytes of a value are in this process: at one place, in slices, or in spans. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_TARGET_H
#define KVRAIL_KVCLIENT_CORE_TARGET_H

#include "base/base.h"
#include "kvclient/kvclient.h"

/* Slices of `slice` bytes that begin `stride` bytes apart; slice 0: one place. Or spans, which are the caller's. The
 * first `skip` bytes of the value lie before the range. */
struct kvc_target {
	uint8_t *at;
	uint64_t slice, stride, skip;
	const struct kvc_span *span; /* NULL: `at` */
	uint32_t spans;
};

/* kvc_target_make -- the target that an item describes. Spans that are as long as each other and evenly apart become
 * slices. 0. -KV_EINVAL: a place is NULL or a length 0, slices overlap, something overflows, the lengths do not add up
 * to it->len, or the layout is not a known one. */
int kvc_target_make(struct kvc_target *t, const struct kvc_item *it);

/* kvc_target_flat -- whether it is one place. kvc_target_extent -- bytes from the first byte to the last one, of a
 * target without spans that has `len` bytes of value. */
static inline bool kvc_target_flat(const struct kvc_target *t)
{
	return !t->span && t->slice == 0;
}
static inline uint64_t kvc_target_extent(const struct kvc_target *t, uint64_t len)
{
	return t->slice ? (len - 1) / t->slice * (t->stride - t->slice) + len : len;
}

/* kvc_target_write -- copy n bytes from `from` into the target, from `skip` on. kvc_target_read -- out of it. */
void kvc_target_write(const struct kvc_target *t, const uint8_t *from, uint64_t n);
void kvc_target_read(const struct kvc_target *t, uint8_t *to, uint64_t n);

/* kvc_target_hash -- update the hash with n bytes of the target, from `skip` on. */
void kvc_target_hash(const struct kvc_target *t, uint64_t n, struct kv_hasher *h);

#endif
