/* SPDX-License-Identifier: Apache-2.0 */
/* exists.h -- EXISTS of a window of keys, as batches make it. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_CALL_EXISTS_H
#define KVRAIL_KVCLIENT_CALL_EXISTS_H

#include "kvclient/request/trace.h"

enum { KVC_EXISTS_WINDOW = 512 };

/* kvc_exists_window_await -- which of at most KVC_EXISTS_WINDOW valid keys exist, as a part of call t. Bit i % 8 of
 * out_found[i / 8], which has KVC_EXISTS_WINDOW bits, tells of key i. Returns 0 or a code. */
int kvc_exists_window_await(struct kvc_client *c, const struct kvc_key *keys, unsigned n, const struct kvc_call *call,
			    uint64_t deadline_ns, struct kvc_trace *t, uint8_t *out_found);

#endif
