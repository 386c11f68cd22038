/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c -- a batch claims its items before any of them begins.
 *
 * A pending item has a link of a chain as its result (parts.h), so a second call on it is refused cheaply.
 *
 * Two items of a GET in one place get a mixture of two values, each passing its checksum. Only builds with assertions
 * compare places, for up to PLACES_MAX items without spans. */
#include "kvclient/call/claim.h"

#include "kvclient/call/parts.h"
#include "kvclient/core/target.h"

#ifndef NDEBUG

enum { PLACES_MAX = 256 };

/* Slices of one stride may lie between each other, like the pages of many layers. */
static bool slices_cross(const struct kvc_item *a, const struct kvc_item *b)
{
	uint64_t from = (uint64_t)(uintptr_t)a->data, to = (uint64_t)(uintptr_t)b->data;
	uint64_t apart = from < to ? (to - from) % a->stride : (from - to) % a->stride;
	return apart < a->slice || a->stride - apart < a->slice;
}

static bool places_cross(const struct kvc_item *a, const struct kvc_item *b)
{
	struct kc_target ta, tb;
	if (a->layout || b->layout || kc_target_make(&ta, a, NULL) < 0 || kc_target_make(&tb, b, NULL) < 0)
		return false;
	if (ta.at + kc_target_extent(&ta, a->len) <= tb.at || tb.at + kc_target_extent(&tb, b->len) <= ta.at)
		return false;
	if (!ta.slice && !tb.slice)
		return true;
	return ta.slice == tb.slice && ta.stride == tb.stride && slices_cross(a, b);
}

static bool any_cross(const struct kvc_item *items, unsigned n)
{
	for (unsigned i = 0; i < n && n <= PLACES_MAX; i++)
		for (unsigned k = 0; k < i; k++)
			if (places_cross(&items[i], &items[k]))
				return true;
	return false;
}

#else

static bool any_cross(const struct kvc_item *items, unsigned n)
{
	(void)items, (void)n;
	return false;
}

#endif

int kc_items_check(enum kvc_op op, const struct kvc_item *items, unsigned n)
{
	for (unsigned i = 0; items && i < n; i++)
		if (KV_UNLIKELY(kc_chain_linked(&items[i])))
			return -KV_EINVAL;
	return items && op == KVC_OP_GET && any_cross(items, n) ? -KV_EINVAL : 0;
}

int kc_items_claim(enum kvc_op op, struct kvc_item *items, unsigned n)
{
	int rc = kc_items_check(op, items, n);
	for (unsigned i = 0; rc == 0 && i < n; i++)
		items[i].result = kc_chain_link(KC_CHAIN_END, ROUTE_FRESH);
	return rc;
}

void kc_items_drop(struct kvc_item *items, unsigned n, int code)
{
	for (unsigned i = 0; i < n; i++)
		items[i].result = code;
}
