/* SPDX-License-Identifier: Apache-2.0 */
/* further.h -- further sessions of an attachment, one per logical client. For the connection's reader. */
#ifndef KVRAIL_KVSERVER_CONN_FURTHER_H
#define KVRAIL_KVSERVER_CONN_FURTHER_H

struct conn;
struct wire_ctrl_msg;

/* further_message_await -- handle a SESSION message. 0, or the code that the connection ends with. */
int further_message_await(struct conn *c, const struct wire_ctrl_msg *m);

#endif
