/* SPDX-License-Identifier: Apache-2.0 */
/* accept.h -- accepting control connections. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_ACCEPT_H
#define KVRAIL_KVSERVER_CONN_ACCEPT_H

struct kvs_server;

/* accept_await -- accept connections until the listening socket is shut down. Parks. */
void accept_await(struct kvs_server *server);

/* handshakes_allowed -- the maximum at a time, by the limit of open files. Any thread. */
unsigned handshakes_allowed(void);

#endif
