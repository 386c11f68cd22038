/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h -- from HELLO to WELCOME. For the connection's reader. */
#ifndef KVRAIL_KVSERVER_CONN_HELLO_H
#define KVRAIL_KVSERVER_CONN_HELLO_H

struct conn;
struct wire_hello;

/* hello_first_await -- from the first message to the WELCOME. hello_again_await -- HELLO on a connection that has, or
 * had, an attachment. 0, or the code that the connection ends with; the client was informed. */
int hello_first_await(struct conn *c);
int hello_again_await(struct conn *c, const struct wire_hello *h);

#endif
