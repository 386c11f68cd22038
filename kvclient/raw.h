/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h -- bare writes, which kv-bench compares GET and PUT with. For kv-bench and tests; the library does not export
 * them. */
#ifndef KVRAIL_KVCLIENT_RAW_H
#define KVRAIL_KVCLIENT_RAW_H

#include "kvclient/kvclient.h"

/* kvc_raw_await -- the roofline of GET. Shard w % shards of call->server writes `ops` times `len` bytes of its resident
 * blocks into slices of the borrowed piece, `depth` at a time. It picks the blocks by `seed`, and uses the endpoints,
 * regions, chunk size and immediates of GET and nothing else.
 *
 * len: 1 byte to 16 MiB, and at most the borrowed piece's length. A failure is not tried again.
 * Parks: yes. Thread: worker.
 * Owner: the borrowed piece stays the caller's; its bytes are overwritten.
 * Errors: also the server codes.
 *   -KV_ENOTSUP    the server runs without --allow-bench
 *   -KV_ENOTFOUND  64 picks in a row found no block of `len` bytes or more: there is none, or there are few */
int kvc_raw_await(struct kvc_client *client, unsigned w, struct kvc_borrowed *borrowed, uint64_t len, uint64_t ops,
		  unsigned depth, uint64_t seed, const struct kvc_call *call);

/* kvc_raw_put_await -- the roofline of PUT. The client writes `ops` times `len` bytes to its landing area on shard w %
 * shards of call->server, as PUTs do, and sends no PUT: the server does nothing for them. `depth` values are in flight,
 * or as many as the area has room for. `seed` picks where in data they lie, at multiples of 4 KiB. When it returns 0,
 * all have arrived.
 *
 * data: data_len bytes of registered memory, at least len of them. A failure is not tried again.
 * Parks: yes. Thread: worker.
 * Owner: the memory stays the caller's, and is only read; until kvc_unregister returned 0, if the call failed.
 * Errors: also the server codes.
 *   -KV_ENOTSUP    the shard has no landing area for this client: PUTs go in another way
 *   -KV_EINVAL     also: data is not registered */
int kvc_raw_put_await(struct kvc_client *client, unsigned w, const void *data, uint64_t data_len, uint64_t len,
		      uint64_t ops, unsigned depth, uint64_t seed, const struct kvc_call *call);

#endif
