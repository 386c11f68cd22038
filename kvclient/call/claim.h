/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h -- a batch claims its items before any of it begins. Private to kvclient/. Any thread. */
#ifndef KVRAIL_KVCLIENT_CALL_CLAIM_H
#define KVRAIL_KVCLIENT_CALL_CLAIM_H

#include "kvclient/core/client.h"

/* kvc_items_check -- whether a call of this kind may begin with these items. 0, or -KV_EINVAL: one of them is under way
 * in another call, or, in builds with assertions, two items of a GET share bytes. Their results are left alone. */
int kvc_items_check(enum kvc_op op, const struct kvc_item *items, unsigned n);

/* kvc_items_claim -- the same, and mark the items as under way until each has its result. On -KV_EINVAL none of them is
 * marked by this call. kvc_items_drop -- nothing was begun: all get this code. */
int kvc_items_claim(enum kvc_op op, struct kvc_item *items, unsigned n);
void kvc_items_drop(struct kvc_item *items, unsigned n, int code);

#endif
