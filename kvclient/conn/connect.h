/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h -- one attempt to get a session of a server. Private to kvclient/. All of these on the client's loop; what
 * does not end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CONN_CONNECT_H
#define KVRAIL_KVCLIENT_CONN_CONNECT_H

#include "kvclient/core/client.h"

/* kvc_connect_await -- by the node's coroutine: a session that is set up, with all regions and links that answered, on
 * the control connection that is there or on a new one. 0, with n->session and n->conn; or a code with n->error:
 * -KV_ERESET: it was overtaken (n->redo), or says nothing about the server. What it leaves half made is in the node. */
int kvc_connect_await(struct kvc_node *n);

/* kvc_conn_close_await -- close the control connection, if there is one, once nobody is inside it any more. */
void kvc_conn_close_await(struct kvc_node *n);

#endif
