/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h -- how a large batch of a thread is cut into parts of neighbouring items, one for a client on each loop.
 * Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_SPREAD_H
#define KVRAIL_KVCLIENT_CALL_SPREAD_H

#include "kvclient/core/client.h"

enum { KVC_SPREAD_MAX = 16 }; /* parts of one batch */

/* A batch that is being cut. */
struct kvc_spread {
	const struct kvc_item *items;
	unsigned n, count; /* items; parts */
	bool bytes;        /* the items' bytes are moved, as by GET and PUT */
	uint64_t work, done;
	unsigned at, part; /* items and parts that were given out */
};

/* kvc_spread_begin -- how many parts n items make: at least 1. A batch that must stay on one client is not cut. */
unsigned kvc_spread_begin(struct kvc_spread *s, const struct kvc_pool *pool, const struct kvc_item *items, unsigned n,
			  bool bytes);
/* kvc_spread_next -- the items of the next part begin at *out_from: how many they are. */
unsigned kvc_spread_next(struct kvc_spread *s, unsigned *out_from);
/* kvc_spread_idlest -- the index of the client with the least load, the next one from `turn` on among equals. A thread
 * that was told of several calls that one client ended makes as many new ones there, whose requests leave in one frame,
 * and whose answers come in one. A client for which more servers are down than for others is the last choice: its calls
 * end sooner, as misses, and it would get them all. (Rejected: one client after the other. Each frame had one request:
 * with 32 GETs of 64 KiB in flight on four clients, three sends for each of them instead of 1.4, and three quarters of
 * the rate.) */
unsigned kvc_spread_idlest(const struct kvc_pool *pool, const _Atomic uint32_t *load, unsigned turn);
/* kvc_spread_client -- a client of the k-th loop, counted from a place that moves on with each batch: `turn`. */
struct kvc_client *kvc_spread_client(const struct kvc_pool *pool, unsigned turn, unsigned k);

#endif
