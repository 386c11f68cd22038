/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h -- a control connection's reader. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_READER_H
#define KVRAIL_KVSERVER_CONN_READER_H

#include <sys/socket.h>

struct kvs_server;

/* conn_spawn -- serve an accepted socket in a coroutine of its own; the socket is the connection's, even on failure. 0,
 * -KV_ENOMEM, or co_spawn's code. Does not park. */
int conn_spawn(struct kvs_server *server, int fd, const struct sockaddr_storage *peer);

#endif
