/* SPDX-License-Identifier: Apache-2.0 */
/* private.h -- the parts of a connection's reader. Control loop only. */
#ifndef KVRAIL_KVSERVER_CONN_PRIVATE_H
#define KVRAIL_KVSERVER_CONN_PRIVATE_H

#include <sys/socket.h>

struct conn;
struct kvs_server;
struct wire_ctrl_msg;
struct wire_hello;

/* ---- reader.c ---- */

/* conn_spawn -- serve an accepted socket in a coroutine of its own; the socket is the connection's, even on failure. 0,
 * -KV_ENOMEM, or co_spawn's code. Does not park. */
int conn_spawn(struct kvs_server *server, int fd, const struct sockaddr_storage *peer);

/* ---- hello.c ---- */

/* hello_first_await -- from the first message to the WELCOME. hello_again_await -- HELLO on a connection that has, or
 * had, an attachment. 0, or the code that the connection ends with; the client was informed. */
int hello_first_await(struct conn *c);
int hello_again_await(struct conn *c, const struct wire_hello *h);

/* conn_leave -- an admitted connection gives its place back. */
void conn_leave(struct conn *c);

/* ---- further.c ---- */

/* further_message_await -- handle a SESSION message. 0, or the code that the connection ends with. */
int further_message_await(struct conn *c, const struct wire_ctrl_msg *m);

#endif
