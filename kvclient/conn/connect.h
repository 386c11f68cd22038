/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h -- one attempt to attach to a server. Private to kvclient/. All of these on the client's loop; what
 * does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_CONNECT_H
#define KVRAIL_KVCLIENT_CONN_CONNECT_H

#include "kvclient/core/client.h"

/* kvc_connect_await -- attach: HELLO, all regions, and links that answered, on the control connection that is there or
 * on a new one. For the node's coroutine alone. 0, with n->attachment and n->control.conn; or a code with n->error.
 * -KV_ERESET: the attempt was overtaken (n->redo), or its failure says nothing about the server. What is half made
 * stays in the node.
 */
int kvc_connect_await(struct kvc_node *n);

/* kvc_conn_close_await -- close the control connection, if there is one, when no coroutine sends on it any more. */
void kvc_conn_close_await(struct kvc_node *n);

#endif
