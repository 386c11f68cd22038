/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h -- any operation on many items, as queues make it. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_BATCH_H
#define KVRAIL_KVCLIENT_CALL_BATCH_H

#include "kvclient/core/client.h"

/* kc_batch_await -- GET, PUT, EXISTS or DELETE n items, as kvc_get_batch_await. EXISTS and DELETE read only the keys;
 * EXISTS results are 1, 0 or a code. stop: see kc_batch_stop, valid during the call; may be NULL. Before a GET call
 * kc_parts_claim for the whole batch. */
int kc_batch_await(struct kvc_client *c, enum kvc_op op, struct kvc_item *items, unsigned n,
		   const struct kvc_call *call, const bool *stop);

/* kc_copy_batch_await -- kvc_put_batch_await for copies: see kc_copy_batch. */
int kc_copy_batch_await(struct kvc_client *c, struct kvc_item *items, const uint64_t *born_ns, unsigned n, bool spare,
			const struct kvc_call *call);

/* kc_batch_stop -- wake the batch of this stop, which the caller has set to true: unfinished items end with
 * -KV_ECANCELED, after the grace at most. On the client's loop. Parks: no. */
void kc_batch_stop(struct kvc_client *c, const bool *stop);

#endif
