/* SPDX-License-Identifier: Apache-2.0 */
/* small.h -- pinning, for what is pinned again on a new connection. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_SMALL_H
#define KVRAIL_KVCLIENT_CALL_SMALL_H

#include "kvclient/core/client.h"

/* kvc_pin_again_await -- struct kvc_pin_ops.pin_await. */
int kvc_pin_again_await(struct kvc_node *n, struct kvc_sub *sub, struct kvc_key key);

#endif
