/* SPDX-License-Identifier: Apache-2.0 */
/* target.h -- where the bytes of a range go, at one place or in slices. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CORE_TARGET_H
#define KVRAIL_KVCLIENT_CORE_TARGET_H

#include "base/base.h"

/* Where the bytes of a range lie in this process: slices of `slice` bytes, `stride` apart, of which `skip` bytes are
 * before the range. */
struct kvc_target {
	uint8_t *at;
	uint64_t slice, stride, skip;
};

/* kvc_target_write -- copy n bytes from `from` into the slices, behind `skip`. */
void kvc_target_write(const struct kvc_target *t, const uint8_t *from, uint64_t n);

/* kvc_target_hash -- update the hash with the n bytes of the slices that lie behind `skip`. */
void kvc_target_hash(const struct kvc_target *t, uint64_t n, struct kv_hasher *h);

#endif
