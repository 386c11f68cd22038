/* SPDX-License-Identifier: Apache-2.0 */
/* client.h -- opening and closing one client. Private to kvclient/. */
#ifndef KVRAIL_KVCLIENT_POOL_CLIENT_H
#define KVRAIL_KVCLIENT_POOL_CLIENT_H

#include "kvclient/core/client.h"

/* kvc_engine_options -- of the engines of all clients; `engine` is each one's own. */
struct te_options kvc_engine_options(const struct kvc_pool *pool);

/* kvc_client_open -- engine, buffer, nodes. On the loop's thread, outside any coroutine (providers want a real stack).
 * 0 or a code with *err; undone on failure. */
int kvc_client_open(struct kvc_client *c, struct kv_error *err);

/* kvc_client_close -- start closing; kvc_pool_tell_closed follows. Does not park and cannot fail. On the loop's thread.
 */
void kvc_client_close(struct kvc_client *c);

#endif
