/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h -- one attempt to attach to a server. Private to kvclient/. On the client's loop; only _await functions
 * park. */
#ifndef KVRAIL_KVCLIENT_CONN_CONNECT_H
#define KVRAIL_KVCLIENT_CONN_CONNECT_H

#include "kvclient/core/client.h"

/* kc_connect_await -- attach on the present control connection or a new one. For the node's coroutine alone. 0, with
 * n->attachment and n->control.conn; or a code with n->error. -KV_ERESET: overtaken (n->redo), or no fault of the
 * server. A partial attachment stays in the node. */
int kc_connect_await(struct kc_node *n);

/* kc_conn_close_await -- once no coroutine sends on it. */
void kc_conn_close_await(struct kc_node *n);

#endif
