/* SPDX-License-Identifier: Apache-2.0 */
/* target.c -- walking over the slices of a target, to write or to hash them. */
#include "kvclient/core/target.h"

/* The place that lies `pos` bytes behind the beginning of a target, and how many of n bytes lie together there. */
static uint8_t *piece_at(const struct kvc_target *t, uint64_t pos, uint64_t n, uint64_t *out_len)
{
	uint64_t in = t->slice ? pos % t->slice : 0;
	*out_len = t->slice ? KV_MIN(n, t->slice - in) : n;
	return t->slice ? t->at + pos / t->slice * t->stride + in : t->at + pos;
}

void kvc_target_write(const struct kvc_target *t, const uint8_t *from, uint64_t n)
{
	for (uint64_t pos = t->skip, step; n > 0; pos += step, from += step, n -= step) {
		uint8_t *at = piece_at(t, pos, n, &step);
		memcpy(at, from, step);
	}
}

void kvc_target_hash(const struct kvc_target *t, uint64_t n, struct kv_hasher *h)
{
	for (uint64_t pos = t->skip, step; n > 0; pos += step, n -= step) {
		const uint8_t *at = piece_at(t, pos, n, &step);
		kv_hasher_update(h, at, step);
	}
}
