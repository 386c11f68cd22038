/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h -- bare writes, which kv-bench compares GET with. For kv-bench and tests: the library does not export it. */
#ifndef KVRAIL_KVCLIENT_RAW_H
#define KVRAIL_KVCLIENT_RAW_H

#include "kvclient/kvclient.h"

/* kvc_raw_await -- the roofline of GET. Shard w % shards of call->server writes `ops` times `len` bytes of its resident
 * blocks into slices of the view, `depth` at a time. It picks the blocks by `seed`, and uses the endpoints, regions,
 * chunk size and immediates of GET and nothing else.
 *
 * len: 1 byte to 16 MiB, and at most the view's length. It is not tried again.
 * Parks: yes. Thread: worker.
 * Owner: the view stays the caller's; its bytes are overwritten.
 * Errors: also the server codes.
 *   -KV_ENOTSUP    the server runs without --allow-bench
 *   -KV_ENOTFOUND  no block is so long, or so few that 64 picks in a row found none */
int kvc_raw_await(struct kvc_client *client, unsigned w, struct kvc_view *view, uint64_t len, uint64_t ops,
		  unsigned depth, uint64_t seed, const struct kvc_call *call);

#endif
