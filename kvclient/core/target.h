/* SPDX-License-Identifier: Apache-2.0 */
/* target.h -- where the bytes of a range go in this process: to one place, or to slices. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_TARGET_H
#define KVRAIL_KVCLIENT_CORE_TARGET_H

#include "base/base.h"

/* Slices of `slice` bytes that begin `stride` bytes apart; the first `skip` of their bytes lie before the range. slice
 * 0: one place. */
struct kvc_target {
	uint8_t *at;
	uint64_t slice, stride, skip;
};

/* kvc_target_write -- copy n bytes from `from` into the slices, from `skip` on. */
void kvc_target_write(const struct kvc_target *t, const uint8_t *from, uint64_t n);

/* kvc_target_hash -- update the hash with n bytes of the slices, from `skip` on. */
void kvc_target_hash(const struct kvc_target *t, uint64_t n, struct kv_hasher *h);

#endif
