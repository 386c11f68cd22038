/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h -- cut a thread's large batch into parts of neighbouring items, one for a client on each loop. Private to
 * kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_SPREAD_H
#define KVRAIL_KVCLIENT_CALL_SPREAD_H

#include "kvclient/core/client.h"

enum { KC_SPREAD_MAX = 16 }; /* parts of one batch */

/* A batch being cut. */
struct kc_spread {
	const struct kvc_item *items;
	unsigned n, count; /* items; parts */
	bool bytes;        /* GET and PUT move the items' bytes */
	uint64_t work, done;
	unsigned at, part;
};

/* kc_spread_begin -- the number of parts of n items: at least 1. Not for a batch that must stay on one client. */
unsigned kc_spread_begin(struct kc_spread *s, const struct kvc_pool *pool, const struct kvc_item *items, unsigned n,
			 bool bytes);
/* kc_spread_next -- the next part's items begin at *out_from; returns their number. */
unsigned kc_spread_next(struct kc_spread *s, unsigned *out_from);
/* kc_spread_idlest -- index of the client with the least load; among equals, the next from `turn` on. Not round robin:
 * calls that end together start together on one client, and share frames. */
unsigned kc_spread_idlest(const struct kvc_pool *pool, const _Atomic uint32_t *load, unsigned turn);
/* kc_spread_client -- a client of the k-th loop, counted from `turn`, which moves with each batch. */
struct kvc_client *kc_spread_client(const struct kvc_pool *pool, unsigned turn, unsigned k);

#endif
