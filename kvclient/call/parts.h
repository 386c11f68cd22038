/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h -- items of a batch read in parts; and the chain of a batch's items. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_PARTS_H
#define KVRAIL_KVCLIENT_CALL_PARTS_H

#include "kvclient/transfer/call.h"

/* Pending items form a chain: `result` holds the index of the next one, and the mark of the item's route. */
#define KC_CHAIN_END UINT32_MAX

/* In the bits above. No length and no code has them, so they mark a pending item. */
#define KC_CHAIN_TAG       ((uint64_t)0xA5D1F37 << KC_CHAIN_TAG_SHIFT)
#define KC_CHAIN_TAG_SHIFT (32 + ROUTE_MARK_BITS)

static inline int64_t kc_chain_link(unsigned next, enum route_mark mark)
{
	return (int64_t)(KC_CHAIN_TAG | (uint64_t)next << ROUTE_MARK_BITS | mark);
}

static inline bool kc_chain_linked(const struct kvc_item *it)
{
	return (uint64_t)__atomic_load_n(&it->result, __ATOMIC_RELAXED) >> KC_CHAIN_TAG_SHIFT ==
	       KC_CHAIN_TAG >> KC_CHAIN_TAG_SHIFT;
}

static inline unsigned kc_chain_next(const struct kvc_item *it)
{
	return (unsigned)(it->result >> ROUTE_MARK_BITS);
}

static inline enum route_mark kc_chain_mark(const struct kvc_item *it)
{
	return (enum route_mark)(it->result & ((1 << ROUTE_MARK_BITS) - 1));
}

struct kc_parts_job {
	struct kvc_client *c;
	struct kvc_item *items;
	const struct kvc_call *call;
	uint64_t deadline_ns;
	struct kc_wait *wait;
	uint64_t *row; /* as in kvc_get.batch, like turn */
	uint32_t turn;
	unsigned first;
};

/* kc_parts_item -- whether the item has parts, or an invalid layout with parts. */
bool kc_parts_item(const struct kvc_item *it);

/* Where counted parts are announced: by the loops, soon after some were counted, and not after each. */
struct kc_parts_told {
	void (*fn)(struct kc_parts_told *told);
};

/* kc_parts_claim -- each struct kvc_borrowed is zeroed. Each struct kvc_arrival gets 0 parts, and belongs to the last
 * item that names it; others fail with -KV_EINVAL. Once for a whole batch, before any item begins: its parts may run on
 * several loops. told: NULL, or it must live until the batch has ended. */
void kc_parts_claim(const struct kvc_item *items, unsigned n, struct kc_parts_told *told);

/* kc_parts_await -- GET the items of the chain, which have parts and were claimed. Every one gets its result. */
void kc_parts_await(const struct kc_parts_job *j);

#endif
