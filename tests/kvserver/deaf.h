/* SPDX-License-Identifier: Apache-2.0 */
/* deaf.h -- a client with an endpoint of its own, which takes in no bytes of what it asked for. Its GETs stay under way
 * on the server's first shard until the server or deaf_close ends them. In a coroutine, as all of control.h. */
#ifndef KVRAIL_TESTS_KVSERVER_DEAF_H
#define KVRAIL_TESTS_KVSERVER_DEAF_H

#include "tests/kvserver/control.h"

/* The HELLO that it said last, and the WELCOME that it got. */
extern struct wire_ctrl_msg deaf_hello, deaf_welcome;

/* deaf_open -- its engine, its attachment, its memory as region 1, and a large value on the first shard. deaf_gets --
 * ask for that value, more often than all sockets hold; returns when the shard has the requests. deaf_send -- send
 * these records; deaf_poll -- turn its engine once. */
struct boot_conn *deaf_open(void);
void deaf_gets(void);
void deaf_send(struct wire_request *q, unsigned n);
void deaf_poll(void);

/* deaf_close -- its engine ends: its connections are gone, and what was posted to it fails. deaf_forget -- unmap its
 * memory and delete the value. */
void deaf_close(void);
void deaf_forget(void);

#endif
