/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- functions private to kvclient/pool/ (and tests). */
#ifndef KVRAIL_KVCLIENT_POOL_PRIVATE_H
#define KVRAIL_KVCLIENT_POOL_PRIVATE_H

#include "kvclient/core/client.h"

/* kc_engine_options -- common to all clients; the caller sets `engine`. */
struct te_options kc_engine_options(const struct kvc_pool *pool);

/* kc_client_open -- on the loop's thread, outside coroutines (providers need a real stack). 0 or a code with *err;
 * kc_client_close follows in both cases. */
int kc_client_open(struct kvc_client *c, struct kv_error *err);

/* kc_client_close -- begin to close; kc_pool_tell_closed reports the end. On the loop's thread; does not park and
 * cannot fail. */
void kc_client_close(struct kvc_client *c);

/* ---- options.c ---- */

/* kc_options_fill -- check the caller's options, and copy them to *out with defaults filled in. Strings are not
 * copied. 0 or a code with *err. Any thread. */
int kc_options_fill(const struct kvc_options *given, struct kvc_options *out, struct kv_error *err);

#endif
