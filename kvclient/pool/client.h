/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- opening and closing one client. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_POOL_CLIENT_H
#define KVRAIL_KVCLIENT_POOL_CLIENT_H

#include "kvclient/core/client.h"

/* kvc_engine_options -- what the engines of all clients have in common: the caller sets `engine`, which is each
 * client's own. */
struct te_options kvc_engine_options(const struct kvc_pool *pool);

/* kvc_client_open -- open engine and buffer, and start the nodes. On the loop's thread, outside of coroutines
 * (providers want a real stack). 0 or a code with *err; kvc_client_close follows in both cases. */
int kvc_client_open(struct kvc_client *c, struct kv_error *err);

/* kvc_client_close -- begin to close, also a client that failed to open; kvc_pool_tell_closed tells of the end. Does
 * not park and cannot fail. On the loop's thread. */
void kvc_client_close(struct kvc_client *c);

#endif
