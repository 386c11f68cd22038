/* SPDX-License-Identifier: Apache-2.0 */
/* exists.h -- EXISTS of many items, for batches. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_EXISTS_H
#define KVRAIL_KVCLIENT_CALL_EXISTS_H

#include "kvclient/request/trace.h"

enum { KC_EXISTS_WINDOW = 1024 };

/* kc_exists_items_await -- look up at most KC_EXISTS_WINDOW items, items[index[0]] and so on, with valid keys, as a
 * part of call t. On 0 each has its result, 1 or 0; a code leaves all unchanged. */
int kc_exists_items_await(struct kvc_client *c, struct kvc_item *items, const unsigned *index, unsigned n,
			  const struct kvc_call *call, uint64_t deadline_ns, struct kc_trace *t);

#endif
