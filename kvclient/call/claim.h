/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h -- a batch claims its items before any of them begins. Private to kvclient/. Any thread. */
#ifndef KVRAIL_KVCLIENT_CALL_CLAIM_H
#define KVRAIL_KVCLIENT_CALL_CLAIM_H

#include "kvclient/core/client.h"

/* kc_items_check -- whether a call may begin with these items. 0, or -KV_EINVAL: one is pending in another call, or,
 * with assertions, two items of a GET share bytes. Changes no results. */
int kc_items_check(enum kvc_op op, const struct kvc_item *items, unsigned n);

/* kc_items_claim -- check, and mark the items as pending until each has its result. On -KV_EINVAL it marks none.
 * kc_items_drop -- nothing began: all get this code. */
int kc_items_claim(enum kvc_op op, struct kvc_item *items, unsigned n);
void kc_items_drop(struct kvc_item *items, unsigned n, int code);

#endif
