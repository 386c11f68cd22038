/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h -- items of a batch that are read in parts; and the chain of items of a batch. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_PARTS_H
#define KVRAIL_KVCLIENT_CALL_PARTS_H

#include "kvclient/transfer/call.h"

/* Items that are not over form a chain: until then `result` holds the place of the next one, and the
 * mark of the item's route. */
#define KVC_CHAIN_END UINT32_MAX

/* In the bits above. No length of a value and no code has them, so an item that is under way is known from any other,
 * and from one whose result its caller has left as it was. */
#define KVC_CHAIN_TAG       ((uint64_t)0xA5D1F37 << KVC_CHAIN_TAG_SHIFT)
#define KVC_CHAIN_TAG_SHIFT (32 + ROUTE_MARK_BITS)

static inline int64_t kvc_chain_link(unsigned next, enum route_mark mark)
{
	return (int64_t)(KVC_CHAIN_TAG | (uint64_t)next << ROUTE_MARK_BITS | mark);
}

static inline bool kvc_chain_linked(const struct kvc_item *it)
{
	return (uint64_t)__atomic_load_n(&it->result, __ATOMIC_RELAXED) >> KVC_CHAIN_TAG_SHIFT ==
	       KVC_CHAIN_TAG >> KVC_CHAIN_TAG_SHIFT;
}

static inline unsigned kvc_chain_next(const struct kvc_item *it)
{
	return (unsigned)(it->result >> ROUTE_MARK_BITS);
}

static inline enum route_mark kvc_chain_mark(const struct kvc_item *it)
{
	return (enum route_mark)(it->result & ((1 << ROUTE_MARK_BITS) - 1));
}

/* The items of a chain, and what the batch has for all of them. */
struct kvc_parts_job {
	struct kvc_client *c;
	struct kvc_item *items;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kvc_wait *wait;
	uint64_t *row; /* as in kvc_get.batch, and so is turn */
	uint32_t turn;
	unsigned first;
};

/* kvc_parts_item -- whether the item has parts, or a layout that says so wrongly. */
bool kvc_parts_item(const struct kvc_item *it);

/* kvc_parts_claim -- each struct kvc_arrival is of one item of the batch, the last one that names it; others fail with
 * -KV_EINVAL. It says 0 parts from now on. Once for a whole batch, before any of it begins: its parts may run on
 * several loops. */
void kvc_parts_claim(const struct kvc_item *items, unsigned n);

/* kvc_parts_await -- GET the items of the chain, each of which has parts, and was claimed. Every one gets its result.
 */
void kvc_parts_await(const struct kvc_parts_job *j);

#endif
