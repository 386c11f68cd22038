/* SPDX-License-Identifier: Apache-2.0 */
/* view.h -- the view of the cluster that a server announces to its clients. Control loop only, except
 * kvs_server_view_set. */
#ifndef KVRAIL_KVSERVER_CONN_VIEW_H
#define KVRAIL_KVSERVER_CONN_VIEW_H

#include "kvserver/conn/conn.h"

/* view_answer_await -- the client of a connection asked for the view and has one with this digest. 0, or why the
 * connection ends. From then on it hears of changes (conn.c). */
int view_answer_await(struct conn *c, kv_u128 digest);

/* view_fini -- free the rest of kvs_server_view_set. No loop runs any more. */
void view_fini(struct kvs_server *s);

#endif
